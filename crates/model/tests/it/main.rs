//! Units parse and print, plans are valid or refused, and run directories read as they were written.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends by panicking")]

mod plan;
mod record;
mod requests;
mod scenario;
mod units;
