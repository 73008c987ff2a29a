//! The instrument, as a child.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use record::{Run, RunDir};

use crate::shell::{command, root, run};

/// Where cargo puts release builds.
pub(crate) fn release() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    target.join("release")
}

fn program() -> String {
    release().join("whyslow").to_string_lossy().into_owned()
}

/// Builds it, and the targets of these arms; built-in ones need no more.
pub(crate) fn build(arms: &[String]) -> anyhow::Result<()> {
    run(&["cargo", "build", "--quiet", "--release", "--package", "whyslow"])?;
    let program = program();
    let mut words = vec![program.as_str(), "targets", "build"];
    let built_in = ["threads", "futures", "coroutines"];
    words.extend(arms.iter().map(String::as_str).filter(|arm| !built_in.contains(arm) && !arm.contains('=')));
    if words.len() == 3 { Ok(()) } else { run(&words) }
}

/// Compares `arms` as `words` say, in the folder `dir`, which is made anew; the records.
pub(crate) fn compare(arms: &[String], words: &[String], dir: &Path) -> anyhow::Result<Run> {
    if dir.exists() {
        std::fs::remove_dir_all(dir).with_context(|| format!("cannot remove {}", dir.display()))?;
    }
    let (program, dir_text) = (program(), dir.to_string_lossy().into_owned());
    let mut all = vec![program.as_str(), "compare"];
    all.extend(arms.iter().map(String::as_str));
    // Some answer with fields of their own: their `target.toml` says which.
    all.extend(["--allow-difference", "--no-why", "--format", "json", "--out", &dir_text]);
    all.extend(words.iter().map(String::as_str));
    println!("== {}", all.join(" "));
    let output = command(&all).output().context("cannot run whyslow")?;
    // Inconclusive and invalid are answers: the figures are shown with their intervals.
    if !matches!(output.status.code(), Some(0 | 4 | 5)) {
        bail!("whyslow compare failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    RunDir::open(dir).read().context("the run does not read")
}
