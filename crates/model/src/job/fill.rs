//! What fills `{placeholders}` of requests, and which braces are any.
//!
//! A word in single braces is a placeholder if it is a column of the data, or `n`, `uuid` or `random LOW HIGH`. Every other
//! brace is itself, so that JSON stays as it is. The same word in double braces is that word in single braces. With
//! data, every word in braces must be known, so that no misspelt column goes out as it stands.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::Request;
use super::read::ReadError;
use crate::plan::SplitMix64;

/// Cells of a table at most: they are held in memory.
const MAX_CELLS: usize = 10_000_000;
/// Longest placeholder in bytes: `random` with two numbers of 64 bits.
const LONGEST_BYTES: usize = 64;

/// A table whose row k, from 0 and over again, fills the request of arrival k.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Data {
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Rows of one cell for each column; at least one row.
    pub rows: Vec<Vec<String>>,
    /// Names of values that answers give: placeholders of a scenario.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taken: Vec<String>,
    /// Words that were filled before: places of services.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<String>,
}

impl Data {
    /// Reads CSV with a header line. Source: RFC 4180.
    ///
    /// # Errors
    /// [`ReadError`] with the line.
    pub fn csv(file: &str, text: &str) -> Result<Self, ReadError> {
        let wrong = |line: u64, why: String| ReadError { file: file.to_owned(), line: line as usize, why };
        if let Some(line) = unclosed(text) {
            return Err(wrong(line, "a quote opens there and is not closed".to_owned()));
        }
        let mut reader = csv::ReaderBuilder::new()
            .flexible(true)
            .from_reader(text.trim_start_matches('\u{feff}').as_bytes());
        let line = |position: Option<&csv::Position>| position.map_or(0, csv::Position::line);
        let header = reader.headers().map_err(|error| wrong(line(error.position()), error.to_string()))?;
        let columns: Vec<String> = header.iter().map(|name| name.trim().to_owned()).collect();
        if let Some(name) = columns.iter().find(|name| !is_word(name)) {
            return Err(wrong(
                1,
                format!("'{name}' is no name of a column: write letters, digits, '-', '_' and '.'"),
            ));
        }
        let twice = |(nth, name): &(usize, &String)| columns[..*nth].contains(name);
        if let Some((_, name)) = columns.iter().enumerate().find(twice) {
            return Err(wrong(1, format!("two columns are called '{name}': give each its own name")));
        }
        let mut rows = Vec::new();
        for record in reader.records() {
            let record = record.map_err(|error| wrong(line(error.position()), error.to_string()))?;
            if record.len() != columns.len() {
                let why = format!("it has {} cells, and the header has {}", record.len(), columns.len());
                return Err(wrong(line(record.position()), why));
            }
            rows.push(record.iter().map(str::to_owned).collect());
            if rows.len() * columns.len() > MAX_CELLS {
                return Err(wrong(
                    line(record.position()),
                    format!("there are more than {MAX_CELLS} cells: give fewer"),
                ));
            }
        }
        if rows.is_empty() {
            return Err(wrong(0, "it has no row below its header".to_owned()));
        }
        Ok(Self { columns, rows, taken: Vec::new(), beside: Vec::new() })
    }
}

/// The line of a quote that is not closed. Source: RFC 4180, section 2.
fn unclosed(text: &str) -> Option<u64> {
    let (mut line, mut opened, mut begins) = (1, None, true);
    for byte in text.bytes() {
        line += u64::from(byte == b'\n');
        match (byte, opened) {
            (b'"', Some(_)) => opened = None,
            // Of a quote that is doubled the second opens again.
            (b'"', None) if begins => opened = Some(line),
            _ => {}
        }
        begins = opened.is_none() && matches!(byte, b',' | b'\n' | b'"');
    }
    opened
}

/// A part of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Always the same.
    Text(Vec<u8>),
    /// The cell of a column.
    Column(usize),
    /// A value that an answer gave.
    Taken(usize),
    /// The number of the request, from 0.
    Number,
    /// A random UUID (version 4).
    Uuid,
    /// A random whole number.
    Random {
        /// Least.
        low: u64,
        /// Greatest.
        high: u64,
    },
}

/// Which request is filled.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// Seed of all that is random.
    pub seed: u64,
    /// Number of the arrival.
    pub arrival: u64,
    /// Where columns come from.
    pub data: Option<&'a Data>,
    /// Values that answers gave, in the order of [`Data::taken`].
    pub taken: &'a [Vec<u8>],
}

impl Piece {
    /// Whether it is the same in every request.
    #[must_use]
    pub fn is_fixed(&self) -> bool {
        matches!(self, Self::Text(_))
    }

