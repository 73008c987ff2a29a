//! Requests from a file, whose content tells its format: a list, an `.http` file, a HAR, or `curl` commands.
//!
//! Nothing here opens a file: the text is an argument, and so is what reads the bodies that it names.

mod curl;
mod har;
mod http_file;
mod list;
mod words;

use super::fill::{Data, check};
use super::{NamedRequest, Request};

/// Requests of one file at most: they are all rendered in memory.
pub const MAX_REQUESTS: usize = 1_000_000;
/// Different names in one file at most: each has a histogram in each thread.
pub const MAX_NAMES: usize = 256;
/// Characters of a line's first word that a refusal shows.
const SHOWN: usize = 60;

/// Why a file cannot be used; one sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}{}: {why}", if *.line == 0 { String::new() } else { format!(":{line}") })]
pub struct ReadError {
    /// The file as it was named.
    pub file: String,
    /// The line, from 1; 0 for the whole.
    pub line: usize,
    /// What is wrong with it.
    pub why: String,
}

/// What a file is read with.
pub struct Given<'a> {
    /// The file as it was named.
    pub file: &'a str,
    /// What is in it.
    pub text: &'a str,
    /// What flags say of every request: lines of a list are this with another path; its fields are added to all, in the
    /// place of those of the same name.
    pub pattern: &'a Request,
    /// What fills placeholders.
    pub data: Option<&'a Data>,
    /// Reads a file that the text names, relative to it.
    pub attached: &'a dyn Fn(&str) -> Result<Vec<u8>, String>,
}

/// What was read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Read {
    /// The requests in the order of the file.
    pub requests: Vec<NamedRequest>,
    /// The host that all URLs of the file name. Requests go to the endpoint all the same, and name its host unless the file
    /// or a flag has a field `Host`.
    pub host: Option<String>,
    /// What was passed over; a sentence each.
    pub notes: Vec<String>,
}

/// One request as a format gives it.
#[derive(Debug)]
struct Entry {
    line: usize,
    /// The host of its URL.
    host: Option<String>,
    named: NamedRequest,
}

/// What a format gives.
#[derive(Debug, Default)]
struct Contents {
    entries: Vec<Entry>,
    notes: Vec<String>,
}

/// A refusal of one line.
#[derive(Debug)]
struct Refusal {
    line: usize,
    why: String,
}

fn refuse<T>(line: usize, why: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal { line, why: why.into() })
}

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    List,
    HttpFile,
    Har,
    Curl,
}

/// Reads the requests of a file.
///
/// # Errors
/// [`ReadError`] with the line.
pub fn read(given: &Given<'_>) -> Result<Read, ReadError> {
    let named =
        |refusal: Refusal| ReadError { file: given.file.to_owned(), line: refusal.line, why: refusal.why };
    read_any(given).map_err(named)
}

fn read_any(given: &Given<'_>) -> Result<Read, Refusal> {
    let format = format(given.text)?;
    let Contents { mut entries, mut notes } = match format {
        Format::List => list::read(given)?,
        Format::HttpFile => http_file::read(given)?,
        Format::Har => har::read(given)?,
        Format::Curl => curl::read(given)?,
    };
    if format != Format::List {
        bare_pattern(given.pattern)?;
        entries.iter_mut().for_each(|entry| replace_fields(&mut entry.named.request, &given.pattern.fields));
    }
    whole(&entries)?;
    let host = one_host(&entries)?;
    for entry in &entries {
        check(&entry.named.request, given.data).map_err(|why| Refusal { line: entry.line, why })?;
    }
    limit_names(format, &mut entries, &mut notes)?;
    Ok(Read { requests: entries.into_iter().map(|entry| entry.named).collect(), host, notes })
}

/// What `text` is, by its first lines.
fn format(text: &str) -> Result<Format, Refusal> {
    if text.trim_start_matches('\u{feff}').trim_start().starts_with('{') {
        return Ok(Format::Har);
    }
    let separated = text
        .lines()
        .any(|line| line.starts_with("###") || line.starts_with("< ") || http_file::is_variable(line));
    let mut counting = text
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line.trim()))
        .skip_while(|(_, line)| line.is_empty() || line.starts_with('#') || line.starts_with("//"));
    let Some((number, first)) = counting.next() else {
        return refuse(0, "it has no request");
    };
    if first.split_whitespace().next() == Some("curl") {
        return Ok(Format::Curl);
    }
    let fielded = counting.next().is_some_and(|(_, line)| http_file::is_field(line));
    if separated || fielded || http_file::is_request_line(first) {
        return Ok(Format::HttpFile);
    }
    if list::is_line(first) {
        return Ok(Format::List);
    }
    // One word: what follows it may be a secret.
    let shown: String = first.split([' ', '\t', ':']).next().unwrap_or(first).chars().take(SHOWN).collect();
    refuse(
        number,
        format!(
            "it is no list of '[WEIGHT] [METHOD] PATH', no .http file, no HAR and no curl command (the log of a server is for \
             --replay): its first line begins with '{shown}'"
        ),
    )
}

/// Method and body of flags belong to lists, whose lines have none of their own.
fn bare_pattern(pattern: &Request) -> Result<(), Refusal> {
    if pattern.method == "GET" && pattern.body.is_empty() {
        return Ok(());
    }
    refuse(0, "its requests have methods and bodies of their own: leave --method and --body out")
}

