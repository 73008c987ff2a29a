//! One binary for all integration tests.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends by panicking")]

mod api;
mod checks;
mod cutting;
mod fuzz;
mod limits;
mod mistakes;
mod support;
