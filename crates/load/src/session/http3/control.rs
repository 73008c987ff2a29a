//! The streams that a server begins: its settings and farewells, and what its compression has to say.
//!
//! Source: RFC 9114, sections 6.2 and 7.2; RFC 9204, section 4.2.

use super::code;
use super::varint;
use crate::session::fields::FIELDS_BYTES;

/// Kinds of streams.
const CONTROL: u64 = 0;
const PUSH: u64 = 1;
const ENCODER: u64 = 2;
const DECODER: u64 = 3;

/// Kinds of frames.
pub(super) const DATA: u64 = 0;
pub(super) const HEADERS: u64 = 1;
const CANCEL_PUSH: u64 = 3;
const SETTINGS: u64 = 4;
pub(super) const PUSH_PROMISE: u64 = 5;
const GOAWAY: u64 = 7;
const MAX_PUSH_ID: u64 = 13;

/// Settings of ours: no table, no stream that waits for it, and the most fields that we take.
const OURS: [(u64, u64); 3] = [(0x01, 0), (0x07, 0), (0x06, FIELDS_BYTES as u64)];
/// Settings that HTTP/2 has and HTTP/3 must not. Source: RFC 9114, section 7.2.4.1.
const OF_HTTP2: std::ops::RangeInclusive<u64> = 0x02..=0x05;
/// Most bytes of a frame on the control stream that we keep: settings have a dozen of entries.
const FRAME_BYTES: u64 = 4096;

/// Whether a frame of this kind is one of HTTP/2 that HTTP/3 must not have. Source: RFC 9114, section 7.2.8.
pub(super) fn is_of_http2(kind: u64) -> bool {
    matches!(kind, 0x02 | 0x06 | 0x08 | 0x09)
}

/// Whether a frame of this kind may stand on a control stream alone.
pub(super) fn is_of_control(kind: u64) -> bool {
    matches!(kind, CANCEL_PUSH | SETTINGS | GOAWAY | MAX_PUSH_ID)
}

/// What our control stream begins with.
pub(super) fn ours() -> Vec<u8> {
    let mut settings = Vec::new();
    for (name, value) in OURS {
        varint::write(&mut settings, name);
        varint::write(&mut settings, value);
    }
    let mut bytes = vec![CONTROL as u8, SETTINGS as u8];
    varint::write(&mut bytes, settings.len() as u64);
    bytes.extend_from_slice(&settings);
    bytes
}

/// What all streams of one server together have said.
#[derive(Debug, Default)]
pub(super) struct Server {
    /// Which of the streams there are that there may be one of.
    control: bool,
    encoder: bool,
    decoder: bool,
    /// The first stream that the server does not answer any more.
    pub(super) leaves_at: Option<u64>,
}

/// A stream that the server has begun.
#[derive(Debug, Default)]
pub(super) struct Inbound {
    kind: Kind,
    /// Bytes that are not all there of what they begin.
    stash: Vec<u8>,
}

#[derive(Debug, Default)]
enum Kind {
    #[default]
    Unknown,
    Control {
        settled: bool,
        /// Bytes of an unknown frame that are still to come.
        skip: u64,
    },
    Encoder,
    Decoder,
    /// Of a kind that we do not know, which is nothing wrong.
    Ignored,
}

impl Inbound {
    /// Takes in the next bytes, `last` or not.
    ///
    /// # Errors
    /// The code with which the connection is over.
    pub(super) fn take(&mut self, bytes: &[u8], last: bool, server: &mut Server) -> Result<(), u64> {
        if matches!(self.kind, Kind::Ignored) {
            return Ok(());
        }
        self.stash.extend_from_slice(bytes);
        if matches!(self.kind, Kind::Unknown) && !self.begin(server)? {
            return Ok(());
        }
        match &mut self.kind {
            Kind::Unknown => {}
            Kind::Ignored => self.stash = Vec::new(),
            Kind::Control { settled, skip } => frames(&mut self.stash, settled, skip, server)?,
            Kind::Encoder => instructions(&mut self.stash, is_no_insert, code::ENCODER_STREAM_ERROR)?,
            Kind::Decoder => instructions(&mut self.stash, is_cancellation, code::DECODER_STREAM_ERROR)?,
        }
        match self.kind {
            Kind::Control { .. } | Kind::Encoder | Kind::Decoder if last => Err(code::CLOSED_CRITICAL_STREAM),
            _ => Ok(()),
        }
    }

