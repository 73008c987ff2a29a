//! The body of an answer, written as it comes.

use super::exchange::{Progress, Way};
use super::http2::Stream;
use super::limits::{COPIED_BODY_BYTES, OUTPUT_BYTES};
use super::output::Output;
use super::response::{Done, Response, invalid};
use crate::rt::{TURN_BYTES, yield_now};
use http1::write;
use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Most data of one chunk, in bytes: four hexadecimal digits hold its size, and the client has not long to wait.
const CHUNK_BYTES: usize = 16 * 1024;
/// Room left for the size of a chunk until it is known.
const CHUNK_HEAD: &[u8; 6] = b"0000\r\n";
/// What comes before the trailers of a chunked body.
const LAST_CHUNK: &[u8] = b"0\r\n";
/// Part of a file that is read at a time where the kernel cannot send it by itself, in bytes.
const FILE_PIECE_BYTES: usize = 32 * 1024;

/// State of a [`Response`] whose head is on the way: only its body can follow.
#[derive(Debug)]
pub struct Streaming {
    pub(crate) framing: Framing,
    /// Bytes written since the other connections of the shard last had their turn.
    pub(crate) unbroken: u64,
    /// Whether a part of the body could not be written.
    pub(crate) failed: bool,
}

impl Streaming {
    pub(crate) fn new(framing: Framing) -> Self {
        Self { framing, unbroken: 0, failed: false }
    }
}

/// Where the body ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Framing {
    Chunked,
    /// So many bytes are promised still.
    Left(u64),
    UntilClose,
    /// Where the stream of HTTP/2 does: so many bytes are promised still, if any are.
    Stream(Option<u64>),
    /// What is written goes nowhere, for there is to be no body: so many bytes are promised still, if any are.
    Nothing(Option<u64>),
}

/// Takes so many bytes from those that were promised, if any were.
fn promised_left(left: &mut Option<u64>, length: u64) -> io::Result<()> {
    *left = left.map(|left| left.checked_sub(length).ok_or_else(too_much)).transpose()?;
    Ok(())
}

fn too_much() -> io::Error {
    invalid("more bytes are written than promised")
}

impl Response<'_, Streaming> {
    /// Ends the body. Nothing waits: what is left goes out with the answers that follow, or when the handler waits; but
    /// where the end of the connection is that of the body, it goes out now.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if fewer bytes were written than promised, `BrokenPipe` if writing failed before: the connection is
    /// then closed, for the client must not take what it has for all. Those of the connection.
    pub fn end(self) -> io::Result<Done> {
        self.end_with([])
    }

    /// [`Response::end`] with trailer fields, which only a chunked body carries.
    ///
    /// # Errors
    ///
    /// As [`Response::end`], and `InvalidInput` for a bad field.
    pub fn end_with_trailers(self, trailers: &[(&str, impl AsRef<[u8]>)]) -> io::Result<Done> {
        self.end_with(trailers.iter().map(|(name, value)| (*name, value.as_ref())))
    }

    fn end_with<'t>(mut self, trailers: impl IntoIterator<Item = (&'t str, &'t [u8])>) -> io::Result<Done> {
        if self.state.failed {
            // A handler may not have looked.
            let why = "a part of the body could not be written";
            return Err(io::Error::new(io::ErrorKind::BrokenPipe, why));
        }
        match self.state.framing {
            Framing::Chunked => {
                self.seal_chunk();
                let mut output = self.exchange.conn.output().borrow_mut();
                write::last_chunk_with_trailers(output.bytes_mut(), trailers).map_err(invalid)?;
                output.seal();
            }
            Framing::Left(1..) | Framing::Stream(Some(1..)) => {
                return Err(invalid("fewer bytes were written than promised"));
            }
            Framing::UntilClose => {
                self.exchange.conn.flush()?;
                self.exchange.conn.end_in_order();
            }
            Framing::Stream(_) => self.end_stream(trailers)?,
            Framing::Left(0) | Framing::Nothing(_) => {}
        }
        self.exchange.progress.set(Progress::Done);
        Ok(Done::new(self.exchange.status.get(), self.exchange.body_bytes.get()))
    }

    /// Writes a part of `file`; the kernel copies it by itself where a length was promised and there is no TLS.
    ///
    /// A part that is not in memory holds up the shard while the disk brings it.
    ///
    /// # Errors
    ///
    /// As writing; `UnexpectedEof` if the file ends before the part does.
    pub fn write_file(&mut self, file: &File, part: Range<u64>) -> io::Result<()> {
        let outcome = self.pass_file(file, part);
        self.noted(outcome)
    }

    /// Remembers a failure, after which the body cannot be whole.
    #[inline]
    fn noted<T>(&mut self, outcome: io::Result<T>) -> io::Result<T> {
        self.state.failed |= outcome.is_err();
        outcome
    }

    fn pass_file(&mut self, file: &File, part: Range<u64>) -> io::Result<()> {
        let length = part.end.saturating_sub(part.start);
        match &mut self.state.framing {
            Framing::Left(left) if self.exchange.conn.can_send_files() => {
                *left = left.checked_sub(length).ok_or_else(too_much)?;
                self.exchange.add_body(length);
                self.exchange.conn.flush_with_file(file, part)
            }
            // Nobody will have it, so nobody need read it.
            Framing::Nothing(left) => {
                promised_left(left, length)?;
                self.exchange.add_body(length);
                Ok(())
            }
            _ => self.copy_file(file, part),
        }
    }

    fn copy_file(&mut self, file: &File, mut part: Range<u64>) -> io::Result<()> {
        let mut piece = vec![0; FILE_PIECE_BYTES];
        while part.start < part.end {
            let room =
                usize::try_from(part.end - part.start).map_or(piece.len(), |left| left.min(piece.len()));
            match file.read_at(&mut piece[..room], part.start)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => {
                    self.write_all(&piece[..count])?;
                    part.start += count as u64;
                }
            }
        }
        Ok(())
    }

    /// Lets the chunk that is being filled go out.
    fn seal_chunk(&mut self) {
        let mut output = self.exchange.conn.output().borrow_mut();
        let Some(size) = output.open().len().checked_sub(CHUNK_HEAD.len()) else { return };
        let mut size = size;
        for digit in output.open_mut()[..4].iter_mut().rev() {
            *digit = b"0123456789abcdef"[size & 15];
            size >>= 4;
        }
        output.push(b"\r\n");
        output.seal();
    }

    /// Fills the present chunk from `bytes`; how many of them.
    fn fill_chunk(&mut self, bytes: &[u8]) -> usize {
        let mut output = self.exchange.conn.output().borrow_mut();
        if output.open().is_empty() {
            output.push(CHUNK_HEAD);
        }
        let room = CHUNK_BYTES + CHUNK_HEAD.len() - output.open().len();
        let count = bytes.len().min(room);
        output.push(&bytes[..count]);
        let full = count == room;
        drop(output);
        if full {
            self.seal_chunk();
        }
        count
    }

    fn write_plain(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > COPIED_BODY_BYTES {
            self.exchange.conn.flush_with(bytes)?;
            return Ok(bytes.len());
        }
        let mut output = self.exchange.conn.output().borrow_mut();
        output.push(bytes);
        output.seal();
        Ok(bytes.len())
    }

    fn write_some(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = bytes.len() as u64;
        if self.state.unbroken >= TURN_BYTES {
            self.state.unbroken = 0;
            yield_now()?;
        }
        self.exchange.conn.ensure_output();
        let count = match &mut self.state.framing {
            _ if bytes.is_empty() => return Ok(0),
            Framing::Nothing(Some(left)) | Framing::Left(left) if *left < length => {
                return Err(too_much());
            }
            Framing::Nothing(left) => {
                *left = left.map(|left| left - length);
                self.exchange.add_body(length);
                return Ok(bytes.len());
            }
            Framing::Left(left) => {
                *left -= length;
                self.write_plain(bytes)?
            }
            Framing::UntilClose => self.write_plain(bytes)?,
            Framing::Stream(left) => {
                promised_left(left, length)?;
                self.write_to_stream(bytes)?;
                self.exchange.add_body(length);
                return Ok(bytes.len());
            }
            Framing::Chunked => self.fill_chunk(bytes),
        };
        self.exchange.add_body(count as u64);
        self.state.unbroken += count as u64;
        if self.exchange.conn.holds() >= OUTPUT_BYTES {
            self.exchange.conn.flush()?;
        }
        Ok(count)
    }
}

