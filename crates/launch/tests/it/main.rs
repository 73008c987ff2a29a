//! Real processes are started, made ready, verified, stopped and killed.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends by panicking")]

mod life;
mod readiness;
mod support;
mod verification;
