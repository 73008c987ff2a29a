//! Chunked bodies, read as they arrive.

use crate::field::fields;
use crate::scan::{TEXT, TOKEN, text_end};
use std::fmt;
use std::ops::Range;

/// Most hexadecimal digits of a chunk size: those of 64 bits. More of them overflow, or are zeros to get past a filter.
pub const SIZE_DIGITS: u8 = 16;

/// Most extension bytes that are not paid for by data, over a whole body: no known sender uses extensions, and
/// without a bound they are work without a body.
///
/// Each byte of data pays for two bytes of extension, as in Go since CVE-2023-39326.
pub const EXTENSION_BYTES: u32 = 4 * 1024;

/// Most bytes of a trailer section: enough for signatures and checksums.
pub const TRAILER_BYTES: u32 = 8 * 1024;

/// Why a chunked body is refused. Where the next message begins cannot be known any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkError {
    /// The size has no digit, or something other than hexadecimal digits: a sign, `0x`, `_`, a space.
    SizeInvalid,
    /// The size has more than [`SIZE_DIGITS`] digits, or is 2^63 or more.
    SizeTooLarge,
    /// A line feed without a carriage return before it, or a carriage return without a line feed after it.
    LineEnd,
    /// A control character in an extension.
    ExtensionControl,
    /// More than [`EXTENSION_BYTES`] of extensions.
    ExtensionTooLong,
    /// The data of a chunk is not followed by CRLF.
    DataEnd,
    /// A trailer line is not a well-formed field.
    TrailerInvalid,
    /// More than [`TRAILER_BYTES`] of trailers.
    TrailerTooLong,
}

impl fmt::Display for ChunkError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::SizeInvalid => "a chunk size is not a hexadecimal number",
            Self::SizeTooLarge => "a chunk size is too large",
            Self::LineEnd => "a line of a chunked body does not end with CRLF",
            Self::ExtensionControl => "a chunk extension has a control character",
            Self::ExtensionTooLong => "there are too many chunk extensions",
            Self::DataEnd => "the data of a chunk is not followed by CRLF",
            Self::TrailerInvalid => "a trailer is malformed",
            Self::TrailerTooLong => "the trailers are too long",
        })
    }
}

impl std::error::Error for ChunkError {}

/// What one call of [`ChunkedDecoder::decode`] did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Bytes of the input that are used up, from its start. The next call begins after them.
    pub consumed: usize,
    /// What they were.
    pub event: Event,
}

/// What a step came upon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// All of the input was used up; more is needed.
    Partial,
    /// Data of the body: where it lies in the input. Never empty, and it ends where the consumed bytes end.
    Data(Range<usize>),
    /// Bytes of the trailer section: where they lie in the input. Never empty. All of them one after the other are
    /// complete, checked field lines. They must not be taken for headers.
    Trailer(Range<usize>),
    /// The body is complete. What follows the consumed bytes is the next message.
    Done,
}

/// Reads one chunked body, from input that is cut anywhere.
///
/// ```text
/// chunked-body    = *chunk last-chunk trailer-section CRLF
/// chunk           = chunk-size [ chunk-ext ] CRLF chunk-data CRLF
/// chunk-size      = 1*HEXDIG
/// last-chunk      = 1*("0") [ chunk-ext ] CRLF
/// trailer-section = *( field-line CRLF )
/// ```
///
/// Source: RFC 9112, section 7.1.
#[derive(Clone, Debug)]
pub struct ChunkedDecoder {
    state: State,
    /// Size of the chunk being read, then how much of its data is still to come, in bytes.
    left: u64,
    /// Digits of the size read so far.
    digits: u8,
    /// Extension bytes that no data has paid for.
    extension_bytes: u32,
    trailer_bytes: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Size,
    Extension,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    /// At the start of a trailer line or of the blank line.
    TrailerStart,
    TrailerName,
    TrailerValue,
    TrailerLf,
    EndLf,
    Done,
}

impl Default for ChunkedDecoder {
    fn default() -> Self {
        Self::new()
    }
}

impl ChunkedDecoder {
    /// A decoder at the first byte of a body.
    pub const fn new() -> Self {
        Self { state: State::Size, left: 0, digits: 0, extension_bytes: 0, trailer_bytes: 0 }
    }

    /// Whether the whole body was read.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Reads on at the start of `buf`, up to the end of one piece of data or of trailers, of the body, or of `buf`.
    ///
    /// Call again with the bytes after the consumed ones until the event is [`Event::Partial`] or [`Event::Done`].
    ///
    /// # Errors
    ///
    /// [`ChunkError`] at the first byte that no chunked body can have there. The decoder is then of no more use.
    #[inline]
    pub fn decode(&mut self, buf: &[u8]) -> Result<Step, ChunkError> {
        let mut at = 0;
        loop {
            if self.state == State::Done {
                return Ok(Step { consumed: at, event: Event::Done });
            }
            let Some(&byte) = buf.get(at) else { return Ok(Step { consumed: at, event: Event::Partial }) };
            match self.state {
                State::Size => at = self.size(buf, at)?,
                State::Extension => at = self.extension(buf, at)?,
                State::Data => return Ok(self.data(buf.len(), at)),
                State::TrailerStart if byte == b'\r' => {
                    self.state = State::EndLf;
                    at += 1;
                }
                State::TrailerStart | State::TrailerName | State::TrailerValue | State::TrailerLf => {
                    return self.trailer(buf, at);
                }
                State::SizeLf | State::DataCr | State::DataLf | State::EndLf | State::Done => {
                    self.line_end(byte)?;
                    at += 1;
                }
            }
        }
    }

