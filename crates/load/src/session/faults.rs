//! What becomes of requests whose connection ends, breaks or stays silent.

use super::answer::{Malformed, Reader};
use super::dispatch::NEVER;
use super::protocol::End;
use super::ring::Stamp;
use super::source::Source;
use super::tally::Fault;
use super::{Fate, Session};

/// How long a connection must have been idle for its closing to be no fault of the server.
const IDLE_NS: u64 = 10_000_000;

/// Methods of which a second request has the effect of one (RFC 9110, section 9.2.2).
const IDEMPOTENT: [&[u8]; 6] = [b"GET ", b"HEAD ", b"OPTIONS ", b"PUT ", b"DELETE ", b"TRACE "];

/// Whether a second request of its method has the effect of one.
pub(super) fn is_repeatable(request: &[u8]) -> bool {
    IDEMPOTENT.iter().any(|method| request.starts_with(method))
}

impl Session {
    /// Nothing is asked of `lane` since `at`.
    pub(super) fn rests_since(&mut self, lane: u32, at: u64) {
        self.lanes[lane as usize].free_ns = at;
    }

    /// Whether the request of `lane` met the server's closing of an idle connection: it can be sent again on another (RFC 9112,
    /// section 9.3.1), as every client does. Each time costs a connection that was idle, so a request is lost for good at the
    /// latest when only fresh ones are left.
    fn is_idle_close(&mut self, lane: u32) -> bool {
        let state = &self.lanes[lane as usize];
        let alone = state.cursor.held == 1 && state.unwritten == 0;
        if !alone || state.free_ns == 0 || !state.reader.is_between_answers() {
            return false;
        }
        let repeatable = match &self.source {
            Source::Same(_) => is_repeatable(&self.spec.request),
            Source::Each(each) => each.may_repeat(lane),
        };
        let free_ns = state.free_ns;
        repeatable && self.oldest(lane).is_some_and(|stamp| stamp.sent_ns >= free_ns + IDLE_NS)
    }

    /// The server closed the connection at `at`.
    pub fn closed(&mut self, lane: u32, at: u64) -> Fate {
        let state = &mut self.lanes[lane as usize];
        if let Some(answer) = state.reader.end() {
            return self.answered(lane, answer, at);
        }
        self.broken(lane, Fault::Read, at)
    }

    /// Reading or writing failed at `at`.
    pub fn failed(&mut self, lane: u32, writing: bool, at: u64) -> Fate {
        self.broken(lane, if writing { Fault::Write } else { Fault::Read }, at)
    }

    /// A connection has ended.
    pub(super) fn ended(&mut self, lane: u32, how: End, at: u64) -> Fate {
        match how {
            End::Closed => self.closed(lane, at),
            End::Reading => self.failed(lane, false, at),
            End::Writing => self.failed(lane, true, at),
        }
    }

    /// A connection could not be opened.
    pub fn connect_failed(&mut self, at: u64) {
        self.tally.connect_failed(at);
    }

    #[cold]
    pub(super) fn malformed(&mut self, lane: u32, malformed: Malformed, at: u64) -> Fate {
        self.first_malformed.get_or_insert(malformed);
        if self.lanes[lane as usize].cursor.held == 0 {
            self.tally.fault(Fault::Parse, None, at);
        }
        self.broken(lane, Fault::Parse, at)
    }

    /// The requests sent on this connection will never be answered: the first fails by `fault`, the others with it.
    #[cold]
    pub(super) fn broken(&mut self, lane: u32, fault: Fault, at: u64) -> Fate {
        if fault != Fault::Parse && self.is_idle_close(lane) {
            self.tally.resent(at);
            self.abandon(lane, at);
            return Fate::Replace;
        }
        let mut fault = fault;
        while self.oldest(lane).is_some() {
            self.rings.pop(lane, &mut self.lanes[lane as usize].cursor);
            self.occupancy.add(at, -1);
            let label = self.lose(lane, at);
            self.tally.fault(fault, label, at);
            fault = Fault::Read;
        }
        let state = &mut self.lanes[lane as usize];
        if state.offset > 0 {
            self.rings.pop(lane, &mut state.cursor);
            state.unwritten -= 1;
            let label = self.lose(lane, at);
            self.tally.fault(fault, label, at);
        }
        self.abandon(lane, at);
        Fate::Replace
    }

    /// Takes back what a connection still holds, to send it on another.
    #[cold]
    pub(super) fn abandon(&mut self, lane: u32, at: u64) {
        let state = &mut self.lanes[lane as usize];
        let sent = state.cursor.held - state.unwritten;
        self.occupancy.add(at, -i64::from(sent));
        while state.cursor.held > 0 {
            let due_ns = self.rings.pop(lane, &mut state.cursor).intended_ns;
            // Whose request it was asks again; any other may be asked in the place of this one.
            if !self.source.each().is_some_and(|each| each.again(lane, due_ns)) {
                self.again.push_back(due_ns);
            }
        }
        if let Some(each) = self.source.each() {
            each.clear(lane);
        }
        (state.unwritten, state.offset) = (0, 0);
        state.reader = Reader::default();
        state.side.clear();
        (state.begun_ns, state.free_ns) = (0, 0);
        state.open = false;
        self.note_users();
    }

    /// Gives up requests that are too old at `now`; `replace` is told of each connection that this costs.
    ///
    /// A request counts once. Those behind it on the same connection are sent again on another.
    pub fn expire(&mut self, now: u64, mut replace: impl FnMut(u32)) {
        self.release_overdue(now);
        let Some(timeout_ns) = self.spec.timeout_ns.filter(|_| now >= self.expiry_ns) else { return };
        self.expiry_ns = NEVER;
        for lane in 0..self.spec.lanes {
            let Some(oldest) = self.oldest(lane) else {
                self.end_upgrade(lane, now, &mut replace);
                continue;
            };
            let deadline = oldest.sent_ns.saturating_add(timeout_ns);
            if deadline > now {
                self.expiry_ns = self.expiry_ns.min(deadline);
                continue;
            }
            self.rings.pop(lane, &mut self.lanes[lane as usize].cursor);
            self.occupancy.add(now, -1);
            let label = self.lose(lane, now);
            self.tally.timeout(oldest, label, now);
            if self.tally.covers(now) {
                self.note_begun(lane, oldest, now);
            }
            self.abandon(lane, now);
            replace(lane);
        }
    }

    /// Gives up an upgrade that is too old at `now`.
    fn end_upgrade(&mut self, lane: u32, now: u64, replace: &mut impl FnMut(u32)) {
        match self.upgrade_ends_ns(lane) {
            Some(end_ns) if end_ns <= now => {
                self.tally.connect_failed(now);
                self.abandon(lane, now);
                replace(lane);
            }
            Some(end_ns) => self.expiry_ns = self.expiry_ns.min(end_ns),
            None => {}
        }
    }

    /// The stamp of the oldest request of `lane` that was sent.
    fn oldest(&mut self, lane: u32) -> Option<Stamp> {
        let state = &self.lanes[lane as usize];
        (state.cursor.held > state.unwritten).then(|| *self.rings.at(lane, state.cursor, 0))
    }
}
