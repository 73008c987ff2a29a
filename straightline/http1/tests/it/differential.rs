//! The checks on a fixed number of generated inputs, with a fixed seed.

use crate::checks::{self, Outcome};
use crate::generate;
use crate::support::Random;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Inputs of each kind.
const INPUTS: u64 = if cfg!(miri) { 100 } else { 60_000 };

/// How often each outcome came up.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) inputs: u64,
    pub(crate) accepted: u64,
    pub(crate) partial: u64,
    pub(crate) refused: u64,
}

/// Runs a check on one input after the other while `go_on` says so. A failure names seed, number and bytes.
pub(crate) fn run(
    seed: u64,
    generate: fn(&mut Random) -> Vec<u8>,
    check: fn(&[u8]) -> Outcome,
    go_on: impl Fn(u64) -> bool,
) -> Counts {
    let mut counts = Counts::default();
    while go_on(counts.inputs) {
        let bytes = generate(&mut Random::new(seed ^ counts.inputs.wrapping_mul(0xd129_0d3b_3d3b_6f35)));
        let outcome = catch_unwind(AssertUnwindSafe(|| check(&bytes)))
            .unwrap_or_else(|_| panic!("seed {seed}, input {}: \"{}\"", counts.inputs, bytes.escape_ascii()));
        counts.inputs += 1;
        match outcome {
            Outcome::Accepted => counts.accepted += 1,
            Outcome::Partial => counts.partial += 1,
            Outcome::Refused => counts.refused += 1,
        }
    }
    counts
}

/// Asserts that each outcome came up often enough for the check to mean something.
fn check_all(seed: u64, generate: fn(&mut Random) -> Vec<u8>, check: fn(&[u8]) -> Outcome) {
    let counts = run(seed, generate, check, |inputs| inputs < INPUTS);
    println!("seed {seed}: {counts:?}");
    assert!(counts.accepted > INPUTS / 25, "few inputs are good: {counts:?}");
    assert!(counts.refused > INPUTS / 20, "few inputs are bad: {counts:?}");
    assert!(counts.partial > INPUTS / 200, "few inputs are cut: {counts:?}");
}

#[test]
fn requests_agree_with_httparse() {
    check_all(1, generate::request, checks::request);
}

#[test]
fn responses_agree_with_httparse() {
    check_all(2, generate::response, checks::response);
}

#[test]
fn chunked_bodies_agree_with_httparse() {
    check_all(3, generate::chunked, checks::chunked);
}