/// Puts `fields` in the place of those of the same name.
fn replace_fields(request: &mut Request, fields: &[(String, String)]) {
    request.fields.retain(|(name, _)| !fields.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)));
    request.fields.extend_from_slice(fields);
}

/// Whether anything would ever be drawn, and not too much is held.
fn whole(entries: &[Entry]) -> Result<(), Refusal> {
    if let Some(entry) = entries.get(MAX_REQUESTS) {
        return refuse(
            entry.line,
            format!("there are more than {MAX_REQUESTS} requests: give a part of them"),
        );
    }
    let sum: f64 = entries.iter().map(|entry| entry.named.weight).sum();
    if sum.is_finite() && sum > 0.0 { Ok(()) } else { refuse(0, "it has no request with a weight above 0") }
}

/// The one host that all URLs name.
fn one_host(entries: &[Entry]) -> Result<Option<String>, Refusal> {
    let mut first: Option<(&str, usize)> = None;
    for entry in entries {
        let Some(host) = entry.host.as_deref() else { continue };
        match first {
            None => first = Some((host, entry.line)),
            Some((other, _)) if other.eq_ignore_ascii_case(host) => {}
            Some((other, _)) => {
                return refuse(
                    entry.line,
                    format!(
                        "it is of another server ({host}) than those before it ({other}): one run drives one server"
                    ),
                );
            }
        }
    }
    Ok(first.map(|(host, _)| host.to_owned()))
}

/// Rows cost memory: names that a user gave are refused beyond the limit, those made of paths are dropped.
fn limit_names(format: Format, entries: &mut [Entry], notes: &mut Vec<String>) -> Result<(), Refusal> {
    let mut names = std::collections::BTreeSet::new();
    for entry in entries.iter() {
        names.insert(entry.named.name.as_str());
        if names.len() <= MAX_NAMES {
            continue;
        }
        if format != Format::Har {
            return refuse(
                entry.line,
                format!("there are more than {MAX_NAMES} names: let requests share some"),
            );
        }
        notes.push(format!("the requests have more than {MAX_NAMES} different paths, and so no row each"));
        entries.iter_mut().for_each(|entry| entry.named.name.clear());
        return Ok(());
    }
    Ok(())
}

/// Host and target of a URL or of a path.
fn split_url(url: &str) -> Result<(Option<String>, String), String> {
    if url.starts_with('/') || url == "*" || url.starts_with('{') {
        return Ok((None, url.to_owned()));
    }
    let Some((scheme, rest)) = url.split_once("://") else {
        return Err(format!("'{url}' is not a path: it must begin with '/'"));
    };
    if !matches!(scheme, "http" | "https") {
        return Err(format!("'{url}' is not of http or https"));
    }
    let rest = rest.split('#').next().unwrap_or_default();
    let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let host = authority.rsplit('@').next().unwrap_or_default();
    if host.is_empty() {
        return Err(format!("'{url}' has no host"));
    }
    let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
    Ok((Some(host.to_owned()), target))
}

/// The weight that a comment such as `# @weight 3` gives.
fn weight(text: &str) -> Result<f64, String> {
    let weight = text.trim().parse::<f64>().ok().filter(|weight| weight.is_finite() && *weight >= 0.0);
    weight.ok_or_else(|| "its weight is not a number from 0 on".to_owned())
}

/// What comments say of the request that follows them.
#[derive(Debug, Clone, Default)]
struct Annotations {
    name: String,
    weight: Option<f64>,
    /// The only status that is right for it.
    status: Option<u16>,
}

/// A status of HTTP. Source: RFC 9110, section 15.
fn status(text: &str) -> Result<u16, String> {
    let status = text.trim().parse().ok().filter(|status| (100..=599).contains(status));
    status.ok_or_else(|| format!("'{text}' is no status: write a number from 100 to 599"))
}

impl Annotations {
    /// The request with its annotations. One with a status of its own has a row of its own, too.
    fn named(self, request: Request) -> NamedRequest {
        let whole = || format!("{} {}", request.method, request.target.as_deref().unwrap_or("/"));
        let name = match self.status {
            Some(_) if self.name.is_empty() => whole(),
            _ => self.name,
        };
        let weight = self.weight.unwrap_or(1.0);
        NamedRequest { name, weight, expected_status: self.status, request }
    }

    /// Takes in a line; `false` where it is no comment.
    fn read_comment(&mut self, line: &str) -> Result<bool, String> {
        let Some(comment) = line.strip_prefix('#').or_else(|| line.strip_prefix("//")) else {
            return Ok(false);
        };
        let comment = comment.trim();
        if let Some(name) = comment.strip_prefix("@name").filter(|rest| rest.starts_with([' ', '=', '\t'])) {
            name.trim_start_matches([' ', '=', '\t']).trim().clone_into(&mut self.name);
        } else if let Some(text) = comment.strip_prefix("@weight") {
            self.weight = Some(weight(text.trim_start_matches([' ', '=', '\t']))?);
        } else if let Some(text) = comment.strip_prefix("@status") {
            self.status = Some(status(text.trim_start_matches([' ', '=', '\t']))?);
        }
        Ok(true)
    }
}
