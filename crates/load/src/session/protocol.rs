//! What is spoken on the connections of a session: bytes in, bytes out, and which answer belongs to which request.
//!
//! A worker carries bytes between sockets and one of these, and does not know which it is.

use std::fmt;

use super::websocket::Upgrade;
use super::{Fate, Malformed, Session};

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The server closed it.
    Closed,
    /// The socket ended without the farewell of TLS.
    Cut,
    /// Reading from it failed.
    Reading,
    /// Writing to it failed.
    Writing,
}

/// When a request that is due is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Sending {
    /// At once, on its connection.
    Now,
    /// Together with others of its connection, which [`Protocol::gathered`] names, or when the server has room for it.
    Later,
    /// Not on this connection, which is over.
    Lost,
}

/// Why no connection will ever be any good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hopeless {
    /// The server speaks something else than this.
    NotSpoken(&'static str),
    /// The server refuses what every connection begins with.
    Refused(Malformed),
    /// A request is none of this protocol.
    Unsendable,
}

/// A protocol: its state for all connections of one session, each with a number of lanes. Where a method has a body, the
/// session itself keeps what is read and written, in the order of the requests.
pub trait Protocol: fmt::Debug {
    /// Whether each answer is what one read brings, so that the kernel's stamp of the read is the answer's.
    const STAMPED: bool;
    /// Whether its connections have timers of their own.
    const TIMED: bool = false;

    /// Lanes of one connection; lane n is of connection n / lanes.
    fn lanes(&self) -> u32 {
        1
    }

    /// A connection is open.
    fn opened(&mut self, session: &mut Session, connection: u32, at: u64) -> Fate;

    /// The session has something to write for `lane`.
    #[inline]
    fn ask(&mut self, _session: &mut Session, _lane: u32, _at: u64) -> Sending {
        Sending::Now
    }

    /// A connection on which requests were gathered, each once, and what becomes of it.
    fn gathered(&mut self, _session: &mut Session, _at: u64) -> Option<(u32, Fate)> {
        None
    }

    /// What a connection has to write now.
    #[inline]
    fn outgoing<'a>(&'a mut self, session: &'a Session, connection: u32) -> &'a [u8] {
        session.outgoing(connection)
    }

    /// `bytes` of it are written, by a write that began at `at`.
    #[inline]
    fn wrote(&mut self, session: &mut Session, connection: u32, bytes: usize, at: u64) {
        session.wrote(connection, bytes, at);
    }

    /// Moves what was kept of a connection to the front of `buf`, and says how long it is: the next read goes after it.
    #[inline]
    fn unstash(&mut self, session: &mut Session, connection: u32, buf: &mut [u8]) -> usize {
        session.unstash(connection, buf)
    }

    /// Keeps again what was unstashed: the read after it brought nothing.
    fn restash(&mut self, session: &mut Session, connection: u32, kept: &[u8]) {
        session.restash(connection, kept);
    }

    /// `fresh` bytes at the end of `buf` were read at `at`; what is before them was unstashed.
    fn received(&mut self, session: &mut Session, connection: u32, buf: &[u8], fresh: usize, at: u64)
    -> Fate;

    /// A connection has ended.
    fn ended(&mut self, session: &mut Session, connection: u32, how: End, at: u64) -> Fate {
        session.ended(connection, how, at)
    }

    /// The session has given up the request of `lane`: what becomes of its connection.
    fn gave_up(&mut self, _session: &mut Session, _lane: u32) -> Fate {
        Fate::Replace
    }

    /// Why there is no sense in going on, once.
    fn take_hopeless(&mut self) -> Option<Hopeless> {
        None
    }

    /// Whether the connection that is to be replaced was refused by a server that accepts connections, once: another is to come
    /// later, as where connections themselves are refused.
    fn take_refused(&mut self) -> bool {
        false
    }
}

/// HTTP/1.1: answers in the order of the requests.
#[derive(Debug)]
pub struct Http1;

impl Protocol for Http1 {
    const STAMPED: bool = true;

    fn opened(&mut self, session: &mut Session, connection: u32, at: u64) -> Fate {
        session.rests_since(connection, at);
        session.opened(connection);
        Fate::Keep
    }

    #[inline]
    fn received(
        &mut self,
        session: &mut Session,
        connection: u32,
        buf: &[u8],
        fresh: usize,
        at: u64,
    ) -> Fate {
        session.received(connection, buf, fresh, at)
    }
}

/// WebSocket: messages in the place of requests, in order, on connections that are upgraded first.
#[derive(Debug)]
pub struct WebSocket {
    upgrade: Upgrade,
    hopeless: Option<Hopeless>,
    /// Whether the last connection that is over was refused.
    refused: bool,
}

impl WebSocket {
    /// On connections that are upgraded so.
    #[must_use]
    pub fn new(upgrade: Upgrade) -> Self {
        Self { upgrade, hopeless: None, refused: false }
    }
}

impl Protocol for WebSocket {
    const STAMPED: bool = true;

    fn opened(&mut self, session: &mut Session, connection: u32, _at: u64) -> Fate {
        session.ask_for_upgrade(connection, &self.upgrade.request);
        Fate::Keep
    }

    #[inline]
    fn received(
        &mut self,
        session: &mut Session,
        connection: u32,
        buf: &[u8],
        fresh: usize,
        at: u64,
    ) -> Fate {
        session.count_bytes(fresh, at);
        match session.received_messages(connection, buf, &self.upgrade, at) {
            Ok(fate) => fate,
            Err(refused) => {
                self.refused = true;
                if session.completed() == 0 {
                    self.hopeless.get_or_insert(Hopeless::Refused(refused));
                }
                Fate::Replace
            }
        }
    }

    fn take_hopeless(&mut self) -> Option<Hopeless> {
        self.hopeless.take()
    }

    fn take_refused(&mut self) -> bool {
        std::mem::take(&mut self.refused)
    }
}
