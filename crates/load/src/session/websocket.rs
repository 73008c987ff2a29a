//! WebSocket: messages in the place of requests and answers. Source: RFC 6455.
//!
//! A connection is first upgraded, which is no request and is in no latency. Then each message sent waits for one from the
//! server: the n-th that comes answers the n-th that was sent. What comes while nothing is under way answers nothing, and is an error
//! of its own (`surplus`); the connection goes on, for many servers greet.

use http1::HeadLimits;
use http1::response::parse_head;

use super::answer::{Answer, Body, Malformed};
use super::tally::Fault;
use super::{Fate, Heard, Reason, Session, Sign};

/// Longest payload of a control frame. Source: RFC 6455, section 5.5.
const CONTROL_BYTES: usize = 125;
/// Pongs that wait to be written: as much as one read can ask for in small pings, and no memory to speak of.
const PONG_BYTES: usize = 64 * 1024;
/// Status of every message in the tallies, which know answers by their status: one that is no error.
const MESSAGE: u16 = 200;
/// Status of an upgrade.
const SWITCHING_PROTOCOLS: u16 = 101;
/// Field that proves that the server has read our key.
const ACCEPT: &str = "sec-websocket-accept";
/// Field of the extensions, and of the subprotocol, that are spoken.
const EXTENSIONS: &str = "sec-websocket-extensions";
const PROTOCOL: &str = "sec-websocket-protocol";

/// How a connection is upgraded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upgrade {
    /// The request as it goes over the wire.
    pub request: Vec<u8>,
    /// What the server has to answer in `Sec-WebSocket-Accept`.
    pub accept: String,
}

/// Kinds of frames. Source: RFC 6455, section 5.2.
mod opcode {
    pub(super) const CONTINUATION: u8 = 0;
    pub(super) const TEXT: u8 = 1;
    pub(super) const BINARY: u8 = 2;
    pub(super) const CLOSE: u8 = 8;
    pub(super) const PING: u8 = 9;
    pub(super) const PONG: u8 = 10;
}

/// Why bytes are no frame that a server may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Bits that mean nothing without an extension, of which none was agreed on.
    #[error("a frame has bits of an extension that was not agreed on")]
    Reserved,
    /// An opcode that does not exist.
    #[error("a frame has the opcode {0}, which does not exist")]
    Opcode(u8),
    /// A masked frame, which only clients send.
    #[error("the server masks its frames")]
    Masked,
    /// A control frame in parts, or of more than 125 bytes.
    #[error("a control frame is in parts, or longer than 125 bytes")]
    Control,
    /// A length of 2^63 or more. Source: RFC 6455, section 5.2: "the most significant bit MUST be 0".
    #[error("a frame says that it has 2^63 bytes or more")]
    Length,
    /// A continuation of nothing, or a message within another.
    #[error("a message begins within another, or goes on without a begin")]
    Order,
}

/// What a server has said.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Received {
    /// A whole message.
    Message,
    /// A ping, with what is to be sent back.
    Ping(Vec<u8>),
    /// That the connection ends, with the payload that says why.
    Close(Vec<u8>),
}

/// Cuts bytes of one connection into messages, whose content is passed over.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Frames {
    /// Bytes of the payload of a data frame that are still to come.
    left: u64,
    /// Whether such a frame has begun.
    in_frame: bool,
    /// Whether it ends its message.
    last: bool,
    /// Whether a message has begun in an earlier frame.
    in_message: bool,
}

/// The head of a frame.
struct Head {
    last: bool,
    opcode: u8,
    payload: u64,
    bytes: usize,
}

impl Frames {
    /// The next thing said in `buf` from `at` on; `at` moves past what was used.
    /// `heard` keeps the message.
    pub(super) fn next(
        &mut self,
        buf: &[u8],
        at: &mut usize,
        mut heard: Option<&mut Heard>,
    ) -> Result<Option<Received>, FrameError> {
        loop {
            if self.in_frame {
                let taken = ((buf.len() - *at) as u64).min(self.left) as usize;
                self.left -= taken as u64;
                heard.iter_mut().for_each(|heard| heard.more(&buf[*at..*at + taken]));
                *at += taken;
                if self.left > 0 {
                    return Ok(None);
                }
                self.in_frame = false;
                self.in_message = !self.last;
                if self.last {
                    return Ok(Some(Received::Message));
                }
            }
            let Some(head) = head(&buf[*at..])? else { return Ok(None) };
            if head.opcode < opcode::CLOSE {
                if (head.opcode == opcode::CONTINUATION) != self.in_message {
                    return Err(FrameError::Order);
                }
                if let Some(heard) = heard.as_mut().filter(|_| !self.in_message) {
                    heard.begin(MESSAGE, b"");
                }
                *at += head.bytes;
                (self.in_frame, self.left, self.last) = (true, head.payload, head.last);
                continue;
            }
            let end = *at + head.bytes + head.payload as usize;
            let Some(payload) = buf.get(*at + head.bytes..end) else { return Ok(None) };
            *at = end;
            match head.opcode {
                opcode::PING => return Ok(Some(Received::Ping(payload.to_vec()))),
                opcode::CLOSE => return Ok(Some(Received::Close(payload.to_vec()))),
                _ => {}
            }
        }
    }

