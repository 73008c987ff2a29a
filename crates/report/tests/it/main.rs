//! What people and scripts read: width, order, escapes, and JSON against its committed schema.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends by panicking")]

mod ci;
mod history;
mod html;
mod json;
mod metrics;
mod pages;
mod screen;
mod support;
mod watch;
