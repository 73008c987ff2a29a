//! The tests of what handles stacks and bytes by hand, under AddressSanitizer and under valgrind.

use std::process::Stdio;

use anyhow::Context;
use serde_json::Value;

use crate::shell::{command, run_with};

/// Tests of straightline in which stacks are switched, dropped, unwound and reused; those that provoke a fault on purpose are
/// left out, for a fault is what both tools report.
const SWITCHING: [&str; 3] = ["runtime::", "hazards::", "lifecycle::"];
const FAULTS: [&str; 2] = ["overflow", "guard"];
/// The sanitizer is not yet a stable option of the compiler, though the stable compiler comes with it.
const SANITIZED: [(&str, &str); 3] =
    [("RUSTC_BOOTSTRAP", "1"), ("RUSTFLAGS", "-Zsanitizer=address"), ("CARGO_TARGET_DIR", "target/address")];
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Runs both; needs valgrind for the second.
pub(crate) fn run() -> anyhow::Result<()> {
    let words = ["cargo", "test", "--quiet", "--target", TARGET];
    run_with(&[&words[..], &["--package", "http1", "--lib", "--test", "it"]].concat(), &SANITIZED)?;
    let own = ["--package", "straightline", "--features", "sanitizer", "--test", "it", "--"];
    run_with(&[&words[..], &own, &filter()].concat(), &SANITIZED)?;
    let program = test_program("straightline")?;
    // Our stacks lie in one mapping: every switch would be taken for a frame of so many bytes.
    let valgrind = ["valgrind", "--quiet", "--error-exitcode=99", "--max-stackframe=1099511627776"];
    run_with(&[&valgrind[..], &[&program], &["--test-threads=1"], &filter()].concat(), &[])
}

fn filter() -> Vec<&'static str> {
    let skipped = FAULTS.into_iter().flat_map(|name| ["--skip", name]);
    SWITCHING.into_iter().chain(skipped).collect()
}

/// Builds the integration tests of `package`; the program that has them.
fn test_program(package: &str) -> anyhow::Result<String> {
    let words = ["cargo", "test", "--no-run", "--message-format=json", "--test", "it", "--package", package];
    let output = command(&words).stderr(Stdio::inherit()).output().context("cannot run cargo")?;
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    let artifacts = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let program = artifacts.filter_map(|one| Some(one["executable"].as_str()?.to_owned())).next_back();
    program.with_context(|| format!("cargo built no tests of {package}"))
}
