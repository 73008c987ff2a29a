//! Field lines, which both roles share, and what the framing fields among them say.

use crate::scan::{text_end, token_end};
use std::fmt;

/// Why a field line, or what the framing fields say together, is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldError {
    /// A line begins with a colon.
    EmptyName,
    /// A byte in a field name is not a token character, or the line has no colon.
    BadName,
    /// Blank space between the name and the colon.
    SpaceBeforeColon,
    /// A line begins with blank space, which once continued the line before it.
    Folded,
    /// A line feed without a carriage return before it.
    BareLf,
    /// A carriage return without a line feed after it.
    BareCr,
    /// NUL or another control character in a value.
    Control,
    /// A Content-Length that is not a plain decimal number below 2^63.
    ContentLengthInvalid,
    /// More than one Content-Length, on one line or several; in a response, several lines that do not agree.
    ContentLengthRepeated,
    /// Content-Length together with Transfer-Encoding.
    LengthAndEncoding,
    /// A Transfer-Encoding other than exactly `chunked`, once.
    TransferEncodingUnknown,
    /// A Transfer-Encoding in a message of HTTP/1.0, which has none.
    TransferEncodingOn10,
}

impl FieldError {
    const fn message(self) -> &'static str {
        match self {
            Self::EmptyName => "a field name is empty",
            Self::BadName => "a field name has a character that is not allowed, or no colon after it",
            Self::SpaceBeforeColon => "there is blank space before the colon of a field",
            Self::Folded => "a field is folded over several lines",
            Self::BareLf => "a line ends with a line feed alone",
            Self::BareCr => "a carriage return has no line feed after it",
            Self::Control => "a field value has a control character",
            Self::ContentLengthInvalid => "Content-Length is not a decimal number below 2^63",
            Self::ContentLengthRepeated => "Content-Length is given more than once",
            Self::LengthAndEncoding => "Content-Length and Transfer-Encoding are both given",
            Self::TransferEncodingUnknown => "Transfer-Encoding is not exactly `chunked`",
            Self::TransferEncodingOn10 => "Transfer-Encoding is given in a message of HTTP/1.0",
        }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.message())
    }
}

impl std::error::Error for FieldError {}

/// One field line. Name and value are part of its buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line<'b> {
    pub(crate) name: &'b [u8],
    /// Without blank space around it.
    pub(crate) value: &'b [u8],
    /// Bytes between the name and the value: the colon and the blank space after it.
    pub(crate) gap: usize,
}

/// What stands at a position where a field line may begin.
pub(crate) enum Next<'b> {
    /// The buffer ends before the line does.
    Partial,
    /// A field, and where the next line begins.
    Field(Line<'b>, usize),
    /// The blank line, and where what follows it begins.
    End(usize),
}

/// Reads the line that begins at `from`.
///
/// ```text
/// field-line = field-name ":" OWS field-value OWS CRLF
/// ```
///
/// Source: RFC 9112, section 5.
#[inline(always)]
pub(crate) fn next_line(buf: &[u8], from: usize) -> Result<Next<'_>, FieldError> {
    // Every head ends with it, so that it need not be scanned for.
    if is_crlf(buf, from) {
        return Ok(Next::End(from + 2));
    }
    let end = text_end(buf, from);
    if !is_crlf(buf, end) {
        return no_line(buf, from, end);
    }
    let line = &buf[from..end];
    let name_end = token_end(line, 0);
    match line.split_at_checked(name_end) {
        Some((name, [b':', value @ ..])) if !name.is_empty() => {
            let start = trim_start(value);
            let gap = 1 + value.len() - start.len();
            Ok(Next::Field(Line { name, value: trim_end(start), gap }, end + 2))
        }
        _ => Err(bad_name(line, name_end)),
    }
}

