//! `.http` files as editors have them.
//!
//! Source: the syntax that VS Code's REST Client and JetBrains' HTTP Client share: `### name`, a request line, fields, a
//! blank line, a body; `# @name`, `@variable = value`, `{{variable}}`, `< ./file`.

use std::collections::BTreeMap;

use super::words::words;
use super::{Annotations, Contents, Entry, Given, Refusal, Request, refuse, split_url};
use crate::job::fill::is_placeholder;

/// Longest value of a variable in bytes: variables of variables could grow without bound.
const MAX_VALUE_BYTES: usize = 1 << 20;

/// Whether a line is `METHOD target HTTP/1.1`.
pub(super) fn is_request_line(line: &str) -> bool {
    words(line).last().is_some_and(|word| word.starts_with("HTTP/"))
}

/// Whether a line is `Name: value`.
pub(super) fn is_field(line: &str) -> bool {
    line.split_once(':').is_some_and(|(name, value)| is_token(name) && !value.starts_with("//"))
}

fn is_token(name: &str) -> bool {
    !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.!#$%&'*+^`|~".contains(&byte))
}

/// Whether a line is `@name = value`.
pub(super) fn is_variable(line: &str) -> bool {
    variable(line).is_some()
}

fn variable(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.strip_prefix('@')?.split_once('=')?;
    let name = name.trim();
    is_token(name).then_some((name, value.trim()))
}

type Line<'a> = (usize, &'a str);
type Fields = Vec<(String, String)>;

pub(super) fn read(given: &Given<'_>) -> Result<Contents, Refusal> {
    let mut file = File { given, variables: BTreeMap::new(), contents: Contents::default() };
    let mut block: Vec<Line<'_>> = Vec::new();
    let mut name = "";
    for (index, line) in given.text.lines().enumerate() {
        if let Some(rest) = line.strip_prefix("###") {
            file.block(name, &block)?;
            block.clear();
            name = rest.trim_matches(['#', ' ', '\t']);
        } else {
            block.push((index + 1, line));
        }
    }
    file.block(name, &block)?;
    if file.contents.entries.is_empty() { refuse(0, "it has no request") } else { Ok(file.contents) }
}

struct File<'a> {
    given: &'a Given<'a>,
    variables: BTreeMap<String, String>,
    contents: Contents,
}

