//! Lines of `[WEIGHT] [METHOD] PATH`.

use super::words::words;
use super::{Contents, Entry, Given, NamedRequest, Refusal, Request, refuse, split_url, weight};

/// Whether a line looks like one of a list.
pub(super) fn is_line(line: &str) -> bool {
    let words = words(line);
    let Some(last) = words.last() else { return false };
    let method = |word: &&str| word.bytes().all(|byte| byte.is_ascii_uppercase());
    let addressed = last.starts_with('/') || *last == "*" || last.contains("://");
    addressed || (words.len() == 2 && words.first().is_some_and(method))
}

/// A line without method is the pattern with another path; one with a method has the pattern's fields, and its body if
/// the method is POST, PUT or PATCH. Blank lines and those that begin with `#` are passed over.
pub(super) fn read(given: &Given<'_>) -> Result<Contents, Refusal> {
    let mut contents = Contents::default();
    for (index, line) in given.text.lines().enumerate() {
        let line = line.trim();
        if !line.is_empty() && !line.starts_with('#') {
            let entry = entry(index + 1, line, given.pattern);
            contents.entries.push(entry.map_err(|why| Refusal { line: index + 1, why })?);
        }
    }
    if contents.entries.is_empty() { refuse(0, "it has no request") } else { Ok(contents) }
}

fn entry(number: usize, line: &str, pattern: &Request) -> Result<Entry, String> {
    let mut words = words(line);
    let share = match words.first().filter(|word| word.parse::<f64>().is_ok()) {
        Some(_) => weight(words.remove(0))?,
        None => 1.0,
    };
    let (method, url) = match words[..] {
        [url] => (pattern.method.as_str(), url),
        [method, url] => (method, url),
        _ => {
            return Err("it is not '[WEIGHT] [METHOD] PATH' (the log of a server is for --replay)".to_owned());
        }
    };
    let (host, target) = split_url(url)?;
    let carries = method == pattern.method || matches!(method, "POST" | "PUT" | "PATCH");
    let request = Request {
        method: method.to_owned(),
        target: Some(target),
        fields: pattern.fields.clone(),
        body: if carries { pattern.body.clone() } else { Vec::new() },
    };
    let named = NamedRequest { name: String::new(), weight: share, request, expected_status: None };
    Ok(Entry { line: number, host, named })
}
