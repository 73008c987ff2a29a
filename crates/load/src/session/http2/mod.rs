//! HTTP/2 without a socket, a clock or a runtime: bytes in, bytes out. Each stream is a lane of the session.
//!
//! So the session decides as ever what is due and who sends it, and what waits for a stream waits in the schedule with
//! its stamp. A request that has a lane but no room on the server's side (its limit of concurrent streams) is not sent
//! yet either.

mod connection;
mod pipe;
mod request;

use bytes::Bytes;

use super::places::{Carrier, MOST_UNSENT_BYTES, Places};
use crate::session::{End, Fate, Hopeless, Protocol, Sending, Session};
use connection::{Connection, Lost};
use request::parse;

/// HTTP/2 on all connections of one session.
#[derive(Debug)]
pub struct Http2 {
    /// Whether TLS is spoken below.
    secure: bool,
    /// Whether answers are those of gRPC.
    grpc: bool,
    /// The request of every stream, where all are alike.
    pattern: Option<(http::Request<()>, Bytes)>,
    places: Places<Connection>,
}

impl Http2 {
    /// For `lanes` lanes of which `streams` share a connection; `alike` is the request of all of them, if there is one.
    #[must_use]
    pub fn new(lanes: u32, streams: u32, alike: Option<&[u8]>, secure: bool) -> Self {
        Self {
            secure,
            grpc: false,
            pattern: alike.and_then(|request| parse(request, secure)),
            places: Places::new(lanes, streams, "HTTP/2"),
        }
    }

    /// The same with calls of gRPC.
    #[must_use]
    pub fn of_grpc(self) -> Self {
        Self { grpc: true, ..self }
    }

    /// Begins the stream for the request of `lane`.
    fn begin_stream(&mut self, session: &mut Session, lane: u32, at: u64) -> Result<(), Lost> {
        let bytes = session.take_request(lane, self.pattern.is_none(), at);
        let Some((request, body)) = self.pattern.clone().or_else(|| parse(&bytes, self.secure)) else {
            self.places.unsendable();
            return Ok(());
        };
        let (connection, stream) = self.places.of_lane(lane);
        let connection = self.places.connection(connection);
        connection.map_or(Ok(()), |connection| connection.ask(stream, request, body))
    }

    /// Goes as far as a connection can: takes what has ended, begins what waited.
    fn drive(&mut self, session: &mut Session, connection: u32, at: u64) -> Fate {
        loop {
            let advanced = self.places.advance(session, connection, at, |open, came| {
                open.advance(|stream, how| came.push((stream, how)))
            });
            let Some(advanced) = advanced else { return Fate::Keep };
            match advanced.and_then(|()| self.begin_waiting(session, connection, at)) {
                Ok(true) => {}
                Ok(false) => return Fate::Keep,
                Err(lost) => return self.lose(session, connection, lost, at),
            }
        }
    }

    /// Begins requests that waited for room; true if there were any.
    fn begin_waiting(&mut self, session: &mut Session, connection: u32, at: u64) -> Result<bool, Lost> {
        let mut begun = false;
        while let Some(lane) = self.places.next_waiting(connection) {
            begun = true;
            self.begin_stream(session, lane, at)?;
        }
        Ok(begun)
    }

    /// A connection is over: what was sent on it fails.
    #[cold]
    fn lose(&mut self, session: &mut Session, connection: u32, lost: Lost, at: u64) -> Fate {
        let last_words = |over: &mut Connection| match lost.malformed {
            true => std::mem::take(over.outgoing()),
            false => Vec::new(),
        };
        self.places.lose(session, connection, lost.malformed, last_words, at)
    }
}

impl Protocol for Http2 {
    const STAMPED: bool = false;

    fn lanes(&self) -> u32 {
        self.places.streams()
    }

    #[cold]
    fn opened(&mut self, session: &mut Session, connection: u32, at: u64) -> Fate {
        match Connection::new(self.places.streams(), session.listens(), self.grpc) {
            Ok(open) => self.places.opened(session, connection, open),
            Err(lost) => return self.lose(session, connection, lost, at),
        }
        Fate::Keep
    }

    fn ask(&mut self, session: &mut Session, lane: u32, at: u64) -> Sending {
        let (connection, stream) = self.places.of_lane(lane);
        let Some(open) = self.places.connection(connection) else { return Sending::Later };
        let begun = match open.is_open() {
            Ok(()) if open.has_room() => self.begin_stream(session, lane, at),
            Ok(()) => {
                open.wait(stream);
                return Sending::Later;
            }
            Err(lost) => Err(lost),
        };
        match begun {
            Ok(()) => {
                self.places.touch(connection);
                Sending::Later
            }
            Err(lost) => match self.lose(session, connection, lost, at) {
                Fate::Replace => Sending::Lost,
                Fate::Keep => Sending::Later,
            },
        }
    }

    #[inline]
    fn gathered(&mut self, session: &mut Session, at: u64) -> Option<(u32, Fate)> {
        let connection = self.places.next_touched()?;
        Some((connection, self.drive(session, connection, at)))
    }

    fn outgoing<'a>(&'a mut self, _session: &'a Session, connection: u32) -> &'a [u8] {
        self.places.outgoing(connection)
    }

    fn wrote(&mut self, _session: &mut Session, connection: u32, bytes: usize, _at: u64) {
        self.places.outgoing(connection).drain(..bytes);
    }

    fn unstash(&mut self, _session: &mut Session, _connection: u32, _buf: &mut [u8]) -> usize {
        0
    }

    fn restash(&mut self, _session: &mut Session, _connection: u32, _kept: &[u8]) {}

    fn received(
        &mut self,
        session: &mut Session,
        connection: u32,
        buf: &[u8],
        fresh: usize,
        at: u64,
    ) -> Fate {
        session.count_bytes(fresh, at);
        let Some(open) = self.places.connection(connection) else { return Fate::Keep };
        if open.outgoing().len() > MOST_UNSENT_BYTES {
            return self.lose(session, connection, Lost::BROKEN, at);
        }
        open.receive(buf);
        // What it answers is written with what becomes due.
        self.places.touch(connection);
        self.drive(session, connection, at)
    }

    fn ended(&mut self, session: &mut Session, connection: u32, how: End, at: u64) -> Fate {
        match how {
            // The next read finds what the server has said before.
            End::Writing => Fate::Keep,
            End::Closed | End::Reading => self.lose(session, connection, Lost::BROKEN, at),
        }
    }

    fn gave_up(&mut self, session: &mut Session, lane: u32) -> Fate {
        self.places.gave_up(session, lane);
        Fate::Keep
    }

    fn take_hopeless(&mut self) -> Option<Hopeless> {
        self.places.take_hopeless()
    }
}