    /// Whether nothing of the next message has come.
    pub(super) fn is_between_messages(&self) -> bool {
        !self.in_frame && !self.in_message
    }
}

/// The head at the begin of `bytes`, if all of it is there.
fn head(bytes: &[u8]) -> Result<Option<Head>, FrameError> {
    let &[first, second, ..] = bytes else { return Ok(None) };
    let (last, reserved, opcode) = (first & 0x80 != 0, first & 0x70, first & 0x0f);
    let (masked, short) = (second & 0x80 != 0, second & 0x7f);
    if reserved != 0 {
        return Err(FrameError::Reserved);
    }
    if !matches!(opcode, opcode::CONTINUATION..=opcode::BINARY | opcode::CLOSE..=opcode::PONG) {
        return Err(FrameError::Opcode(opcode));
    }
    if masked {
        return Err(FrameError::Masked);
    }
    if opcode >= opcode::CLOSE && (!last || usize::from(short) > CONTROL_BYTES) {
        return Err(FrameError::Control);
    }
    let long = |length: usize| {
        let field = bytes.get(2..2 + length)?;
        Some(field.iter().fold(0, |all, byte| all << 8 | u64::from(*byte)))
    };
    let (payload, bytes) = match short {
        126 => (long(2), 4),
        127 => (long(8), 10),
        short => (Some(u64::from(short)), 2),
    };
    if payload.is_some_and(|payload| payload >> 63 != 0) {
        return Err(FrameError::Length);
    }
    Ok(payload.map(|payload| Head { last, opcode, payload, bytes }))
}

/// A message as a client sends it, in one frame: text where it is UTF-8, else bytes.
#[must_use]
pub fn message(payload: &[u8], mask: [u8; 4]) -> Vec<u8> {
    let opcode = if std::str::from_utf8(payload).is_ok() { opcode::TEXT } else { opcode::BINARY };
    frame(opcode, payload, mask)
}

fn frame(opcode: u8, payload: &[u8], mask: [u8; 4]) -> Vec<u8> {
    const LAST: u8 = 0x80;
    const MASKED: u8 = 0x80;
    let mut bytes = vec![LAST | opcode];
    match (u8::try_from(payload.len()), u16::try_from(payload.len())) {
        (Ok(short @ 0..=125), _) => bytes.push(MASKED | short),
        (_, Ok(length)) => {
            bytes.push(MASKED | 126);
            bytes.extend(length.to_be_bytes());
        }
        _ => {
            bytes.push(MASKED | 127);
            bytes.extend((payload.len() as u64).to_be_bytes());
        }
    }
    bytes.extend(mask);
    bytes.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    bytes
}

/// The value of a field in a head.
fn field<'a>(head: &'a str, wanted: &str) -> Option<&'a str> {
    head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case(wanted).then(|| value.trim())
    })
}

/// Bytes of the answer to the upgrade, once all of it is there.
fn upgraded(buf: &[u8], upgrade: &Upgrade) -> Result<Option<usize>, Malformed> {
    let Some(head) = parse_head(buf, true, &HeadLimits::DEFAULT)? else { return Ok(None) };
    if head.status != SWITCHING_PROTOCOLS {
        return Err(Malformed::NotUpgraded(head.status));
    }
    let text = String::from_utf8_lossy(&buf[..head.head_bytes]);
    if field(&text, ACCEPT) != Some(&upgrade.accept) {
        return Err(Malformed::WrongAccept);
    }
    let asked = String::from_utf8_lossy(&upgrade.request);
    if field(&text, EXTENSIONS).is_some() && field(&asked, EXTENSIONS).is_none() {
        return Err(Malformed::UnaskedExtension);
    }
    let names = field(&asked, PROTOCOL).unwrap_or_default();
    match field(&text, PROTOCOL) {
        Some(chosen) if !names.split(',').any(|name| name.trim() == chosen) => {
            Err(Malformed::UnaskedProtocol)
        }
        _ => Ok(Some(head.head_bytes)),
    }
}

