//! Tests of `http1` through its public face.
//!
//! Every table of inputs is run as it stands, by every prefix, and flush against a protected page.
#![allow(clippy::print_stdout, reason = "a check prints how much it checked")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod advisories;
mod checks;
mod chunked;
mod differential;
mod fuzz;
mod generate;
mod limits;
mod parsing;
mod request;
mod response;
mod support;
mod write;
