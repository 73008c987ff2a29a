//! The request line.

use super::{RequestError, Span, TargetForm, authority};
use crate::limits::HeadLimits;
use crate::scan::{target_end, token_end};

/// A request line that can stand.
pub(super) struct RequestLine {
    pub(super) method: Span,
    pub(super) target: Span,
    pub(super) form: TargetForm,
    /// Host and port, if the target names them.
    pub(super) authority: Option<Span>,
    pub(super) minor_version: u8,
    /// Where the line after it begins.
    pub(super) next: usize,
}

/// Reads the request line at the start of `buf`, after one CRLF at most.
///
/// ```text
/// request-line = method SP request-target SP HTTP-version CRLF
/// ```
///
/// Source: RFC 9112, sections 2.2 and 3.
#[inline(always)]
pub(super) fn parse(buf: &[u8], limits: &HeadLimits) -> Result<Option<RequestLine>, RequestError> {
    let start = if buf.first() == Some(&b'\r') { leading_line_end(buf)? } else { 0 };
    let Some(method_end) = method_end(buf, start)? else { return Ok(None) };
    let target_start = method_end + 1;
    let Some(target_end) = checked_target_end(buf, target_start, limits)? else { return Ok(None) };
    let Some((minor_version, next)) = version(buf, target_end + 1)? else { return Ok(None) };
    let target = &buf[target_start..target_end];
    let (form, authority) = match target {
        [b'/', ..] if !is_connect(&buf[start..method_end]) => (TargetForm::Origin, None),
        _ => other_form(&buf[start..method_end], target, target_start)?,
    };
    Ok(Some(RequestLine {
        method: Span::new(start, method_end - start),
        target: Span::new(target_start, target.len()),
        form,
        authority,
        minor_version,
        next,
    }))
}

/// How many bytes of a CRLF stand before the request. Half a one leaves no method to be found, and so an unfinished
/// request.
#[cold]
fn leading_line_end(buf: &[u8]) -> Result<usize, RequestError> {
    match buf {
        [b'\r'] => Ok(1),
        [b'\r', b'\n', ..] => Ok(2),
        _ => Err(RequestError::Method),
    }
}

#[inline(always)]
fn method_end(buf: &[u8], start: usize) -> Result<Option<usize>, RequestError> {
    let is_get = buf.get(start..).and_then(|rest| rest.first_chunk()) == Some(b"GET ");
    let end = if is_get { start + 3 } else { token_end(buf, start) };
    match buf.get(end) {
        None => Ok(None),
        Some(b' ') if end > start => Ok(Some(end)),
        Some(_) => Err(RequestError::Method),
    }
}

/// Where the target that starts at `start` ends, one space after it included in what must be there.
#[inline(always)]
fn checked_target_end(buf: &[u8], start: usize, limits: &HeadLimits) -> Result<Option<usize>, RequestError> {
    let end = target_end(buf, start);
    if end.saturating_sub(start) > usize::from(limits.target_bytes) {
        return Err(RequestError::TargetTooLong);
    }
    match buf.get(end) {
        None => Ok(None),
        Some(b' ') if end > start => Ok(Some(end)),
        Some(b'#') => Err(RequestError::TargetFragment),
        Some(0x80..) => Err(RequestError::TargetNotAscii),
        Some(b'\r' | b'\n') if end > start => Err(RequestError::Version),
        Some(_) => Err(RequestError::Target),
    }
}

/// The minor version, and where the next line begins.
#[inline(always)]
fn version(buf: &[u8], from: usize) -> Result<Option<(u8, usize)>, RequestError> {
    /// `HTTP/1.1` and the line end.
    const FIXED: usize = 10;
    let rest = buf.get(from..).unwrap_or_default();
    match rest.first_chunk::<FIXED>() {
        // Eight bytes are compared at once where they stand alone.
        Some([name @ .., b'\r', b'\n']) if *name == *b"HTTP/1.1" => Ok(Some((1, from + FIXED))),
        Some([b'H', b'T', b'T', b'P', b'/', b'1', b'.', minor @ b'0'..=b'9', b'\r', b'\n']) => {
            Ok(Some((minor - b'0', from + FIXED)))
        }
        _ => other_version(rest),
    }
}

