//! The checks on generated inputs for as long as `FUZZ_SECONDS` says (2 by default), from `FUZZ_SEED` (4 by
//! default) on.
//!
//! `FUZZ_SECONDS=60 cargo test -p straightline-http1 fuzz -- --nocapture` is what CI runs.

use crate::checks::{self, Outcome};
use crate::differential::run;
use crate::generate;
use crate::support::Random;
use std::time::{Duration, Instant};

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().expect("the value is a number"))
}

fn fuzz(what: &str, generate: fn(&mut Random) -> Vec<u8>, check: fn(&[u8]) -> Outcome) {
    let time = Duration::from_secs(from_environment("FUZZ_SECONDS").unwrap_or(2));

    let seed = from_environment("FUZZ_SEED").unwrap_or(4);
    let start = Instant::now();
    let counts = run(seed, generate, check, |inputs| inputs == 0 || start.elapsed() < time);
    println!("{what}, seed {seed}, {} s: {counts:?}", time.as_secs());
}

#[test]
#[cfg_attr(miri, ignore = "bounded by time, which the interpreter has too little of")]
fn fuzz_requests() {
    fuzz("request heads", generate::request, checks::request);
}

#[test]
#[cfg_attr(miri, ignore = "bounded by time, which the interpreter has too little of")]
fn fuzz_responses() {
    fuzz("response heads", generate::response, checks::response);
}

#[test]
#[cfg_attr(miri, ignore = "bounded by time, which the interpreter has too little of")]
fn fuzz_chunked_bodies() {
    fuzz("chunked bodies", generate::chunked, checks::chunked);
}
