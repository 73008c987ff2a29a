//! The fields of a request, made into a head of HTTP/1.1.
//!
//! What HTTP/2 asks of fields is checked here; what HTTP asks of any request is for the reader of that head.

use std::ops::Range;

/// What each field counts beside its name and value, in bytes.
///
/// Source: RFC 9113, section 6.5.2.
const FIELD_BYTES: usize = 32;

/// The fields that say what is asked, before all others.
const METHOD: usize = 0;
const SCHEME: usize = 1;
const AUTHORITY: usize = 2;
const PATH: usize = 3;

/// Fields that speak of one connection, which HTTP/2 has other means for.
///
/// Source: RFC 9113, section 8.2.2.
pub(crate) const OF_CONNECTIONS: [&[u8]; 5] =
    [b"connection", b"proxy-connection", b"keep-alive", b"transfer-encoding", b"upgrade"];

/// Memory that is kept from request to request for each part of the fields, in bytes: what is longer is rare.
const KEPT_BYTES: usize = 1024;

/// Why the fields are no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// A request's head.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Head {
    /// As text of HTTP/1.1; empty if it is longer than it may be.
    pub(crate) text: Vec<u8>,
    /// The length of the body that it promises.
    pub(crate) content_length: Option<u64>,
}

/// Gathers the fields of one request, or its trailers, and then those of the next.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    /// Bytes that may still come.
    left: usize,
    too_long: bool,
    malformed: bool,
    trailers: bool,
    /// Whether a field came that is not of the first four.
    begun: bool,
    pseudo_values: Vec<u8>,
    pseudo: [Option<Range<usize>>; 4],
    lines: Vec<u8>,
    cookie: Vec<u8>,
    host: Vec<u8>,
    has_host: bool,
    content_length: Option<u64>,
}

impl Fields {
    /// Begins to gather, of trailers or of a request, at most so many bytes.
    pub(crate) fn begin(&mut self, most_bytes: usize, trailers: bool) {
        let mut kept =
            [&mut self.pseudo_values, &mut self.lines, &mut self.cookie, &mut self.host].map(std::mem::take);
        for memory in &mut kept {
            memory.clear();
            if memory.capacity() > KEPT_BYTES {
                *memory = Vec::new();
            }
        }
        let [pseudo_values, lines, cookie, host] = kept;
        *self = Self { left: most_bytes, trailers, pseudo_values, lines, cookie, host, ..Self::default() };
    }

    pub(crate) fn push(&mut self, name: &[u8], value: &[u8]) {
        match self.left.checked_sub(name.len() + value.len() + FIELD_BYTES) {
            Some(left) => self.left = left,
            // Nothing more is kept, but it must be read, for what follows is compressed by it.
            None => (self.left, self.too_long) = (0, true),
        }
        if self.too_long || self.malformed {
            return;
        }
        let good = match name.split_first() {
            Some((b':', name)) => self.pseudo(name, value),
            _ => self.field(name, value),
        };
        self.malformed = good.is_err();
    }

    /// Whatever is asked, it is malformed.
    pub(crate) fn spoil(&mut self) {
        self.malformed = true;
    }

    fn pseudo(&mut self, name: &[u8], value: &[u8]) -> Result<(), Malformed> {
        let which = match name {
            b"method" => METHOD,
            b"scheme" => SCHEME,
            b"authority" => AUTHORITY,
            b"path" => PATH,
            _ => return Err(Malformed),
        };
        let out_of_place = self.begun || self.trailers || self.pseudo[which].is_some();
        let is_spaced = value.iter().fold(false, |spaced, byte| spaced | matches!(byte, 0..=0x20 | 0x7f));
        if out_of_place || value.is_empty() || is_spaced {
            return Err(Malformed);
        }
        let start = self.pseudo_values.len();
        self.pseudo_values.extend_from_slice(value);
        self.pseudo[which] = Some(start..self.pseudo_values.len());
        Ok(())
    }

