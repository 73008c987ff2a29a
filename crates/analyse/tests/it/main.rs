//! Runs that were made up, so that what must be found in them is known.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends by panicking")]

mod beside;
mod bisect;
mod bound;
mod capacity;
mod cases;
mod confirm;
mod detail;
mod documented;
mod fail_if;
mod gates;
mod host;
mod ladder;
mod limits;
mod looks;
mod next;
mod parity;
mod parked;
mod published;
mod resources;
mod sameness;
mod shapes;
mod split;
mod support;
mod tree;
mod verdicts;
mod waits;
mod why;
mod why_cpu;
mod why_ended;
mod why_idle;
mod why_samples;
mod why_writes;
