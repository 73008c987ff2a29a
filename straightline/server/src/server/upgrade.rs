//! A connection that speaks another protocol than HTTP.

use super::body::Body;
use super::exchange::Exchange;
use super::response::Done;
use crate::rt::driver::Ready;
use crate::rt::waker::deadline_in;
use rustix::io::Errno;
use std::fmt;
use std::io::{self, Read, Write};
use std::time::Duration;

/// The connection after `101 Switching Protocols`: bytes both ways. It is closed when the handler returns.
pub struct Upgraded<'r, 'a> {
    exchange: &'a Exchange<'a>,
    /// Holds what the client sent after its request.
    body: &'r mut Body<'a>,
    read_timeout: Option<Duration>,
}

impl fmt::Debug for Upgraded<'_, '_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Upgraded").finish_non_exhaustive()
    }
}

impl<'r, 'a> Upgraded<'r, 'a> {
    pub(crate) fn new(exchange: &'a Exchange<'a>, body: &'r mut Body<'a>) -> Self {
        let idle_time = exchange.conn.worker().limits().idle_time;
        Self { exchange, body, read_timeout: Some(idle_time) }
    }

    /// Longest that one read waits: [`Limits::idle_time`](crate::Limits::idle_time), as it begins; `None` for ever.
    pub fn set_read_timeout(&mut self, timeout: Option<Duration>) {
        self.read_timeout = timeout;
    }

    /// Whether the server is about to end.
    pub fn is_draining(&self) -> bool {
        self.exchange.conn.worker().is_draining()
    }

    /// Ends the handler; the connection is closed once everything written has gone out.
    pub fn finish(self) -> Done {
        Done::new(101, 0)
    }
}

/// For protocols that do more than read.
#[cfg(feature = "websocket")]
impl<'a> Upgraded<'_, 'a> {
    /// Whether nobody can wake the handler while it reads.
    pub(crate) fn is_on_thread(&self) -> bool {
        self.exchange.conn.is_on_thread()
    }

    /// Tells the client that no more comes.
    pub(crate) fn shut_down(&self) {
        self.exchange.conn.shut_down();
    }

    /// What tells whether the server is about to end.
    pub(crate) fn drains(&self) -> impl Fn() -> bool + use<'a> {
        let exchange = self.exchange;
        move || exchange.conn.worker().is_draining()
    }

    /// Reads; `WouldBlock` once `deadline` passed, or when nothing is there and `stop` says so. It is asked at first and
    /// whenever the handler is woken.
    pub(crate) fn read_until(
        &mut self,
        into: &mut [u8],
        deadline: std::time::Instant,
        stop: impl Fn() -> bool,
    ) -> io::Result<usize> {
        let early = self.body.take_rest(into);
        if early > 0 || into.is_empty() {
            return Ok(early);
        }
        let conn = self.exchange.conn;
        loop {
            match conn.recv(into) {
                Err(Errno::AGAIN) if stop() => return Err(io::ErrorKind::WouldBlock.into()),
                Err(Errno::AGAIN) => {
                    conn.wait(Ready::READ, Some(deadline)).map_err(
                        |error| match crate::rt::waker::is_timeout(&error) {
                            true => io::ErrorKind::WouldBlock.into(),
                            false => error,
                        },
                    )?
                }
                outcome => return Ok(outcome?),
            }
        }
    }
}

impl Read for Upgraded<'_, '_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let early = self.body.take_rest(into);
        if early > 0 || into.is_empty() {
            return Ok(early);
        }
        let conn = self.exchange.conn;
        let deadline = self.read_timeout.map(deadline_in);
        loop {
            match conn.recv(into) {
                Err(Errno::AGAIN) => conn.wait(Ready::READ, deadline)?,
                outcome => return Ok(outcome?),
            }
        }
    }
}

impl Write for Upgraded<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.exchange.conn.flush_with(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.exchange.conn.flush()
    }
}