/// A line whose text ends at `end`, but not with CRLF: it is unfinished or an error, of its name first.
#[cold]
fn no_line(buf: &[u8], from: usize, end: usize) -> Result<Next<'_>, FieldError> {
    let line = buf.get(from..end).unwrap_or_default();
    let name_end = token_end(line, 0);
    let whole_name = name_end > 0 && line.get(name_end) == Some(&b':');
    if name_end < line.len() && !whole_name {
        return Err(bad_name(line, name_end));
    }
    no_line_end(buf, end).map(|()| Next::Partial)
}

/// Where the line after the text that starts at `from` begins; `None` before its CRLF is there.
#[inline(always)]
pub(crate) fn line_end(buf: &[u8], from: usize) -> Result<Option<usize>, FieldError> {
    let end = text_end(buf, from);
    if is_crlf(buf, end) { Ok(Some(end + 2)) } else { no_line_end(buf, end).map(|()| None) }
}

/// Whether a line ends at `at`: both bytes at once.
#[inline(always)]
fn is_crlf(buf: &[u8], at: usize) -> bool {
    buf.get(at..).and_then(|rest| rest.first_chunk::<2>()) == Some(b"\r\n")
}

/// What stands where a CRLF should be: too little to say, or an error.
#[cold]
fn no_line_end(buf: &[u8], end: usize) -> Result<(), FieldError> {
    match buf.get(end..).unwrap_or_default() {
        [] | [b'\r'] => Ok(()),
        [b'\r', ..] => Err(FieldError::BareCr),
        [b'\n', ..] => Err(FieldError::BareLf),
        _ => Err(FieldError::Control),
    }
}

/// Why the name at the start of `line`, whose token characters end at `name_end`, is not one.
#[cold]
fn bad_name(line: &[u8], name_end: usize) -> FieldError {
    match line.get(name_end) {
        Some(b' ' | b'\t') if name_end == 0 => FieldError::Folded,
        Some(b' ' | b'\t') => FieldError::SpaceBeforeColon,
        Some(b':') => FieldError::EmptyName,
        _ => FieldError::BadName,
    }
}

/// `text`, whose only control characters are tabs, without blank space before it: mostly one space, or none.
#[inline(always)]
fn trim_start(text: &[u8]) -> &[u8] {
    let rest = text.strip_prefix(b" ").unwrap_or(text);
    if rest.first().is_some_and(|&byte| byte > b' ') { rest } else { rest.trim_ascii_start() }
}

/// The same of what is after it: mostly none.
#[inline(always)]
fn trim_end(text: &[u8]) -> &[u8] {
    if text.last().is_some_and(|&byte| byte > b' ') { text } else { text.trim_ascii_end() }
}

/// Whether `name`, which has no control characters, is `lower` in any case.
///
/// `lower` has only lower-case letters and `-`: setting bit 5 of a byte that is no control character gives one of
/// these only from the same character in either case.
#[inline(always)]
pub(crate) fn is_name<const N: usize>(name: &[u8], lower: &[u8; N]) -> bool {
    let Ok(name) = <&[u8; N]>::try_from(name) else { return false };
    let mut difference = 0;
    for index in 0..N {
        difference |= (name[index] | 0x20) ^ lower[index];
    }
    difference == 0
}

/// The fields from `from` on, up to the blank line, the end, or the first line that is not one.
pub(crate) fn fields(buf: &[u8], from: usize) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut at = from;
    std::iter::from_fn(move || match next_line(buf, at) {
        Ok(Next::Field(line, next)) => {
            at = next;
            Some((line.name, line.value))
        }
        _ => None,
    })
}

/// Whether a field of this name says where its message ends, or whether another follows.
pub(crate) fn frames(name: &[u8]) -> bool {
    is_name(name, b"connection") || is_name(name, b"content-length") || is_name(name, b"transfer-encoding")
}

/// What the fields that frame a message have said so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Framed {
    content_length: Option<u64>,
    /// Whether a Content-Length may be given again with the same value: to a client, which no one reads after.
    repeats: bool,
    chunked: bool,
    close: bool,
    keep_alive: bool,
    pub(crate) upgrade: bool,
}

