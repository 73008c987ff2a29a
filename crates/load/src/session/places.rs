//! Connections that carry streams: where one after the other is, which of them were touched, and what the session is told of
//! their streams. HTTP/2 and HTTP/3 do the same here. Each stream is a lane of the session.

use std::fmt;
use std::ops::Range;

use super::{Fate, Heard, Hopeless, Malformed, Session};

/// Bytes that may wait for a server that does not read them: more than its windows let us send of bodies, so that it can
/// only be answers to a flood of control frames, or resets of streams that were given up.
pub(super) const MOST_UNSENT_BYTES: usize = 64 * 1024 * 1024;

/// What came of a stream; all but the first end it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Came {
    /// Its answer has begun.
    Begun,
    /// It was answered with this status.
    Answered(u16),
    /// It was answered with what is no answer.
    Malformed(Malformed),
    /// It was reset, or will never be answered.
    Reset,
}

/// A connection that carries streams, each by its number among the lanes of the connection.
pub(super) trait Carrier: fmt::Debug {
    /// What is to be sent.
    fn outgoing(&mut self) -> &mut Vec<u8>;

    /// The whole answer of a stream that has ended, where answers are kept.
    fn take_heard(&mut self, stream: u32) -> Option<Heard>;

    /// A stream that waited for room, and has it now.
    fn next_waiting(&mut self) -> Option<u32>;

    /// Gives a stream up, and tells the server, or gives up its wait for room.
    fn cancel(&mut self, stream: u32);
}

/// Where one connection after the other is.
#[derive(Debug)]
struct Place<C> {
    connection: Option<Box<C>>,
    /// What a connection that is over still has to say.
    last: Vec<u8>,
    /// Whether it is among those that were touched.
    touched: bool,
}

/// The places of all connections of one session.
#[derive(Debug)]
pub(super) struct Places<C> {
    /// Lanes of a connection.
    streams: u32,
    /// What is spoken, in words.
    name: &'static str,
    places: Box<[Place<C>]>,
    /// Connections on which something was done that is not sent yet.
    touched: Vec<u32>,
    /// What came of streams, while it is reported to the session.
    came: Vec<(u32, Came)>,
    hopeless: Option<Hopeless>,
}

impl<C: Carrier> Places<C> {
    /// For `lanes` lanes of which `streams` share a connection.
    pub(super) fn new(lanes: u32, streams: u32, name: &'static str) -> Self {
        let empty = |_| Place { connection: None, last: Vec::new(), touched: false };
        Self {
            streams,
            name,
            places: (0..lanes / streams).map(empty).collect(),
            touched: Vec::new(),
            came: Vec::new(),
            hopeless: None,
        }
    }

    /// Lanes of a connection.
    pub(super) fn streams(&self) -> u32 {
        self.streams
    }

    fn lanes_of(&self, connection: u32) -> Range<u32> {
        connection * self.streams..(connection + 1) * self.streams
    }

    /// The connection of a lane, and which of its streams the lane is.
    #[inline]
    pub(super) fn of_lane(&self, lane: u32) -> (u32, u32) {
        (lane / self.streams, lane % self.streams)
    }

    #[inline]
    pub(super) fn connection(&mut self, connection: u32) -> Option<&mut C> {
        self.places[connection as usize].connection.as_deref_mut()
    }

    /// A connection is open.
    pub(super) fn opened(&mut self, session: &mut Session, connection: u32, open: C) {
        let place = &mut self.places[connection as usize];
        place.last.clear();
        place.connection = Some(Box::new(open));
        self.lanes_of(connection).for_each(|lane| session.opened(lane));
    }

    /// Something is done on a connection that is not sent yet.
    #[inline]
    pub(super) fn touch(&mut self, connection: u32) {
        if !std::mem::replace(&mut self.places[connection as usize].touched, true) {
            self.touched.push(connection);
        }
    }

    /// A connection that was touched.
    #[inline]
    pub(super) fn next_touched(&mut self) -> Option<u32> {
        let connection = self.touched.pop()?;
        self.places[connection as usize].touched = false;
        Some(connection)
    }