impl Session {
    /// A connection is open and asks to be upgraded.
    #[cold]
    pub(super) fn ask_for_upgrade(&mut self, lane: u32, request: &[u8]) {
        let state = &mut self.lanes[lane as usize];
        state.side = request.to_vec();
        state.reader.begin_messages();
        self.mark_dirty(lane);
    }

    /// `bytes` of what is no request are written.
    #[cold]
    pub(super) fn wrote_side(&mut self, lane: u32, bytes: usize, at: u64) {
        let state = &mut self.lanes[lane as usize];
        state.side.drain(..bytes);
        if !state.open {
            state.begun_ns = at;
            if let Some(timeout_ns) = self.spec.timeout_ns {
                self.expiry_ns = self.expiry_ns.min(at.saturating_add(timeout_ns));
            }
        }
    }

    /// When the upgrade of `lane` is given up, where it waits for one.
    pub(super) fn upgrade_ends_ns(&self, lane: u32) -> Option<u64> {
        let state = &self.lanes[lane as usize];
        let waits = !state.open && state.begun_ns != 0;
        waits.then(|| state.begun_ns.saturating_add(self.spec.timeout_ns.unwrap_or(u64::MAX)))
    }

    /// The same as for answers of HTTP/1.1, of messages.
    ///
    /// # Errors
    /// Why the server does not upgrade the connection, which is over by that.
    pub(super) fn received_messages(
        &mut self,
        lane: u32,
        buf: &[u8],
        upgrade: &Upgrade,
        at: u64,
    ) -> Result<Fate, Malformed> {
        let mut from = 0;
        if !self.lanes[lane as usize].open {
            match upgraded(buf, upgrade) {
                Ok(Some(bytes)) => from = bytes,
                Ok(None) => {
                    self.restash(lane, buf);
                    return Ok(Fate::Keep);
                }
                Err(malformed) => {
                    self.note_malformed(malformed);
                    self.connect_failed(at);
                    self.abandon(lane, at);
                    return Err(malformed);
                }
            }
            self.lanes[lane as usize].begun_ns = 0;
            self.opened(lane);
        }
        Ok(self.messages(lane, buf, from, at))
    }

    /// The messages in `buf` from `from` on.
    fn messages(&mut self, lane: u32, buf: &[u8], mut from: usize, at: u64) -> Fate {
        loop {
            let heard = self.heard.get_mut(lane as usize);
            match self.lanes[lane as usize].reader.frames().next(buf, &mut from, heard) {
                Ok(Some(Received::Message)) => {
                    let state = &self.lanes[lane as usize];
                    let outstanding = state.cursor.held > state.unwritten;
                    let answer = Answer { status: MESSAGE, keep_alive: true };
                    if !outstanding {
                        self.unasked(at);
                    } else if self.answered(lane, answer, at) == Fate::Replace {
                        return Fate::Replace;
                    }
                }
                Ok(Some(Received::Ping(payload))) => self.pong(lane, &payload),
                Ok(Some(Received::Close(payload))) => {
                    self.note_close(lane, &payload);
                    return self.closed(lane, at);
                }
                Ok(None) => break,
                Err(error) => return self.malformed(lane, error.into(), at),
            }
        }
        let state = &mut self.lanes[lane as usize];
        let between = from == buf.len() && state.reader.frames().is_between_messages();
        if state.begun_ns == 0 && !between {
            state.begun_ns = at;
        }
        self.restash(lane, &buf[from..]);
        Fate::Keep
    }

    /// A message came while nothing was under way. It fails no request, and nobody takes it for the answer to the next.
    #[cold]
    fn unasked(&mut self, at: u64) {
        self.tally.fault(Fault::Surplus, None, at);
        self.note_malformed(Malformed::Unasked);
    }

    /// Keeps why the server closes, unless it does so in good order and nothing is lost by that.
    #[cold]
    fn note_close(&mut self, lane: u32, payload: &[u8]) {
        const IN_GOOD_ORDER: [u16; 2] = [1000, 1001];
        let Some((code, words)) = payload.split_first_chunk() else { return };
        let code = u16::from_be_bytes(*code);
        let state = &self.lanes[lane as usize];
        if state.cursor.held > state.unwritten || !IN_GOOD_ORDER.contains(&code) {
            self.note_reason(Reason::new(Sign::Close, u64::from(code), words));
        }
    }

