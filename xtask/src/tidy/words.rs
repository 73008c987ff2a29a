//! Checks on text: what must not be written anywhere, and documents that stay short and whole.

use std::fs;

use anyhow::Context;

use super::Finding;
use super::sources::Source;
use crate::shell::{command, root};

/// Longest map of the code, in lines.
const MAX_ARCHITECTURE_LINES: usize = 200;
/// Documents that a newcomer needs.
const DOCUMENTS: [&str; 7] = [
    "README.md",
    "ARCHITECTURE.md",
    "METHODOLOGY.md",
    "BIAS.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "docs/GLOSSARY.md",
];

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
    let listed = command(&["git", "ls-files"]).output().context("cannot ask git for the files")?;
    let names = String::from_utf8(listed.stdout).context("file names are text")?;
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

/// The documents are there, the map is short, and what they link to within the repository exists.
pub(crate) fn documents(_: &[Source]) -> anyhow::Result<Finding> {
    let (mut checked, mut breaches) = (0, Vec::new());
    for name in DOCUMENTS {
        let Ok(text) = fs::read_to_string(root().join(name)) else {
            breaches.push(format!("{name} is missing"));
            continue;
        };
        checked += 1;
        if name == "ARCHITECTURE.md" && text.lines().count() > MAX_ARCHITECTURE_LINES {
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
