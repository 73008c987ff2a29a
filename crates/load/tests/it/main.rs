//! One binary for all integration tests.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
mod export;
mod schedule;
mod session;
mod simulation;
mod target;
mod truth;