    /// Whether the stream may end by a reset.
    pub(super) fn may_be_reset(&self) -> bool {
        matches!(self.kind, Kind::Unknown | Kind::Ignored)
    }

    /// Reads what kind of stream it is; true when that is known.
    fn begin(&mut self, server: &mut Server) -> Result<bool, u64> {
        let Some((kind, length)) = varint::read(&self.stash) else { return Ok(false) };
        self.stash.drain(..length);
        let (kind, there) = match kind {
            CONTROL => (Kind::Control { settled: false, skip: 0 }, &mut server.control),
            ENCODER => (Kind::Encoder, &mut server.encoder),
            DECODER => (Kind::Decoder, &mut server.decoder),
            // We have allowed none.
            PUSH => return Err(code::ID_ERROR),
            _ => {
                self.kind = Kind::Ignored;
                return Ok(true);
            }
        };
        if std::mem::replace(there, true) {
            return Err(code::STREAM_CREATION);
        }
        self.kind = kind;
        Ok(true)
    }
}

/// Takes whole frames of the control stream from the front of `stash`.
fn frames(stash: &mut Vec<u8>, settled: &mut bool, skip: &mut u64, server: &mut Server) -> Result<(), u64> {
    loop {
        let skipped = (*skip).min(stash.len() as u64);
        stash.drain(..skipped as usize);
        *skip -= skipped;
        let Some((kind, kind_bytes)) = varint::read(stash) else { return Ok(()) };
        if !*settled && kind != SETTINGS {
            return Err(code::MISSING_SETTINGS);
        }
        let Some((length, length_bytes)) = varint::read(&stash[kind_bytes..]) else { return Ok(()) };
        let head = kind_bytes + length_bytes;
        if is_of_http2(kind) || matches!(kind, DATA | HEADERS | PUSH_PROMISE | MAX_PUSH_ID) {
            return Err(code::FRAME_UNEXPECTED);
        }
        if !is_of_control(kind) {
            stash.drain(..head);
            *skip = length;
            continue;
        }
        if length > FRAME_BYTES {
            return Err(code::EXCESSIVE_LOAD);
        }
        let end = head + length as usize;
        let Some(content) = stash.get(head..end) else { return Ok(()) };
        match kind {
            SETTINGS if *settled => return Err(code::FRAME_UNEXPECTED),
            SETTINGS => settings(content)?,
            GOAWAY => goaway(content, server)?,
            // Nothing was promised that could be cancelled.
            _ => return Err(code::ID_ERROR),
        }
        *settled = true;
        stash.drain(..end);
    }
}

/// Checks settings; none of them changes what we send.
fn settings(mut content: &[u8]) -> Result<(), u64> {
    let mut seen = Vec::new();
    while !content.is_empty() {
        let (name, name_bytes) = varint::read(content).ok_or(code::FRAME_ERROR)?;
        let (_, value_bytes) = varint::read(&content[name_bytes..]).ok_or(code::FRAME_ERROR)?;
        if OF_HTTP2.contains(&name) || seen.contains(&name) {
            return Err(code::SETTINGS_ERROR);
        }
        seen.push(name);
        content = &content[name_bytes + value_bytes..];
    }
    Ok(())
}

/// The server says from which stream on it answers none; it may say less later, and not more.
fn goaway(content: &[u8], server: &mut Server) -> Result<(), u64> {
    let (stream, length) = varint::read(content).ok_or(code::FRAME_ERROR)?;
    if length != content.len() {
        return Err(code::FRAME_ERROR);
    }
    // Ours are those whose lowest bits are 0.
    if stream & 3 != 0 || server.leaves_at.is_some_and(|before| stream > before) {
        return Err(code::ID_ERROR);
    }
    server.leaves_at = Some(stream);
    Ok(())
}

/// Each instruction is of one byte, or else longer than any that may come: `allowed` says which it is by the first.
fn instructions(stash: &mut Vec<u8>, allowed: fn(u8) -> Option<u32>, error: u64) -> Result<(), u64> {
    /// Bytes of the longest integer.
    const LONGEST: usize = 1 + varint::MOST_BYTES;
    while let Some(first) = stash.first() {
        let bits = allowed(*first).ok_or(error)?;
        match http2::hpack::integer::read(stash, bits) {
            Some((_, rest)) => {
                let used = stash.len() - rest.len();
                stash.drain(..used);
            }
            None if stash.len() < LONGEST => return Ok(()),
            None => return Err(error),
        }
    }
    Ok(())
}

