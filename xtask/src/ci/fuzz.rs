//! Runs every fuzzing test of the workspace for a minute, all side by side: each stops by the clock, so running them in
//! turn would only take longer.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::shell;

/// For how long each goes on, in seconds: on two cores every one of them then has some five of a core.
const SECONDS: &str = "60";
/// Each of their names begins so; no other test's does.
const PREFIX: &str = "fuzz_";
/// Threads of each test program: enough to run all its fuzzing tests at once.
const THREADS: &str = "--test-threads=16";
/// How many there are at least. If fewer run, one was lost by a change of name.
const FEWEST: usize = 22;

/// A test program, and the folder in which its tests expect to run.
struct Program {
    path: PathBuf,
    folder: PathBuf,
}

/// Builds all tests and runs those that fuzz.
pub(super) fn run() -> anyhow::Result<()> {
    let begin = Instant::now();
    let programs = built()?;
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
            failed.push(program.path.display().to_string());
        }
    }
    ensure!(failed.is_empty(), "fuzzing tests failed: {}", failed.join(", "));
    ensure!(passed >= FEWEST, "{passed} fuzzing tests were found, and there were {FEWEST}");
    println!("   {passed} passed, {:.1} s with the build", begin.elapsed().as_secs_f64());
    Ok(())
}

/// All test programs of the workspace.
fn built() -> anyhow::Result<Vec<Program>> {
    const BUILD: [&str; 5] =
        ["cargo", "test", "--workspace", "--no-run", "--message-format=json-render-diagnostics"];
    println!("== {}", BUILD.join(" "));
    let output = shell::command(&BUILD).stderr(Stdio::inherit()).output().context("cannot run cargo")?;
    ensure!(output.status.success(), "'{}' failed: {}", BUILD.join(" "), output.status);
    let text = String::from_utf8_lossy(&output.stdout);
    let programs: Vec<Program> = text.lines().filter_map(program).collect();
    ensure!(!programs.is_empty(), "cargo names no test program");
    Ok(programs)
}

/// The test program that a line of cargo's tells of, where it does.
fn program(line: &str) -> Option<Program> {
    let message: Value = serde_json::from_str(line).ok()?;
    if message["profile"]["test"] != true {
        return None;
    }
    let path = PathBuf::from(message["executable"].as_str()?);
    let manifest = PathBuf::from(message["manifest_path"].as_str()?);
    Some(Program { path, folder: manifest.parent()?.to_owned() })
}

fn start(program: &Program) -> anyhow::Result<Child> {
    Command::new(&program.path)
        .args([PREFIX, THREADS])
        .current_dir(&program.folder)
        .env("CARGO_MANIFEST_DIR", &program.folder)
        .env("FUZZ_SECONDS", SECONDS)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run {}", program.path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_programs_are_read_from_what_cargo_prints() {
        let line = |test: bool, executable: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/a/b/Cargo.toml","profile":{{"test":{test}}},"executable":{executable}}}"#
            )
        };
        let found = program(&line(true, r#""/t/it-1""#)).map(|program| (program.path, program.folder));
        assert_eq!(found, Some((PathBuf::from("/t/it-1"), PathBuf::from("/a/b"))));
        assert!(program(&line(false, r#""/t/whyslow""#)).is_none(), "a program that is no test");
        assert!(program(&line(true, "null")).is_none(), "a test that was not linked");
        assert!(program("no json").is_none());
    }
}