    /// Answers a ping, before the next message; not every one of a server that reads no answers (RFC 6455, section 5.5.3).
    #[cold]
    fn pong(&mut self, lane: u32, payload: &[u8]) {
        const MASK: [u8; 4] = [0; 4];
        if self.lanes[lane as usize].side.len() >= PONG_BYTES {
            return;
        }
        self.lanes[lane as usize].side.extend(frame(opcode::PONG, payload, MASK));
        self.mark_dirty(lane);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(frames: &[&[u8]]) -> Vec<Result<Option<Received>, FrameError>> {
        let bytes = frames.concat();
        let (mut state, mut at, mut all) = (Frames::default(), 0, Vec::new());
        loop {
            let one = state.next(&bytes, &mut at, None);
            let goes_on = matches!(one, Ok(Some(_)));
            all.push(one);
            if !goes_on {
                return all;
            }
        }
    }

    #[test]
    fn messages_are_counted_whole_with_control_frames_between_their_parts() {
        let ping = [0x89, 2, b'h', b'i'];
        assert_eq!(
            received(&[&[0x81, 1, b'a'], &[0x01, 1, b'a'], &ping, &[0x80, 0], &[0x88, 0]]),
            [
                Ok(Some(Received::Message)),
                Ok(Some(Received::Ping(b"hi".to_vec()))),
                Ok(Some(Received::Message)),
                Ok(Some(Received::Close(Vec::new()))),
                Ok(None),
            ]
        );
    }

    #[test]
    fn a_length_that_no_frame_may_have_is_an_error_at_once() {
        assert_eq!(received(&[&[0x82, 127, 0x80, 0, 0, 0, 0, 0, 0, 0]]), [Err(FrameError::Length)]);
        assert_eq!(received(&[&[0x82, 127, 0x7f, 0, 0, 0, 0, 0, 0, 0]]), [Ok(None)]);
    }

    #[test]
    fn what_was_not_asked_for_is_no_upgrade() {
        let upgrade = |fields: &str| Upgrade {
            request: format!("GET / HTTP/1.1\r\n{fields}\r\n").into_bytes(),
            accept: "yes".to_owned(),
        };
        let asked = "Sec-WebSocket-Protocol: chat, talk\r\n";
        for (request, answer, wanted) in [
            ("", "", Ok(())),
            ("", "Sec-WebSocket-Extensions: permessage-deflate\r\n", Err(Malformed::UnaskedExtension)),
            ("", "Sec-WebSocket-Protocol: chat\r\n", Err(Malformed::UnaskedProtocol)),
            (asked, "sec-websocket-protocol: talk\r\n", Ok(())),
            (asked, "Sec-WebSocket-Protocol: shout\r\n", Err(Malformed::UnaskedProtocol)),
        ] {
            let head = format!("HTTP/1.1 101 X\r\nSec-WebSocket-Accept: yes\r\n{answer}\r\n");
            let found = upgraded(head.as_bytes(), &upgrade(request)).map(|bytes| assert!(bytes.is_some()));
            assert_eq!(found, wanted, "{request} {answer}");
        }
    }

    #[test]
    fn a_message_in_pieces_of_any_size_is_one() {
        let mut bytes = vec![0x82, 126, 1, 0];
        bytes.extend([7; 256]);
        for cut in 1..bytes.len() {
            let (mut state, mut at) = (Frames::default(), 0);
            assert_eq!(state.next(&bytes[..cut], &mut at, None), Ok(None), "{cut}");
            let rest = &bytes[at..];
            let mut at = 0;
            assert_eq!(state.next(rest, &mut at, None), Ok(Some(Received::Message)), "{cut}");
            assert!(state.is_between_messages());
        }
    }

    #[test]
    fn what_no_server_may_send_is_refused() {
        for (frame, error) in [
            (&[0xc1, 0][..], FrameError::Reserved),
            (&[0x83, 0], FrameError::Opcode(3)),
            (&[0x81, 0x80], FrameError::Masked),
            (&[0x09, 0], FrameError::Control),
            (&[0x89, 126], FrameError::Control),
            (&[0x80, 0], FrameError::Order),
        ] {
            assert_eq!(received(&[frame]), [Err(error)], "{frame:?}");
        }
        assert_eq!(received(&[&[0x01, 0], &[0x81, 0]]), [Err(FrameError::Order)]);
    }

    #[test]
    fn lengths_of_all_three_kinds_are_read_as_they_are_written() {
        for length in [0, 125, 126, 65_535, 65_536] {
            let mut bytes = message(&vec![b'a'; length], [1, 2, 3, 4]);
            bytes[1] &= 0x7f;
            let read = head(&bytes).unwrap().unwrap();
            assert_eq!((read.payload, read.bytes + 4 + length), (length as u64, bytes.len()));
        }
        assert_eq!(message(b"Hello", [0x37, 0xfa, 0x21, 0x3d])[6..], [0x7f, 0x9f, 0x4d, 0x51, 0x58]);
    }
}
