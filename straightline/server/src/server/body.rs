//! The body of a request, as it comes.

use super::buffer::Input;
use super::conn::Conn;
use super::error::StatusError;
use super::exchange::{BodyLeft, Exchange, Progress, Way};
use super::http2::{Came, Stream};
use super::limits::Limits;
use crate::rt::driver::Ready;
use crate::rt::waker::is_timeout;
use crate::rt::{TURN_BYTES, yield_now};
use http1::chunked::{ChunkedDecoder, Event};
use http1::request::Framing;
use rustix::io::Errno;
use std::io::{self, Read};
use std::time::{Duration, Instant};

/// A read of at least so many bytes goes from the socket to its taker without a copy, in bytes.
const DIRECT_BYTES: usize = 16 * 1024;

/// A body, from the bytes that came with the head to its last one.
pub(crate) struct Body<'b> {
    /// What came with the head and is not taken yet: of the body, and after it perhaps of later requests.
    early: &'b [u8],
    /// What was received since.
    late: Option<Input>,
    framing: State,
    /// Bytes of data that lie ready to be taken.
    piece: usize,
    /// Bytes of data taken or ready.
    taken: u64,
    /// Bytes received for it, framing included.
    received: u64,
    limit: u64,
    /// Time spent waiting for it, and how much of that since its last byte.
    waited: Duration,
    silent: Duration,
    /// Bytes received since the other connections of the shard last had their turn.
    unbroken: u64,
    trailers: Vec<u8>,
}

enum State {
    Length(u64),
    Chunked(ChunkedDecoder),
    /// What comes by a stream of HTTP/2, which sees to the length that was promised.
    Stream(Option<u64>),
    Done,
    /// Nobody can know where it ends.
    Broken,
}

/// Where the bytes after a body lie.
pub(crate) enum After {
    /// So many bytes from the end of what came with the head.
    Early(usize),
    /// In a buffer of their own.
    Late(Input),
}

impl<'b> Body<'b> {
    #[inline]
    pub(crate) fn new(framing: Framing, early: &'b [u8], limit: u64, exchange: &Exchange<'_>) -> Self {
        exchange.body_left.set(match framing {
            Framing::None | Framing::Length(0) => BodyLeft::Nothing,
            Framing::Length(length) => BodyLeft::Bytes(length.saturating_sub(early.len() as u64)),
            Framing::Chunked => BodyLeft::Unknown,
        });
        let state = match framing {
            Framing::None | Framing::Length(0) => State::Done,
            Framing::Length(length) => State::Length(length),
            Framing::Chunked => State::Chunked(ChunkedDecoder::new()),
        };
        Self::in_state(state, early, limit)
    }

    /// One that comes by a stream; `None` if the request ended with its head.
    pub(crate) fn of_stream(promised: Option<Option<u64>>, limit: u64) -> Self {
        Self::in_state(promised.map_or(State::Done, State::Stream), &[], limit)
    }

    #[inline(always)]
    fn in_state(framing: State, early: &'b [u8], limit: u64) -> Self {
        // Made where it will stay: to move what was written field by field a moment ago stalls the CPU.
        Self {
            early,
            late: None,
            framing,
            piece: 0,
            taken: 0,
            received: 0,
            limit,
            waited: Duration::ZERO,
            silent: Duration::ZERO,
            unbroken: 0,
            trailers: Vec::new(),
        }
    }

