//! Protocols whose connections carry streams: HTTP/2 and HTTP/3. Each stream is a lane of the session.
//!
//! So the session decides as ever what is due and who sends it, and what waits for a stream waits in the schedule with
//! its stamp. A request that has a lane but no room on the server's side (its limit of concurrent streams) is not sent
//! yet either.

use std::collections::VecDeque;
use std::ops::Range;

use super::carrier::{Came, Carrier};
use super::{End, Fate, Hopeless, Malformed, Protocol, Sending, Session};

/// Bytes that may wait for a server that does not read them: more than its windows let us send of bodies, so that it can
/// only be answers to a flood of control frames, or resets of streams that were given up.
const MOST_UNSENT_BYTES: usize = 64 * 1024 * 1024;

/// Why a connection is over.
enum Over<F> {
    /// It is not there any more.
    Gone,
    /// All is answered, and the server takes no more.
    Farewell,
    /// The server broke the protocol.
    Broken(F),
}

/// Where one connection after the other is.
#[derive(Debug)]
struct Place<C> {
    connection: Option<Box<C>>,
    /// What a connection that is over still has to say.
    last: Vec<u8>,
    /// Streams that have a request and no room for it.
    waiting: VecDeque<u32>,
    /// Whether it is among those that were touched.
    touched: bool,
}

/// Such a protocol on all connections of one session.
#[derive(Debug)]
pub struct Multiplexed<C: Carrier> {
    common: C::Common,
    /// The request of every stream, where all are alike.
    pattern: Option<C::Request>,
    /// Lanes of a connection.
    streams: u32,
    places: Box<[Place<C>]>,
    /// Connections on which something was done that is not sent yet.
    touched: Vec<u32>,
    /// What came of streams, while it is reported to the session.
    came: Vec<(u32, Came)>,
    hopeless: Option<Hopeless>,
}

impl<C: Carrier> Multiplexed<C> {
    /// For `lanes` lanes of which `streams` share a connection; `alike` is the request of all of them, if there is one.
    pub(super) fn of(common: C::Common, lanes: u32, streams: u32, alike: Option<&[u8]>) -> Self {
        let empty =
            |_| Place { connection: None, last: Vec::new(), waiting: VecDeque::new(), touched: false };
        Self {
            pattern: alike.and_then(|bytes| C::request(&common, bytes)),
            common,
            streams,
            places: (0..lanes / streams).map(empty).collect(),
            touched: Vec::new(),
            came: Vec::new(),
            hopeless: None,
        }
    }

    fn lanes_of(&self, connection: u32) -> Range<u32> {
        connection * self.streams..(connection + 1) * self.streams
    }

    /// The connection of a lane, and which of its streams the lane is.
    #[inline]
    fn of_lane(&self, lane: u32) -> (u32, u32) {
        (lane / self.streams, lane % self.streams)
    }

    #[inline]
    fn connection(&mut self, connection: u32) -> Option<&mut C> {
        self.places[connection as usize].connection.as_deref_mut()
    }

    /// Something is done on a connection that is not sent yet.
    #[inline]
    fn touch(&mut self, connection: u32) {
        if !std::mem::replace(&mut self.places[connection as usize].touched, true) {
            self.touched.push(connection);
        }
    }

    /// Begins the stream for the request of `lane`.
    #[inline]
    fn begin_stream(&mut self, session: &mut Session, lane: u32, at: u64) {
        let alike = self.pattern.is_some();
        let bytes = session.take_request(lane, !alike, at);
        let own = if alike { None } else { C::request(&self.common, &bytes) };
        let (connection, stream) = self.of_lane(lane);
        let Some(request) = own.as_ref().or(self.pattern.as_ref()) else {
            self.hopeless.get_or_insert(Hopeless::Unsendable);
            return;
        };
        if let Some(open) = self.places[connection as usize].connection.as_deref_mut() {
            open.ask(stream, request, alike);
        }
    }

    /// The lane of a stream that waited for room and has it now.
    #[inline]
    fn next_waiting(&mut self, connection: u32) -> Option<u32> {
        let place = &mut self.places[connection as usize];
        let stream = match place.connection.as_ref().is_some_and(|open| open.has_room()) {
            true => place.waiting.pop_front()?,
            false => return None,
        };
        Some(connection * self.streams + stream)
    }

