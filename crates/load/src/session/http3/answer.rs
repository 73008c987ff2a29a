//! One answer: the frames of its stream.
//!
//! Source: RFC 9114, sections 4.1 to 4.3.

use super::control::{DATA, HEADERS, PUSH_PROMISE, is_of_control, is_of_http2};
use super::{code, qpack, varint};
use crate::session::fields::{FIELDS_BYTES, Fields, FieldsError, Head};
use crate::session::{Body, Heard};

/// Why a stream cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wrong {
    /// What came is no answer, and the others are untouched.
    Answer(FieldsError),
    /// The connection is over, with this code.
    Connection(u64),
}

/// Decodes heads, and knows the last one by its bytes: a server that says the same again costs a comparison.
#[derive(Debug, Default)]
pub struct Heads {
    block: Vec<u8>,
    head: Head,
}

impl Heads {
    fn read(&mut self, block: &[u8], heard: Option<&mut Heard>) -> Result<Head, Wrong> {
        if heard.is_none() && !self.block.is_empty() && self.block == block {
            return Ok(self.head);
        }
        let head = read_fields(block, Fields::of_head(heard.is_some()), heard)?;
        self.block.clear();
        self.block.extend_from_slice(block);
        self.head = head;
        Ok(head)
    }
}

/// What the next byte belongs to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Part {
    /// Kind and length of a frame.
    #[default]
    Frame,
    /// Fields, so many bytes of them.
    Fields(u64),
    /// So many bytes of the body.
    Body(u64),
    /// So many bytes of a frame that is nothing to us.
    Unknown(u64),
}

/// An answer as it comes.
#[derive(Debug, Default)]
pub(super) struct Answer {
    part: Part,
    /// The begin of what is not there whole. Empty, and without memory, almost always.
    stash: Vec<u8>,
    /// 0 until the head has come.
    head: Head,
    /// Bytes of the body so far.
    came: u64,
    /// Whether the fields after the body have come.
    trailed: bool,
}

impl Answer {
    /// Takes in the next bytes of the stream, `last` or not; the status of an answer that is complete. `bodiless` says that it
    /// answers HEAD.
    pub(super) fn take(
        &mut self,
        mut bytes: &[u8],
        last: bool,
        bodiless: bool,
        heads: &mut Heads,
        mut heard: Option<&mut Heard>,
    ) -> Result<Option<u16>, Wrong> {
        loop {
            bytes = match self.part {
                Part::Frame => match self.begin_frame(bytes)? {
                    Some(rest) => rest,
                    None => break,
                },
                Part::Fields(length) => match self.fields(bytes, length, heads, heard.as_deref_mut())? {
                    Some(rest) => rest,
                    None => break,
                },
                Part::Body(left) => {
                    let (body, rest) = bytes.split_at(bytes.len().min(left as usize));
                    self.came += body.len() as u64;
                    if let Some(heard) = &mut heard {
                        heard.more(body);
                    }
                    self.part = rest_of(left, body.len(), Part::Body);
                    rest
                }
                Part::Unknown(left) => {
                    let (skipped, rest) = bytes.split_at(bytes.len().min(left as usize));
                    self.part = rest_of(left, skipped.len(), Part::Unknown);
                    rest
                }
            };
            if bytes.is_empty() && !matches!(self.part, Part::Fields(0)) {
                break;
            }
        }
        if last { self.end(bodiless).map(Some) } else { Ok(None) }
    }