/// By a stream of HTTP/2.
impl Response<'_, Streaming> {
    fn stream(&self) -> io::Result<&Stream> {
        match self.exchange.way {
            Way::Stream(stream) => Ok(stream),
            _ => Err(invalid("the answer goes by no stream")),
        }
    }

    /// Gathers bytes until they are worth a frame.
    fn write_to_stream(&mut self, bytes: &[u8]) -> io::Result<()> {
        let held = self.exchange.output.borrow().held();
        if held + bytes.len() < CHUNK_BYTES {
            self.exchange.output.borrow_mut().push(bytes);
            return Ok(());
        }
        self.send_gathered(false)?;
        if bytes.len() >= CHUNK_BYTES {
            return self.stream()?.write(bytes, false);
        }
        self.exchange.output.borrow_mut().push(bytes);
        Ok(())
    }

    /// Sends what was gathered, and the end of the stream if it is the end.
    fn send_gathered(&self, end: bool) -> io::Result<()> {
        let gathered = std::mem::take(self.exchange.output.borrow_mut().bytes_mut());
        let outcome = self.stream()?.write(&gathered, end);
        *self.exchange.output.borrow_mut() = Output::over(gathered);
        outcome
    }

    fn flush_stream(&self) -> io::Result<()> {
        self.send_gathered(false)?;
        self.stream()?.flush()
    }

    fn end_stream<'t>(&self, trailers: impl IntoIterator<Item = (&'t str, &'t [u8])>) -> io::Result<()> {
        let mut lines = Vec::new();
        write::last_chunk_with_trailers(&mut lines, trailers).map_err(invalid)?;
        // Behind the line of the last chunk, which a stream has not.
        let lines = lines.strip_prefix(LAST_CHUNK).unwrap_or_default();
        if lines == b"\r\n" {
            return self.send_gathered(true);
        }
        self.send_gathered(false)?;
        self.stream()?.end_with_trailers(lines)
    }
}

impl Write for Response<'_, Streaming> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let outcome = self.write_some(bytes);
        self.noted(outcome)
    }

    fn flush(&mut self) -> io::Result<()> {
        let outcome = match self.state.framing {
            Framing::Stream(_) => self.flush_stream(),
            Framing::Chunked => {
                self.seal_chunk();
                self.exchange.conn.flush()
            }
            _ => self.exchange.conn.flush(),
        };
        self.noted(outcome)
    }
}
