//! Mathematics only: estimates, intervals and tests, with no clock, no file and no global state.
//!
//! Numbers come in as slices and go out as values. Differences are natural logarithms of ratios, so that
//! 0 means "equal", and a rate and a cost are treated alike. Chance comes from [`Rng`], which is seeded by
//! the caller: the same input and seed give the same answer on every machine.
//!
//! From pairs to a verdict:
//!
//! ```
//! use stats::{paired, verdict::{self, HigherIs, Question, Verdict}};
//!
//! let baseline = [10.0, 10.1, 9.9, 10.0, 10.2, 9.8, 10.0, 10.1, 9.9, 10.0];
//! let arm = [10.5, 10.7, 10.3, 10.6, 10.6, 10.4, 10.5, 10.5, 10.4, 10.6];
//! let d = paired::log_ratios(&arm, &baseline)?;
//! let estimate = paired::estimate(&d, 0.95)?;
//! let question = Question { delta: 0.02, least: 0.0025, higher_is: HigherIs::Worse };
//! assert_eq!(verdict::decide(&estimate, &question), Verdict::Slower);
//! # Ok::<(), stats::Error>(())
//! ```

#![forbid(unsafe_code)]

pub mod bootstrap;
pub mod changepoint;
pub mod cycles;
pub mod descriptive;
pub mod effective;
mod error;
pub mod fairness;
pub mod holm;
mod interval;
pub mod ks;
pub mod little;
pub mod looks;
pub mod noise;
pub mod paired;
pub mod poisson;
pub mod quantile;
pub mod rng;
pub mod signed_rank;
pub mod special;
pub mod stationarity;
pub mod usl;
pub mod verdict;

pub use error::Error;
pub use interval::{Bias, Estimate, Interval};
pub use rng::Rng;