    /// Reads kind and length of a frame; what follows, or nothing where they are not all there.
    fn begin_frame<'a>(&mut self, bytes: &'a [u8]) -> Result<Option<&'a [u8]>, Wrong> {
        let kept = self.stash.len();
        let read = if kept == 0 {
            frame_head(bytes)
        } else {
            // What was kept is shorter than the longest head of a frame.
            self.stash.extend_from_slice(&bytes[..bytes.len().min(2 * varint::MOST_BYTES)]);
            frame_head(&self.stash)
        };
        let Some((kind, length, head_bytes)) = read else {
            if kept == 0 {
                self.stash.extend_from_slice(bytes);
            }
            return Ok(None);
        };
        self.stash.clear();
        self.part = self.part_of(kind, length)?;
        Ok(Some(&bytes[head_bytes - kept..]))
    }

    fn part_of(&self, kind: u64, length: u64) -> Result<Part, Wrong> {
        match kind {
            HEADERS if self.trailed => Err(Wrong::Connection(code::FRAME_UNEXPECTED)),
            HEADERS if length > FIELDS_BYTES as u64 => Err(Wrong::Answer(FieldsError::TooLong)),
            HEADERS => Ok(Part::Fields(length)),
            DATA if self.head.status == 0 || self.trailed => Err(Wrong::Connection(code::FRAME_UNEXPECTED)),
            DATA => Ok(rest_of(length, 0, Part::Body)),
            // We have allowed no push.
            PUSH_PROMISE => Err(Wrong::Connection(code::ID_ERROR)),
            _ if is_of_control(kind) || is_of_http2(kind) => Err(Wrong::Connection(code::FRAME_UNEXPECTED)),
            _ => Ok(rest_of(length, 0, Part::Unknown)),
        }
    }

    /// Reads fields; what follows, or nothing where they are not all there.
    fn fields<'a>(
        &mut self,
        bytes: &'a [u8],
        length: u64,
        heads: &mut Heads,
        heard: Option<&mut Heard>,
    ) -> Result<Option<&'a [u8]>, Wrong> {
        let (block, rest) = bytes.split_at(bytes.len().min(length as usize - self.stash.len()));
        if self.stash.len() + block.len() < length as usize {
            self.stash.extend_from_slice(block);
            return Ok(None);
        }
        if self.stash.is_empty() {
            self.read_fields(block, heads, heard)?;
        } else {
            self.stash.extend_from_slice(block);
            let whole = std::mem::take(&mut self.stash);
            self.read_fields(&whole, heads, heard)?;
        }
        self.part = Part::Frame;
        Ok(Some(rest))
    }

    fn read_fields(
        &mut self,
        block: &[u8],
        heads: &mut Heads,
        heard: Option<&mut Heard>,
    ) -> Result<(), Wrong> {
        if self.head.status != 0 {
            self.trailed = true;
            return read_fields(block, Fields::of_trailers(), None).map(|_| ());
        }
        let head = heads.read(block, heard)?;
        if !head.is_interim().map_err(Wrong::Answer)? {
            self.head = head;
        }
        Ok(())
    }

    /// The stream has ended.
    fn end(&self, bodiless: bool) -> Result<u16, Wrong> {
        if self.part != Part::Frame || !self.stash.is_empty() {
            return Err(Wrong::Connection(code::FRAME_ERROR));
        }
        self.head.end(self.came, bodiless).map_err(Wrong::Answer)
    }
}

/// The part of which `taken` bytes of `left` are taken, or what follows it.
#[inline]
fn rest_of(left: u64, taken: usize, part: fn(u64) -> Part) -> Part {
    match left - taken as u64 {
        0 => Part::Frame,
        left => part(left),
    }
}

/// Kind and length of a frame, and how long they are themselves.
#[inline]
fn frame_head(bytes: &[u8]) -> Option<(u64, u64, usize)> {
    let (kind, kind_bytes) = varint::read(bytes)?;
    let (length, length_bytes) = varint::read(&bytes[kind_bytes..])?;
    Some((kind, length, kind_bytes + length_bytes))
}

