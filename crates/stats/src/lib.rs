//! Mathematics only: estimates, intervals and tests, with no clock, no file and no global state.
//!
//! Numbers come in as slices and go out as values. Differences are natural logarithms of ratios, so that
//! 0 means "equal", and a rate and a cost are treated alike. Chance comes from [`Rng`], which is seeded by
//! the caller: the same input and seed give the same answer on every machine.
//!
//! From the cycles of each block to a verdict:
//!
//! ```
//! use stats::cycles::BlockValue;
//! use stats::verdict::{self, HigherIs, Question, Verdict};
//! use stats::{Bias, looks, paired};
//!
//! // ln(arm / baseline) of the CPU per request, three cycles in each of eight blocks.
//! let blocks = [
//!     [0.050, 0.048, 0.051],
//!     [0.052, 0.049, 0.053],
//!     [0.047, 0.050, 0.049],
//!     [0.051, 0.055, 0.052],
//!     [0.046, 0.048, 0.047],
//!     [0.050, 0.049, 0.054],
//!     [0.049, 0.053, 0.050],
//!     [0.052, 0.048, 0.051],
//! ];
//! let values: Result<Vec<f64>, _> = blocks.iter().map(|block| Ok(BlockValue::from_cycles(block)?.value)).collect();
//! let estimate = paired::estimate(&values?, looks::level(8))?;
//! let question = Question { delta: 0.02, least: 0.002, higher_is: HigherIs::Worse };
//! assert_eq!(verdict::decide(&estimate, &question), Verdict::Slower);
//!
//! // What other processes did could have moved the ratio by 6 %, which is more than was seen.
//! let disturbed = estimate.widened(Bias { low: 0.06, high: 0.06 });
//! assert_eq!(verdict::decide(&disturbed, &question), Verdict::Inconclusive);
//! # Ok::<(), stats::Error>(())
//! ```

#![forbid(unsafe_code)]

pub mod bootstrap;
pub mod changepoint;
pub mod cycles;
pub mod descriptive;
mod error;
pub mod holm;
mod interval;
pub mod little;
pub mod looks;
pub mod noise;
pub mod paired;
pub mod quantile;
pub mod rng;
pub mod serial;
pub mod signed_rank;
pub mod special;
pub mod trend;
pub mod usl;
pub mod verdict;

pub use error::Error;
pub use interval::{Bias, Estimate, Interval};
pub use rng::Rng;
