//! The head of a response, as a client reads it.

use crate::field::{Body, FieldError, Framed, Next, frames, line_end, next_line};
use crate::limits::HeadLimits;
use std::fmt;

/// What a client must know of a response's head.
///
/// It depends on nothing but the first `head_bytes` bytes and on whether the request was HEAD. A client that sees
/// the same bytes again may therefore reuse it instead of parsing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseHead {
    /// The status code, 100 to 999.
    pub status: u16,
    /// The `x` of `HTTP/1.x`, 0 to 9.
    pub minor_version: u8,
    /// How the body is delimited.
    pub framing: Framing,
    /// Whether the connection may carry another request after this response.
    pub keep_alive: bool,
    /// Length of the head in bytes, blank line included: where the body begins.
    pub head_bytes: usize,
}

/// How the body of a response is delimited.
///
/// Source: RFC 9112, section 6.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// No body: 1xx, 204, 304, or the request was HEAD.
    None,
    /// A body of so many bytes.
    Length(u64),
    /// A chunked body: see [`crate::chunked`].
    Chunked,
    /// Everything until the connection closes.
    UntilClose,
}

/// Why a response is refused. The connection it came on cannot be used any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseError {
    /// The status line does not begin with `HTTP/1.` and a digit.
    Version,
    /// The status code is not three digits from 100 on, or is not followed by a space or the end of the line.
    Status,
    /// The reason phrase has a control character, or its line does not end with CRLF.
    Reason,
    /// The head is longer than [`HeadLimits::head_bytes`].
    TooLong,
    /// There are more fields than [`HeadLimits::headers`].
    TooManyHeaders,
    /// A field line, or what the framing fields say together.
    Field(FieldError),
}

impl From<FieldError> for ResponseError {
    fn from(error: FieldError) -> Self {
        Self::Field(error)
    }
}

impl fmt::Display for ResponseError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Version => "the answer is not HTTP/1.x",
            Self::Status => "the status code is malformed",
            Self::Reason => "the reason phrase is malformed",
            Self::TooLong => "the head of the answer is too long",
            Self::TooManyHeaders => "the answer has too many header fields",
            Self::Field(error) => return error.fmt(out),
        })
    }
}

impl std::error::Error for ResponseError {}

/// Reads the head of the response at the start of `buf`.
///
/// `Ok(None)` says that `buf` ends before the head does and that nothing is wrong so far. Call again with the same
/// bytes and more of them; it is enough to do so when the new ones hold a line feed.
///
/// Every field is checked, and the framing fields are read together: an answer that two readers could delimit
/// differently is refused, also where the status says that there is no body.
///
/// # Errors
///
/// [`ResponseError`], as soon as the bytes there are show it.
pub fn parse_head(
    buf: &[u8],
    request_was_head: bool,
    limits: &HeadLimits,
) -> Result<Option<ResponseHead>, ResponseError> {
    let window = limits.window(buf);
    match parse_window(window, request_was_head, limits) {
        Ok(None) if window.len() == usize::from(limits.head_bytes) => Err(ResponseError::TooLong),
        other => other,
    }
}

#[inline(always)]
fn parse_window(
    buf: &[u8],
    request_was_head: bool,
    limits: &HeadLimits,
) -> Result<Option<ResponseHead>, ResponseError> {
    let Some((status, minor_version, mut at)) = status_line(buf)? else { return Ok(None) };
    let mut framed = Framed::of_response();
    let mut left = limits.headers;
    let mut last: &[u8] = b"";
    let head_bytes = loop {
        match next_line(buf, at) {
            Ok(Next::Partial) => return Ok(None),
            Ok(Next::End(end)) => break end,
            Ok(Next::Field(line, next)) => {
                left = left.checked_sub(1).ok_or(ResponseError::TooManyHeaders)?;
                framed.note(line.name, line.value)?;
                (at, last) = (next, line.name);
            }
            Err(FieldError::Folded) => match folded(buf, at, last)? {
                None => return Ok(None),
                Some(next) => at = next,
            },
            Err(error) => return Err(error.into()),
        }
    };
    let framing = framing(framed.body(minor_version)?, status, request_was_head);
    let keep_alive = framed.keep_alive(minor_version) && framing != Framing::UntilClose;
    Ok(Some(ResponseHead { status, minor_version, framing, keep_alive, head_bytes }))
}