/// Reads a block of fields. `heard` gets a head as HTTP/1.1 writes it, which is how answers are heard.
fn read_fields(block: &[u8], mut fields: Fields, heard: Option<&mut Heard>) -> Result<Head, Wrong> {
    qpack::decode(block, |name, value| fields.push(name, value)).map_err(Wrong::Connection)?;
    fields.end(heard).map_err(Wrong::Answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u64, content: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        varint::write(&mut bytes, kind);
        varint::write(&mut bytes, content.len() as u64);
        [bytes, content.to_vec()].concat()
    }

    fn fields(fields: &[(&str, &str)]) -> Vec<u8> {
        let mut block = Vec::new();
        qpack::begin(&mut block);
        fields.iter().for_each(|(name, value)| qpack::encode(&mut block, name, value));
        frame(HEADERS, &block)
    }

    fn ok(more: &[(&str, &str)]) -> Vec<u8> {
        fields(&[&[(":status", "200")], more].concat())
    }

    /// What a stream of these bytes comes to, however it is cut.
    fn taken(bytes: &[u8], bodiless: bool) -> Result<u16, Wrong> {
        let in_pieces = |step: usize| {
            let (mut answer, mut heads) = (Answer::default(), Heads::default());
            for part in bytes.chunks(step) {
                assert_eq!(answer.take(part, false, bodiless, &mut heads, None)?, None);
            }
            answer.take(&[], true, bodiless, &mut heads, None).map(Option::unwrap)
        };
        let whole = in_pieces(bytes.len().max(1));
        (1..bytes.len().min(100)).for_each(|step| assert_eq!(in_pieces(step), whole, "in pieces of {step}"));
        whole
    }

    #[test]
    fn answers_are_complete_with_their_stream() {
        let body = frame(DATA, b"hello");
        let cases = [
            (ok(&[]), false, 200),
            ([ok(&[("content-length", "5")]), body.clone()].concat(), false, 200),
            (
                [ok(&[("content-length", "10")]), body.clone(), frame(DATA, b""), body.clone()].concat(),
                false,
                200,
            ),
            (ok(&[("content-length", "5")]), true, 200),
            (fields(&[(":status", "304"), ("content-length", "5")]), false, 304),
            ([fields(&[(":status", "103")]), fields(&[(":status", "418")])].concat(), false, 418),
            // Trailers, and frames of unknown kinds everywhere.
            (
                [
                    frame(0x21, b"xyz"),
                    ok(&[]),
                    frame(0x40, &[7; 300]),
                    body,
                    fields(&[("x", "y")]),
                    frame(0x21, b""),
                ]
                .concat(),
                false,
                200,
            ),
        ];
        for (bytes, bodiless, status) in cases {
            assert_eq!(taken(&bytes, bodiless), Ok(status), "{bytes:?}");
        }
    }

    #[test]
    fn what_is_no_answer_is_told_from_what_breaks_the_connection() {
        use FieldsError as E;
        let answer = |error| Err(Wrong::Answer(error));
        let connection = |code| Err(Wrong::Connection(code));
        let body = frame(DATA, b"hello");
        let cases = [
            (vec![], answer(E::Incomplete)),
            (fields(&[(":status", "100")]), answer(E::Incomplete)),
            (fields(&[("server", "x")]), answer(E::Status)),
            (fields(&[(":status", "20")]), answer(E::Status)),
            (fields(&[(":status", "101")]), answer(E::Status)),
            (fields(&[(":status", "200"), (":status", "200")]), answer(E::Field)),
            (fields(&[("server", "x"), (":status", "200")]), answer(E::Field)),
            (ok(&[(":path", "/")]), answer(E::Field)),
            (ok(&[("Server", "x")]), answer(E::Field)),
            (ok(&[("server", "a\nb")]), answer(E::Field)),
            (ok(&[("connection", "close")]), answer(E::Field)),
            (ok(&[("content-length", "-1")]), answer(E::Field)),
            ([ok(&[("content-length", "4")]), body.clone()].concat(), answer(E::Length)),
            ([ok(&[("content-length", "6")]), body.clone()].concat(), answer(E::Length)),
            ([ok(&[]), fields(&[(":status", "200")])].concat(), answer(E::Field)),
            (frame(HEADERS, &vec![0; FIELDS_BYTES + 1]), answer(E::TooLong)),
            (body.clone(), connection(code::FRAME_UNEXPECTED)),
            ([ok(&[]), fields(&[]), body.clone()].concat(), connection(code::FRAME_UNEXPECTED)),
            ([ok(&[]), fields(&[]), fields(&[])].concat(), connection(code::FRAME_UNEXPECTED)),
            (frame(4, b""), connection(code::FRAME_UNEXPECTED)),
            (frame(2, b"12345"), connection(code::FRAME_UNEXPECTED)),
            (frame(PUSH_PROMISE, b"1"), connection(code::ID_ERROR)),
            (frame(HEADERS, &[1, 0]), connection(code::DECOMPRESSION_FAILED)),
            (frame(HEADERS, &[]), connection(code::DECOMPRESSION_FAILED)),
            ([ok(&[]), vec![0, 5, 1]].concat(), connection(code::FRAME_ERROR)),
            (vec![1], connection(code::FRAME_ERROR)),
        ];
        for (bytes, wanted) in cases {
            assert_eq!(taken(&bytes, false), wanted, "{bytes:?}");
        }
    }

    #[test]
    fn an_answer_is_heard_as_http1_writes_it() {
        let bytes = [ok(&[("server", "x")]), frame(DATA, b"hello"), frame(DATA, b"!")].concat();
        let (mut answer, mut heads, mut heard) = (Answer::default(), Heads::default(), Heard::default());
        assert_eq!(answer.take(&bytes, true, false, &mut heads, Some(&mut heard)), Ok(Some(200)));
        assert_eq!((heard.status, &heard.body[..]), (200, &b"hello!"[..]));
        assert_eq!(heard.head, b"HTTP/1.1 200 \r\nserver: x\r\n\r\n");
    }
}
