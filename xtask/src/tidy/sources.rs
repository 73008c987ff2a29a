//! Checks on Rust sources as text.

use std::fs;
use std::path::Path;

use anyhow::Context;

use super::Finding;
use crate::shell::{command, root};

/// Longest file without its tests, in lines.
const MAX_FILE_LINES: usize = 800;
/// Folders that hold crates.
const ROOMS: [&str; 2] = ["crates/", "straightline/"];
/// Crates in which unsafe code may stand, in the module named, with a SAFETY comment (which clippy checks).
const UNSAFE_PLACES: [(&str, &str); 2] = [("server", "src/rt"), ("observe", "src/sys")];
/// Crates that get time and bytes as arguments.
const PURE: [&str; 6] = ["model", "stats", "analyse", "report", "http1", "http2"];
/// What a pure crate never says.
const IMPURE: [&str; 8] = [
    "Instant::now",
    "SystemTime::now",
    "std::net::Tcp",
    "std::net::Udp",
    "std::fs",
    "File::open",
    "std::env",
    "thread::sleep",
];
/// The one file of a pure crate that touches files: the run directory.
const FILE_OWNER: &str = "crates/model/src/record/dir.rs";

/// A Rust file that git tracks.
pub(crate) struct Source {
    /// Path from the root.
    pub(crate) path: String,
    /// Its text.
    pub(crate) text: String,
}

impl Source {
    /// The folder of the crate it belongs to; empty outside [`ROOMS`].
    pub(crate) fn crate_name(&self) -> &str {
        let inside = ROOMS.iter().find_map(|room| self.path.strip_prefix(room));
        inside.and_then(|rest| rest.split('/').next()).unwrap_or("")
    }

    /// Whether it is part of a library or of `whyslow`.
    fn is_shipped(&self) -> bool {
        !self.crate_name().is_empty() && !self.is_test()
    }

    /// Whether it is a test, a benchmark or an example as a whole.
    pub(crate) fn is_test(&self) -> bool {
        ["/tests/", "/benches/", "/examples/", "/fixture/"].iter().any(|part| self.path.contains(part))
            || self.path.ends_with("/tests.rs")
    }

    /// Its lines before a test module at its end.
    pub(crate) fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().take_while(|(_, line)| !line.starts_with("#[cfg(test)]"))
    }
}

/// All Rust files that git tracks or would track.
pub(crate) fn read() -> anyhow::Result<Vec<Source>> {
    let listed = command(&["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.rs"]).output();
    let listed = listed.context("cannot ask git for the files")?;
    let names = String::from_utf8(listed.stdout).context("file names are text")?;
    let mut sources = Vec::new();
    for path in names.lines().filter(|path| root().join(path).exists()) {
        let text = fs::read_to_string(root().join(path)).with_context(|| format!("cannot read {path}"))?;
        sources.push(Source { path: path.to_owned(), text });
    }
    Ok(sources)
}

/// Files of at most [`MAX_FILE_LINES`].
pub(crate) fn lengths(sources: &[Source]) -> anyhow::Result<Finding> {
    let code = || sources.iter().filter(|source| !source.is_test());
    let breaches = code()
        .map(|source| (source.code().count(), &source.path))
        .filter(|(lines, _)| *lines > MAX_FILE_LINES)
        .map(|(lines, path)| format!("{path}: {lines} lines, at most {MAX_FILE_LINES}"))
        .collect();
    Ok(Finding { checked: code().count(), what: "files", breaches })
}

/// `#![forbid(unsafe_code)]` at every root, and no `unsafe` outside the places for it.
pub(crate) fn unsafe_code(sources: &[Source]) -> anyhow::Result<Finding> {
    let mut breaches = Vec::new();
    let mut checked = 0;
    for source in sources.iter().filter(|source| source.is_shipped()) {
        checked += 1;
        let place = UNSAFE_PLACES.iter().find(|(name, _)| *name == source.crate_name());
        let root_file = source.path.ends_with("/src/lib.rs") || source.path.ends_with("/src/main.rs");
        if root_file && place.is_none() && !source.text.contains("#![forbid(unsafe_code)]") {
            breaches.push(format!("{}: #![forbid(unsafe_code)] is missing", source.path));
        }
        if let Some((name, folder)) = place {
            let allowed = source.path.contains(&format!("/{name}/{folder}"));
            let uses =
                |line: &str| ["unsafe {", "unsafe fn", "unsafe impl"].iter().any(|word| line.contains(word));
            let lines = source
                .code()
                .filter(|(_, line)| !allowed && uses(line) && !line.trim_start().starts_with("//"));
            breaches.extend(
                lines.map(|(line, _)| format!("{}:{}: unsafe outside {folder}", source.path, line + 1)),
            );
        }
    }
    Ok(Finding { checked, what: "files", breaches })
}

/// Processes are started by `launch` alone; run files are written by `record` alone.
pub(crate) fn owners(sources: &[Source]) -> anyhow::Result<Finding> {
    let owned = [
        ("Command::new", "launch"),
        ("fs::write", "model"),
        ("File::create", "model"),
        ("fs::rename", "model"),
    ];
    let mut breaches = Vec::new();
    let library = |source: &&Source| source.is_shipped();
    for source in sources.iter().filter(library).filter(|source| source.crate_name() != "testkit") {
        for (words, owner) in owned.iter().filter(|(_, owner)| *owner != source.crate_name()) {
            let lines = source.code().filter(|(_, line)| line.contains(words));
            breaches.extend(
                lines.map(|(line, _)| format!("{}:{}: only {owner} may {words}", source.path, line + 1)),
            );
        }
    }
    Ok(Finding { checked: sources.iter().filter(library).count(), what: "files", breaches })
}

/// Pure crates are given what they need.
pub(crate) fn purity(sources: &[Source]) -> anyhow::Result<Finding> {
    let pure = |source: &&Source| {
        PURE.contains(&source.crate_name())
            && !source.is_test()
            && Path::new(&source.path) != Path::new(FILE_OWNER)
    };
    let mut breaches = Vec::new();
    for source in sources.iter().filter(pure) {
        for words in IMPURE {
            let lines = source
                .code()
                .filter(|(_, line)| line.contains(words) && !line.trim_start().starts_with("//"));
            breaches.extend(
                lines.map(|(line, _)| format!("{}:{}: {words} in a pure crate", source.path, line + 1)),
            );
        }
    }
    Ok(Finding { checked: sources.iter().filter(pure).count(), what: "files", breaches })
}
