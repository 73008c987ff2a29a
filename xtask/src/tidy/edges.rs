//! Checks on what depends on what.

use std::fs;

use anyhow::Context;

use super::Finding;
use super::sources::Source;
use crate::shell::root;

/// The name, the folder, and what each crate may depend on within the workspace: the table of ARCHITECTURE.md.
const ALLOWED: [(&str, &str, &[&str]); 14] = [
    ("model", "crates/model", &[]),
    ("stats", "crates/stats", &[]),
    ("launch", "crates/launch", &["model", "http1"]),
    ("load", "crates/load", &["model", "stats", "http1", "http2"]),
    ("observe", "crates/observe", &["model"]),
    ("analyse", "crates/analyse", &["model", "stats"]),
    ("report", "crates/report", &["model", "analyse"]),
    ("script", "crates/script", &["http1"]),
    ("serve", "crates/serve", &["http1", "straightline"]),
    ("testkit", "crates/testkit", &["model"]),
    ("http1", "straightline/http1", &[]),
    ("http2", "straightline/http2", &[]),
    ("straightline", "straightline/server", &["http1", "http2"]),
    (
        "whyslow",
        "crates/whyslow",
        &[
            "model",
            "launch",
            "load",
            "observe",
            "stats",
            "analyse",
            "report",
            "http1",
            "script",
            "serve",
            "straightline",
        ],
    ),
];

/// Edges within the workspace, outside tests, are those of [`ALLOWED`].
pub(crate) fn dependencies(_: &[Source]) -> anyhow::Result<Finding> {
    let members: Vec<&str> = ALLOWED.iter().map(|(name, ..)| *name).collect();
    let (mut checked, mut breaches) = (0, Vec::new());
    for (name, folder, allowed) in ALLOWED {
        let manifest = manifest(&format!("{folder}/Cargo.toml"))?;
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
