//! A stream, as the request and the answer on it see it.

use super::Session;
use crate::rt::shard::Resume;
use crate::rt::waker::is_timeout;
use crate::rt::{TURN_BYTES, yield_now};
use crate::server::conn::Conn;
use crate::server::limits::OUTPUT_BYTES;
use ::http2::Gone;
use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::time::Instant;

/// One stream of a connection, while its handler is at work.
pub(crate) struct Stream {
    session: Rc<Session>,
    id: u32,
    /// Whether the client asks for a tunnel.
    tunnel: bool,
    /// Bytes sent since the other connections of the shard had their turn.
    unbroken: Cell<u64>,
}

/// What a look at the body of a request brought.
pub(crate) enum Came {
    /// Nothing yet.
    Nothing,
    Bytes(usize),
    /// Nothing more comes; these lines came last.
    End(Vec<u8>),
}

impl Stream {
    pub(super) fn new(session: Rc<Session>, id: u32, tunnel: bool) -> Self {
        Self { session, id, tunnel, unbroken: Cell::new(0) }
    }

    pub(crate) fn conn(&self) -> &Conn {
        &self.session.conn
    }

    pub(crate) fn is_tunnel(&self) -> bool {
        self.tunnel
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.session.core.borrow().gone(self.id).is_some() || self.conn().is_gone()
    }

    /// Why nothing more can be read or written, if that is so.
    fn check(&self) -> io::Result<()> {
        let why = match self.session.core.borrow().gone(self.id) {
            None => return Ok(()),
            Some(Gone::ByClient) => "the client broke off the stream",
            Some(Gone::ByError) => "the stream ended by an error of the client, or with the connection",
        };
        Err(io::Error::new(io::ErrorKind::ConnectionReset, why))
    }

    /// Sends the head of an answer, of which `head` is the text: a status line and fields.
    pub(crate) fn answer(&self, status: u16, head: &[u8], end: bool) {
        let line = head.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        self.conn().ensure_output();
        self.session.with_core(|core, out| core.answer(self.id, status, &head[line..], end, out));
        self.session.flush_soon();
    }

    pub(crate) fn end_with_trailers(&self, lines: &[u8]) -> io::Result<()> {
        self.conn().ensure_output();
        self.session.with_core(|core, out| core.end_with_trailers(self.id, lines, out));
        self.session.flush_soon();
        self.check()
    }

    /// Sends bytes of a body, waiting for the client to take them, and the end of the stream if they are the last.
    pub(crate) fn write(&self, mut bytes: &[u8], end: bool) -> io::Result<()> {
        let mut deadline = None;
        loop {
            let room = self.room()?;
            self.conn().ensure_output();
            let sent = self.session.with_core(|core, out| core.send(self.id, bytes, end, room, out));
            if sent.gone {
                self.check()?;
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            bytes = &bytes[sent.count..];
            self.session.flush_soon();
            self.give_turn(sent.count)?;
            // The end goes with the last byte, for which there was room; only with none at all it goes alone.
            if bytes.is_empty() {
                return Ok(());
            }
            if sent.count > 0 || deadline.is_none() {
                deadline = Some(Instant::now() + self.conn().worker().limits().write_stall);
            }
            if sent.count == 0 {
                if room == 0 {
                    self.session.wanted.set(true);
                }
                self.wait_counted(deadline.unwrap_or_else(Instant::now))?;
            }
        }
    }

    /// Room in the output, which is made by sending what is there.
    fn room(&self) -> io::Result<usize> {
        if self.conn().holds() >= OUTPUT_BYTES && self.session.stage.get() != super::Stage::Closed {
            self.conn().try_flush()?;
        }
        Ok(OUTPUT_BYTES.saturating_sub(self.conn().holds()))
    }

    fn give_turn(&self, count: usize) -> io::Result<()> {
        self.unbroken.set(self.unbroken.get() + count as u64);
        if self.unbroken.get() >= TURN_BYTES {
            self.unbroken.set(0);
            yield_now()?;
        }
        Ok(())
    }

    /// Sends what is there, and waits until the client's system has it.
    pub(crate) fn flush(&self) -> io::Result<()> {
        let deadline = Instant::now() + self.conn().worker().limits().write_stall;
        loop {
            self.check()?;
            if self.conn().try_flush()? {
                return Ok(());
            }
            self.session.wanted.set(true);
            self.wait_counted(deadline)?;
        }
    }

    /// Takes bytes of the request's body.
    pub(crate) fn read(&self, into: &mut [u8]) -> io::Result<Came> {
        self.conn().ensure_output();
        let count = self.session.with_core(|core, out| core.read(self.id, into, out));
        if count > 0 {
            self.session.flush_soon();
            return Ok(Came::Bytes(count));
        }
        self.check()?;
        let mut core = self.session.core.borrow_mut();
        match core.is_ended(self.id) {
            true => Ok(Came::End(core.take_trailers(self.id))),
            false => Ok(Came::Nothing),
        }
    }

    fn wait_counted(&self, until: Instant) -> io::Result<()> {
        self.wait(until).inspect_err(|error| {
            if is_timeout(error) {
                self.conn().worker().counters().timeouts.add(1);
            }
        })
    }

    /// Waits until something happened on the stream, or may have.
    pub(crate) fn wait(&self, until: Instant) -> io::Result<()> {
        let Some(shard) = self.conn().worker().shard() else { return Ok(()) };
        let place = (self.id, shard.running_key());
        self.session.waiting.borrow_mut().push(place);
        let why = shard.suspend(Some(shard.to_ns(until)));
        self.session.waiting.borrow_mut().retain(|other| *other != place);
        if why? == Resume::Deadline { Err(io::ErrorKind::TimedOut.into()) } else { Ok(()) }
    }
}