    /// Begins requests that waited for room; a connection is replaced when its server has said farewell and all is answered.
    #[inline]
    fn go_on(&mut self, session: &mut Session, connection: u32, at: u64) -> Fate {
        while let Some(lane) = self.next_waiting(connection) {
            self.begin_stream(session, lane, at);
        }
        match self.connection(connection).is_some_and(|open| open.is_over()) {
            true => self.lose(session, connection, &Over::Farewell, at),
            false => Fate::Keep,
        }
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
            Came::Reset => session.stream_reset(lane, at),
            Came::Refused { farewell } => session.stream_refused(lane, farewell, at),
        };
        if fate == Fate::Replace {
            // The connection stays, and the lane with it.
            session.opened(lane);
        }
    }

    /// A connection is over: what was sent on it fails.
    #[cold]
    fn lose(&mut self, session: &mut Session, connection: u32, why: &Over<C::Fault>, at: u64) -> Fate {
        let place = &mut self.places[connection as usize];
        place.waiting.clear();
        let Some(mut over) = place.connection.take() else { return Fate::Keep };
        let fault = match why {
            Over::Gone => None,
            Over::Farewell => Some(None),
            Over::Broken(fault) => Some(Some(*fault)),
        };
        if let Some(fault) = fault {
            over.close(fault);
            place.last = std::mem::take(over.outgoing());
        }
        let mut malformed = matches!(why, Over::Broken(_));
        for lane in self.lanes_of(connection) {
            match why {
                Over::Gone => session.stream_closed(lane, over.is_proven(), at),
                Over::Farewell | Over::Broken(_) => malformed &= !session.stream_lost(lane, malformed, at),
            }
        }
        if let Over::Broken(fault) = why {
            match over.breach(*fault) {
                Some(breach) => session.note_malformed(Malformed::Broken(breach)),
                None if session.completed() == 0 => {
                    self.hopeless.get_or_insert(Hopeless::NotSpoken(C::NAME));
                }
                None => {}
            }
        }
        Fate::Replace
    }
}

impl<C: Carrier> Protocol for Multiplexed<C> {
    const STAMPED: bool = false;
    const TIMED: bool = C::TIMED;

    fn lanes(&self) -> u32 {
        self.streams
    }

    #[cold]
    fn opened(&mut self, session: &mut Session, connection: u32, at: u64) -> Fate {
        let open = C::open(&self.common, self.streams, session.listens());
        let place = &mut self.places[connection as usize];
        place.last.clear();
        place.connection = Some(Box::new(open));
        for lane in self.lanes_of(connection) {
            session.rests_since(lane, at);
            session.opened(lane);
        }
        Fate::Keep
    }

    #[inline]
    fn ask(&mut self, session: &mut Session, lane: u32, at: u64) -> Sending {
        let (connection, stream) = self.of_lane(lane);
        let Some(open) = self.connection(connection) else { return Sending::Later };
        match open.has_room() {
            true => self.begin_stream(session, lane, at),
            false => {
                self.places[connection as usize].waiting.push_back(stream);
                session.waits_from(lane, at);
            }
        }
        self.touch(connection);
        Sending::Later
    }

    #[inline]
    fn gathered(&mut self, session: &mut Session, at: u64) -> Option<(u32, Fate)> {
        let connection = self.touched.pop()?;
        self.places[connection as usize].touched = false;
        Some((connection, self.go_on(session, connection, at)))
    }

    /// Which may be the last words of a connection that is over.
    #[inline]
    fn outgoing<'a>(&'a mut self, _session: &'a Session, connection: u32) -> &'a [u8] {
        let Place { connection, last, .. } = &mut self.places[connection as usize];
        connection.as_mut().map_or(last, |connection| connection.outgoing())
    }

    #[inline]
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
        _fresh: usize,
        at: u64,
    ) -> Fate {
        let Some(open) = self.places[connection as usize].connection.as_deref_mut() else {
            return Fate::Keep;
        };
        if open.outgoing().len() > MOST_UNSENT_BYTES {
            return self.lose(session, connection, &Over::Gone, at);
        }
        let (mut bytes, mut came) = (0, std::mem::take(&mut self.came));
        let taken = open.receive(&mut self.common, buf, &mut bytes, |stream, how| came.push((stream, how)));
        while let Some(reason) = open.take_reason() {
            session.note_reason(reason);
        }
        for (stream, how) in came.drain(..) {
            self.report(session, connection, (stream, how), at);
        }
        self.came = came;
        session.count_bytes(bytes, at);
        // What it answers is written with what becomes due.
        self.touch(connection);
        match taken {
            Ok(()) => self.go_on(session, connection, at),
            Err(fault) => self.lose(session, connection, &Over::Broken(fault), at),
        }
    }

    fn ended(&mut self, session: &mut Session, connection: u32, how: End, at: u64) -> Fate {
        match how {
            // The next read finds what the server has said before.
            End::Writing => Fate::Keep,
            End::Closed | End::Cut | End::Reading => self.lose(session, connection, &Over::Gone, at),
        }
    }

    /// Its stream is given up, or its wait for room; the connection stays.
    fn gave_up(&mut self, session: &mut Session, lane: u32) -> Fate {
        let (connection, stream) = self.of_lane(lane);
        self.places[connection as usize].waiting.retain(|other| *other != stream);
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

impl Session {
    /// The request of `lane`, which counts as sent; without its bytes where they are not `wanted`.
    #[inline]
    fn take_request(&mut self, lane: u32, wanted: bool, at: u64) -> Vec<u8> {
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
