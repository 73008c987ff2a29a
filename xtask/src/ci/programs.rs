//! The test programs of the workspace.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::ensure;
use serde_json::Value;

use crate::shell;

/// A test program.
pub(super) struct Program {
    path: PathBuf,
    /// Where its package is, and its tests expect to run.
    folder: PathBuf,
}

impl Program {
    /// The package's folder and what the program tests, such as `load it`.
    pub(super) fn name(&self) -> String {
        let of = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let file = of(&self.path);
        // Cargo adds a hash.
        let target = file.rsplit_once('-').map_or(file.as_str(), |(target, _)| target);
        format!("{} {target}", of(&self.folder))
    }

    /// What starts it as `cargo test` does.
    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.path);
        command.args(arguments).current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        command.stdin(Stdio::null());
        command
    }
}

/// Builds all of them.
pub(super) fn built() -> anyhow::Result<Vec<Program>> {
    const BUILD: [&str; 5] =
        ["cargo", "test", "--workspace", "--no-run", "--message-format=json-render-diagnostics"];
    let (status, text) = shell::run_and_take(&BUILD)?;
    ensure!(status.success(), "'{}' failed: {status}", BUILD.join(" "));
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
        let found = program(&line(true, r#""/t/it-1""#)).unwrap();
        assert_eq!((found.path.as_path(), found.folder.as_path()), (Path::new("/t/it-1"), Path::new("/a/b")));
        assert_eq!(found.name(), "b it");
        assert!(program(&line(false, r#""/t/whyslow""#)).is_none(), "a program that is no test");
        assert!(program(&line(true, "null")).is_none(), "a test that was not linked");
        assert!(program("no json").is_none());
    }
}