    /// What is still to be received of it.
    fn left(&self) -> BodyLeft {
        match self.framing {
            State::Length(left) => {
                let behind_the_piece = self.ready().len() - self.piece;
                BodyLeft::Bytes(left.saturating_sub(behind_the_piece as u64))
            }
            State::Chunked(_) | State::Stream(_) => BodyLeft::Unknown,
            State::Done => BodyLeft::Nothing,
            State::Broken => BodyLeft::Bytes(u64::MAX),
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        matches!(self.framing, State::Done) && self.piece == 0
    }

    /// Refuses a body of more than `bytes`, at once if it says its length.
    pub(crate) fn set_limit(&mut self, bytes: u64) -> io::Result<()> {
        self.limit = bytes;
        let least = match self.framing {
            State::Length(left) => self.taken + left,
            State::Stream(Some(promised)) => promised,
            _ => self.taken,
        };
        if least > bytes { Err(self.too_large()) } else { Ok(()) }
    }

    pub(crate) fn trailers(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        http1::chunked::trailers(&self.trailers)
    }

    fn too_large(&mut self) -> io::Error {
        self.framing = State::Broken;
        self.piece = 0;
        StatusError::new(413, "the body is larger than it may be").into()
    }

    /// The bytes that are here and not taken.
    fn ready(&self) -> &[u8] {
        match &self.late {
            None => self.early,
            Some(late) => late.bytes(),
        }
    }

    fn skip(&mut self, count: usize) {
        match &mut self.late {
            None => self.early = &self.early[count..],
            Some(late) => late.consume(count),
        }
    }

    /// Data of the body, waiting for some if none is here; empty at its end.
    pub(crate) fn fill(&mut self, exchange: &Exchange<'_>) -> io::Result<&[u8]> {
        let outcome = self.find_data(exchange);
        self.tell_left(exchange);
        outcome?;
        Ok(&self.ready()[..self.piece])
    }

    /// Lets the answer know whether the connection can be kept after it.
    #[inline]
    pub(crate) fn tell_left(&self, exchange: &Exchange<'_>) {
        exchange.body_left.set(self.left());
    }

    fn find_data(&mut self, exchange: &Exchange<'_>) -> io::Result<()> {
        while self.piece == 0 && !matches!(self.framing, State::Done) {
            self.find_piece()?;
            if self.piece == 0 && !matches!(self.framing, State::Done) {
                self.receive(exchange)?;
            }
        }
        Ok(())
    }

    pub(crate) fn consume(&mut self, count: usize) {
        let count = count.min(self.piece);
        self.piece -= count;
        self.skip(count);
    }

    /// Looks among the bytes that are here for data, or the end.
    fn find_piece(&mut self) -> io::Result<()> {
        let piece = match &mut self.framing {
            State::Length(left) => {
                let here = match &self.late {
                    None => self.early.len(),
                    Some(late) => late.bytes().len(),
                };
                let piece = usize::try_from(*left).map_or(here, |left| left.min(here));
                *left -= piece as u64;
                if *left == 0 {
                    self.framing = State::Done;
                }
                piece
            }
            State::Stream(_) => self.late.as_ref().map_or(0, |late| late.bytes().len()),
            State::Chunked(_) => self.find_chunk()?,
            State::Done => 0,
            State::Broken => return Err(StatusError::new(400, "the body is malformed").into()),
        };
        self.piece = piece;
        self.taken += piece as u64;
        if self.taken > self.limit { Err(self.too_large()) } else { Ok(()) }
    }

    fn find_chunk(&mut self) -> io::Result<usize> {
        loop {
            let bytes = match &self.late {
                None => self.early,
                Some(late) => late.bytes(),
            };
            let State::Chunked(decoder) = &mut self.framing else { return Ok(0) };
            let step = match decoder.decode(bytes) {
                Ok(step) => step,
                Err(error) => {
                    self.framing = State::Broken;
                    return Err(StatusError::new(400, error.to_string()).into());
                }
            };
            match step.event {
                Event::Data(range) => {
                    self.skip(range.start);
                    return Ok(range.len());
                }
                Event::Trailer(range) => {
                    self.trailers.extend_from_slice(&bytes[range]);
                    self.skip(step.consumed);
                }
                Event::Partial => {
                    self.skip(step.consumed);
                    return Ok(0);
                }
                Event::Done => {
                    self.skip(step.consumed);
                    self.framing = State::Done;
                    return Ok(0);
                }
            }
        }
    }

    /// Waits for more bytes.
    #[cold]
    fn receive(&mut self, exchange: &Exchange<'_>) -> io::Result<()> {
        if let Way::Stream(stream) = exchange.way {
            return self.receive_by(stream, exchange);
        }
        self.before_waiting(exchange)?;
        let conn = exchange.conn;
        let mut late = self.late.take().unwrap_or_else(|| conn.worker().take_input());
        late.make_room();
        let outcome = self.wait_and(conn, |conn| conn.recv(late.room()));
        if let Ok(count) = outcome {
            late.add(count);
        }
        self.late = Some(late);
        outcome.map(|_| ())
    }

    /// Waits for more bytes of a stream, or its end.
    fn receive_by(&mut self, stream: &Stream, exchange: &Exchange<'_>) -> io::Result<()> {
        if exchange.expects.take() && exchange.progress.get() == Progress::Fresh {
            stream.answer(100, b"", false);
        }
        let mut late = self.late.take().unwrap_or_else(|| exchange.conn.worker().take_input());
        late.make_room();
        let outcome = loop {
            match stream.read(late.room()) {
                Ok(Came::Nothing) => {
                    let limits = exchange.conn.worker().limits();
                    if let Err(error) = self.wait_in_time(limits, |until| stream.wait(until)) {
                        break Err(error);
                    }
                }
                Ok(Came::Bytes(count)) => {
                    late.add(count);
                    self.received += count as u64;
                    self.silent = Duration::ZERO;
                    break Ok(());
                }
                Ok(Came::End(trailers)) => {
                    self.trailers = trailers;
                    self.framing = State::Done;
                    break Ok(());
                }
                Err(error) => {
                    self.framing = State::Broken;
                    break Err(error);
                }
            }
        };
        self.late = Some(late);
        outcome
    }

    /// What the client must have before it will send more: what was answered so far, and leave to go on.
    fn before_waiting(&mut self, exchange: &Exchange<'_>) -> io::Result<()> {
        if exchange.expects.take() && exchange.progress.get() == Progress::Fresh {
            exchange.conn.output().borrow_mut().insert_sealed(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
        exchange.conn.flush()
    }

    /// Repeats a receiving call until it brings bytes, in the time that they may take.
    fn wait_and(
        &mut self,
        conn: &Conn,
        mut receive: impl FnMut(&Conn) -> super::conn::Io,
    ) -> io::Result<usize> {
        if self.unbroken >= TURN_BYTES {
            self.unbroken = 0;
            yield_now()?;
        }
        let count = loop {
            match receive(conn) {
                Err(Errno::AGAIN) => self.wait_for_client(conn)?,
                Err(error) => {
                    self.framing = State::Broken;
                    return Err(error.into());
                }
                Ok(count) => break count,
            }
        };
        if count == 0 {
            self.framing = State::Broken;
            let cut = "the connection ended in the middle of the body";
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, StatusError::new(400, cut)));
        }
        self.received += count as u64;
        self.unbroken += count as u64;
        self.silent = Duration::ZERO;
        Ok(count)
    }

    /// Waits for the client, as long as it may still take: a body that came fast so far does not buy long silence, and
    /// what the handler does between its reads is not the client's time.
    fn wait_for_client(&mut self, conn: &Conn) -> io::Result<()> {
        self.wait_in_time(conn.worker().limits(), |until| conn.wait_for_client(Ready::READ, until))
    }

    fn wait_in_time(
        &mut self,
        limits: &Limits,
        wait: impl FnOnce(Instant) -> io::Result<()>,
    ) -> io::Result<()> {
        let average = limits.body_time(self.received).saturating_sub(self.waited);
        let silence = limits.idle_time.saturating_sub(self.silent);
        let start = Instant::now();
        let outcome = wait(start + average.min(silence));
        let waited = start.elapsed();
        self.waited += waited;
        self.silent += waited;
        self.unbroken = 0;
        outcome.map_err(|error| {
            self.framing = State::Broken;
            match is_timeout(&error) {
                true => StatusError::new(408, "the body came too slowly").into(),
                false => error,
            }
        })
    }

    /// Reads as `Read::read` does.
    pub(crate) fn read(&mut self, exchange: &Exchange<'_>, into: &mut [u8]) -> io::Result<usize> {
        if self.piece == 0
            && into.len() >= DIRECT_BYTES
            && self.ready().is_empty()
            && let State::Length(left) = self.framing
        {
            let outcome = self.read_directly(exchange, into, left);
            self.tell_left(exchange);
            return outcome;
        }
        let count = self.fill(exchange)?.read(into)?;
        self.consume(count);
        Ok(count)
    }

    /// Receives into the reader's own memory.
    fn read_directly(&mut self, exchange: &Exchange<'_>, into: &mut [u8], left: u64) -> io::Result<usize> {
        let room = usize::try_from(left).map_or(into.len(), |left| left.min(into.len()));
        self.before_waiting(exchange)?;
        let count = self.wait_and(exchange.conn, |conn| conn.recv(&mut into[..room]))?;
        self.taken += count as u64;
        self.framing = match left - count as u64 {
            0 => State::Done,
            left => State::Length(left),
        };
        if self.taken > self.limit { Err(self.too_large()) } else { Ok(count) }
    }

    /// Reads and drops what the handler left, up to `limit` bytes; whether the end was reached.
    pub(crate) fn drain(&mut self, exchange: &Exchange<'_>, limit: u64) -> bool {
        let end = self.taken.saturating_add(limit);
        loop {
            match self.fill(exchange) {
                Ok([]) => return true,
                Ok(piece) => {
                    let count = piece.len();
                    self.consume(count);
                }
                Err(_) => return false,
            }
            if self.taken > end {
                return false;
            }
        }
    }

    /// Takes bytes that follow the body, for a protocol that is not HTTP.
    pub(crate) fn take_rest(&mut self, into: &mut [u8]) -> usize {
        let rest = self.ready();
        let count = rest.len().min(into.len());
        into[..count].copy_from_slice(&rest[..count]);
        self.skip(count);
        count
    }

    /// The buffer that was received into, if one was.
    pub(crate) fn into_late(self) -> Option<Input> {
        self.late
    }

    /// The bytes after the body; of no meaning before its end.
    #[inline]
    pub(crate) fn finish(self) -> After {
        match self.late {
            None => After::Early(self.early.len()),
            Some(late) => After::Late(late),
        }
    }
}
