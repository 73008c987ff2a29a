//! Folders of data that come with the program: targets and cases.

use std::path::{Path, PathBuf};

use anyhow::Context;

/// The folder `name` that `is_it` accepts: where `variable` says; else looked for from the current folder upwards, then
/// from the program's own.
pub(crate) fn find(name: &str, variable: &str, is_it: impl Fn(&Path) -> bool) -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os(variable) {
        return Some(PathBuf::from(folder));
    }
    let starts = [std::env::current_dir().ok(), std::env::current_exe().ok()];
    starts
        .iter()
        .flatten()
        .flat_map(|start| start.ancestors())
        .map(|ancestor| ancestor.join(name))
        .find(|folder| is_it(folder))
}

/// The file of this program as others can start it, also where another has taken its place since: an installation may go on during a
/// run.
pub(crate) fn own_program() -> anyhow::Result<PathBuf> {
    let exe = std::env::current_exe().context("cannot find this program's own file")?;
    if exe.exists() {
        return Ok(exe);
    }
    Ok(PathBuf::from(format!("/proc/{}/exe", std::process::id())))
}