    fn field(&mut self, name: &[u8], value: &[u8]) -> Result<(), Malformed> {
        self.begun = true;
        if !is_name(name) || !is_value(value) {
            return Err(Malformed);
        }
        match name {
            _ if OF_CONNECTIONS.contains(&name) => return Err(Malformed),
            b"te" if value != b"trailers" => return Err(Malformed),
            b"host" | b"content-length" if self.trailers => return Err(Malformed),
            b"host" if self.has_host => return Err(Malformed),
            b"host" => {
                self.has_host = true;
                self.host.extend_from_slice(value);
            }
            b"content-length" => self.promise(value)?,
            b"cookie" if !self.trailers => {
                // Source: RFC 9113, section 8.2.3.
                let between: &[u8] = if self.cookie.is_empty() { b"" } else { b"; " };
                self.cookie.extend_from_slice(between);
                self.cookie.extend_from_slice(value);
            }
            _ => line(&mut self.lines, name, value),
        }
        Ok(())
    }

    fn promise(&mut self, value: &[u8]) -> Result<(), Malformed> {
        let digits = value.iter().all(u8::is_ascii_digit);
        let length = std::str::from_utf8(value).ok().filter(|_| digits).and_then(|text| text.parse().ok());
        if self.content_length.is_some() || length.is_none() {
            return Err(Malformed);
        }
        self.content_length = length;
        line(&mut self.lines, b"content-length", value);
        Ok(())
    }

    fn pseudo_field(&self, which: usize) -> Option<&[u8]> {
        self.pseudo[which].clone().map(|range| &self.pseudo_values[range])
    }

    /// The head of a request. One that is too long has no text.
    /// It is written into the memory of `text`.
    pub(crate) fn head(&self, mut text: Vec<u8>) -> Result<Head, Malformed> {
        if self.malformed {
            return Err(Malformed);
        }
        if self.too_long {
            return Ok(Head::default());
        }
        let host = self.has_host.then_some(&*self.host);
        let (method, authority) = (self.pseudo_field(METHOD).ok_or(Malformed)?, self.pseudo_field(AUTHORITY));
        let target = self.target(method, authority)?;
        if authority.is_some() && host.is_some_and(|host| Some(host) != authority) {
            return Err(Malformed);
        }
        text.clear();
        text.reserve(64 + self.pseudo_values.len() + self.lines.len() + self.cookie.len() + self.host.len());
        for part in [method, b" ", target, b" HTTP/1.1\r\n"] {
            text.extend_from_slice(part);
        }
        if let Some(host) = authority.or(host) {
            line(&mut text, b"host", host);
        }
        text.extend_from_slice(&self.lines);
        if !self.cookie.is_empty() {
            line(&mut text, b"cookie", &self.cookie);
        }
        text.extend_from_slice(b"\r\n");
        Ok(Head { text, content_length: self.content_length })
    }

    /// Source: RFC 9113, sections 8.3.1 and 8.5.
    fn target<'s>(&'s self, method: &[u8], authority: Option<&'s [u8]>) -> Result<&'s [u8], Malformed> {
        match (method, self.pseudo_field(SCHEME), self.pseudo_field(PATH)) {
            (b"CONNECT", None, None) => authority.ok_or(Malformed),
            (b"CONNECT", _, _) => Err(Malformed),
            (_, Some(_), Some(path @ [b'/', ..])) => Ok(path),
            (b"OPTIONS", Some(_), Some(b"*")) => Ok(b"*"),
            _ => Err(Malformed),
        }
    }

    /// Trailers, as lines of text; nothing of those that are too long.
    pub(crate) fn lines(&self) -> Result<Vec<u8>, Malformed> {
        match self.malformed {
            true => Err(Malformed),
            false if self.too_long => Ok(Vec::new()),
            false => Ok(self.lines.clone()),
        }
    }
}

fn line(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.reserve(name.len() + value.len() + 4);
    for part in [name, b": ", value, b"\r\n"] {
        out.extend_from_slice(part);
    }
}

/// Bytes that may be in a name: a token's, without upper case.
static IN_NAMES: [bool; 256] = {
    let mut allowed = [false; 256];
    let mut byte = 0u8;
    while byte < 128 {
        allowed[byte as usize] = matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^'..=b'`' | b'|' | b'~');
        byte += 1;
    }
    allowed
};

fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| IN_NAMES[usize::from(*byte)])
}

/// Source: RFC 9113, section 8.2.1, and for control characters RFC 9110, section 5.5.
fn is_value(value: &[u8]) -> bool {
    let spaced = matches!(value, [b' ' | b'\t', ..] | [.., b' ' | b'\t']);
    // All of it is looked at, for that is done many bytes at a time.
    let controls =
        value.iter().fold(false, |found, byte| found | (byte.is_ascii_control() & (*byte != b'\t')));
    !spaced && !controls
}
