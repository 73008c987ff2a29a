//! What one worker sends, receives and records, without a socket and without a clock.
//!
//! A session owns the connections of one thread, here called lanes. It is told what happened and when
//! ([`Session::opened`], [`Session::received`], [`Session::wrote`], …) and says what to write ([`Session::next_write`],
//! [`Session::outgoing`]) and when it wants to be called again ([`Session::wake_ns`]). All instants are nanoseconds of
//! one monotonic clock. Nothing is allocated for a request.
//!
//! What counts. In an open loop the requests whose intended instant lies in the window; in a closed loop the answers
//! that come in the window. What was sent and not answered when the window ended is `unfinished`, what was due and not
//! sent is `unsent`; both enter the response histogram with their age at that moment, as "at least this long". So
//! does a timeout with its age when it was given up. A request whose connection broke is an error and has no latency.

mod answer;
mod carrier;
mod dispatch;
mod drift;
mod ending;
mod events;
mod faults;
mod fed;
mod feed;
mod fields;
pub(crate) mod grpc;
mod held_back;
mod http1_request;
mod http2;
pub mod http3;
mod in_pieces;
mod multiplexed;
mod occupancy;
mod pairs;
mod protocol;
mod reason;
mod ring;
mod silence;
mod source;
mod streams;
mod tally;
mod users;
mod websocket;

pub(crate) use answer::Body;
pub use answer::Malformed;
pub use drift::{Drift, SLICES, Slice};
pub use ending::Finished;
pub use events::{EventStreams, Events};
pub use feed::{Batch, Feed, FeedError, HEARD_BODY_BYTES, Heard};
pub use fields::FieldsError;
pub use grpc::{Answers, GrpcError, enveloped};
pub(crate) use http1_request::Translated;
pub use http2::Http2;
pub use http3::Http3;
pub use in_pieces::InPieces;
pub use pairs::Pairs;
pub use protocol::{End, Hopeless, Http1, Protocol, Sending, WebSocket};
pub(crate) use reason::Reasons;
pub use reason::{Reason, Sign};
pub use silence::Silences;
pub(crate) use silence::of_both;
pub use tally::{LabelTally, SecondTally, Span, Split, Tally};
pub use users::{Missing, Next, User, Users};
pub use websocket::{FrameError, Upgrade, message};

use crate::histogram::SecondLatencies;
use crate::schedule::{AT_ONCE, Pace, Part};
use answer::{Answer, Heads, Reader};
use dispatch::{Dispatcher, NEVER};
use held_back::Rest;
use occupancy::Occupancy;
use ring::{Cursor, Rings, Stamp};
use source::{Each, Same, Source};
use std::collections::VecDeque;

/// What a session is made for.
#[derive(Debug, Clone)]
pub struct Spec {
    /// Connections.
    pub lanes: u32,
    /// Requests in flight on each at most.
    pub depth: u32,
    /// Requests after which a connection is given up for another.
    pub per_connection: Option<u32>,
    /// One request as it goes over the wire.
    pub request: Vec<u8>,
    /// Whether the request is HEAD, whose answers have no body.
    pub head: bool,
    /// Bytes of a request after which the rest waits until the server asks for it, or has not for some time; for a
    /// depth of 1 and requests that are all alike.
    pub hold: Option<usize>,
    /// When requests are due.
    pub pace: Pace,
    /// Seed of the arrivals.
    pub seed: u64,
    /// Which of all arrivals are driven here.
    pub part: Part,
    /// Requests to send in the window at most.
    pub requests: Option<u64>,
    /// Age after sending at which a request is given up.
    pub timeout_ns: Option<u64>,
    /// How long an arrival may wait for the next ones, so that one waking sends them all; 0 for none. It is in the send lag.
    pub slack_ns: u64,
    /// The only status that is no error; `None` where every one below 400 is none.
    pub expected_status: Option<u16>,
}

/// What becomes of a connection after an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Fate {
    /// It goes on.
    Keep,
    /// It is to be closed and another opened in its place.
    Replace,
}

