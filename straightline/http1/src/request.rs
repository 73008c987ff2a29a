//! The head of a request, as a server reads it.

mod authority;
mod error;
mod line;

pub(crate) use authority::is_valid as is_authority;
pub use error::RequestError;

use ascii::{AsAsciiStr, AsciiStr};

use crate::field::{Body, Framed, Next, is_name, next_line};
use crate::limits::{HEADERS, HeadLimits};
use line::RequestLine;

/// How the body of a request is delimited.
///
/// Source: RFC 9112, section 6.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// No body.
    None,
    /// A body of so many bytes; 0 is a body too, an empty one.
    Length(u64),
    /// A chunked body: see [`crate::chunked`].
    Chunked,
}

/// Which of the four forms a request target has.
///
/// Source: RFC 9112, section 3.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetForm {
    /// `/path?query`, the common one.
    Origin,
    /// `http://host/path?query`, as proxies are sent.
    Absolute,
    /// `host:port`, of CONNECT alone.
    Authority,
    /// `*`, of OPTIONS alone.
    Asterisk,
}

/// Where one field lies in a head: 16-bit positions, so that it does not borrow the bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    name: Span,
    value: Span,
}

/// Room for as many fields as [`HeadLimits::DEFAULT`] allows.
pub type Slots = [Slot; HEADERS as usize];

/// [`Slots`] to begin with.
pub const NO_SLOTS: Slots = {
    let nothing = Span { start: 0, length: 0 };
    [Slot { name: nothing, value: nothing }; HEADERS as usize]
};

/// A part of a head, in bytes from its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Span {
    start: u16,
    length: u16,
}

impl Span {
    /// Heads are cut off at 65 535 bytes, so that nothing is lost here.
    #[inline(always)]
    fn new(start: usize, length: usize) -> Self {
        Self { start: start as u16, length: length as u16 }
    }

    /// The part of `head`; nothing, if `head` is too short to be the one that was read.
    #[inline(always)]
    fn bytes_in(self, head: &[u8]) -> &[u8] {
        let start = usize::from(self.start);
        head.get(start..start + usize::from(self.length)).unwrap_or_default()
    }

    /// As [`Span::bytes_in`], of bytes that were checked to be ASCII.
    #[inline(always)]
    fn text(self, head: &[u8]) -> &str {
        self.bytes_in(head).as_ascii_str().map_or("", AsciiStr::as_str)
    }
}

/// What a server must know of a request's head to go on; the rest is read through [`Request`].
///
/// It borrows nothing and depends on nothing but the first `head_bytes` bytes. A server that sees the same bytes
/// again, as it does on a pipelined connection, may therefore reuse it with its slots instead of parsing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHead {
    /// Length of the head in bytes, from the start of the buffer to the blank line, both included: where the body
    /// begins.
    pub head_bytes: usize,
    /// How the body is delimited.
    pub framing: Framing,
    /// Which form the target has.
    pub form: TargetForm,
    /// The `x` of `HTTP/1.x`, 0 to 9; above 1 it is to be treated as 1.
    pub minor_version: u8,
    /// Whether the connection may carry another request after this one. HTTP/1.0 must ask for it.
    pub keep_alive: bool,
    /// Whether the client waits for `100 Continue` before it sends the body. Never without a body, never on HTTP/1.0.
    pub expect_continue: bool,
    /// Whether the client asks for another protocol: `Connection: upgrade` with an `Upgrade` field, not on HTTP/1.0.
    ///
    /// The bytes after this request are HTTP until `101 Switching Protocols` went out.
    pub upgrade: bool,
    /// Number of fields, and of slots filled.
    pub headers: u16,
    method: Span,
    target: Span,
    host: Span,
}

impl RequestHead {
    /// The head as text and fields. `buf` and `slots` must be those that [`parse`] read and filled.
    #[inline]
    pub fn view<'b>(&'b self, buf: &'b [u8], slots: &'b [Slot]) -> Request<'b> {
        let slots = slots.get(..usize::from(self.headers)).unwrap_or_default();
        Request { head: self, bytes: buf, slots }
    }
}

/// A request head with its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Request<'b> {
    head: &'b RequestHead,
    bytes: &'b [u8],
    slots: &'b [Slot],
}

