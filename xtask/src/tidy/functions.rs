//! Lengths of functions, from the layout that rustfmt gives them.

use super::Finding;
use super::sources::Source;

/// No function is longer, in lines.
const LIMIT: usize = 70;

struct Function<'a> {
    path: &'a str,
    line: usize,
    length: usize,
}

/// At most [`LIMIT`] lines each.
pub(crate) fn lengths(sources: &[Source]) -> anyhow::Result<Finding> {
    let code = sources.iter().filter(|source| !source.is_test());
    let functions: Vec<Function> = code.flat_map(functions_of).collect();
    let too_long = functions.iter().filter(|function| function.length > LIMIT);
    let breaches = too_long
        .map(|Function { path, line, length }| format!("{path}:{line}: {length} lines, at most {LIMIT}"));
    Ok(Finding { checked: functions.len(), what: "functions", breaches: breaches.collect() })
}

/// Functions from their first line to the brace in the same column.
fn functions_of(source: &Source) -> Vec<Function<'_>> {
    let lines: Vec<&str> = source.code().map(|(_, line)| line).collect();
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let Some(indent) = function_indent(line) else { continue };
        // A declaration on several lines has no body.
        let end_of_head = lines[start..].iter().find(|line| line.ends_with(['{', ';']));
        if end_of_head.is_some_and(|line| line.ends_with(';')) {
            continue;
        }
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