    /// Adds its value to `out`; `nth` tells the pieces of one request apart.
    pub fn write(&self, place: &Place<'_>, nth: u64, out: &mut Vec<u8>) {
        let random = || SplitMix64::fork(place.seed ^ nth.rotate_left(32), "placeholder", place.arrival);
        match self {
            Self::Text(text) => out.extend_from_slice(text),
            Self::Column(column) => out.extend_from_slice(place.cell(*column).as_bytes()),
            Self::Taken(value) => out.extend_from_slice(place.taken.get(*value).map_or(&[], Vec::as_slice)),
            Self::Number => decimal(place.arrival, out),
            Self::Uuid => uuid(&mut random(), out),
            Self::Random { low, high } => {
                let drawn = match (high - low).checked_add(1) {
                    Some(count) => low + random().below(count),
                    None => random().next_u64(),
                };
                decimal(drawn, out);
            }
        }
    }
}

impl<'a> Place<'a> {
    fn cell(&self, column: usize) -> &'a str {
        let row = |data: &'a Data| data.rows.get((self.arrival % data.rows.len().max(1) as u64) as usize);
        self.data.and_then(row).and_then(|row| row.get(column)).map_or("", String::as_str)
    }
}

/// A number in decimal digits, without a detour over a string.
pub fn decimal(mut number: u64, out: &mut Vec<u8>) {
    /// Digits of the largest.
    const DIGITS: usize = 20;
    let (mut digits, mut at) = ([0_u8; DIGITS], DIGITS);
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return out.extend_from_slice(&digits[at..]);
        }
    }
}

/// Source: RFC 9562, section 5.4.
fn uuid(random: &mut SplitMix64, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let bits = (u128::from(random.next_u64()) << 64) | u128::from(random.next_u64());
    let mut bytes = bits.to_be_bytes();
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    for (index, byte) in bytes.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            out.push(b'-');
        }
        out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
    }
}

pub(super) fn is_word(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

/// What `{name}` stands for, if anything.
fn piece_named(name: &str, data: Option<&Data>) -> Option<Piece> {
    let column = data.and_then(|data| data.columns.iter().position(|column| column == name));
    let taken = data.and_then(|data| data.taken.iter().position(|value| value == name));
    let words: Vec<&str> = name.split(' ').collect();
    match words[..] {
        _ if column.is_some() => column.map(Piece::Column),
        _ if taken.is_some() => taken.map(Piece::Taken),
        ["n"] => Some(Piece::Number),
        ["uuid"] => Some(Piece::Uuid),
        ["random", low, high] => {
            let (low, high) = (low.parse().ok()?, high.parse().ok()?);
            (low <= high).then_some(Piece::Random { low, high })
        }
        _ => None,
    }
}

/// Whether `{name}` is filled.
#[must_use]
pub fn is_placeholder(name: &str, data: Option<&Data>) -> bool {
    piece_named(name, data).is_some()
}

/// The word in braces that `text` begins with, behind its opening brace.
fn braced(text: &[u8]) -> Option<&str> {
    let end = text.iter().take(LONGEST_BYTES).position(|byte| *byte == b'}')?;
    std::str::from_utf8(&text[..end]).ok()
}

/// The parts of `text`.
///
/// # Errors
/// With data, a word in braces that is not known.
pub fn pieces(text: &[u8], data: Option<&Data>) -> Result<Vec<Piece>, String> {
    let (mut pieces, mut fixed, mut at) = (Vec::new(), Vec::new(), 0);
    let matters = |name: &str| is_placeholder(name, data) || (data.is_some() && is_word(name));
    while at < text.len() {
        let rest = &text[at..];
        if let Some(name) = rest.strip_prefix(b"{{").and_then(braced)
            && rest.get(name.len() + 3) == Some(&b'}')
            && matters(name)
        {
            fixed.extend_from_slice(&rest[1..name.len() + 3]);
            at += name.len() + 4;
        } else if let Some(name) = rest.strip_prefix(b"{").and_then(braced).filter(|name| matters(name)) {
            let filled_before = data.is_some_and(|data| data.beside.iter().any(|word| word == name));
            let piece =
                piece_named(name, data).or(filled_before.then(|| Piece::Text(format!("{{{name}}}").into())));
            let Some(piece) = piece else { return Err(unknown(name, data)) };
            if !fixed.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut fixed)));
            }
            pieces.push(piece);
            at += name.len() + 2;
        } else {
            fixed.push(rest[0]);
            at += 1;
        }
    }
    if !fixed.is_empty() {
        pieces.push(Piece::Text(fixed));
    }
    Ok(pieces)
}

