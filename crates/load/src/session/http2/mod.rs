//! HTTP/2 without a socket, a clock or a runtime: bytes in, bytes out. Each stream is a lane of the session.
//!
//! So the session decides as ever what is due and who sends it, and what waits for a stream waits in the schedule with
//! its stamp. A request that has a lane but no room on the server's side (its limit of concurrent streams) is not sent
//! yet either.

mod connection;
mod pipe;
mod request;

use std::ops::Range;

use bytes::Bytes;

use crate::session::{Asked, End, Fate, Hopeless, Protocol, Session};
use connection::{Connection, Ended, Lost};
use request::parse;

/// Bytes that may wait for a server that does not read them: more than its windows let us send of bodies, so that it can
/// only be answers to a flood of control frames.
const MOST_UNSENT_BYTES: usize = 64 * 1024 * 1024;

/// HTTP/2 on all connections of one session.
#[derive(Debug)]
pub struct Http2 {
    /// Lanes of a connection.
    streams: u32,
    /// Whether TLS is spoken below.
    secure: bool,
    /// Whether answers are those of gRPC.
    grpc: bool,
    /// The request of every stream, where all are alike.
    pattern: Option<(http::Request<()>, Bytes)>,
    places: Box<[Place]>,
    /// Connections on which streams were begun that are not sent yet.
    asked: Vec<u32>,
    /// Streams that have ended, while they are told to the session.
    ended: Vec<(u32, Ended)>,
    hopeless: Option<Hopeless>,
}

/// Where one connection after the other is.
#[derive(Debug, Default)]
struct Place {
    connection: Option<Box<Connection>>,
    /// What a connection that is over still has to say.
    last: Vec<u8>,
    /// Whether it is among those with streams that are not sent.
    asked: bool,
}

impl Http2 {
    /// For `lanes` lanes of which `streams` share a connection; `alike` is the request of all of them, if there is one.
    #[must_use]
    pub fn new(lanes: u32, streams: u32, alike: Option<&[u8]>, secure: bool) -> Self {
        Self {
            streams,
            secure,
            grpc: false,
            pattern: alike.and_then(|request| parse(request, secure)),
            places: (0..lanes / streams).map(|_| Place::default()).collect(),
            asked: Vec::new(),
            ended: Vec::new(),
            hopeless: None,
        }
    }

    /// The same with calls of gRPC.
    #[must_use]
    pub fn of_grpc(self) -> Self {
        Self { grpc: true, ..self }
    }

    fn lanes_of(&self, connection: u32) -> Range<u32> {
        connection * self.streams..(connection + 1) * self.streams
    }

    fn connection(&mut self, connection: u32) -> Option<&mut Connection> {
        self.places[connection as usize].connection.as_deref_mut()
    }

    /// Begins the stream for the request of `lane`.
    fn begin_stream(&mut self, session: &mut Session, lane: u32, at: u64) -> Result<(), Lost> {
        let mut bytes = Vec::new();
        while !session.outgoing(lane).is_empty() {
            let outgoing = session.outgoing(lane);
            let length = outgoing.len();
            if self.pattern.is_none() {
                bytes.extend_from_slice(outgoing);
            }
            session.wrote(lane, length, at);
        }
        let Some((request, body)) = self.pattern.clone().or_else(|| parse(&bytes, self.secure)) else {
            self.hopeless.get_or_insert(Hopeless::Unsendable);
            return Ok(());
        };
        let stream = lane % self.streams;
        let connection = self.connection(lane / self.streams);
        connection.map_or(Ok(()), |connection| connection.ask(stream, request, body))
    }

    fn note_asked(&mut self, connection: u32) {
        if !std::mem::replace(&mut self.places[connection as usize].asked, true) {
            self.asked.push(connection);
        }
    }

    /// Goes as far as a connection can: takes what has ended, begins what waited.
    fn drive(&mut self, session: &mut Session, connection: u32, at: u64) -> Fate {
        let mut ended = std::mem::take(&mut self.ended);
        let fate = loop {
            let Some(place) = self.connection(connection) else { break Fate::Keep };
            let advanced = place.advance(|stream, how| ended.push((stream, how)));
            while let Some(stream) = self.connection(connection).and_then(Connection::next_begun) {
                session.stream_begun(connection * self.streams + stream, at);
            }
            for (stream, how) in ended.drain(..) {
                self.stream_ended(session, connection * self.streams + stream, how, at);
            }
            let begun = advanced.and_then(|()| self.begin_waiting(session, connection, at));
            match begun {
                Ok(true) => {}
                Ok(false) => break Fate::Keep,
                Err(lost) => break self.lose(session, connection, lost, at),
            }
        };
        self.ended = ended;
        fate
    }