/// How a body is framed by its fields alone.
pub(crate) enum Body {
    Unsaid,
    Length(u64),
    Chunked,
}

impl Framed {
    /// Nothing yet of a response, whose reader may take lengths that agree as one. Source: RFC 9110, section 8.6.
    pub(crate) fn of_response() -> Self {
        Self { repeats: true, ..Self::default() }
    }

    /// Takes note of a field if it has to do with framing.
    #[inline(always)]
    pub(crate) fn note(&mut self, name: &[u8], value: &[u8]) -> Result<(), FieldError> {
        match name.len() {
            10 if is_name(name, b"connection") => self.connection(value),
            14 if is_name(name, b"content-length") => self.length(value)?,
            17 if is_name(name, b"transfer-encoding") => self.encoding(value)?,
            _ => {}
        }
        Ok(())
    }

    #[inline]
    fn length(&mut self, value: &[u8]) -> Result<(), FieldError> {
        let length = content_length(value)?;
        match self.content_length {
            Some(known) if !self.repeats || known != length => Err(FieldError::ContentLengthRepeated),
            _ => {
                self.content_length = Some(length);
                Ok(())
            }
        }
    }

    fn encoding(&mut self, value: &[u8]) -> Result<(), FieldError> {
        if self.chunked || !value.eq_ignore_ascii_case(b"chunked") {
            return Err(FieldError::TransferEncodingUnknown);
        }
        self.chunked = true;
        Ok(())
    }

    #[inline]
    fn connection(&mut self, value: &[u8]) {
        match value {
            _ if is_name(value, b"keep-alive") => self.keep_alive = true,
            _ if is_name(value, b"close") => self.close = true,
            _ => self.connection_options(value),
        }
    }

    fn connection_options(&mut self, value: &[u8]) {
        for option in list(value) {
            self.close |= is_name(option, b"close");
            self.keep_alive |= is_name(option, b"keep-alive");
            self.upgrade |= is_name(option, b"upgrade");
        }
    }

    /// Whether the connection may carry another message after this one.
    #[inline(always)]
    pub(crate) fn keep_alive(&self, minor_version: u8) -> bool {
        !self.close && (minor_version > 0 || self.keep_alive)
    }

    /// The framing that the fields say together.
    #[inline(always)]
    pub(crate) fn body(&self, minor_version: u8) -> Result<Body, FieldError> {
        match (self.content_length, self.chunked) {
            (None, false) => Ok(Body::Unsaid),
            (Some(length), false) => Ok(Body::Length(length)),
            (Some(_), true) => Err(FieldError::LengthAndEncoding),
            (None, true) if minor_version == 0 => Err(FieldError::TransferEncodingOn10),
            (None, true) => Ok(Body::Chunked),
        }
    }
}

/// The value of a Content-Length, in bytes: digits only, and below 2^63, so that any reader's signed number holds it.
#[inline(always)]
fn content_length(value: &[u8]) -> Result<u64, FieldError> {
    /// Digits of 2^63 - 1: a longer number is too large or padded with zeros.
    const DIGITS: usize = 19;
    if value.is_empty() || value.len() > DIGITS {
        return Err(bad_length(value));
    }
    let mut length = 0u64;
    for byte in value {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return Err(bad_length(value));
        }
        length = length * 10 + u64::from(digit);
    }
    if length > i64::MAX as u64 { Err(bad_length(value)) } else { Ok(length) }
}

#[cold]
fn bad_length(value: &[u8]) -> FieldError {
    if value.contains(&b',') { FieldError::ContentLengthRepeated } else { FieldError::ContentLengthInvalid }
}

/// The members of a comma-separated list, without blank space around them; empty members are left out.
pub(crate) fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value
        .split(|&byte| byte == b',')
        .map(|member| trim_end(trim_start(member)))
        .filter(|member| !member.is_empty())
}
