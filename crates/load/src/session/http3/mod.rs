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

use std::ops::Range;

use super::{Asked, End, Fate, Hopeless, Protocol, Session};
use answer::Heads;
pub use answer::Http3Error;
pub(crate) use connection::MOST_INBOUND;
use connection::{Came, Connection};
use request::{Framed, framed};

/// Bytes that may wait for a server that does not read them: more than its windows let us send of bodies, so that it can
/// only be resets of streams that were given up.
const MOST_UNSENT_BYTES: usize = 64 * 1024 * 1024;
/// What is spoken, in words.
const NAME: &str = "HTTP/3";

/// HTTP/3 on all connections of one session.
#[derive(Debug)]
pub struct Http3 {
    /// Lanes of a connection.
    streams: u32,
    /// The request of every stream, where all are alike.
    pattern: Option<Framed>,
    heads: Heads,
    places: Box<[Place]>,
    /// Connections on which something was done that is not sent yet.
    touched: Vec<u32>,
    /// What came of streams, while it is told to the session.
    came: Vec<(u32, Came)>,
    hopeless: Option<Hopeless>,
}

/// Where one connection after the other is.
#[derive(Debug, Default)]
struct Place {
    connection: Option<Box<Connection>>,
    /// What a connection that is over still has to say.
    last: Vec<u8>,
    /// Whether it is among those that were touched.
    touched: bool,
}

impl Http3 {
    /// For `lanes` lanes of which `streams` share a connection; `alike` is the request of all of them, if there is one.
    #[must_use]
    pub fn new(lanes: u32, streams: u32, alike: Option<&[u8]>) -> Self {
        Self {
            streams,
            pattern: alike.and_then(framed),
            heads: Heads::default(),
            places: (0..lanes / streams).map(|_| Place::default()).collect(),
            touched: Vec::new(),
            came: Vec::new(),
            hopeless: None,
        }
    }

    fn lanes_of(&self, connection: u32) -> Range<u32> {
        connection * self.streams..(connection + 1) * self.streams
    }

    fn connection(&mut self, connection: u32) -> Option<&mut Connection> {
        self.places[connection as usize].connection.as_deref_mut()
    }

    fn touch(&mut self, connection: u32) {
        if !std::mem::replace(&mut self.places[connection as usize].touched, true) {
            self.touched.push(connection);
        }
    }

    /// Begins the stream for the request of `lane`.
    fn begin_stream(&mut self, session: &mut Session, lane: u32, at: u64) {
        let mut bytes = Vec::new();
        while !session.outgoing(lane).is_empty() {
            let outgoing = session.outgoing(lane);
            let length = outgoing.len();
            if self.pattern.is_none() {
                bytes.extend_from_slice(outgoing);
            }
            session.wrote(lane, length, at);
        }
        let own = if self.pattern.is_none() { framed(&bytes) } else { None };
        let place = &mut self.places[(lane / self.streams) as usize];
        match (own.as_ref().or(self.pattern.as_ref()), &mut place.connection) {
            (Some(request), Some(connection)) => connection.ask(lane % self.streams, request),
            (None, _) => _ = self.hopeless.get_or_insert(Hopeless::Unsendable),
            (Some(_), None) => {}
        }
    }

    /// Tells the session what came of streams.
    fn settle(&mut self, session: &mut Session, connection: u32, at: u64) {
        let mut came = std::mem::take(&mut self.came);
        for (stream, how) in came.drain(..) {
            let lane = connection * self.streams + stream;
            let open = self.connection(connection).filter(|_| how != Came::Begun);
            if let Some(heard) = open.and_then(|connection| connection.take_heard(stream)) {
                session.stream_heard(lane, heard);
            }
            let fate = match how {
                Came::Begun => {
                    session.stream_begun(lane, at);
                    Fate::Keep
                }
                Came::Answered(status) => session.stream_answered(lane, status, at),
                Came::Malformed(error) => session.stream_malformed(lane, error.into(), at),
                Came::Reset => session.failed(lane, false, at),
            };
            if fate == Fate::Replace {
                // The connection stays, and the lane with it.
                session.opened(lane);
            }
        }
        self.came = came;
    }

