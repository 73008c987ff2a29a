//! The protocol from outside: what RFC 7541 shows, and generated connections.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on ends by panicking, and says what it did"
)]

mod checks;
mod examples;
mod fuzz;
