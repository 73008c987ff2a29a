//! The Debian package: the static binary with man pages and completions.

use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};

use super::trial::{good, inside};
use super::{FOLDER, Release, VERSION, binary, emptied, text, tool};
use crate::shell::{self, command, root};

/// Version of cargo-deb that this was written against.
const TOOL_VERSION: &str = "3.8.0";
/// What must be there once the package is installed, and nowhere once it is removed.
const FILES: [&str; 6] = [
    "usr/bin/whyslow",
    "usr/share/man/man1/whyslow.1.gz",
    "usr/share/man/man1/whyslow-case-run.1.gz",
    "usr/share/bash-completion/completions/whyslow",
    "usr/share/zsh/vendor-completions/_whyslow",
    "usr/share/fish/vendor_completions.d/whyslow.fish",
];

/// Builds it from what `make install` lays out (crates/whyslow/Cargo.toml says what goes where), and tries it.
pub(super) fn make(release: &Release) -> anyhow::Result<()> {
    let binary = binary::path(release);
    ensure!(binary.exists(), "there is no binary yet: cargo xtask dist binary");
    let staged = emptied(root().join(FOLDER).join("staged"))?;
    let (built, there) = (format!("WHYSLOW={}", text(&binary)?), format!("DESTDIR={}", text(&staged)?));
    shell::run(&["make", "--silent", "install", &built, &there, "PREFIX=/usr"])?;
    let tool = text(&tool("cargo-deb", TOOL_VERSION)?)?;
    let package = release.file(&format!("whyslow_{VERSION}_amd64.deb"));
    // Its symbols are needed, so nothing is stripped.
    let how = [
        "--package",
        "whyslow",
        "--no-build",
        "--no-strip",
        "--locked",
        "--quiet",
        "--output",
        &text(&package)?,
    ];
    shell::run(&[&[&*tool][..], &how].concat())?;
    install_and_remove(&package)
}

/// In a root of its own, which has dpkg's books and nothing else.
fn install_and_remove(package: &Path) -> anyhow::Result<()> {
    let folder = emptied(root().join(FOLDER).join("deb-root"))?;
    for name in ["info", "updates", "triggers"] {
        fs::create_dir_all(folder.join("var/lib/dpkg").join(name))?;
    }
    fs::write(folder.join("var/lib/dpkg/status"), "")?;
    dpkg(&folder, &["--install", &text(package)?])?;
    for file in FILES {
        let bytes =
            fs::metadata(folder.join(file)).with_context(|| format!("{file} is not installed"))?.len();
        ensure!(bytes > 0, "{file} is empty");
    }
    let version = good(&inside(&folder, &["/usr/bin/whyslow", "--version"])?)?;
    dpkg(&folder, &["--remove", "whyslow"])?;
    let left: Vec<&str> = FILES.into_iter().filter(|file| folder.join(file).exists()).collect();
    ensure!(left.is_empty(), "not removed: {left:?}");
    println!("   installed by dpkg, said '{}', removed", version.trim());
    Ok(())
}

fn dpkg(folder: &Path, words: &[&str]) -> anyhow::Result<()> {
    let there = format!("--root={}", text(folder)?);
    // Those who are not root install into a folder of their own just as well.
    let seen =
        command(&["dpkg", &there, "--force-not-root"]).args(words).output().context("cannot run dpkg")?;
    good(&seen).map(drop).with_context(|| format!("dpkg {}", words[0]))
}
