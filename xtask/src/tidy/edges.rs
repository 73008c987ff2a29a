//! Checks on what depends on what.

use std::fs;

use anyhow::Context;

use super::Finding;
use super::sources::Source;
use crate::shell::root;

/// What each crate may depend on within the workspace: the table of ARCHITECTURE.md.
const ALLOWED: [(&str, &[&str]); 14] = [
    ("units", &[]),
    ("plan", &["units"]),
    ("record", &["units", "plan"]),
    ("launch", &["units", "plan", "record", "http1"]),
    ("load", &["units", "plan", "record", "http1"]),
    ("observe", &["units", "plan", "record"]),
    ("stats", &["units"]),
    ("analyse", &["units", "plan", "record", "stats"]),
    ("report", &["units", "record", "analyse"]),
    ("http1", &[]),
    ("script", &["http1"]),
    ("straightline", &["http1"]),
    (
        "whyslow",
        &[
            "units",
            "plan",
            "record",
            "launch",
            "load",
            "observe",
            "stats",
            "analyse",
            "report",
            "http1",
            "script",
            "straightline",
        ],
    ),
    ("testkit", &["units", "record"]),
];

/// Edges within the workspace, outside tests, are those of [`ALLOWED`].
pub(crate) fn dependencies(_: &[Source]) -> anyhow::Result<Finding> {
    let members: Vec<&str> = ALLOWED.iter().map(|(name, _)| *name).collect();
    let (mut checked, mut breaches) = (0, Vec::new());
    for (name, allowed) in ALLOWED {
        let manifest = manifest(&format!("crates/{name}/Cargo.toml"))?;
        let dependencies = manifest.get("dependencies").and_then(toml::Value::as_table);
        for dependency in dependencies.into_iter().flat_map(|table| table.keys()) {
            checked += 1;
            if members.contains(&dependency.as_str()) && !allowed.contains(&dependency.as_str()) {
                breaches.push(format!("{name} must not depend on {dependency}"));
            }
        }
    }
    Ok(Finding { checked, what: "dependencies", breaches })
}

/// Every outside dependency of the workspace has a comment behind it that says why.
pub(crate) fn reasons(_: &[Source]) -> anyhow::Result<Finding> {
    let text = fs::read_to_string(root().join("Cargo.toml")).context("cannot read Cargo.toml")?;
    let section =
        text.split("[workspace.dependencies]").nth(1).context("there is no [workspace.dependencies]")?;
    let lines = section.lines().take_while(|line| !line.starts_with('['));
    let outside: Vec<&str> = lines.filter(|line| line.contains(" = ") && !line.contains("path = ")).collect();
    let breaches = outside
        .iter()
        .filter(|line| !line.contains(" # "))
        .map(|line| format!("no reason: {line}"))
        .collect();
    Ok(Finding { checked: outside.len(), what: "dependencies", breaches })
}

fn manifest(path: &str) -> anyhow::Result<toml::Value> {
    let text = fs::read_to_string(root().join(path)).with_context(|| format!("cannot read {path}"))?;
    toml::from_str(&text).with_context(|| format!("{path} is not TOML"))
}
