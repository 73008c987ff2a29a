//! What CI runs, in the order in which failures are cheapest.

mod fuzz;

use anyhow::ensure;

use crate::shell::{self, exists, root, run_with};
use crate::tidy;

/// Folder under `target` for tools that a check needs and that are not on the path.
const TOOLS: &str = "target/tools";
/// Where tests that are left out say so.
const SKIPPED: &str = "target/skipped-tests.txt";
/// Version of cargo-deny that the checks were written against.
const DENY_VERSION: &str = "0.20.2";
/// Tests at most that may fail beside others and pass alone: more of them are no accident of timing.
const MOST_UNSTEADY: usize = 3;

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
    fuzz::run()?;
    let skipped = root().join(SKIPPED);
    let _ = std::fs::remove_file(&skipped);
    let list = skipped.to_string_lossy().into_owned();
    let tested = test_all(&[("SKIPPED_TESTS", &list)]);
    say_skipped(&std::fs::read_to_string(&skipped).unwrap_or_default());
    tested
}

/// Runs all tests. What fails is run once more with nothing beside it, since servers, generators and their clocks share two cores with
/// other tests: what passes then is named at the end, and what fails again fails the run.
fn test_all(env: &[(&str, &str)]) -> anyhow::Result<()> {
    const ALL: [&str; 4] = ["cargo", "test", "--workspace", "--no-fail-fast"];
    let (first, lines) = shell::run_and_read(&ALL, env)?;
    if first.success() {
        return Ok(());
    }
    let (targets, failed) = failures(&lines);
    // Without a list it was no test that failed: something did not build, or a test ended its process.
    ensure!(!targets.is_empty() && !failed.is_empty(), "'{}' failed: {first}", ALL.join(" "));
    ensure!(failed.len() <= MOST_UNSTEADY, "{} tests failed: {}", failed.len(), failed.join(", "));
    let mut passed = Vec::new();
    for target in &targets {
        let words = ["cargo", "test"].into_iter().chain(target.split(' '));
        let alone =
            ["--", "--exact", "--test-threads=1"].into_iter().chain(failed.iter().map(String::as_str));
        let words: Vec<&str> = words.chain(alone).collect();
        let (again, lines) = shell::run_and_read(&words, env)?;
        ensure!(again.success(), "tests failed, and again alone: {}", failed.join(", "));
        passed.extend(lines.iter().filter_map(|line| within(line, "test ", " ... ok")));
    }
    // A name that no run found would pass as well.
    let unseen: Vec<&str> = failed.iter().filter(|name| !passed.contains(name)).map(String::as_str).collect();
    ensure!(unseen.is_empty(), "tests failed and could not be run alone: {}", unseen.join(", "));
    println!("{} tests failed beside others and passed alone: {}", failed.len(), failed.join(", "));
    Ok(())
}

/// What stands between `begin` and `end` in a line that has both.
fn within(line: &str, begin: &str, end: &str) -> Option<String> {
    line.strip_prefix(begin).and_then(|rest| rest.strip_suffix(end)).map(str::to_owned)
}

/// Which targets failed, as cargo's flags name them, and which tests.
fn failures(lines: &[String]) -> (Vec<String>, Vec<String>) {
    let targets =
        lines.iter().filter_map(|line| within(line, "    `-p ", "`").map(|rest| format!("-p {rest}")));
    let mut failed: Vec<String> =
        lines.iter().filter_map(|line| within(line, "test ", " ... FAILED")).collect();
    failed.sort_unstable();
    failed.dedup();
    (targets.collect(), failed)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_tests_and_their_targets_are_read_from_what_cargo_prints() {
        let printed = "\
     Running tests/it/main.rs (target/debug/deps/it-1)
test a::good ... ok
test a::bad ... FAILED
test b::bad - should panic ... ok

test result: FAILED. 2 passed; 1 failed; 0 ignored

error: 2 targets failed:
    `-p whyslow-load --test it`
    `-p whyslow --lib`";
        let lines: Vec<String> = printed.lines().map(str::to_owned).collect();
        let (targets, failed) = failures(&lines);
        assert_eq!(targets, ["-p whyslow-load --test it", "-p whyslow --lib"]);
        assert_eq!(failed, ["a::bad"]);
        assert_eq!(failures(&[]), (Vec::new(), Vec::new()));
    }
}
