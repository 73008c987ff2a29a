//! Runs every fuzzing test of the workspace for a minute, all side by side: each stops by the clock, so running them in
//! turn would only take longer.

use std::process::{Child, Stdio};

use anyhow::{Context, ensure};

use super::programs::Program;

/// For how long each goes on, in seconds: on two cores every one of them then has some five of a core.
const SECONDS: &str = "60";
/// Each of their names begins so; no other test's does.
const PREFIX: &str = "fuzz_";
/// Threads of each test program: enough to run all its fuzzing tests at once.
const THREADS: &str = "--test-threads=16";
/// How many there are at least. If fewer run, one was lost by a change of name.
const FEWEST: usize = 24;

/// Runs those of all tests that fuzz.
pub(super) fn run(programs: &[Program]) -> anyhow::Result<()> {
    println!("== every test '{PREFIX}…' of {} programs, for {SECONDS} s each, side by side", programs.len());
    let begun = programs
        .iter()
        .map(|program| Ok((program, start(program)?)))
        .collect::<anyhow::Result<Vec<(&Program, Child)>>>()?;
    let (mut passed, mut failed) = (0, Vec::new());
    for (program, child) in begun {
        let output = child.wait_with_output().context("cannot wait for a test program")?;
        let text = String::from_utf8_lossy(&output.stdout);
        passed += text.lines().filter(|line| line.starts_with("test ") && line.ends_with(" ... ok")).count();
        if !output.status.success() {
            println!("{text}{}", String::from_utf8_lossy(&output.stderr));
            failed.push(program.name());
        }
    }
    ensure!(failed.is_empty(), "fuzzing tests failed: {}", failed.join(", "));
    ensure!(passed >= FEWEST, "{passed} fuzzing tests were found, and there were {FEWEST}");
    println!("   {passed} passed");
    Ok(())
}

fn start(program: &Program) -> anyhow::Result<Child> {
    program
        .command(&[PREFIX, THREADS])
        .env("FUZZ_SECONDS", SECONDS)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run {}", program.name()))
}
