//! The instrument, as a child.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use model::record::{Run, RunDir, RunStatus};

use crate::shell::{command, root, run};

/// Where cargo puts release builds.
pub(crate) fn release() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    target.join("release")
}

/// The program that measures.
#[derive(Clone)]
pub(crate) struct Instrument(String);

impl Instrument {
    /// `given`, or else a release build of this workspace.
    pub(crate) fn new(given: Option<&Path>) -> anyhow::Result<Self> {
        let program = match given {
            Some(given) => std::path::absolute(given)?,
            None => {
                run(&["cargo", "build", "--quiet", "--release", "--package", "whyslow"])?;
                release().join("whyslow")
            }
        };
        Ok(Self(program.to_string_lossy().into_owned()))
    }

    /// Builds these targets.
    pub(crate) fn build(&self, targets: &[String]) -> anyhow::Result<()> {
        let mut words = vec![self.0.as_str(), "targets", "build"];
        words.extend(targets.iter().map(String::as_str));
        if targets.is_empty() { Ok(()) } else { run(&words) }
    }

    /// Compares `arms` as `words` say, in the folder `dir`, which is made anew; the records.
    pub(crate) fn compare(&self, arms: &[String], words: &[String], dir: &Path) -> anyhow::Result<Run> {
        if dir.exists() {
            std::fs::remove_dir_all(dir).with_context(|| format!("cannot remove {}", dir.display()))?;
        }
        let dir_text = dir.to_string_lossy().into_owned();
        let mut all = vec![self.0.as_str(), "compare"];
        all.extend(arms.iter().map(String::as_str));
        // Some answer with fields of their own: their `target.toml` says which.
        all.extend(["--allow-difference", "--no-why", "--format", "json", "--out", &dir_text]);
        all.extend(words.iter().map(String::as_str));
        println!("== {}", all.join(" "));
        let output = command(&all).output().context("cannot run whyslow")?;
        let run = RunDir::open(dir).read();
        match (output.status.code(), run) {
            // Inconclusive and invalid are answers: the figures are shown with their intervals.
            (Some(0 | 4 | 5), run) => run.context("the run does not read"),
            // A server that does not survive its load has no figures; the others have.
            (Some(1), Ok(run)) if run.manifest.status == RunStatus::Complete => Ok(run),
            _ => bail!("whyslow compare failed: {}", String::from_utf8_lossy(&output.stderr)),
        }
    }
}

/// straightline's example `measured` as an arm called `name`; `model` is `threads` or nothing.
pub(crate) fn measured(name: &str, model: &str) -> String {
    let program = release().join("examples/measured");
    format!("{name}={} 127.0.0.1:{{port}} 1 {model}", program.display()).trim_end().to_owned()
}
