//! Messages to bytes, for both roles.
//!
//! Everything is appended to a `Vec` of the caller, who keeps it and so its room. What could change where a message
//! ends (a line end in a value, a length given twice) is an error and appends nothing.

mod date;
mod line;
mod status;

pub use date::{DATE_BYTES, date};
pub use line::FieldLine;
pub use status::{reason, status_line};

use crate::request::{Framing, is_authority};
use crate::scan::{target_end, text_end, token_end};
use std::fmt;

/// Why a message cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteError {
    /// The status is not from 100 to 999.
    Status,
    /// The method is not a token.
    Method,
    /// The target is empty or has blank space, a control character, a `#` or a byte that is not ASCII.
    Target,
    /// The host is not a host with or without a port.
    Host,
    /// A field name is not a token.
    HeaderName,
    /// A field value has a control character: a line end or NUL, say.
    HeaderValue,
    /// A field that says where the message ends or whom it is for, and is written from its own argument.
    Reserved,
}

impl fmt::Display for WriteError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Status => "the status is not a number from 100 to 999",
            Self::Method => "the method is not a token",
            Self::Target => "the target is empty or has a character that is not allowed",
            Self::Host => "the host is not a host with or without a port",
            Self::HeaderName => "the header name is empty or has a character that is not allowed",
            Self::HeaderValue => "the header value has a control character",
            Self::Reserved => "Host, Content-Length and Transfer-Encoding are not given as headers",
        })
    }
}

impl std::error::Error for WriteError {}

/// Appends one field line.
///
/// # Errors
///
/// [`WriteError::HeaderName`] and [`WriteError::HeaderValue`]. [`is_reserved`] fields are written like others: who
/// calls this knows the framing.
#[inline]
pub fn header(out: &mut Vec<u8>, name: &str, value: &[u8]) -> Result<(), WriteError> {
    if !is_token(name) {
        return Err(WriteError::HeaderName);
    }
    if text_end(value, 0) != value.len() {
        return Err(WriteError::HeaderValue);
    }
    out.reserve(name.len() + value.len() + 4);
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
    Ok(())
}

/// Whether a field says where the message ends (`Content-Length`, `Transfer-Encoding`) or whom it is for (`Host`).
pub const fn is_reserved(name: &str) -> bool {
    name.eq_ignore_ascii_case("host")
        || name.eq_ignore_ascii_case("content-length")
        || name.eq_ignore_ascii_case("transfer-encoding")
}

/// Appends the field that says that the body has `length` bytes.
#[inline]
pub fn content_length(out: &mut Vec<u8>, length: u64) {
    out.extend_from_slice(b"Content-Length: ");
    out.extend_from_slice(digits(length, &mut [0; DIGITS]));
    out.extend_from_slice(b"\r\n");
}

/// Appends the field that says that the body is chunked.
pub fn chunked(out: &mut Vec<u8>) {
    out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
}

/// Appends the blank line that ends a head.
#[inline]
pub fn end_of_head(out: &mut Vec<u8>) {
    out.extend_from_slice(b"\r\n");
}

/// Appends one chunk. No data is no chunk: an empty one would end the body.
pub fn chunk(out: &mut Vec<u8>, data: &[u8]) {
    if data.is_empty() {
        return;
    }
    chunk_size(out, data.len() as u64);
    out.extend_from_slice(data);
    out.extend_from_slice(b"\r\n");
}

/// Appends the size line of a chunk of `size` bytes, for data that is not copied. CRLF must follow the data, and
/// `size` must not be 0, which ends the body.
pub fn chunk_size(out: &mut Vec<u8>, size: u64) {
    let digits = (u64::BITS - size.leading_zeros()).div_ceil(4).max(1);
    for digit in (0..digits).rev() {
        out.push(b"0123456789abcdef"[(size >> (4 * digit)) as usize & 15]);
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends the end of a chunked body without trailers.
pub fn last_chunk(out: &mut Vec<u8>) {
    out.extend_from_slice(b"0\r\n\r\n");
}

/// Appends the end of a chunked body with trailers.
///
/// # Errors
///
/// As [`header`], and [`WriteError::Reserved`]: framing cannot come after the body. Nothing is appended then.
pub fn last_chunk_with_trailers<'a>(
    out: &mut Vec<u8>,
    trailers: impl IntoIterator<Item = (&'a str, &'a [u8])>,
) -> Result<(), WriteError> {
    all_or_nothing(out, |out| {
        out.extend_from_slice(b"0\r\n");
        free_headers(out, trailers)?;
        end_of_head(out);
        Ok(())
    })
}

/// Appends the head of a request. The body, if `framing` says that there is one, is for the caller to append.
///
/// # Errors
///
/// [`WriteError`] says which part is wrong. Nothing is appended then.
pub fn request_head<'a>(
    out: &mut Vec<u8>,
    method: &str,
    target: &str,
    host: &str,
    headers: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    framing: Framing,
) -> Result<(), WriteError> {
    all_or_nothing(out, |out| {
        request_line(out, method, target)?;
        if !is_authority(host.as_bytes()) {
            return Err(WriteError::Host);
        }
        header(out, "Host", host.as_bytes())?;
        free_headers(out, headers)?;
        match framing {
            Framing::None => {}
            Framing::Length(length) => content_length(out, length),
            Framing::Chunked => chunked(out),
        }
        end_of_head(out);
        Ok(())
    })
}

fn request_line(out: &mut Vec<u8>, method: &str, target: &str) -> Result<(), WriteError> {
    if !is_token(method) {
        return Err(WriteError::Method);
    }
    if target.is_empty() || target_end(target.as_bytes(), 0) != target.len() {
        return Err(WriteError::Target);
    }
    for part in [method, " ", target, " HTTP/1.1\r\n"] {
        out.extend_from_slice(part.as_bytes());
    }
    Ok(())
}

/// Appends fields none of which is reserved.
fn free_headers<'a>(
    out: &mut Vec<u8>,
    headers: impl IntoIterator<Item = (&'a str, &'a [u8])>,
) -> Result<(), WriteError> {
    headers.into_iter().try_for_each(|(name, value)| match is_reserved(name) {
        true => Err(WriteError::Reserved),
        false => header(out, name, value),
    })
}

/// Takes back what `write` appended if it fails.
fn all_or_nothing(
    out: &mut Vec<u8>,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), WriteError>,
) -> Result<(), WriteError> {
    let length = out.len();
    let result = write(out);
    if result.is_err() {
        out.truncate(length);
    }
    result
}

fn is_token(text: &str) -> bool {
    !text.is_empty() && token_end(text.as_bytes(), 0) == text.len()
}

/// Decimal digits of 2^64 - 1.
pub const DIGITS: usize = 20;

/// The decimal digits of `number`, at the end of `buf`.
#[inline]
pub fn digits(mut number: u64, buf: &mut [u8; DIGITS]) -> &[u8] {
    let mut at = DIGITS;
    loop {
        at -= 1;
        buf[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &buf[at..];
        }
    }
}
