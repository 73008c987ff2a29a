//! Hosts and ports.

use crate::scan::{NAME, name_end};
use std::net::Ipv6Addr;

/// Whether `text` is a host, with or without a port; an empty one is not.
///
/// ```text
/// authority = host [ ":" port ]
/// host      = IP-literal / IPv4address / reg-name
/// port      = *DIGIT
/// ```
///
/// Source: RFC 3986, section 3.2.
///
/// User information does not pass: `@` is not among the characters of a name. Addresses of a future version (`[v1.x]`)
/// and zones (`%25eth0`) do not pass either: nobody can route to them.
#[inline]
pub(crate) fn is_valid(text: &[u8]) -> bool {
    host_end(text).is_some_and(|end| match &text[end..] {
        [] => true,
        [b':', port @ ..] => is_port(port),
        _ => false,
    })
}

/// Whether `text` is a host, a colon and a port, as CONNECT needs.
pub(super) fn has_port(text: &[u8]) -> bool {
    is_valid(text) && host_end(text).is_some_and(|end| text.len() > end + 1)
}

/// Where the host at the start of `text` ends; `None` if there is none.
#[inline(always)]
fn host_end(text: &[u8]) -> Option<usize> {
    let end = name_end(text, 0);
    match text.get(end) {
        Some(b'%') => encoded_name_end(text),
        Some(b'[') if end == 0 => literal_end(text),
        _ if end == 0 => None,
        _ => Some(end),
    }
}

/// As [`host_end`], of a name with `%` and two hexadecimal digits in it.
#[cold]
fn encoded_name_end(text: &[u8]) -> Option<usize> {
    let mut rest = text;
    loop {
        rest = match rest {
            [b'%', high, low, tail @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => tail,
            [byte, tail @ ..] if NAME[usize::from(*byte)] => tail,
            [b'%', ..] => return None,
            _ => return Some(text.len() - rest.len()),
        };
    }
}

/// As [`host_end`], of an IPv6 address in brackets.
#[cold]
fn literal_end(text: &[u8]) -> Option<usize> {
    let end = text.iter().position(|&byte| byte == b']')?;
    let address = std::str::from_utf8(&text[1..end]).ok()?;
    address.parse::<Ipv6Addr>().ok().map(|_| end + 1)
}

/// Whether `digits` are a port, below 65 536; none are the default port.
#[inline(always)]
fn is_port(digits: &[u8]) -> bool {
    /// Digits of 65 535.
    const DIGITS: usize = 5;
    if digits.len() > DIGITS {
        return false;
    }
    let mut port = 0;
    for digit in digits {
        let value = digit.wrapping_sub(b'0');
        if value > 9 {
            return false;
        }
        port = port * 10 + u32::from(value);
    }
    port <= u32::from(u16::MAX)
}
