//! The check on the rooms of the map: every source file stands in a row of it.

use std::collections::BTreeSet;
use std::fs;

use anyhow::Context;

use super::Finding;
use super::sources::Source;
use super::words::{MAP, code_spans};
use crate::shell::root;

/// The heading under which the table of rooms stands.
const HEADING: &str = "## Rooms";
/// Files that say what a room is for, and those of tests: a row has what is in the room.
const NOT_LISTED: [&str; 4] = ["lib", "main", "mod", "tests"];
/// Folders below which every source file has its place in a row.
const FOLDERS: [&str; 2] = ["crates/", "straightline/"];
/// What no newcomer changes to change the product.
const LEFT_OUT: &str = "crates/testkit/";

/// Every source file of the product is named in the row of its folder.
pub(crate) fn listed(sources: &[Source]) -> anyhow::Result<Finding> {
    let text = fs::read_to_string(root().join(MAP)).with_context(|| format!("cannot read {MAP}"))?;
    let rooms = text.split(HEADING).nth(1).with_context(|| format!("{MAP} has no '{HEADING}'"))?;
    let named: BTreeSet<String> = rooms.lines().flat_map(named_in).collect();
    let opens_a_folder = |file: &str| sources.iter().any(|source| source.path.contains(&format!("{file}/")));
    let files: Vec<&str> = sources
        .iter()
        .filter_map(|source| room_file(&source.path))
        .filter(|file| !opens_a_folder(file))
        .collect();
    let missing = files.iter().filter(|file| !named.contains(**file));
    let breaches = missing.map(|file| format!("{MAP}: no room has {file}.rs")).collect();
    Ok(Finding { checked: files.len(), what: "source files", breaches })
}

/// The path of a file that must be named, from the crate's folder on and without its ending.
fn room_file(path: &str) -> Option<&str> {
    let stem = path.strip_suffix(".rs")?;
    let inside = FOLDERS.iter().any(|folder| path.starts_with(folder)) && !path.starts_with(LEFT_OUT);
    let name = stem.rsplit('/').next()?;
    (inside && path.contains("/src/") && !NOT_LISTED.contains(&name))
        .then(|| stem.strip_prefix("crates/").unwrap_or(stem))
}

/// Every path that a row can mean: a name is looked for in the row's first folder and in the one above it.
fn named_in(row: &str) -> Vec<String> {
    let mut cells = row.split('|').skip(1);
    let (Some(room), Some(files)) = (cells.next(), cells.next()) else { return Vec::new() };
    let Some(folder) = code_spans(room).next().map(|span| span.trim_end_matches('/')) else {
        return Vec::new();
    };
    let above = folder.rsplit_once('/').map_or(folder, |(above, _)| above);
    code_spans(files).flat_map(|name| [format!("{folder}/{name}"), format!("{above}/{name}")]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_names_files_of_its_folders() {
        let row = "| `load/src/summary`, `tls` | `summary/report` (what), `tls/explain` |";
        let named = named_in(row);
        assert!(named.contains(&"load/src/summary/report".to_owned()), "{named:?}");
        assert!(named.contains(&"load/src/tls/explain".to_owned()), "{named:?}");
    }

    #[test]
    fn files_of_tests_and_those_that_open_a_room_are_not_listed() {
        assert_eq!(room_file("crates/load/src/session/ring.rs"), Some("load/src/session/ring"));
        assert_eq!(room_file("straightline/http1/src/field.rs"), Some("straightline/http1/src/field"));
        for path in
            ["crates/load/src/session/mod.rs", "crates/load/tests/it/main.rs", "crates/testkit/src/plan.rs"]
        {
            assert_eq!(room_file(path), None, "{path}");
        }
    }
}
