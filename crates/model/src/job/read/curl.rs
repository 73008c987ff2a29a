//! `curl` commands, as a browser's *Copy as cURL* gives them.
//!
//! Source: curl(1), version 8.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::words::{Token, shell};
use super::{Annotations, Contents, Entry, Given, Refusal, Request, refuse, split_url};

/// Options without a value that say nothing of what is asked.
const QUIET: [&str; 17] = [
    "-s",
    "-S",
    "-v",
    "-i",
    "-f",
    "-g",
    "-#",
    "-N",
    "--silent",
    "--show-error",
    "--verbose",
    "--include",
    "--fail",
    "--http1.1",
    "--http2",
    "--globoff",
    "--no-buffer",
];
/// Options with a value that say nothing of it either.
const QUIET_VALUES: [&str; 8] =
    ["-o", "--output", "-m", "--max-time", "--connect-timeout", "-w", "--write-out", "--retry"];
/// Options that are passed over with a note, and why.
const NOTED: [(&str, &str); 4] = [
    ("-k", "give --insecure to whyslow"),
    ("--insecure", "give --insecure to whyslow"),
    ("-L", "redirections are not followed"),
    ("--location", "redirections are not followed"),
];
/// What `--compressed` asks for.
const COMPRESSED: &str = "deflate, gzip, br, zstd";
/// What a body is without a field that says it. Source: curl(1), `--data`.
const FORM: &str = "application/x-www-form-urlencoded";

pub(super) fn read(given: &Given<'_>) -> Result<Contents, Refusal> {
    let tokens =
        shell(given.text).or_else(|line| refuse(line, "a quote that begins here is never closed"))?;
    let (mut contents, mut annotations, mut words) =
        (Contents::default(), Annotations::default(), Vec::new());
    let end = (0, Token::End);
    for (line, token) in tokens.into_iter().chain([end]) {
        match token {
            Token::Word(word) => words.push((line, word)),
            Token::Comment(text) => {
                annotations.read_comment(&format!("#{text}")).map_err(|why| Refusal { line, why })?;
            }
            Token::End if words.is_empty() => {}
            Token::End => {
                let command = Command::read(&std::mem::take(&mut words), given, &mut contents.notes)?;
                contents.entries.push(command.entry(std::mem::take(&mut annotations))?);
            }
        }
    }
    if contents.entries.is_empty() { refuse(0, "it has no request") } else { Ok(contents) }
}

/// One command, option by option.
#[derive(Default)]
struct Command {
    line: usize,
    url: Option<String>,
    method: Option<String>,
    fields: Vec<(String, String)>,
    /// Fields that curl would send and that are to be left out.
    without: Vec<String>,
    body: Option<Vec<u8>>,
    json: bool,
    get: bool,
    head: bool,
    compressed: bool,
}

impl Command {
    fn read(words: &[(usize, String)], given: &Given<'_>, notes: &mut Vec<String>) -> Result<Self, Refusal> {
        let Some(((line, _), rest)) = words.split_first().filter(|((_, first), _)| first == "curl") else {
            return refuse(words[0].0, format!("'{}' is not a curl command", words[0].1));
        };
        let mut command = Self { line: *line, ..Self::default() };
        let mut options = rest.iter().flat_map(|(line, word)| split(*line, word)).peekable();
        while let Some((line, option)) = options.next() {
            let at = |why: String| Refusal { line, why };
            if let Some((_, why)) = NOTED.iter().find(|(name, _)| *name == option) {
                notes.push(format!("{}:{line}: {option} is passed over: {why}", given.file));
            } else if !QUIET.contains(&option.as_str()) && !command.switch(&option) {
                if !option.starts_with('-') || option == "-" {
                    command.address(option).map_err(at)?;
                    continue;
                }
                let known = QUIET_VALUES.contains(&option.as_str()) || VALUES.contains(&option.as_str());
                if !known {
                    return refuse(line, format!("{option} of curl is not known here: leave it out"));
                }
                let Some((_, value)) = options.next() else {
                    return refuse(line, format!("{option} needs a value"));
                };
                command.value(&option, value, given).map_err(at)?;
            }
        }
        Ok(command)
    }

    /// Takes in an option without a value; `false` if it is none.
    fn switch(&mut self, option: &str) -> bool {
        match option {
            "-G" | "--get" => self.get = true,
            "-I" | "--head" => self.head = true,
            "--compressed" => self.compressed = true,
            _ => return false,
        }
        true
    }

    fn address(&mut self, url: String) -> Result<(), String> {
        match &self.url {
            None => self.url = Some(url),
            Some(first) => {
                return Err(format!("it has two URLs, '{first}' and '{url}': write a command for each"));
            }
        }
        Ok(())
    }

    fn value(&mut self, option: &str, value: String, given: &Given<'_>) -> Result<(), String> {
        match option {
            "-X" | "--request" => self.method = Some(value),
            "-H" | "--header" => self.field(&value)?,
            "-A" | "--user-agent" => self.fields.push(("User-Agent".to_owned(), value)),
            "-e" | "--referer" => self.fields.push(("Referer".to_owned(), value)),
            "-b" | "--cookie" if value.contains('=') => self.fields.push(("Cookie".to_owned(), value)),
            "-b" | "--cookie" => {
                return Err(format!("-b {value} is a file of cookies: write them, -b 'name=value'"));
            }
            "-u" | "--user" => {
                self.fields.push(("Authorization".to_owned(), format!("Basic {}", STANDARD.encode(value))));
            }
            "--url" => self.address(value)?,
            "-d" | "--data" | "--data-ascii" => self.data(stripped(attached(&value, given)?)),
            "--data-raw" => self.data(value.into_bytes()),
            "--data-binary" => self.data(attached(&value, given)?),
            "--data-urlencode" => self.data(encoded(&value)?),
            "--json" => {
                self.json = true;
                let more = attached(&value, given)?;
                self.body.get_or_insert_default().extend(more);
            }
            _ => {}
        }
        Ok(())
    }