/// One connection.
#[derive(Debug, Default)]
struct Lane {
    reader: Reader,
    cursor: Cursor,
    /// Of the requests held, the last so many are not written to their end.
    unwritten: u32,
    /// Bytes of the first unwritten request that are written.
    offset: usize,
    /// What is to be written before the next request and is none: an upgrade, a pong. Empty, and without memory, almost
    /// always.
    side: Vec<u8>,
    /// Whether the rest of its request need not wait, or until when it does.
    rest: Rest,
    answers: u64,
    /// Requests that this connection may still be given.
    left: u32,
    /// When the first part of an answer was read whose end had not come; 0 where there is none.
    begun_ns: u64,
    /// Since when nothing was asked of it: it was opened then, or gave its last answer; 0 where it is a stream, not a connection.
    free_ns: u64,
    /// When a request was last written here that another connection had lost; 0 for never.
    again_ns: u64,
    /// Since when its request waits for what the server is to give, a stream or leave to send its body; 0 where none does.
    waits_ns: u64,
    /// Whether it has given an answer, and is a connection, not a stream.
    proven: bool,
    open: bool,
    /// Whether the dispatcher knows it.
    idle: bool,
    /// Whether it is in the list of those that have something to write.
    dirty: bool,
}

/// The connections of one worker.
#[derive(Debug)]
pub struct Session {
    spec: Spec,
    lanes: Vec<Lane>,
    rings: Rings,
    source: Source,
    /// The answer that each connection is reading, where a feed wants to hear them; else empty.
    heard: Box<[Heard]>,
    heads: Heads,
    dispatcher: Dispatcher,
    dirty: VecDeque<u32>,
    /// Requests that a server returned unanswered by closing; where it had been asked in vain, with when it was first.
    again: VecDeque<Stamp>,
    /// Connections that were closed without having given an answer, which was no fault, since so many answers of all.
    unused_closed: Option<(u64, u32)>,
    /// Requests that may still be sent; counts only in the window.
    quota: u64,
    tally: Tally,
    occupancy: Occupancy,
    expiry_ns: u64,
    /// When the next request that waits is not to wait any longer.
    release_ns: u64,
    /// When the next request of a user is due; never where there are no users.
    step_ns: u64,
    /// Whether no other user may come.
    full: bool,
    completed: u64,
    /// Whether nothing more is sent, and answers are only waited for.
    draining: bool,
    /// Whether windows follow each other on the same connections: then a feed goes on where the one before ended, so that no
    /// number and no row comes twice.
    goes_on: bool,
    first_malformed: Option<Malformed>,
    reasons: Reasons,
}

impl Session {
    /// A session whose connections are all closed and for which nothing is due.
    #[must_use]
    pub fn new(spec: Spec) -> Self {
        let source = Source::Same(Same::new(&spec.request, spec.depth));
        Self::with_source(spec, source, 1)
    }

    /// The same with requests from `feed` in the place of the one of `spec`.
    #[must_use]
    pub fn fed(spec: Spec, feed: Box<dyn Feed>) -> Self {
        let (mut each, lanes) = (Each::new(feed, spec.lanes), spec.lanes as usize);
        if spec.pace == Pace::Closed {
            each.limit_users(spec.lanes);
        }
        let (most, listens, labels) = (each.most(), each.listens(), each.labels());
        let mut session = Self::with_source(spec, Source::Each(Box::new(each)), most);
        session.tally.label(&labels);
        if listens {
            session.heard = (0..lanes).map(|_| Heard::default()).collect();
        }
        session
    }

    /// `most` requests are assigned to a connection at once at most.
    fn with_source(spec: Spec, source: Source, most: u32) -> Self {
        let open_loop = spec.pace != Pace::Closed;
        Self {
            lanes: (0..spec.lanes).map(|_| Lane::default()).collect(),
            // A batch is assigned where there is room for one request.
            rings: Rings::new(spec.lanes as usize, spec.depth + most - 1),
            source,
            heard: Box::default(),
            heads: Heads::new(spec.head),
            dispatcher: Dispatcher::silent(),
            dirty: VecDeque::with_capacity(spec.lanes as usize),
            again: VecDeque::new(),
            unused_closed: None,
            quota: u64::MAX,
            tally: Tally::new(open_loop, spec.requests.is_some(), spec.expected_status),
            occupancy: Occupancy::default(),
            expiry_ns: NEVER,
            release_ns: NEVER,
            step_ns: NEVER,
            full: false,
            completed: 0,
            draining: false,
            goes_on: false,
            first_malformed: None,
            reasons: Reasons::default(),
            spec,
        }
    }