    /// The digits of a size, and the byte after them.
    #[inline]
    fn size(&mut self, buf: &[u8], from: usize) -> Result<usize, ChunkError> {
        for (at, &byte) in buf.iter().enumerate().skip(from) {
            if let Some(digit) = char::from(byte).to_digit(16) {
                if self.digits == SIZE_DIGITS {
                    return Err(ChunkError::SizeTooLarge);
                }
                self.digits += 1;
                self.left = self.left << 4 | u64::from(digit);
                continue;
            }
            self.state = match byte {
                _ if self.digits == 0 => return Err(ChunkError::SizeInvalid),
                _ if self.left > i64::MAX as u64 => return Err(ChunkError::SizeTooLarge),
                b'\r' => State::SizeLf,
                b';' => State::Extension,
                b'\n' => return Err(ChunkError::LineEnd),
                _ => return Err(ChunkError::SizeInvalid),
            };
            self.digits = 0;
            return Ok(at + 1);
        }
        Ok(buf.len())
    }

    /// An extension up to its carriage return. Its meaning is ignored, as the standard wants of unknown ones.
    #[cold]
    fn extension(&mut self, buf: &[u8], from: usize) -> Result<usize, ChunkError> {
        let end = text_end(buf, from);
        let length = u32::try_from(end - from).unwrap_or(u32::MAX);
        self.extension_bytes = self.extension_bytes.saturating_add(length);
        if self.extension_bytes > EXTENSION_BYTES {
            return Err(ChunkError::ExtensionTooLong);
        }
        match buf.get(end) {
            None => Ok(end),
            Some(b'\r') => {
                self.state = State::SizeLf;
                Ok(end + 1)
            }
            Some(b'\n') => Err(ChunkError::LineEnd),
            Some(_) => Err(ChunkError::ExtensionControl),
        }
    }

    #[inline]
    fn data(&mut self, length: usize, from: usize) -> Step {
        let there = length - from;
        let taken = usize::try_from(self.left).map_or(there, |left| left.min(there));
        self.left -= taken as u64;
        if self.left == 0 {
            self.state = State::DataCr;
        }
        Step { consumed: from + taken, event: Event::Data(from..from + taken) }
    }

    /// One byte of a line end.
    #[inline]
    fn line_end(&mut self, byte: u8) -> Result<(), ChunkError> {
        let (expected, next, error) = match self.state {
            State::DataCr => (b'\r', State::DataLf, ChunkError::DataEnd),
            State::DataLf => (b'\n', State::Size, ChunkError::DataEnd),
            State::EndLf => (b'\n', State::Done, ChunkError::LineEnd),
            _ if self.left == 0 => (b'\n', State::TrailerStart, ChunkError::LineEnd),
            _ => (b'\n', State::Data, ChunkError::LineEnd),
        };
        if byte != expected {
            return Err(error);
        }
        if next == State::Data {
            let paid = u32::try_from(self.left.saturating_mul(2)).unwrap_or(u32::MAX);
            self.extension_bytes = self.extension_bytes.saturating_sub(paid);
        }
        self.state = next;
        Ok(())
    }

    /// Trailer lines up to the blank line or the end of the input.
    #[cold]
    fn trailer(&mut self, buf: &[u8], from: usize) -> Result<Step, ChunkError> {
        let mut at = from;
        while let Some(&byte) = buf.get(at) {
            if self.state == State::TrailerStart && byte == b'\r' {
                break;
            }
            self.state = self.after_trailer_byte(byte)?;
            self.trailer_bytes += 1;
            if self.trailer_bytes > TRAILER_BYTES {
                return Err(ChunkError::TrailerTooLong);
            }
            at += 1;
        }
        Ok(Step { consumed: at, event: Event::Trailer(from..at) })
    }

    fn after_trailer_byte(&self, byte: u8) -> Result<State, ChunkError> {
        match (self.state, byte) {
            (State::TrailerName, b':') => Ok(State::TrailerValue),
            (State::TrailerStart | State::TrailerName, _) if TOKEN[usize::from(byte)] => {
                Ok(State::TrailerName)
            }
            (State::TrailerValue, b'\r') => Ok(State::TrailerLf),
            (State::TrailerValue, _) if TEXT[usize::from(byte)] => Ok(State::TrailerValue),
            (State::TrailerLf, b'\n') => Ok(State::TrailerStart),
            (State::TrailerLf, _) | (_, b'\n') => Err(ChunkError::LineEnd),
            _ => Err(ChunkError::TrailerInvalid),
        }
    }
}

/// The fields of a trailer section, put together from the pieces of [`Event::Trailer`].
pub fn trailers(section: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    fields(section, 0)
}
