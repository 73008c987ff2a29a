//! HTTP/3 above QUIC: pieces of streams in, pieces of streams out. Each stream is a lane of the session.
//!
//! So the session decides as ever what is due and who sends it, and what waits for a stream waits in the schedule with
//! its stamp. A request that has a lane but no room on the server's side (its limit of concurrent streams) is not sent
//! yet either.
//!
//! Source: RFC 9114.

mod answer;
pub(crate) mod code;
mod connection;
mod control;
pub mod piece;
mod qpack;
mod request;
mod table;
mod varint;

use super::places::{Carrier, MOST_UNSENT_BYTES, Places};
use super::{End, Fate, Hopeless, Protocol, Sending, Session};
use answer::Heads;
pub use answer::Http3Error;
use connection::Connection;
pub(crate) use connection::MOST_INBOUND;
use request::{Framed, framed};

/// HTTP/3 on all connections of one session.
#[derive(Debug)]
pub struct Http3 {
    /// The request of every stream, where all are alike.
    pattern: Option<Framed>,
    heads: Heads,
    places: Places<Connection>,
}

impl Http3 {
    /// For `lanes` lanes of which `streams` share a connection; `alike` is the request of all of them, if there is one.
    #[must_use]
    pub fn new(lanes: u32, streams: u32, alike: Option<&[u8]>) -> Self {
        Self {
            pattern: alike.and_then(framed),
            heads: Heads::default(),
            places: Places::new(lanes, streams, "HTTP/3"),
        }
    }

    /// Begins the stream for the request of `lane`.
    fn begin_stream(&mut self, session: &mut Session, lane: u32, at: u64) {
        let bytes = session.take_request(lane, self.pattern.is_none(), at);
        let own = if self.pattern.is_none() { framed(&bytes) } else { None };
        let Some(request) = own.as_ref().or(self.pattern.as_ref()) else {
            return self.places.unsendable();
        };
        let (connection, stream) = self.places.of_lane(lane);
        if let Some(open) = self.places.connection(connection) {
            open.ask(stream, request);
        }
    }

    /// Begins requests that waited for room; a connection is replaced when its server has said farewell and all is answered.
    fn go_on(&mut self, session: &mut Session, connection: u32, at: u64) -> Fate {
        while let Some(lane) = self.places.next_waiting(connection) {
            self.begin_stream(session, lane, at);
        }
        match self.places.connection(connection).is_some_and(|open| open.is_over()) {
            true => self.lose(session, connection, Some(code::NO_ERROR), at),
            false => Fate::Keep,
        }
    }

    /// A connection is over: what was sent on it fails. `code` says why, where it is us who closes it.
    #[cold]
    fn lose(&mut self, session: &mut Session, connection: u32, code: Option<u64>, at: u64) -> Fate {
        let broke = code.is_some_and(|code| code != code::NO_ERROR);
        let last_words = |over: &mut Connection| {
            let Some(code) = code else { return Vec::new() };
            over.close(code);
            std::mem::take(over.outgoing())
        };
        self.places.lose(session, connection, broke, last_words, at)
    }
}

impl Protocol for Http3 {
    const STAMPED: bool = false;
    const TIMED: bool = true;

    fn lanes(&self) -> u32 {
        self.places.streams()
    }

    #[cold]
    fn opened(&mut self, session: &mut Session, connection: u32, _at: u64) -> Fate {
        let open = Connection::new(self.places.streams(), session.listens());
        self.places.opened(session, connection, open);
        Fate::Keep
    }

    #[inline]
    fn ask(&mut self, session: &mut Session, lane: u32, at: u64) -> Sending {
        let (connection, stream) = self.places.of_lane(lane);
        let Some(open) = self.places.connection(connection) else { return Sending::Later };
        match open.has_room() {
            true => self.begin_stream(session, lane, at),
            false => open.wait(stream),
        }
        self.places.touch(connection);
        Sending::Later
    }

    #[inline]
    fn gathered(&mut self, session: &mut Session, at: u64) -> Option<(u32, Fate)> {
        let connection = self.places.next_touched()?;
        Some((connection, self.go_on(session, connection, at)))
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
        _fresh: usize,
        at: u64,
    ) -> Fate {
        let Some(open) = self.places.connection(connection) else { return Fate::Keep };
        if open.outgoing().len() > MOST_UNSENT_BYTES {
            return self.lose(session, connection, None, at);
        }
        let heads = &mut self.heads;
        let advanced = self.places.advance(session, connection, at, |open, came| {
            let taken = open.receive(buf, heads, |stream, how| came.push((stream, how)));
            (taken, std::mem::take(&mut open.came))
        });
        let Some((taken, bytes)) = advanced else { return Fate::Keep };
        session.count_bytes(bytes, at);
        self.places.touch(connection);
        match taken {
            Ok(()) => self.go_on(session, connection, at),
            Err(code) => self.lose(session, connection, Some(code), at),
        }
    }

    fn ended(&mut self, session: &mut Session, connection: u32, how: End, at: u64) -> Fate {
        match how {
            // The next read finds what the server has said before.
            End::Writing => Fate::Keep,
            End::Closed | End::Reading => self.lose(session, connection, None, at),
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