impl<'b> Request<'b> {
    /// The method as it was sent: upper and lower case differ.
    pub fn method(&self) -> &'b str {
        self.head.method.text(self.bytes)
    }

    /// Whether the method is `name`, upper and lower case told apart.
    #[inline]
    pub fn has_method(&self, name: &[u8]) -> bool {
        self.head.method.bytes_in(self.bytes) == name
    }

    /// The target as it was sent.
    #[inline]
    pub fn target(&self) -> &'b str {
        self.head.target.text(self.bytes)
    }

    /// The path, not decoded: the target up to a `?`, without scheme and authority. `*` of an asterisk, and empty of
    /// an authority.
    #[inline]
    pub fn path(&self) -> &'b str {
        line::path_and_query(self.target(), self.head.form).0
    }

    /// What follows the first `?` of the target, not decoded.
    pub fn query(&self) -> Option<&'b str> {
        line::path_and_query(self.target(), self.head.form).1
    }

    /// Host and port that the request is for: of the target if it names them, else of the `Host` field. Empty only
    /// if there is neither, which HTTP/1.0 allows.
    pub fn host(&self) -> &'b str {
        self.head.host.text(self.bytes)
    }

    /// The fields in order: names as they were sent, values without blank space around them.
    pub fn headers(&self) -> impl Iterator<Item = (&'b str, &'b [u8])> + use<'b> {
        let bytes = self.bytes;
        self.slots.iter().map(move |slot| (slot.name.text(bytes), slot.value.bytes_in(bytes)))
    }

    /// The value of the first field named `name`, in any case.
    pub fn header(&self, name: &str) -> Option<&'b [u8]> {
        let same_length = |slot: &&Slot| usize::from(slot.name.length) == name.len();
        let mut candidates = self.slots.iter().filter(same_length);
        let slot =
            candidates.find(|slot| slot.name.bytes_in(self.bytes).eq_ignore_ascii_case(name.as_bytes()))?;
        Some(slot.value.bytes_in(self.bytes))
    }
}

/// Reads the head of the request at the start of `buf` and fills a slot for each field.
///
/// `Ok(None)` says that `buf` ends before the head does and that nothing is wrong so far. Call again with the same
/// bytes and more of them; it is enough to do so when the new ones hold a control character beside the tab, or the buffer holds
/// [`HeadLimits::head_bytes`], so that a client that sends byte by byte costs little more than one that sends lines.
///
/// One CRLF before the request is passed over, as some clients end a body with one that they do not count.
///
/// # Errors
///
/// [`RequestError`], as soon as the bytes there are show it. More fields than `slots` has room for are too many.
pub fn parse(
    buf: &[u8],
    slots: &mut [Slot],
    limits: &HeadLimits,
) -> Result<Option<RequestHead>, RequestError> {
    let window = limits.window(buf);
    match parse_window(window, slots, limits) {
        Ok(None) if window.len() == usize::from(limits.head_bytes) => Err(RequestError::HeadTooLong),
        other => other,
    }
}

#[inline(always)]
fn parse_window(
    buf: &[u8],
    slots: &mut [Slot],
    limits: &HeadLimits,
) -> Result<Option<RequestHead>, RequestError> {
    let Some(line) = line::parse(buf, limits)? else { return Ok(None) };
    let room = slots.len().min(usize::from(limits.headers));
    let slots = &mut slots[..room];
    let mut fields = Fields::default();
    let mut count = 0;
    let mut at = line.next;
    loop {
        match next_line(buf, at)? {
            Next::Partial => return Ok(None),
            Next::End(end) => return fields.complete(&line, end, count).map(Some),
            Next::Field(field, next) => {
                let slot = slots.get_mut(count).ok_or(RequestError::TooManyHeaders)?;
                count += 1;
                slot.name = Span::new(at, field.name.len());
                slot.value = Span::new(at + field.name.len() + field.gap, field.value.len());
                fields.note(field.name, field.value, slot.value)?;
                at = next;
            }
        }
    }
}

/// What the fields that a server acts on have said so far.
#[derive(Default)]
struct Fields {
    framed: Framed,
    host: Option<Span>,
    upgrade: bool,
    expect_continue: bool,
}

impl Fields {
    #[inline(always)]
    fn note(&mut self, name: &[u8], value: &[u8], span: Span) -> Result<(), RequestError> {
        match name.len() {
            4 if is_name(name, b"host") => self.note_host(value, span)?,
            6 if is_name(name, b"expect") => {
                self.expect_continue |= value.eq_ignore_ascii_case(b"100-continue")
            }
            7 if is_name(name, b"upgrade") => self.upgrade |= !value.is_empty(),
            _ => self.framed.note(name, value)?,
        }
        Ok(())
    }

    #[inline(always)]
    fn note_host(&mut self, value: &[u8], span: Span) -> Result<(), RequestError> {
        if self.host.is_some() {
            return Err(RequestError::HostRepeated);
        }
        if !is_authority(value) {
            return Err(RequestError::HostInvalid);
        }
        self.host = Some(span);
        Ok(())
    }

    /// The head, if what its fields say together can stand.
    #[inline(always)]
    fn complete(
        &self,
        line: &RequestLine,
        head_bytes: usize,
        count: usize,
    ) -> Result<RequestHead, RequestError> {
        let minor_version = line.minor_version;
        if self.host.is_none() && minor_version > 0 {
            return Err(RequestError::HostMissing);
        }
        let framing = match self.framed.body(minor_version)? {
            Body::Unsaid => Framing::None,
            Body::Length(length) => Framing::Length(length),
            Body::Chunked => Framing::Chunked,
        };
        Ok(RequestHead {
            head_bytes,
            framing,
            form: line.form,
            minor_version,
            keep_alive: self.framed.keep_alive(minor_version),
            expect_continue: self.expect_continue && minor_version > 0 && framing != Framing::None,
            upgrade: self.upgrade && self.framed.upgrade && minor_version > 0,
            headers: count as u16,
            method: line.method,
            target: line.target,
            host: line.authority.or(self.host).unwrap_or_default(),
        })
    }
}