/// "Set the table's capacity", of which only 0 is possible and is one byte.
fn is_no_insert(first: u8) -> Option<u32> {
    (first == 0b0010_0000).then_some(5)
}

/// "A stream was given up", which may be said to an encoder without a table.
fn is_cancellation(first: u8) -> Option<u32> {
    (first & 0b1100_0000 == 0b0100_0000).then_some(6)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What becomes of a stream with these bytes, however it is cut.
    fn taken(bytes: &[u8]) -> Result<Option<u64>, u64> {
        let whole = in_pieces(bytes, bytes.len().max(1));
        (1..bytes.len()).for_each(|step| assert_eq!(in_pieces(bytes, step), whole, "in pieces of {step}"));
        whole
    }

    fn in_pieces(bytes: &[u8], step: usize) -> Result<Option<u64>, u64> {
        let (mut stream, mut server) = (Inbound::default(), Server::default());
        for part in bytes.chunks(step) {
            stream.take(part, false, &mut server)?;
        }
        Ok(server.leaves_at)
    }

    #[test]
    fn settings_farewells_and_unknown_frames_are_read() {
        assert_eq!(taken(&ours()), Ok(None));
        // Settings, an unknown frame, two farewells.
        assert_eq!(taken(&[0, 4, 2, 0x06, 9, 0x21, 3, 1, 2, 3, 7, 1, 8, 7, 1, 4]), Ok(Some(4)));
        // A stream of an unknown kind, a table of no room, a stream given up.
        for fine in [&[0x21, 1, 2, 3][..], &[2, 0x20], &[3, 0x44, 0x7f, 9]] {
            assert_eq!(taken(fine), Ok(None), "{fine:?}");
        }
    }

    #[test]
    fn what_breaks_the_protocol_costs_the_connection() {
        let cases: [(&[u8], u64); 18] = [
            (&[1, 0], code::ID_ERROR),
            (&[0, 7, 1, 0], code::MISSING_SETTINGS),
            (&[0, 0x21, 0], code::MISSING_SETTINGS),
            (&[0, 4, 0, 4, 0], code::FRAME_UNEXPECTED),
            (&[0, 4, 0, 0, 1, 1], code::FRAME_UNEXPECTED),
            (&[0, 4, 0, 1, 1, 1], code::FRAME_UNEXPECTED),
            (&[0, 4, 0, 13, 1, 1], code::FRAME_UNEXPECTED),
            (&[0, 4, 0, 2, 0], code::FRAME_UNEXPECTED),
            (&[0, 4, 0, 3, 1, 0], code::ID_ERROR),
            (&[0, 4, 2, 2, 0], code::SETTINGS_ERROR),
            (&[0, 4, 4, 6, 0, 6, 1], code::SETTINGS_ERROR),
            (&[0, 4, 1, 6], code::FRAME_ERROR),
            (&[0, 4, 0, 7, 1, 1], code::ID_ERROR),
            (&[0, 4, 0, 7, 1, 4, 7, 1, 8], code::ID_ERROR),
            (&[0, 4, 0, 7, 2, 4, 4], code::FRAME_ERROR),
            (&[0, 4, 0x80, 1, 0, 0], code::EXCESSIVE_LOAD),
            (&[2, 0x3f, 0], code::ENCODER_STREAM_ERROR),
            (&[3, 0x80], code::DECODER_STREAM_ERROR),
        ];
        for (bytes, code) in cases {
            assert_eq!(taken(bytes), Err(code), "{bytes:?}");
        }
        let (mut first, mut second, mut server) = (Inbound::default(), Inbound::default(), Server::default());
        assert_eq!(first.take(&[0, 4, 0], false, &mut server), Ok(()));
        assert_eq!(second.take(&[0, 4, 0], false, &mut server), Err(code::STREAM_CREATION));
        assert_eq!(first.take(&[], true, &mut server), Err(code::CLOSED_CRITICAL_STREAM));
    }
}
