//! Other programs, from the root of the workspace.

use std::path::{Path, PathBuf};
use std::process::Command;
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
