//! The instrument is calibrated: processes with known behaviour are watched, and what they did is found.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends by panicking")]

mod calibration;
mod callers;
mod cgroup;
mod counting;
mod filtered;
mod host;
mod profile;
mod refused;
mod support;
mod tracer;
mod waits;
