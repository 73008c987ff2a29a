//! What a release consists of, built and tried out: `cargo xtask dist` fills `target/dist/whyslow-VERSION`.

mod bill;
mod binary;
mod debian;
mod notes;
mod packages;
#[cfg(test)]
mod scripts;
mod trial;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::shell::{self, command, root};

/// Where everything is put, from the root of the workspace.
const FOLDER: &str = "target/dist";
/// Folder under `target` for tools that a step needs and that are not on the path.
const TOOLS: &str = "target/tools";
/// One version of everything in the workspace.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The parts that can be made alone.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Part {
    /// The static binary, tried in an empty root
    Binary,
    /// The Debian package, installed and removed again
    Deb,
    /// The bill of materials
    Bill,
    /// The release notes, cut from CHANGELOG.md
    Notes,
    /// The crates as the registry would get them, and whyslow installed from them alone
    Crates,
}

/// Makes one part.
type Step = fn(&Release) -> anyhow::Result<()>;

/// All parts in order, or the one that is asked for, and the checksums of what is there.
pub(crate) fn run(only: Option<Part>) -> anyhow::Result<()> {
    let release = Release::create()?;
    let steps: [(Part, Step); 5] = [
        (Part::Binary, binary::make),
        (Part::Deb, debian::make),
        (Part::Bill, bill::make),
        (Part::Notes, notes::make),
        (Part::Crates, packages::check),
    ];
    for (_, step) in steps.iter().filter(|(part, _)| only.is_none_or(|only| only == *part)) {
        step(&release)?;
    }
    release.sum()
}

/// The folder of one release.
struct Release {
    folder: PathBuf,
}

impl Release {
    fn create() -> anyhow::Result<Self> {
        let folder = root().join(FOLDER).join(format!("whyslow-{VERSION}"));
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(Self { folder })
    }

    /// The file `name` of the release.
    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Writes SHA256SUMS, and reads it back as somebody who downloads it does.
    fn sum(&self) -> anyhow::Result<()> {
        let mut names: Vec<String> = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            names.extend((name != SUMS).then_some(name));
        }
        names.sort();
        let mut words = vec!["sha256sum"];
        words.extend(names.iter().map(String::as_str));
        let sums = command(&words).current_dir(&self.folder).output().context("cannot run sha256sum")?;
        fs::write(self.file(SUMS), &sums.stdout).context("cannot write the checksums")?;
        let check = ["sha256sum", "--check", "--strict", SUMS];
        let seen = command(&check).current_dir(&self.folder).output().context("cannot run sha256sum")?;
        anyhow::ensure!(seen.status.success(), "{}", String::from_utf8_lossy(&seen.stderr));
        println!("== {}", self.folder.display());
        for name in names {
            println!("   {:>10} bytes  {name}", fs::metadata(self.file(&name))?.len());
        }
        Ok(())
    }
}

/// Names and sums of the files of a release.
const SUMS: &str = "SHA256SUMS";

/// The path of a cargo command that is installed under [`TOOLS`] in exactly this version where it is not yet.
fn tool(name: &str, version: &str) -> anyhow::Result<PathBuf> {
    let own = root().join(TOOLS).join("bin").join(name);
    let marker = root().join(TOOLS).join(format!(".{name}-{version}"));
    if !marker.exists() || !own.exists() {
        // --debug: it is built in less than half of the time, and takes no longer.
        shell::run(&[
            "cargo",
            "install",
            name,
            "--locked",
            "--debug",
            "--version",
            version,
            "--root",
            TOOLS,
        ])?;
        fs::write(&marker, "").with_context(|| format!("cannot write {}", marker.display()))?;
    }
    Ok(own)
}

/// A path as an argument of a command.
fn text(path: &Path) -> anyhow::Result<String> {
    path.to_str().map(str::to_owned).with_context(|| format!("{} is not text", path.display()))
}

/// An empty folder in place of what was there.
fn emptied(folder: PathBuf) -> anyhow::Result<PathBuf> {
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("cannot empty {}", folder.display()))?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}
