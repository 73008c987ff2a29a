//! Lengths of functions, from the layout that rustfmt gives them.

use super::Finding;
use super::sources::Source;

/// No function is longer, in lines.
const HARD_LIMIT: usize = 70;
/// Almost all functions are at most so long.
const USUAL_LIMIT: usize = 40;
/// How many are.
const USUAL_SHARE: f64 = 0.94;

struct Function<'a> {
    path: &'a str,
    line: usize,
    length: usize,
}

/// At most [`HARD_LIMIT`] lines each, and [`USUAL_SHARE`] of them at most [`USUAL_LIMIT`].
pub(crate) fn lengths(sources: &[Source]) -> anyhow::Result<Finding> {
    let code = sources.iter().filter(|source| !source.is_test());
    let functions: Vec<Function> = code.flat_map(functions_of).collect();
    let mut breaches: Vec<String> = functions
        .iter()
        .filter(|function| function.length > HARD_LIMIT)
        .map(|function| {
            format!("{}:{}: {} lines, at most {HARD_LIMIT}", function.path, function.line, function.length)
        })
        .collect();
    let usual = functions.iter().filter(|function| function.length <= USUAL_LIMIT).count();
    let share = usual as f64 / functions.len().max(1) as f64;
    if share < USUAL_SHARE {
        breaches.push(format!("{:.1} % of functions have at most {USUAL_LIMIT} lines", share * 100.0));
    }
    Ok(Finding { checked: functions.len(), what: "functions", breaches })
}

/// Functions from their first line to the brace in the same column.
fn functions_of(source: &Source) -> Vec<Function<'_>> {
    let lines: Vec<&str> = source.code().map(|(_, line)| line).collect();
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let Some(indent) = function_indent(line) else { continue };
        let closing = format!("{}}}", " ".repeat(indent));
        let Some(length) = lines[start..].iter().position(|later| **later == closing) else { continue };
        found.push(Function { path: &source.path, line: start + 1, length: length + 1 });
    }
    found
}

/// The indent of a line that begins a function with a body on the lines after it.
fn function_indent(line: &str) -> Option<usize> {
    let text = line.trim_start();
    let words = text.split_whitespace().take_while(|word| !word.contains('(') || word.starts_with("pub("));
    let is_function = words.clone().any(|word| word == "fn") || text.starts_with("fn ");
    let one_line = text.ends_with('}') || text.ends_with(';');
    (is_function && !one_line && !text.starts_with("//")).then_some(line.len() - text.len())
}