fn unknown(name: &str, data: Option<&Data>) -> String {
    let names = |names: &[String]| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let columns = data.map_or_else(String::new, |data| names(&data.columns));
    let taken = data.filter(|data| !data.taken.is_empty());
    let values = taken
        .map_or_else(String::new, |data| format!(" and no value that a step takes ({})", names(&data.taken)));
    format!(
        "{{{name}}} is no column of the data (it has {columns}){values}: write {{{{{name}}}}} for the word in braces"
    )
}

/// Whether a request can be sent, whatever fills it.
///
/// # Errors
/// What is wrong with it.
pub fn check(request: &Request, data: Option<&Data>) -> Result<(), String> {
    let token = |text: &str| {
        !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic() && !b"()<>@,;:\\\"/[]?={}".contains(&b))
    };
    if !token(&request.method) {
        return Err("its method is not a word such as GET".to_owned());
    }
    let target = request.target.as_deref().unwrap_or("/");
    let mut parts = pieces(target.as_bytes(), data)?.into_iter();
    let plain = |piece: Piece| match piece {
        Piece::Text(text) => text.iter().all(u8::is_ascii_graphic),
        _ => true,
    };
    if target.is_empty() || !parts.all(plain) {
        return Err("its path is empty or has a character that must be percent-encoded".to_owned());
    }
    for (name, value) in &request.fields {
        if !token(name) || value.bytes().any(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
            // What follows its first word may be a secret whose name was forgotten.
            let other = |c: char| !c.is_ascii_alphanumeric() && c != '-';
            let name = name.split(other).next().unwrap_or_default();
            return Err(format!("the field '{name}' is not 'Name: value' on one line"));
        }
        one_line(name, &pieces(value.as_bytes(), data)?, data)?;
    }
    pieces(&request.body, data).map(drop)
}

/// Whether what fills a field stays on one line.
fn one_line(name: &str, pieces: &[Piece], data: Option<&Data>) -> Result<(), String> {
    let Some(data) = data else { return Ok(()) };
    for column in
        pieces.iter().filter_map(|piece| if let Piece::Column(column) = piece { Some(*column) } else { None })
    {
        let broken = |row: &Vec<String>| row[column].bytes().any(|byte| matches!(byte, b'\r' | b'\n' | 0));
        if let Some(row) = data.rows.iter().position(broken) {
            return Err(format!(
                "the field {name} is filled by column {}, which has a line break in row {}",
                data.columns[column],
                row + 1
            ));
        }
    }
    Ok(())
}

/// `value` as a whole target: what must not stand there is percent-encoded, `/`, `?`, `&`, `=` and `%` stay.
#[must_use]
pub fn in_target(value: &[u8]) -> Cow<'_, [u8]> {
    encoded(value, |byte| byte.is_ascii_graphic() && !b"\"#<>\\^`{|}".contains(byte))
}

/// `value` as a part of a target: all but letters, digits, `-`, `.`, `_` and `~` is percent-encoded, so that it stays one part.
///
/// Source: RFC 3986, section 2.3.
#[must_use]
pub fn in_part(value: &[u8]) -> Cow<'_, [u8]> {
    encoded(value, |byte| byte.is_ascii_alphanumeric() || b"-._~".contains(byte))
}

/// The path and query that `value` is, for a server of this host and port: itself, or that of a URL of the same host.
#[must_use]
pub fn whole_path<'a>(value: &'a [u8], authority: &str) -> Option<&'a [u8]> {
    let end = value.iter().position(|byte| *byte == b'#').unwrap_or(value.len());
    let value = &value[..end];
    if value.starts_with(b"/") && !value.starts_with(b"//") {
        return Some(value);
    }
    let schemes: [(&[u8], &str); 3] = [(b"http://", ":80"), (b"https://", ":443"), (b"//", "")];
    let (rest, port) =
        schemes.into_iter().find_map(|(scheme, port)| Some((value.strip_prefix(scheme)?, port)))?;
    let end = rest.iter().position(|byte| b"/?".contains(byte)).unwrap_or(rest.len());
    let (host, path) = rest.split_at(end);
    let plain = |host: &str| host.strip_suffix(port).unwrap_or(host).to_ascii_lowercase();
    let same = std::str::from_utf8(host).is_ok_and(|host| plain(host) == plain(authority));
    let path = if path.is_empty() { b"/" } else { path };
    (same && path.starts_with(b"/")).then_some(path)
}

fn encoded(value: &[u8], stays: impl Fn(&u8) -> bool) -> Cow<'_, [u8]> {
    if value.iter().all(&stays) {
        return Cow::Borrowed(value);
    }
    let mut encoded = Vec::new();
    for byte in value {
        match stays(byte) {
            true => encoded.push(*byte),
            false => encoded.extend_from_slice(format!("%{byte:02X}").as_bytes()),
        }
    }
    Cow::Owned(encoded)
}
