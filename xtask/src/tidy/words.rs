//! Checks on text: what must not be written anywhere, and documents that stay short and whole.

use std::fs;

use anyhow::Context;

use super::Finding;
use super::sources::Source;
use crate::shell::{command, root};

/// Longest map of the code, in lines.
const MAX_ARCHITECTURE_LINES: usize = 150;
/// The map, and how names of files in it end.
pub(super) const MAP: &str = "ARCHITECTURE.md";
const FILE_ENDINGS: [&str; 5] = [".rs", ".lua", ".c", ".md", ".toml"];
/// Documents that a newcomer needs.
const DOCUMENTS: [&str; 7] =
    ["README.md", MAP, "METHODOLOGY.md", "BIAS.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/GLOSSARY.md"];

/// Words that belong to one machine or to how the work is organised. They are spelled apart so that this file may
/// be checked too.
fn words() -> Vec<String> {
    let pairs = [
        ("/work", "/main"),
        ("../sha", "red/"),
        ("/arti", "factory/"),
        ("\"resolved\": ", "\"http"),
        ("DEVEL", "OPERS.md"),
    ];
    pairs.iter().map(|(a, b)| format!("{a}{b}")).collect()
}

/// No tracked file says one of [`words`].
pub(crate) fn forbidden(_: &[Source]) -> anyhow::Result<Finding> {
    let names = tracked()?;
    let (mut checked, mut breaches) = (0, Vec::new());
    for path in names.lines() {
        // What is not text has no words.
        let Ok(text) = fs::read_to_string(root().join(path)) else { continue };
        checked += 1;
        breaches.extend(
            words().iter().filter(|word| text.contains(*word)).map(|word| format!("{path}: '{word}'")),
        );
    }
    Ok(Finding { checked, what: "files", breaches })
}

/// Every file that the map names exists: whoever follows a row of it finds something to open.
pub(crate) fn places(_: &[Source]) -> anyhow::Result<Finding> {
    let text = fs::read_to_string(root().join(MAP)).with_context(|| format!("cannot read {MAP}"))?;
    let tracked = tracked()?;
    let named: Vec<&str> = code_spans(&text).filter(|span| is_file_name(span)).collect();
    let missing = named.iter().filter(|name| {
        let end = format!("/{name}");
        !tracked.lines().any(|path| path == **name || path.ends_with(&end))
    });
    let breaches = missing.map(|name| format!("{MAP}: no file is called {name}")).collect();
    Ok(Finding { checked: named.len(), what: "names of files", breaches })
}

fn tracked() -> anyhow::Result<String> {
    let listed = command(&["git", "ls-files"]).output().context("cannot ask git for the files")?;
    String::from_utf8(listed.stdout).context("file names are text")
}

/// What stands between backticks, line by line.
pub(super) fn code_spans(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| line.split('`').skip(1).step_by(2))
}

/// Whether it names a file of the repository; `target.toml` and `whyslow.toml` are files of users.
fn is_file_name(span: &str) -> bool {
    let is_path = !span.contains([' ', '*', ':']) && FILE_ENDINGS.iter().any(|end| span.ends_with(end));
    is_path && (span.contains('/') || span.ends_with(".rs"))
}

/// The documents are there, the map is short, and what they link to within the repository exists.
pub(crate) fn documents(_: &[Source]) -> anyhow::Result<Finding> {
    let (mut checked, mut breaches) = (0, Vec::new());
    for name in DOCUMENTS {
        let Ok(text) = fs::read_to_string(root().join(name)) else {
            breaches.push(format!("{name} is missing"));
            continue;
        };
        checked += 1;
        if name == MAP && text.lines().count() > MAX_ARCHITECTURE_LINES {
            breaches
                .push(format!("{name}: {} lines, at most {MAX_ARCHITECTURE_LINES}", text.lines().count()));
        }
        let folder = root().join(name).parent().map(std::path::Path::to_owned).unwrap_or_default();
        let broken = links(&text).into_iter().filter(|link| !folder.join(link).exists());
        breaches.extend(broken.map(|link| format!("{name}: there is no {link}")));
    }
    Ok(Finding { checked, what: "documents", breaches })
}

/// Targets of Markdown links that lie in the repository.
fn links(text: &str) -> Vec<&str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets
        .map(|target| target.split('#').next().unwrap_or(target))
        .filter(|t| !t.is_empty() && !t.contains("://"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_told_from_other_words_in_backticks() {
        let text = "see `load/src/list.rs`, `block.rs`, `whyslow.toml`, `Cargo.toml` and `Job::new`";
        let files: Vec<&str> = code_spans(text).filter(|span| is_file_name(span)).collect();
        assert_eq!(files, ["load/src/list.rs", "block.rs"]);
    }
}
