//! What CI runs, in the order in which failures are cheapest.

mod dependencies;
mod fuzz;
mod programs;
mod suites;

use crate::shell::{self, root, run_with};
use crate::tidy;

/// Where tests that are left out say so.
const SKIPPED: &str = "target/skipped-tests.txt";

/// Every check and every test; the first check that fails ends it. Tests are all run, so that one run tells of all that fail.
pub(crate) fn run() -> anyhow::Result<()> {
    shell::run(&["cargo", "fmt", "--all", "--check"])?;
    tidy::run()?;
    shell::run(&[
        "cargo",
        "clippy",
        "--workspace",
        "--all-targets",
        "--all-features",
        "--",
        "-D",
        "warnings",
    ])?;
    // With the same features as above, so that dependencies are not checked again.
    run_with(
        &["cargo", "doc", "--workspace", "--no-deps", "--all-features"],
        &[("RUSTDOCFLAGS", "-D warnings")],
    )?;
    dependencies::check()?;
    let programs = programs::built()?;
    fuzz::run(&programs)?;
    let skipped = root().join(SKIPPED);
    let _ = std::fs::remove_file(&skipped);
    let list = skipped.to_string_lossy().into_owned();
    let tested = suites::run(&programs, &[("SKIPPED_TESTS", &list)]);
    say_skipped(&std::fs::read_to_string(&skipped).unwrap_or_default());
    tested
}

/// Says which tests were left out, and why.
fn say_skipped(list: &str) {
    let mut lines: Vec<&str> = list.lines().collect();
    lines.sort_unstable();
    println!("{} tests were left out here (REQUIRED_CAPABILITIES=all makes each a failure)", lines.len());
    lines.iter().for_each(|line| println!("  {line}"));
}
