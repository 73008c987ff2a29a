//! The run directory: what goes in comes out, and what is half there never reads as whole.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends by panicking")]

mod directory;
mod support;
mod writing;
