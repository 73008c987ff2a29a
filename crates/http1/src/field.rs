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
    /// More than one Content-Length, on one line or several.
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

/// Where one field line lies in its buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    pub(crate) name_start: usize,
    pub(crate) name_end: usize,
    pub(crate) value_start: usize,
    pub(crate) value_end: usize,
}

impl Line {
    #[inline(always)]
    pub(crate) fn name<'b>(&self, buf: &'b [u8]) -> &'b [u8] {
        &buf[self.name_start..self.name_end]
    }

    #[inline(always)]
    pub(crate) fn value<'b>(&self, buf: &'b [u8]) -> &'b [u8] {
        &buf[self.value_start..self.value_end]
    }
}

/// What stands at a position where a field line may begin.
pub(crate) enum Next {
    /// The buffer ends before the line does.
    Partial,
    /// A field, and where the next line begins.
    Field(Line, usize),
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
pub(crate) fn next_line(buf: &[u8], from: usize) -> Result<Next, FieldError> {
    let name_end = token_end(buf, from);
    if name_end == from || buf.get(name_end) != Some(&b':') {
        return not_a_field(buf, from, name_end);
    }
    let Some((text, next)) = line_end(buf, name_end + 1)? else { return Ok(Next::Partial) };
    let (value_start, value_end) = trimmed(buf, name_end + 1, text);
    Ok(Next::Field(Line { name_start: from, name_end, value_start, value_end }, next))
}

/// Where the text that starts at `from` ends, and where the line after its CRLF begins; `None` before both are there.
#[inline(always)]
pub(crate) fn line_end(buf: &[u8], from: usize) -> Result<Option<(usize, usize)>, FieldError> {
    let end = text_end(buf, from);
    match (buf.get(end), buf.get(end + 1)) {
        (Some(b'\r'), Some(b'\n')) => Ok(Some((end, end + 2))),
        (None, _) | (Some(b'\r'), None) => Ok(None),
        (Some(b'\r'), Some(_)) => Err(FieldError::BareCr),
        (Some(b'\n'), _) => Err(FieldError::BareLf),
        (Some(_), _) => Err(FieldError::Control),
    }
}

/// A line that does not begin with a name and a colon: the blank line, an unfinished one, or an error.
#[inline]
fn not_a_field(buf: &[u8], from: usize, name_end: usize) -> Result<Next, FieldError> {
    if name_end > from {
        return bad_name(buf, name_end);
    }
    match (buf.get(from), buf.get(from + 1)) {
        (Some(b'\r'), Some(b'\n')) => Ok(Next::End(from + 2)),
        (None, _) | (Some(b'\r'), None) => Ok(Next::Partial),
        (Some(b'\r'), Some(_)) => Err(FieldError::BareCr),
        (Some(b':'), _) => Err(FieldError::EmptyName),
        (Some(b' ' | b'\t'), _) => Err(FieldError::Folded),
        (Some(b'\n'), _) => Err(FieldError::BareLf),
        (Some(_), _) => Err(FieldError::BadName),
    }
}

#[cold]
fn bad_name(buf: &[u8], name_end: usize) -> Result<Next, FieldError> {
    match (buf.get(name_end), buf.get(name_end + 1)) {
        (None, _) => Ok(Next::Partial),
        (Some(b' ' | b'\t'), _) => Err(FieldError::SpaceBeforeColon),
        (Some(b'\n'), _) => Err(FieldError::BareLf),
        _ => Err(FieldError::BadName),
    }
}

/// `from..to` without blank space at either end.
#[inline(always)]
fn trimmed(buf: &[u8], from: usize, to: usize) -> (usize, usize) {
    let (mut start, mut end) = (from, to);
    while start < end && is_blank(buf[start]) {
        start += 1;
    }
    while start < end && is_blank(buf[end - 1]) {
        end -= 1;
    }
    (start, end)
}

#[inline(always)]
fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

/// Whether `name`, a token, is `lower` in any case.
///
/// `lower` has only lower-case letters and `-`: setting bit 5 of a token character gives one of these only from the
/// same character in either case.
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
            Some((line.name(buf), line.value(buf)))
        }
        _ => None,
    })
}

/// What the fields that frame a message have said so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Framed {
    content_length: Option<u64>,
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
        if self.content_length.is_some() || value.contains(&b',') {
            return Err(FieldError::ContentLengthRepeated);
        }
        self.content_length = Some(content_length(value).ok_or(FieldError::ContentLengthInvalid)?);
        Ok(())
    }

    fn encoding(&mut self, value: &[u8]) -> Result<(), FieldError> {
        if self.chunked || !value.eq_ignore_ascii_case(b"chunked") {
            return Err(FieldError::TransferEncodingUnknown);
        }
        self.chunked = true;
        Ok(())
    }

    fn connection(&mut self, value: &[u8]) {
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
fn content_length(value: &[u8]) -> Option<u64> {
    /// Digits of 2^63 - 1: a longer number is too large or padded with zeros.
    const DIGITS: usize = 19;
    if value.is_empty() || value.len() > DIGITS {
        return None;
    }
    let mut length = 0u64;
    for byte in value {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        length = length * 10 + u64::from(digit);
    }
    (length <= i64::MAX as u64).then_some(length)
}

/// The members of a comma-separated list, without blank space around them; empty members are left out.
pub(crate) fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value
        .split(|&byte| byte == b',')
        .map(|member| {
            let (start, end) = trimmed(member, 0, member.len());
            &member[start..end]
        })
        .filter(|member| !member.is_empty())
}
