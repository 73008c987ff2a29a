//! Orders, seeds, placements, refusals and target files.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends by panicking")]

mod cases;
mod order;
mod placement;
mod refusals;
mod search;
mod support;
mod targets;