/// Where the line after the one at `from` begins, which goes on with field `name`. A reader of responses takes it as more of the
/// value; a field that frames the message, which another reader may take otherwise, is refused all the same.
///
/// Source: RFC 9112, section 5.2.
#[cold]
fn folded(buf: &[u8], from: usize, name: &[u8]) -> Result<Option<usize>, FieldError> {
    if name.is_empty() || frames(name) {
        return Err(FieldError::Folded);
    }
    line_end(buf, from)
}

fn framing(body: Body, status: u16, request_was_head: bool) -> Framing {
    if request_was_head || status < 200 || status == 204 || status == 304 {
        return Framing::None;
    }
    match body {
        Body::Length(length) => Framing::Length(length),
        Body::Chunked => Framing::Chunked,
        Body::Unsaid => Framing::UntilClose,
    }
}

/// Status, minor version, and where the next line begins.
///
/// ```text
/// status-line = HTTP-version SP status-code [ SP [ reason-phrase ] ] CRLF
/// ```
///
/// The grammar asks for the second space even before an empty reason. Many servers leave it out, and nothing about
/// the framing hangs on it.
///
/// Source: RFC 9112, section 4.
#[inline(always)]
fn status_line(buf: &[u8]) -> Result<Option<(u16, u8, usize)>, ResponseError> {
    /// `HTTP/1.1 200`
    const FIXED: usize = 12;
    let Some(fixed) = buf.first_chunk::<FIXED>() else { return unfinished_status_line(buf) };
    let (minor, status) = version_and_status(fixed)?;
    let from = match buf.get(FIXED) {
        Some(b' ') => FIXED + 1,
        Some(b'\r') => FIXED,
        Some(_) => return Err(ResponseError::Status),
        None => return Ok(None),
    };
    match line_end(buf, from) {
        Ok(Some(next)) => Ok(Some((status, minor, next))),
        Ok(None) => Ok(None),
        Err(_) => Err(ResponseError::Reason),
    }
}

#[inline(always)]
fn version_and_status(fixed: &[u8; 12]) -> Result<(u8, u16), ResponseError> {
    let [b'H', b'T', b'T', b'P', b'/', b'1', b'.', minor, space, code @ ..] = fixed else {
        return Err(ResponseError::Version);
    };
    let minor = minor.wrapping_sub(b'0');
    if minor > 9 || *space != b' ' {
        return Err(ResponseError::Version);
    }
    let [hundreds, tens, ones] = code.map(|digit| digit.wrapping_sub(b'0'));
    if !(1..=9).contains(&hundreds) || tens > 9 || ones > 9 {
        return Err(ResponseError::Status);
    }
    Ok((minor, u16::from(hundreds) * 100 + u16::from(tens) * 10 + u16::from(ones)))
}

/// Completes the bytes there are with those of a good line, so that a wrong one is refused at once.
#[cold]
fn unfinished_status_line(buf: &[u8]) -> Result<Option<(u16, u8, usize)>, ResponseError> {
    let mut fixed = *b"HTTP/1.1 200";
    fixed[..buf.len()].copy_from_slice(buf);
    version_and_status(&fixed).map(|_| None)
}

/// The fields of a head that [`parse_head`] accepted, in order: names as they came, values without blank space
/// around them. Of a value that is folded over several lines it is the first, unless [`unfold`] made one of them.
///
/// `head` begins with the status line. Of bytes that were never accepted it yields what it can and then stops.
pub fn headers(head: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut at = line_end(head, 0).ok().flatten().unwrap_or(head.len());
    std::iter::from_fn(move || {
        loop {
            match next_line(head, at) {
                Ok(Next::Field(line, next)) => {
                    at = next;
                    return Some((line.name, line.value));
                }
                Err(FieldError::Folded) => at = line_end(head, at).ok().flatten()?,
                _ => return None,
            }
        }
    })
}

/// Makes one line of each value that is folded over several in a head that [`parse_head`] accepted: the line ends become spaces.
///
/// Source: RFC 9112, section 5.2.
pub fn unfold(head: &mut [u8]) {
    for at in 2..head.len() {
        if let [b'\r', b'\n', b' ' | b'\t'] = head[at - 2..=at] {
            head[at - 2..at].fill(b' ');
        }
    }
}