    /// Makes ready for another window with requests due at `pace`, their arrivals from `seed`, and so many of them at most.
    /// Answers that come after it belong to it, too. The connections stay as they are.
    pub fn prepare(&mut self, pace: Pace, seed: u64, requests: Option<u64>) {
        let open_loop = pace != Pace::Closed;
        self.goes_on = true;
        (self.spec.pace, self.spec.seed, self.spec.requests) = (pace, seed, requests);
        self.tally = Tally::new(open_loop, requests.is_some(), self.spec.expected_status).waiting();
        if let Some(each) = self.source.each() {
            self.tally.label(&each.labels());
        }
    }

    /// Begins to send at `now`, at the schedule's first rate and without counting.
    pub fn begin_warmup(&mut self, now: u64) {
        // Another seed, so that the window's arrivals do not depend on whether there was a warm-up.
        let dispatcher = self.dispatcher_for(&self.spec.pace.steady(), !self.spec.seed, now);
        self.dispatcher.replace(dispatcher);
    }

    /// Begins the window: the schedule starts afresh at its begin, without the arrivals that were due before and not
    /// sent. What is in flight stays.
    pub fn begin_window(&mut self, span: Span) {
        let dispatcher = self.dispatcher_for(&self.spec.pace, self.spec.seed, span.start_ns);
        self.dispatcher.replace(dispatcher);
        self.again.clear();
        self.draining = false;
        self.lanes.iter_mut().for_each(|lane| lane.answers = 0);
        if let Some(each) = self.source.each().filter(|_| !self.goes_on) {
            each.window_begins();
        }
        self.quota = self.spec.requests.unwrap_or(u64::MAX);
        self.tally.open(span);
        self.occupancy.restart(span.start_ns);
    }

    fn dispatcher_for(&self, pace: &Pace, seed: u64, origin_ns: u64) -> Dispatcher {
        Dispatcher::new(pace, seed, self.spec.part, self.spec.lanes, origin_ns)
    }

    /// A connection takes requests.
    pub fn opened(&mut self, lane: u32) {
        self.lanes[lane as usize].open = true;
        self.lanes[lane as usize].left = self.spec.per_connection.unwrap_or(u32::MAX);
        self.note_room(lane);
    }

    /// Gives what is due to connections with room.
    #[inline]
    pub fn pace(&mut self, now: u64) {
        if self.is_over() {
            return;
        }
        self.end_rests(now);
        while self.dispatch_ns() <= now {
            let is_step = self.step_ns != NEVER && self.step_ns <= self.arrival_ns();
            let Some(lane) = self.dispatcher.leave() else { return };
            self.lanes[lane as usize].idle = false;
            if self.has_room(lane) && is_step {
                self.assign_step(lane);
                self.note_room(lane);
            } else if self.has_room(lane) {
                let stamp = self.take(lane);
                match self.source {
                    Source::Same(_) => self.assign(lane, stamp),
                    Source::Each(_) => self.assign_batch(lane, stamp),
                }
                self.note_room(lane);
            }
        }
    }

    /// When something can be sent; [`NEVER`] if not before something else happens.
    #[inline]
    fn dispatch_ns(&self) -> u64 {
        if self.draining {
            return NEVER;
        }
        match self.step_ns {
            NEVER => self.arrival_ns(),
            _ => self.arrival_ns().min(self.due_step_ns()),
        }
    }

    /// When an arrival, or a request that was returned, can be sent.
    #[inline]
    fn arrival_ns(&self) -> u64 {
        let due_ns = if self.full { NEVER } else { self.dispatcher.due_ns() };
        match (self.again.is_empty(), self.quota) {
            (true, 0) => NEVER,
            (true, _) if self.tally.is_over_by(due_ns) => NEVER,
            (true, _) => due_ns,
            // A returned request is due at once, given a connection.
            (false, _) if self.dispatcher.has_idle() => AT_ONCE,
            (false, _) => NEVER,
        }
    }

    /// Whether no answer could make anything due: the next arrival has a connection, and no other waits for one of its
    /// own.
    #[inline]
    #[must_use]
    pub fn has_spare(&self) -> bool {
        self.quota > 0 && self.dispatcher.has_spare()
    }

    #[inline]
    fn take(&mut self, lane: u32) -> Stamp {
        if let Some(stamp) = self.again.pop_front() {
            return stamp;
        }
        self.quota -= 1;
        Stamp::due(self.dispatcher.take(lane))
    }