    /// Begins requests that waited for room; a connection is replaced when its server has said farewell and all is answered.
    fn go_on(&mut self, session: &mut Session, connection: u32, at: u64) -> Fate {
        while let Some(stream) = self.connection(connection).and_then(Connection::next_waiting) {
            self.begin_stream(session, connection * self.streams + stream, at);
        }
        match self.connection(connection).is_some_and(|open| open.is_over()) {
            true => self.lose(session, connection, Some(code::NO_ERROR), at),
            false => Fate::Keep,
        }
    }

    /// A connection is over: what was sent on it fails. `code` says why, where it is us who closes it.
    #[cold]
    fn lose(&mut self, session: &mut Session, connection: u32, code: Option<u64>, at: u64) -> Fate {
        let place = &mut self.places[connection as usize];
        let Some(mut over) = place.connection.take() else { return Fate::Keep };
        let broke = code.is_some_and(|code| code != code::NO_ERROR);
        if let Some(code) = code {
            over.close(code);
            place.last = std::mem::take(&mut over.out);
        }
        let mut malformed = broke;
        for lane in self.lanes_of(connection) {
            malformed &= !session.stream_lost(lane, malformed, at);
        }
        if broke && session.completed() == 0 {
            self.hopeless.get_or_insert(Hopeless::NotSpoken(NAME));
        }
        Fate::Replace
    }
}

impl Protocol for Http3 {
    const STAMPED: bool = false;
    const TIMED: bool = true;

    fn lanes(&self) -> u32 {
        self.streams
    }

    #[cold]
    fn opened(&mut self, session: &mut Session, connection: u32, _at: u64) -> Fate {
        let place = &mut self.places[connection as usize];
        place.last.clear();
        place.connection = Some(Box::new(Connection::new(self.streams, session.listens())));
        self.lanes_of(connection).for_each(|lane| session.opened(lane));
        Fate::Keep
    }

    #[inline]
    fn ask(&mut self, session: &mut Session, lane: u32, at: u64) -> Asked {
        let (connection, stream) = (lane / self.streams, lane % self.streams);
        let Some(open) = self.connection(connection) else { return Asked::Later };
        match open.has_room() {
            true => self.begin_stream(session, lane, at),
            false => open.wait(stream),
        }
        self.touch(connection);
        Asked::Later
    }

    #[inline]
    fn gathered(&mut self, session: &mut Session, at: u64) -> Option<(u32, Fate)> {
        let connection = self.touched.pop()?;
        self.places[connection as usize].touched = false;
        Some((connection, self.go_on(session, connection, at)))
    }

    fn outgoing<'a>(&'a mut self, _session: &'a Session, connection: u32) -> &'a [u8] {
        let Place { connection, last, .. } = &self.places[connection as usize];
        connection.as_ref().map_or(last, |connection| &connection.out)
    }

    fn wrote(&mut self, _session: &mut Session, connection: u32, bytes: usize, _at: u64) {
        let Place { connection, last, .. } = &mut self.places[connection as usize];
        connection.as_mut().map_or(last, |connection| &mut connection.out).drain(..bytes);
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
        let Place { connection: Some(open), .. } = &mut self.places[connection as usize] else {
            return Fate::Keep;
        };
        if open.out.len() > MOST_UNSENT_BYTES {
            return self.lose(session, connection, None, at);
        }
        let came = &mut self.came;
        let taken = open.receive(buf, &mut self.heads, |stream, how| came.push((stream, how)));
        session.count_bytes(std::mem::take(&mut open.came), at);
        self.settle(session, connection, at);
        self.touch(connection);
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
        let (connection, stream) = (lane / self.streams, lane % self.streams);
        if let Some(open) = self.connection(connection) {
            open.cancel(stream);
            session.opened(lane);
            self.touch(connection);
        }
        Fate::Keep
    }

    fn take_hopeless(&mut self) -> Option<Hopeless> {
        self.hopeless.take()
    }
}