impl File<'_> {
    /// What stands between two lines of `###`: at most one request.
    fn block(&mut self, name: &str, lines: &[Line<'_>]) -> Result<(), Refusal> {
        let mut annotations = Annotations { name: name.to_owned(), ..Annotations::default() };
        let mut rest = lines;
        while let Some(((number, line), after)) = rest.split_first() {
            let text = line.trim();
            if let Some((name, value)) = variable(text) {
                let value = self.resolve(*number, value)?;
                self.variables.insert(name.to_owned(), value);
            } else if !text.is_empty()
                && !annotations.read_comment(text).map_err(|why| Refusal { line: *number, why })?
            {
                return self.request(*number, text, annotations, after);
            }
            rest = after;
        }
        Ok(())
    }

    fn request(
        &mut self,
        number: usize,
        line: &str,
        mut annotations: Annotations,
        rest: &[Line<'_>],
    ) -> Result<(), Refusal> {
        let at = |why: String| Refusal { line: number, why };
        let (more, rest) = query(rest);
        let line = self.resolve(number, &format!("{line}{more}"))?;
        let mut words = words(&line);
        if words.last().is_some_and(|word| word.starts_with("HTTP/")) {
            words.pop();
        }
        let (method, url) = match words[..] {
            [url] => ("GET", url),
            [method, url] => (method, url),
            _ => return refuse(number, format!("'{line}' is not 'METHOD URL HTTP/1.1'")),
        };
        let (host, target) = split_url(url).map_err(at)?;
        let (fields, rest) = self.fields(rest, &mut annotations)?;
        let body = self.body(rest)?;
        let request = Request { method: method.to_owned(), target: Some(target), fields, body };
        let named = annotations.named(request);
        self.contents.entries.push(Entry { line: number, host, named });
        Ok(())
    }

    /// Fields up to a blank line, and what follows it.
    fn fields<'b, 'c>(
        &self,
        lines: &'b [Line<'c>],
        annotations: &mut Annotations,
    ) -> Result<(Fields, &'b [Line<'c>]), Refusal> {
        let mut fields = Vec::new();
        for (index, (number, line)) in lines.iter().enumerate() {
            let text = line.trim();
            if text.is_empty() {
                return Ok((fields, &lines[index + 1..]));
            }
            if annotations.read_comment(text).map_err(|why| Refusal { line: *number, why })? {
                continue;
            }
            let text = self.resolve(*number, text)?;
            let Some((name, value)) = text.split_once(':').filter(|(name, _)| is_token(name.trim())) else {
                // It may be a value whose name was forgotten.
                return refuse(*number, "it is not a field 'Name: value'");
            };
            fields.push((name.trim().to_owned(), value.trim().to_owned()));
        }
        Ok((fields, &[]))
    }

    /// The body: what follows up to the next request, or to what an editor does with the answer.
    fn body(&mut self, lines: &[Line<'_>]) -> Result<Vec<u8>, Refusal> {
        let handler = lines.iter().position(|(_, line)| line.starts_with("> ") || line.starts_with(">>"));
        if let Some((number, _)) = handler.map(|at| lines[at]) {
            let file = self.given.file;
            self.contents
                .notes
                .push(format!("{file}:{number}: what is done with answers ('>') is passed over"));
        }
        let lines = &lines[..handler.unwrap_or(lines.len())];
        let end = lines.iter().rposition(|(_, line)| !line.trim().is_empty()).map_or(0, |last| last + 1);
        let mut body = Vec::new();
        for (index, (number, line)) in lines[..end].iter().enumerate() {
            if index > 0 {
                body.push(b'\n');
            }
            self.body_line(*number, line, &mut body)?;
        }
        Ok(body)
    }

    fn body_line(&self, number: usize, line: &str, body: &mut Vec<u8>) -> Result<(), Refusal> {
        let named = line
            .strip_prefix("<@")
            .map(|name| (name, true))
            .or_else(|| Some((line.strip_prefix("< ")?, false)));
        let Some((name, filled)) = named else {
            body.extend_from_slice(self.resolve(number, line)?.as_bytes());
            return Ok(());
        };
        let name = self.resolve(number, name.trim())?;
        let bytes = (self.given.attached)(&name).map_err(|why| Refusal { line: number, why })?;
        match (filled, std::str::from_utf8(&bytes)) {
            (true, Ok(text)) => body.extend_from_slice(self.resolve(number, text)?.as_bytes()),
            (true, Err(_)) => return refuse(number, format!("{name} is not text: write '< {name}'")),
            (false, _) => body.extend_from_slice(&bytes),
        }
        Ok(())
    }

    /// `text` with its variables; one that is not of the file but can be filled later stays, in single braces.
    fn resolve(&self, line: usize, text: &str) -> Result<String, Refusal> {
        let (mut result, mut rest) = (String::new(), text);
        while let Some(begin) = rest.find("{{") {
            let Some(length) = rest[begin..].find("}}") else { break };
            let name = rest[begin + 2..begin + length].trim();
            result.push_str(&rest[..begin]);
            match (self.variables.get(name), later(name)) {
                (Some(value), _) => result.push_str(value),
                (None, name) if is_placeholder(&name, self.given.data) => {
                    result.push_str(&format!("{{{name}}}"))
                }
                // JSON within JSON ends and begins so.
                (None, _) if !is_token(name.trim_start_matches('$')) => {
                    result.push_str(&rest[begin..begin + 2]);
                    rest = &rest[begin + 2..];
                    continue;
                }
                (None, _) => {
                    return refuse(
                        line,
                        format!(
                            "{{{{{name}}}}} is not a variable of this file: write '@{name} = …' above it"
                        ),
                    );
                }
            }
            rest = &rest[begin + length + 2..];
            if result.len() > MAX_VALUE_BYTES {
                return refuse(line, "its variables make it longer than 1 MiB");
            }
        }
        result.push_str(rest);
        Ok(result)
    }
}

/// The placeholder that an editor's dynamic variable is.
fn later(name: &str) -> String {
    let numbers = name.strip_prefix("$randomInt").or_else(|| name.strip_prefix("$random.integer"));
    match (name, numbers) {
        ("$guid" | "$uuid" | "$random.uuid", _) => "uuid".to_owned(),
        (_, Some(range)) => {
            let range = range.replace(['(', ')', ','], " ");
            format!("random {}", range.split_whitespace().collect::<Vec<_>>().join(" "))
        }
        _ => name.to_owned(),
    }
}

/// A query that goes on in indented lines.
fn query<'a, 'b>(lines: &'a [Line<'b>]) -> (String, &'a [Line<'b>]) {
    let goes_on = |line: &str| line.starts_with([' ', '\t']) && line.trim_start().starts_with(['?', '&']);
    let count = lines.iter().take_while(|(_, line)| goes_on(line)).count();
    (lines[..count].iter().map(|(_, line)| line.trim()).collect(), &lines[count..])
}
