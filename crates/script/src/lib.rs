//! wrk's Lua API, for a host that sends requests.
//!
//! A [`Script`] has one Lua state for itself, in which `setup` and `done` run, and one for each load thread, in which
//! `init`, `request`, `delay` and `response` run, as in wrk. It knows no HTTP beyond where a request ends, no schedule
//! and no clock: a [`Limit`] of the host says when a script has run for long enough.
//!
//! Two things differ from wrk. The states have the libraries that cannot break the host: not `ffi`, not `debug`, no
//! modules in C. And the just-in-time compiler is off, `jit.on()` or not: code that it has compiled cannot be
//! interrupted. Nor can a single call of a library, such as a `string.find` that backtracks; whoever calls a script must
//! be able to end without it.
#![forbid(unsafe_code)]

mod address;
mod copy;
mod cut;
mod error;
mod script;
mod state;
mod stats;
mod thread;

pub use cut::{CutError, requests};
pub use error::ScriptError;
pub use script::{Kind, Options, Script};
pub use state::Limit;
pub use stats::{Errors, Stats, Summary};
pub use thread::Thread;