/// A version that is not here in full, is not ours, or is malformed.
#[cold]
fn other_version(rest: &[u8]) -> Result<Option<(u8, usize)>, RequestError> {
    /// Longest version looked at before it is called malformed, in bytes: `HTTP/` and a few digits.
    const LONGEST: usize = 16;
    let common = rest.iter().zip(b"HTTP/").take_while(|(byte, expected)| byte == expected).count();
    if common < 5 {
        return if common == rest.len() { Ok(None) } else { Err(RequestError::Version) };
    }
    let number = rest.iter().skip(common).take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
    let (number, tail) = rest[common..].split_at(number);
    match (number, tail) {
        _ if number.len() > LONGEST => Err(RequestError::Version),
        (_, []) => Ok(None),
        ([b'1', b'.', b'0'..=b'9'], [b'\r']) => Ok(None),
        ([b'1', b'.', b'0'..=b'9'], _) | ([], _) => Err(RequestError::Version),
        (_, [b'\r', ..]) => Err(RequestError::VersionUnsupported),
        _ => Err(RequestError::Version),
    }
}

#[inline(always)]
fn is_connect(method: &[u8]) -> bool {
    method == b"CONNECT"
}

/// The forms other than origin, with the authority that they name.
#[cold]
fn other_form(
    method: &[u8],
    target: &[u8],
    start: usize,
) -> Result<(TargetForm, Option<Span>), RequestError> {
    if is_connect(method) {
        let form = (TargetForm::Authority, Some(Span::new(start, target.len())));
        return if authority::has_port(target) { Ok(form) } else { Err(bad_authority(target)) };
    }
    if target == b"*" {
        return if method == b"OPTIONS" {
            Ok((TargetForm::Asterisk, None))
        } else {
            Err(RequestError::Target)
        };
    }
    let (from, to) = absolute_authority(target).ok_or(RequestError::Target)?;
    if !authority::is_valid(&target[from..to]) {
        return Err(bad_authority(&target[from..to]));
    }
    Ok((TargetForm::Absolute, Some(Span::new(start + from, to - from))))
}

fn bad_authority(text: &[u8]) -> RequestError {
    if text.contains(&b'@') { RequestError::TargetUserInfo } else { RequestError::Target }
}

/// Where the authority of `http://authority/path?query` begins and ends; `None` for another scheme.
fn absolute_authority(target: &[u8]) -> Option<(usize, usize)> {
    let has = |scheme: &[u8]| {
        let start = target.get(..scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then_some(scheme.len())
    };
    let from = has(b"http://").or_else(|| has(b"https://"))?;
    let length = target[from..].iter().take_while(|byte| !matches!(byte, b'/' | b'?')).count();
    Some((from, from + length))
}

/// Path and query of a target that can stand.
#[inline]
pub(super) fn path_and_query(target: &str, form: TargetForm) -> (&str, Option<&str>) {
    let rest = match form {
        TargetForm::Origin | TargetForm::Asterisk => target,
        TargetForm::Authority => "",
        TargetForm::Absolute => {
            let end = absolute_authority(target.as_bytes()).map_or(target.len(), |(_, end)| end);
            target.get(end..).unwrap_or_default()
        }
    };
    // Byte by byte: targets are short, and a searcher made for text takes longer to begin than this to end.
    let (path, query) = match rest.bytes().position(|byte| byte == b'?') {
        Some(at) => (&rest[..at], Some(&rest[at + 1..])),
        None => (rest, None),
    };
    let path = if path.is_empty() && form == TargetForm::Absolute { "/" } else { path };
    (path, query)
}
