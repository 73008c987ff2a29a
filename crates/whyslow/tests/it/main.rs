//! The program from outside: what it refuses, what it serves, what it measures, what it leaves behind.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends by panicking")]

mod capacity;
mod case;
mod compare;
mod dropin;
mod ended;
mod failures;
mod load;
mod manual;
mod refusals;
mod report;
mod serve;
mod shards;
mod support;
mod view;
mod watch;
mod wire;
