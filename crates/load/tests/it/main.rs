//! One binary for all integration tests.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
mod export;
mod feed;
mod schedule;
mod session;
mod simulation;
mod target;
mod truth;
