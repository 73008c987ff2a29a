//! The crates as a registry would get them.

use std::fs;
use std::process::Stdio;

use anyhow::{Context, ensure};

use super::trial::good;
use super::{FOLDER, VERSION, emptied, text};
use crate::shell::{self, command, root, run_with};

/// Builds every crate that is published from its package alone, and installs whyslow from these packages.
pub(super) fn check(_: &super::Release) -> anyhow::Result<()> {
    shell::run(&["make", "web"])?;
    let all = ["cargo", "package", "--workspace", "--exclude", "testkit", "--exclude", "xtask", "--locked"];
    // The charts are no part of the repository, which cargo takes for a change that was forgotten.
    shell::run(&[&all[..], &["--allow-dirty"]].concat())?;
    let unpacked = unpack()?;
    let installed = text(&emptied(root().join(FOLDER).join("installed"))?)?;
    let whyslow = text(&unpacked.join(format!("whyslow-{VERSION}")))?;
    let mut words = vec!["cargo".to_owned(), "install".to_owned(), "--debug".to_owned()];
    words.extend(["--path".to_owned(), whyslow, "--root".to_owned(), installed.clone()]);
    words.extend(patches(&unpacked)?);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    // The folder and the setting of tests' builds, so that dependencies are not built again.
    let build = text(&root().join("target"))?;
    run_with(&words, &[("CARGO_TARGET_DIR", &*build), ("CARGO_PROFILE_DEV_DEBUG", "line-tables-only")])?;
    let binaries: Vec<_> =
        fs::read_dir(format!("{installed}/bin"))?.flatten().map(|it| it.file_name()).collect();
    ensure!(binaries == ["whyslow"], "more or less than whyslow was installed: {binaries:?}");
    has_charts(&format!("{installed}/bin/whyslow"))
}

/// The packages, unpacked outside of the workspace, of which they would otherwise be taken for members.
fn unpack() -> anyhow::Result<std::path::PathBuf> {
    let folder = emptied(std::env::temp_dir().join(format!("whyslow-packages-{VERSION}")))?;
    for entry in fs::read_dir(root().join("target/package"))?.flatten() {
        let path = entry.path();
        if path.to_string_lossy().ends_with(&format!("-{VERSION}.crate")) {
            let seen = command(&["tar", "-xzf", &text(&path)?, "-C", &text(&folder)?]).output()?;
            good(&seen).with_context(|| format!("cannot unpack {}", path.display()))?;
        }
    }
    Ok(folder)
}

/// Arguments by which cargo takes the unpacked packages for those of the registry, where they may not be yet.
fn patches(unpacked: &std::path::Path) -> anyhow::Result<Vec<String>> {
    let mut arguments = Vec::new();
    for entry in fs::read_dir(unpacked)?.flatten() {
        let folder = entry.file_name().to_string_lossy().into_owned();
        let name =
            folder.strip_suffix(&format!("-{VERSION}")).context("a package is called by its version")?;
        if name != "whyslow" {
            let path = text(&entry.path())?;
            arguments.extend(["--config".to_owned(), format!("patch.crates-io.{name}.path=\"{path}\"")]);
        }
    }
    ensure!(!arguments.is_empty(), "no package was unpacked");
    Ok(arguments)
}

/// A page of the run that the repository keeps has its script.
pub(super) fn has_charts(program: &str) -> anyhow::Result<()> {
    let page = root().join(FOLDER).join("page.html");
    let words = [program, "report", "web/fixtures/demo", "-o", &text(&page)?];
    let seen = command(&words).stdin(Stdio::null()).output().context("cannot make a page")?;
    good(&seen)?;
    let page = fs::read_to_string(&page).context("there is no page")?;
    let script = fs::read_to_string(root().join("crates/report/charts/report.js"))?;
    ensure!(page.contains(script.trim()), "the page of {program} has no charts");
    println!("   {program}: a page of {} bytes, with charts", page.len());
    Ok(())
}