    #[inline]
    fn assign(&mut self, lane: u32, stamp: Stamp) {
        let state = &mut self.lanes[lane as usize];
        self.rings.push(lane, &mut state.cursor, stamp);
        state.unwritten += 1;
        if self.spec.per_connection.is_some() {
            state.left = state.left.saturating_sub(1);
        }
        state.rest = Rest::Head;
        self.mark_dirty(lane);
    }

    /// The connection has something to write.
    #[inline]
    fn mark_dirty(&mut self, lane: u32) {
        let state = &mut self.lanes[lane as usize];
        if !state.dirty {
            state.dirty = true;
            self.dirty.push_back(lane);
        }
    }

    #[inline]
    fn has_room(&self, lane: u32) -> bool {
        let state = &self.lanes[lane as usize];
        state.open && state.left > 0 && state.cursor.held < self.spec.depth
    }

    #[inline]
    fn note_room(&mut self, lane: u32) {
        if self.has_room(lane) && !self.lanes[lane as usize].idle && self.may_ask(lane) {
            self.lanes[lane as usize].idle = true;
            self.dispatcher.enter(lane);
        }
    }

    /// A connection that has something to write; each is named once until more is assigned to it.
    #[inline]
    pub fn next_write(&mut self) -> Option<u32> {
        let lane = self.dirty.pop_front()?;
        self.lanes[lane as usize].dirty = false;
        Some(lane)
    }

    /// Whether there is nothing to write, nor anything due by `now` that could be.
    #[inline]
    #[must_use]
    pub fn is_quiet(&self, now: u64) -> bool {
        self.dirty.is_empty() && self.dispatch_ns() > now
    }

    /// What `lane` has to write now; empty when all is written.
    #[inline]
    #[must_use]
    pub fn outgoing(&self, lane: u32) -> &[u8] {
        let state = &self.lanes[lane as usize];
        if !state.side.is_empty() && state.offset == 0 {
            return &state.side;
        }
        let bytes = self.source.bytes(lane, state.unwritten, state.offset);
        match self.spec.hold {
            None => bytes,
            Some(hold) => held_back::writable(bytes, hold, state.offset, state.rest),
        }
    }

    /// `bytes` of what was outgoing are written, by a write that began at `at`.
    #[inline]
    pub fn wrote(&mut self, lane: u32, bytes: usize, at: u64) {
        let state = &mut self.lanes[lane as usize];
        if !state.side.is_empty() && state.offset == 0 {
            return self.wrote_side(lane, bytes, at);
        }
        let (whole, offset) = self.source.advance(lane, state.unwritten, state.offset + bytes);
        state.offset = offset;
        let first = state.cursor.held - state.unwritten;
        let mut oldest_ns = at;
        for nth in first..first + whole {
            let stamp = self.rings.at(lane, state.cursor, nth);
            if stamp.sent_ns == 0 {
                stamp.sent_ns = at;
            } else {
                (state.again_ns, oldest_ns) = (at, oldest_ns.min(stamp.sent_ns));
            }
            if stamp.intended_ns == AT_ONCE {
                stamp.intended_ns = at;
            }
        }
        state.unwritten -= whole;
        self.occupancy.add(at, i64::from(whole));
        if whole > 0 {
            self.waits_no_more(lane, at);
        }
        self.hold_back(lane, at);
        if let Some(timeout_ns) = self.spec.timeout_ns {
            self.expiry_ns = self.expiry_ns.min(oldest_ns.saturating_add(timeout_ns));
        }
    }

    /// Moves the unfinished head that `lane` keeps to the front of `buf` and says how long it is: the next read of the
    /// connection goes after it.
    #[inline]
    pub fn unstash(&mut self, lane: u32, buf: &mut [u8]) -> usize {
        self.lanes[lane as usize].reader.unstash(buf)
    }

    /// Keeps again what was unstashed: the read after it brought nothing.
    pub fn restash(&mut self, lane: u32, head: &[u8]) {
        self.lanes[lane as usize].reader.stash(head);
    }