    fn stream_ended(&mut self, session: &mut Session, lane: u32, how: Ended, at: u64) {
        let stream = lane % self.streams;
        let connection = self.connection(lane / self.streams);
        if let Some(heard) = connection.and_then(|connection| connection.take_heard(stream)) {
            session.stream_heard(lane, heard);
        }
        let fate = match how {
            Ended::Answered(status) => session.stream_answered(lane, status, at),
            Ended::Malformed(malformed) => session.stream_malformed(lane, malformed, at),
            Ended::Reset => session.failed(lane, false, at),
        };
        if fate == Fate::Replace {
            // The connection stays, and the lane with it.
            session.opened(lane);
        }
    }

    /// Begins requests that waited for room; true if there were any.
    fn begin_waiting(&mut self, session: &mut Session, connection: u32, at: u64) -> Result<bool, Lost> {
        let mut begun = false;
        while let Some(stream) = self.connection(connection).and_then(Connection::next_waiting) {
            begun = true;
            self.begin_stream(session, connection * self.streams + stream, at)?;
        }
        Ok(begun)
    }

    /// A connection is over: what was sent on it fails.
    #[cold]
    fn lose(&mut self, session: &mut Session, connection: u32, lost: Lost, at: u64) -> Fate {
        let place = &mut self.places[connection as usize];
        let Some(mut over) = place.connection.take() else { return Fate::Keep };
        if lost.malformed {
            place.last = std::mem::take(over.outgoing());
        }
        let mut malformed = lost.malformed;
        for lane in self.lanes_of(connection) {
            malformed &= !session.stream_lost(lane, malformed, at);
        }
        if lost.malformed && session.completed() == 0 {
            self.hopeless.get_or_insert(Hopeless::NotSpoken("HTTP/2"));
        }
        Fate::Replace
    }
}

impl Protocol for Http2 {
    const STAMPED: bool = false;

    fn lanes(&self) -> u32 {
        self.streams
    }

    #[cold]
    fn opened(&mut self, session: &mut Session, connection: u32, at: u64) -> Fate {
        self.places[connection as usize].last.clear();
        match Connection::new(self.streams, session.listens(), self.grpc) {
            Ok(new) => self.places[connection as usize].connection = Some(Box::new(new)),
            Err(lost) => return self.lose(session, connection, lost, at),
        }
        self.lanes_of(connection).for_each(|lane| session.opened(lane));
        Fate::Keep
    }

    fn ask(&mut self, session: &mut Session, lane: u32, at: u64) -> Asked {
        let (connection, stream) = (lane / self.streams, lane % self.streams);
        let Some(open) = self.connection(connection) else { return Asked::Later };
        let begun = match open.is_open() {
            Ok(()) if open.has_room() => self.begin_stream(session, lane, at),
            Ok(()) => {
                open.wait(stream);
                return Asked::Later;
            }
            Err(lost) => Err(lost),
        };
        match begun {
            Ok(()) => {
                self.note_asked(connection);
                Asked::Later
            }
            Err(lost) => match self.lose(session, connection, lost, at) {
                Fate::Replace => Asked::Lost,
                Fate::Keep => Asked::Later,
            },
        }
    }

    #[inline]
    fn gathered(&mut self, session: &mut Session, at: u64) -> Option<(u32, Fate)> {
        let connection = self.asked.pop()?;
        self.places[connection as usize].asked = false;
        Some((connection, self.drive(session, connection, at)))
    }

    fn outgoing<'a>(&'a mut self, _session: &'a Session, connection: u32) -> &'a [u8] {
        let Place { connection, last, .. } = &mut self.places[connection as usize];
        connection.as_mut().map_or(last, |connection| connection.outgoing())
    }

    fn wrote(&mut self, _session: &mut Session, connection: u32, bytes: usize, _at: u64) {
        let Place { connection, last, .. } = &mut self.places[connection as usize];
        connection.as_mut().map_or(last, |connection| connection.outgoing()).drain(..bytes);
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
        let Some(open) = self.connection(connection) else { return Fate::Keep };
        if open.outgoing().len() > MOST_UNSENT_BYTES {
            return self.lose(session, connection, Lost::BROKEN, at);
        }
        open.receive(buf);
        // What it answers is written with what becomes due.
        self.note_asked(connection);
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
        let (connection, stream) = (lane / self.streams, lane % self.streams);
        if let Some(open) = self.connection(connection) {
            open.cancel(stream);
            session.opened(lane);
            self.note_asked(connection);
        }
        Fate::Keep
    }

    fn take_hopeless(&mut self) -> Option<Hopeless> {
        self.hopeless.take()
    }
}