    /// `Name: value`; `Name;` for an empty one; `Name:` for none.
    fn field(&mut self, text: &str) -> Result<(), String> {
        match (text.split_once(':'), text.strip_suffix(';')) {
            (Some((name, value)), _) if value.trim().is_empty() => self.without.push(name.trim().to_owned()),
            (Some((name, value)), _) if !name.starts_with('@') => {
                self.fields.push((name.trim().to_owned(), value.trim().to_owned()));
            }
            (None, Some(name)) => self.fields.push((name.trim().to_owned(), String::new())),
            _ => return Err("a header of -H has no colon: write -H 'Name: value'".to_owned()),
        }
        Ok(())
    }

    fn data(&mut self, more: Vec<u8>) {
        match &mut self.body {
            None => self.body = Some(more),
            Some(body) => {
                body.push(b'&');
                body.extend(more);
            }
        }
    }

    fn has(&self, wanted: &str) -> bool {
        self.fields
            .iter()
            .map(|(name, _)| name)
            .chain(&self.without)
            .any(|name| name.eq_ignore_ascii_case(wanted))
    }

    /// What curl adds by itself.
    fn complete(&mut self) {
        let kind = if self.json { "application/json" } else { FORM };
        let added = [
            ("Content-Type", kind, self.body.is_some() && !self.get),
            ("Accept", "application/json", self.json),
            ("Accept-Encoding", COMPRESSED, self.compressed),
        ];
        for (name, value, wanted) in added {
            if wanted && !self.has(name) {
                self.fields.push((name.to_owned(), value.to_owned()));
            }
        }
    }

    fn entry(mut self, annotations: Annotations) -> Result<Entry, Refusal> {
        self.complete();
        let Some(url) = self.url.take() else { return refuse(self.line, "it has no URL") };
        let url = if url.contains("://") || url.starts_with('/') { url } else { format!("http://{url}") };
        let (host, mut target) = split_url(&url).map_err(|why| Refusal { line: self.line, why })?;
        let mut body = self.body.take();
        if let Some(query) = body.take_if(|_| self.get) {
            target.push(if target.contains('?') { '&' } else { '?' });
            target.push_str(&String::from_utf8_lossy(&query));
        }
        let own = match (self.head, &body) {
            (true, _) => "HEAD",
            (false, Some(_)) => "POST",
            (false, None) => "GET",
        };
        let method = self.method.unwrap_or_else(|| own.to_owned());
        let request =
            Request { method, target: Some(target), fields: self.fields, body: body.unwrap_or_default() };
        Ok(Entry { line: self.line, host, named: annotations.named(request) })
    }
}

/// Options with a value that are heeded.
const VALUES: [&str; 20] = [
    "-X",
    "--request",
    "-H",
    "--header",
    "-A",
    "--user-agent",
    "-e",
    "--referer",
    "-b",
    "--cookie",
    "-u",
    "--user",
    "--url",
    "-d",
    "--data",
    "--data-ascii",
    "--data-raw",
    "--data-binary",
    "--data-urlencode",
    "--json",
];

/// Short options that stand together, apart: `-sSXPOST` is `-s -S -X POST`.
fn split(line: usize, word: &str) -> Vec<(usize, String)> {
    let letters = word.strip_prefix('-').filter(|rest| !rest.starts_with('-') && rest.chars().count() > 1);
    let Some(letters) = letters else { return vec![(line, word.to_owned())] };
    let mut options = Vec::new();
    for (at, letter) in letters.char_indices() {
        let option = format!("-{letter}");
        let valued = VALUES.contains(&option.as_str()) || QUIET_VALUES.contains(&option.as_str());
        options.push((line, option));
        let rest = &letters[at + letter.len_utf8()..];
        if valued && !rest.is_empty() {
            options.push((line, rest.to_owned()));
            break;
        }
    }
    options
}

/// A value, or the content of the file that `@FILE` names.
fn attached(value: &str, given: &Given<'_>) -> Result<Vec<u8>, String> {
    value.strip_prefix('@').map_or_else(|| Ok(value.as_bytes().to_vec()), |file| (given.attached)(file))
}

/// What `--data` leaves of a file.
fn stripped(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.retain(|byte| !matches!(byte, b'\r' | b'\n' | 0));
    bytes
}

/// `content`, `=content` or `name=content`, percent-encoded.
fn encoded(value: &str) -> Result<Vec<u8>, String> {
    let (name, content) = value.split_once('=').unwrap_or(("", value));
    if value.contains('@') && !value.contains('=') {
        return Err("--data-urlencode of a file is not known here: write its content".to_owned());
    }
    let mut text = if name.is_empty() { String::new() } else { format!("{name}=") };
    for byte in content.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                text.push(char::from(byte))
            }
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    Ok(text.into_bytes())
}
