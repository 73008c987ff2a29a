//! What CI runs, in the order in which failures are cheapest.

mod fuzz;
mod programs;
mod suites;

use crate::shell::{self, exists, root, run_with};
use crate::tidy;

/// Folder under `target` for tools that a check needs and that are not on the path.
const TOOLS: &str = "target/tools";
/// Where tests that are left out say so.
const SKIPPED: &str = "target/skipped-tests.txt";
/// Version of cargo-deny that the checks were written against.
const DENY_VERSION: &str = "0.20.2";

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
    deny()?;
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

/// Licences, sources and duplicate versions. Advisories need a database that is fetched, so they are left to a machine
/// with network: `cargo deny check advisories`.
fn deny() -> anyhow::Result<()> {
    let own = root().join(TOOLS).join("bin/cargo-deny");
    let own = own.to_string_lossy().into_owned();
    let program = if exists("cargo-deny") { "cargo-deny" } else { own.as_str() };
    if !exists(program) {
        let install = [
            "cargo",
            "install",
            "cargo-deny",
            "--locked",
            "--debug",
            "--version",
            DENY_VERSION,
            "--root",
            TOOLS,
        ];
        // Neither optimised nor with debug information it is built much sooner, and takes no longer.
        run_with(&install, &[("CARGO_PROFILE_DEV_DEBUG", "0")])?;
    }
    shell::run(&[program, "check", "bans", "licenses", "sources"])
}