    /// `fresh` bytes at the end of `buf` were read at `at`; what is before them was unstashed.
    #[inline]
    pub fn received(&mut self, lane: u32, buf: &[u8], fresh: usize, at: u64) -> Fate {
        self.count_bytes(fresh, at);
        let mut from = 0;
        loop {
            if from < buf.len() && self.lanes[lane as usize].cursor.held == 0 {
                return self.surplus(lane, &buf[from..], at);
            }
            self.expect_answer(lane);
            let hears = self.hears(lane);
            let heard = self.heard.get_mut(lane as usize).filter(|_| hears);
            match self.lanes[lane as usize].reader.next(buf, &mut from, &mut self.heads, heard) {
                Ok(Some(answer)) => {
                    if self.answered(lane, answer, at) == Fate::Replace {
                        return Fate::Replace;
                    }
                }
                Ok(None) => break,
                Err(malformed) => return self.malformed(lane, malformed, at),
            }
        }
        let state = &mut self.lanes[lane as usize];
        state.reader.stash(&buf[from..]);
        if state.begun_ns == 0 && !state.reader.is_between_answers() {
            state.begun_ns = at;
        }
        self.heed_continue(lane);
        Fate::Keep
    }

    #[inline]
    fn answered(&mut self, lane: u32, answer: Answer, at: u64) -> Fate {
        let state = &mut self.lanes[lane as usize];
        if state.cursor.held == 0 {
            return self.malformed(lane, Malformed::Unasked, at);
        }
        let early = state.unwritten == state.cursor.held;
        let mut stamp = self.rings.pop(lane, &mut state.cursor);
        let (request, timed) = self.source.each().map_or((None, true), |each| {
            let popped = each.pop(lane);
            (popped.map(|(request, _)| request), popped.is_none_or(|(_, last)| last || !each.times_batches()))
        });
        let label = request.and_then(|request| request.label);
        if early {
            self.waits_no_more(lane, at);
            let state = &mut self.lanes[lane as usize];
            (state.unwritten, state.offset) = (state.unwritten - 1, 0);
            stamp = Stamp {
                intended_ns: if stamp.intended_ns == AT_ONCE { at } else { stamp.intended_ns },
                sent_ns: if stamp.sent_ns == 0 { at } else { stamp.sent_ns },
            };
        } else {
            self.occupancy.add(at, -1);
        }
        let state = &mut self.lanes[lane as usize];
        state.answers += u64::from(self.tally.covers(at));
        if state.free_ns != 0 {
            (state.free_ns, state.proven) = (at, true);
        }
        self.completed += 1;
        self.tally.answer(stamp, at, answer.status, label, timed);
        self.note_pieces(lane, stamp, at, timed);
        match request.and_then(|request| request.user) {
            None => self.hear(lane),
            Some(user) => {
                let well = !self.tally.is_error(answer.status, label);
                self.user_answered(lane, user, label, well, stamp.intended_ns, at);
            }
        }
        let state = &self.lanes[lane as usize];
        let used_up = state.left == 0 && state.cursor.held == 0;
        if early || used_up || !answer.keep_alive {
            self.abandon(lane, at);
            return Fate::Replace;
        }
        self.note_room(lane);
        Fate::Keep
    }

    /// When the session next has something to do by itself; `u64::MAX` if never.
    #[inline]
    #[must_use]
    pub fn wake_ns(&self) -> u64 {
        self.dispatch_ns()
            .saturating_add(self.spec.slack_ns)
            .min(self.expiry_ns)
            .min(self.tally.wake_ns())
            .min(self.rest_end_ns())
            .min(self.release_ns)
    }

    /// The seconds of the window that ended before `now`.
    pub fn take_seconds(&mut self, now: u64) -> impl Iterator<Item = SecondTally> + '_ {
        self.tally.roll(now);
        self.tally.full.drain(..)
    }

    /// Lends an empty histogram for the second after the current one.
    pub fn lend(&mut self, spare: SecondLatencies) {
        self.tally.lend(spare);
    }

    /// Answers so far, in the warm-up and the window.
    #[inline]
    #[must_use]
    pub fn completed(&self) -> u64 {
        self.completed
    }

    /// Whether no request is left that is to be sent, on any connection. Of those that are not all alike an answer may bring more.
    #[must_use]
    pub fn has_sent_all(&self) -> bool {
        self.quota == 0
            && self.again.is_empty()
            && matches!(self.source, Source::Same(_))
            && self.lanes.iter().all(|lane| lane.unwritten == 0)
    }

    /// Whether all requests that were to be sent are answered or failed.
    #[inline]
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        self.quota == 0
            && self.occupancy.now == 0
            && self.again.is_empty()
            && self.step_ns == NEVER
            && self.lanes.iter().all(|lane| lane.cursor.held == 0)
    }
}
