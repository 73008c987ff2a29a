//! The check on the stages of `analyse`: each names earlier ones alone.

use super::Finding;
use super::sources::Source;

/// The crate.
const SOURCES: &str = "crates/analyse/src/";
/// Its stages in their order. What stands beside them is built on all, and no stage names it.
const STAGES: [&str; 6] = ["facts", "gates", "verdicts", "attribution", "limits", "next"];

/// No file of a stage names a later stage, what is built on all of them, or anything by the crate's own re-exports.
pub(crate) fn order(sources: &[Source]) -> anyhow::Result<Finding> {
    let (mut checked, mut breaches) = (0, Vec::new());
    for source in sources.iter().filter(|source| !source.is_test()) {
        let Some(module) = source.path.strip_prefix(SOURCES).and_then(|path| path.strip_suffix(".rs")) else {
            continue;
        };
        let module: Vec<&str> = module.split('/').collect();
        let Some(own) = place(module[0]) else { continue };
        for named in roots(&code(source), module.len()) {
            checked += 1;
            if place(&named).is_none_or(|other| other > own) {
                breaches.push(format!("{}: stage '{}' must not name crate::{named}", source.path, module[0]));
            }
        }
    }
    Ok(Finding { checked, what: "edges", breaches })
}

fn place(name: &str) -> Option<usize> {
    STAGES.iter().position(|stage| *stage == name)
}

/// A file without comments and without its tests.
fn code(source: &Source) -> String {
    let plain = |line: &str| line.split("//").next().unwrap_or("").to_owned();
    source.code().map(|(_, line)| plain(line) + "\n").collect()
}

/// The modules at the root of the crate that `code` names from a module so many steps below it, by `crate::` or by as many
/// `super::`.
fn roots(code: &str, depth: usize) -> Vec<String> {
    let up = "super::".repeat(depth);
    // Of a longer way up the tail would fit too; there is none, as it would leave the crate.
    let after = ["crate::", &up].into_iter().flat_map(|way| code.split(way).skip(1));
    after.flat_map(first_names).collect()
}

/// The first name of a path, or of each path in braces.
fn first_names(path: &str) -> Vec<String> {
    let name = |text: &str| -> String {
        text.trim_start().chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect()
    };
    let Some(list) = path.strip_prefix('{') else { return vec![name(path)] };
    let (mut open, mut names, mut begin) = (0_usize, Vec::new(), 0);
    for (at, letter) in list.char_indices() {
        match letter {
            '}' if open == 0 => {
                names.push(name(&list[begin..at]));
                break;
            }
            ',' if open == 0 => {
                names.push(name(&list[begin..at]));
                begin = at + 1;
            }
            '{' => open += 1,
            '}' => open -= 1,
            _ => {}
        }
    }
    // A comma may stand behind the last.
    names.retain(|name| !name.is_empty());
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> (usize, usize) {
        let source = Source { path: format!("{SOURCES}{path}"), text: text.to_owned() };
        let finding = order(&[source]).unwrap();
        (finding.checked, finding.breaches.len())
    }

    #[test]
    fn a_stage_that_names_a_later_one_is_a_breach() {
        let paths = [
            ("facts/sheet.rs", "use crate::gates::Gate;", (1, 1)),
            ("gates.rs", "use crate::facts::{Sheet, busy::FULL};", (1, 0)),
            ("gates.rs", "use crate::{facts::{a, b}, gates, verdicts::Verdict,};", (3, 1)),
            ("verdicts/bound.rs", "fn f() { super::super::next::next() }", (1, 1)),
            ("verdicts/bound.rs", "use super::compare::all;", (0, 0)),
            ("limits.rs", "use super::attribution::Attribution;\nuse super::next;", (2, 1)),
            ("attribution/why/waits.rs", "let ns = super::counts::switching(pair);", (0, 0)),
            ("attribution/why/waits.rs", "use super::super::super::limits;", (1, 1)),
            // By a re-export a later stage would be named unseen.
            ("facts/sheet.rs", "use crate::Verdict;", (1, 1)),
            ("facts/sheet.rs", "// crate::gates\n#[cfg(test)]\nuse crate::gates;", (0, 0)),
            ("ladder.rs", "use crate::next;", (0, 0)),
        ];
        for (path, text, expected) in paths {
            assert_eq!(found(path, text), expected, "{path}: {text}");
        }
    }
}