    /// What a connection has to write, which may be its last words.
    #[inline]
    pub(super) fn outgoing(&mut self, connection: u32) -> &mut Vec<u8> {
        let Place { connection, last, .. } = &mut self.places[connection as usize];
        connection.as_mut().map_or(last, |connection| connection.outgoing())
    }

    /// Lets `advance` go on with a connection that is open, which says what came of streams, and tells that to the session.
    #[inline]
    pub(super) fn advance<T>(
        &mut self,
        session: &mut Session,
        connection: u32,
        at: u64,
        advance: impl FnOnce(&mut C, &mut Vec<(u32, Came)>) -> T,
    ) -> Option<T> {
        let mut came = std::mem::take(&mut self.came);
        let advanced = self.connection(connection).map(|open| advance(open, &mut came));
        for (stream, how) in came.drain(..) {
            self.report(session, connection, (stream, how), at);
        }
        self.came = came;
        advanced
    }

    #[inline]
    fn report(&mut self, session: &mut Session, connection: u32, (stream, how): (u32, Came), at: u64) {
        let lane = connection * self.streams + stream;
        let ended = self.connection(connection).filter(|_| how != Came::Begun);
        if let Some(heard) = ended.and_then(|open| open.take_heard(stream)) {
            session.stream_heard(lane, heard);
        }
        let fate = match how {
            Came::Begun => return session.stream_begun(lane, at),
            Came::Answered(status) => session.stream_answered(lane, status, at),
            Came::Malformed(malformed) => session.stream_malformed(lane, malformed, at),
            Came::Reset => session.failed(lane, false, at),
        };
        if fate == Fate::Replace {
            // The connection stays, and the lane with it.
            session.opened(lane);
        }
    }

    /// The lane of a stream that waited for room and has it now.
    #[inline]
    pub(super) fn next_waiting(&mut self, connection: u32) -> Option<u32> {
        let stream = self.connection(connection)?.next_waiting()?;
        Some(connection * self.streams + stream)
    }

    /// The session has given up the request of `lane`.
    pub(super) fn gave_up(&mut self, session: &mut Session, lane: u32) {
        let (connection, stream) = self.of_lane(lane);
        if let Some(open) = self.connection(connection) {
            open.cancel(stream);
            session.opened(lane);
            self.touch(connection);
        }
    }

    /// A connection is over: what was sent on it fails. `last_words` takes them from it; `broke` says that the server did not
    /// keep to the protocol.
    #[cold]
    pub(super) fn lose(
        &mut self,
        session: &mut Session,
        connection: u32,
        broke: bool,
        last_words: impl FnOnce(&mut C) -> Vec<u8>,
        at: u64,
    ) -> Fate {
        let place = &mut self.places[connection as usize];
        let Some(mut over) = place.connection.take() else { return Fate::Keep };
        place.last = last_words(&mut over);
        let mut malformed = broke;
        for lane in self.lanes_of(connection) {
            malformed &= !session.stream_lost(lane, malformed, at);
        }
        if broke && session.completed() == 0 {
            self.hopeless.get_or_insert(Hopeless::NotSpoken(self.name));
        }
        Fate::Replace
    }

    /// A request is none that can be sent.
    pub(super) fn unsendable(&mut self) {
        self.hopeless.get_or_insert(Hopeless::Unsendable);
    }

    /// Why there is no sense in going on, once.
    pub(super) fn take_hopeless(&mut self) -> Option<Hopeless> {
        self.hopeless.take()
    }
}

impl Session {
    /// The request of `lane`, which counts as sent; without its bytes where they are not `wanted`.
    #[inline]
    pub(super) fn take_request(&mut self, lane: u32, wanted: bool, at: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        while !self.outgoing(lane).is_empty() {
            let outgoing = self.outgoing(lane);
            let length = outgoing.len();
            if wanted {
                bytes.extend_from_slice(outgoing);
            }
            self.wrote(lane, length, at);
        }
        bytes
    }
}
