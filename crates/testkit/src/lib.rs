//! For tests only: servers whose behaviour is known because it is a formula, and that log what they did.
//!
//! [`Behaviour`] says when a request that came at one instant is answered. It is pure. [`Server`] keeps to it on a
//! socket, [`Memory`] in memory against a clock that is an argument; a test of a client can use either and compare
//! what the client reports with what the formula or the log says; a [`Wire`] is what a server speaks. [`Recorder`] keeps requests byte for byte.
//! [`skipped`] says that a test cannot run here.
//! [`plan()`] is a plan of arms that commands start. [`load_report`] is what a generator says when nothing went wrong, for tests of what reads reports.
#![forbid(unsafe_code)]

mod behaviour;
mod memory;
mod plan;
mod recorder;
mod report;
mod server;
mod skipped;
mod wire;

pub use behaviour::{Behaviour, Model, NEVER};
pub use memory::{Delivery, Memory};
pub use plan::{command_arm, plan};
pub use recorder::{Answer, Recorder};
pub use report::{load_report, percentiles};
pub use server::{ANSWER, Entry, Log, Reply, Server, ServerSpec, now_ns};
pub use skipped::{LIST, REQUIRED, skipped};
pub use wire::{Heads, Wire};
