//! Other programs, from the root of the workspace.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Instant;

use anyhow::{Context, bail};

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace").to_owned()
}

/// Runs `words` and fails when it does; says what it ran and how long it took.
pub(crate) fn run(words: &[&str]) -> anyhow::Result<()> {
    run_with(words, &[])
}

/// As [`run`], with variables added to the environment.
pub(crate) fn run_with(words: &[&str], env: &[(&str, &str)]) -> anyhow::Result<()> {
    println!("== {}", words.join(" "));
    let begin = Instant::now();
    let status = command(words)
        .envs(env.iter().copied())
        .status()
        .with_context(|| format!("cannot run {}", words[0]))?;
    if !status.success() {
        bail!("'{}' failed: {status}", words.join(" "));
    }
    println!("   {:.1} s", begin.elapsed().as_secs_f64());
    Ok(())
}

/// Runs `words` and takes what they print as their result; how they ended is the caller's to judge.
pub(crate) fn run_and_take(words: &[&str]) -> anyhow::Result<(ExitStatus, String)> {
    println!("== {}", words.join(" "));
    let begin = Instant::now();
    let output = command(words)
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot run {}", words[0]))?;
    println!("   {:.1} s", begin.elapsed().as_secs_f64());
    Ok((output.status, String::from_utf8_lossy(&output.stdout).into_owned()))
}

/// Runs `command`, shows every line that it prints, and gives them all; how it ended is the caller's to judge.
pub(crate) fn run_and_read(mut command: Command) -> anyhow::Result<(ExitStatus, Vec<String>)> {
    let begin = Instant::now();
    let (output, both) = std::io::pipe()?;
    command.stdout(both.try_clone()?).stderr(both);
    let program = command.get_program().to_string_lossy().into_owned();
    let mut child = command.spawn().with_context(|| format!("cannot run {program}"))?;
    // Its ends of the pipe, which would keep it open.
    drop(command);
    let mut lines = Vec::new();
    for line in BufReader::new(output).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        println!("{line}");
        lines.push(line);
    }
    let status = child.wait()?;
    println!("   {:.1} s", begin.elapsed().as_secs_f64());
    Ok((status, lines))
}

/// A command at the root of the workspace.
pub(crate) fn command(words: &[&str]) -> Command {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).current_dir(root());
    command
}

/// Whether a program answers `--version`.
pub(crate) fn exists(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}
