//! What becomes of requests whose connection ends, breaks or stays silent.

use super::answer::{Malformed, Reader};
use super::dispatch::NEVER;
use super::protocol::End;
use super::ring::Stamp;
use super::source::Source;
use super::tally::Fault;
use super::{Fate, Reason, Session};

/// How long a connection that has answered nothing must have been idle for its closing to be no fault of the server.
const IDLE_NS: u64 = 10_000_000;

/// How a server begins that gives up a connection on which it waited for a request: no fault, as closing it without a word is none.
///
/// Source: RFC 9110, section 15.5.9.
const NO_REQUEST: &[u8] = b"HTTP/1.1 408 ";

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

    /// Whether a request that `lane` loses may have met a closing that has nothing to do with it: the server had answered others
    /// there, or nobody had asked it anything for a while.
    ///
    /// Each loss costs a connection that had answered, or one that was idle, and of those no more than all between two answers:
    /// a server that never answers fails.
    pub(super) fn excuses(&mut self, lane: u32) -> bool {
        let state = &self.lanes[lane as usize];
        if state.free_ns == 0 || state.proven {
            return state.proven;
        }
        let alone = state.cursor.held == 1 && state.unwritten == 0;
        let (idle_until_ns, again_ns) = (state.free_ns + IDLE_NS, state.again_ns);
        let idle = alone
            && self.oldest(lane).is_some_and(|stamp| stamp.sent_ns.max(again_ns) >= idle_until_ns)
            && self
                .unused_closed
                .is_none_or(|(answers, closed)| answers != self.completed || closed < self.spec.lanes);
        if idle {
            let before = self.unused_closed.filter(|(answers, _)| *answers == self.completed);
            self.unused_closed = Some((self.completed, before.map_or(0, |(_, closed)| closed) + 1));
        }
        idle
    }

    /// Whether the oldest request of `lane` may be sent a second time.
    fn may_repeat(&self, lane: u32) -> bool {
        match &self.source {
            Source::Same(_) => is_repeatable(&self.spec.request),
            Source::Each(each) => each.may_repeat(lane),
        }
    }

    /// The server closed the connection at `at`.
    pub fn closed(&mut self, lane: u32, at: u64) -> Fate {
        let state = &mut self.lanes[lane as usize];
        if let Some(answer) = state.reader.end() {
            return self.answered(lane, answer, at);
        }
        self.broken(lane, Fault::Read, at)
    }

    /// The connection ended at `at` without the farewell of TLS. An answer that ends with it counts, as by every client, and it is
    /// told that nobody knows whether it is whole.
    fn cut(&mut self, lane: u32, at: u64) -> Fate {
        match self.lanes[lane as usize].reader.end() {
            Some(answer) => {
                self.note_malformed(Malformed::Truncated);
                self.answered(lane, answer, at)
            }
            None => self.broken(lane, Fault::Read, at),
        }
    }

    /// Reading or writing failed at `at`.
    pub fn failed(&mut self, lane: u32, writing: bool, at: u64) -> Fate {
        self.broken(lane, if writing { Fault::Write } else { Fault::Read }, at)
    }

    /// A connection has ended.
    pub(super) fn ended(&mut self, lane: u32, how: End, at: u64) -> Fate {
        match how {
            End::Closed => self.closed(lane, at),
            End::Cut => self.cut(lane, at),
            End::Reading => self.failed(lane, false, at),
            End::Writing => self.failed(lane, true, at),
        }
    }

    /// A connection could not be opened.
    pub fn connect_failed(&mut self, at: u64) {
        self.tally.connect_failed(at);
    }

    /// Keeps what is said of answers that cannot be read: the first.
    #[cold]
    pub(super) fn note_malformed(&mut self, malformed: Malformed) {
        self.first_malformed.get_or_insert(malformed);
    }

    /// Keeps what the server itself says of why it fails requests or ends a connection.
    #[cold]
    pub(super) fn note_reason(&mut self, reason: Reason) {
        self.reasons.add(reason);
    }

    #[cold]
    pub(super) fn malformed(&mut self, lane: u32, malformed: Malformed, at: u64) -> Fate {
        self.note_malformed(malformed);
        self.broken(lane, Fault::Parse, at)
    }

    /// More came than was asked for. The answer before it has counted, and does not fail as well: the connection does, and is over.
    #[cold]
    pub(super) fn surplus(&mut self, lane: u32, surplus: &[u8], at: u64) -> Fate {
        let to_head = self.heads.is_bodiless();
        let malformed = self.lanes[lane as usize].reader.surplus(surplus, to_head);
        if !surplus.starts_with(NO_REQUEST) {
            self.tally.fault(Fault::Surplus, None, at);
        }
        self.malformed(lane, malformed, at)
    }

    /// The requests sent on this connection will never be answered there. Where the connection excuses it, those that are safe to
    /// repeat are sent on another (RFC 9112, sections 9.3.1 and 9.3.2), as every client does, unless their answer has begun. Else
    /// the first fails by `fault`, the others with it.
    #[cold]
    pub(super) fn broken(&mut self, lane: u32, fault: Fault, at: u64) -> Fate {
        let excused = fault != Fault::Parse && self.excuses(lane);
        let begun = self.lanes[lane as usize].reader.has_begun();
        self.break_off(lane, fault, excused && !begun, excused, at)
    }

    /// The same; `first` and `others` say whether the first request and those behind it may be sent again.
    #[cold]
    pub(super) fn break_off(&mut self, lane: u32, fault: Fault, first: bool, others: bool, at: u64) -> Fate {
        let (mut fault, mut excused) = (fault, first);
        self.waits_no_more(lane, at);
        loop {
            let sent = self.oldest(lane).is_some();
            if !sent && self.lanes[lane as usize].offset == 0 {
                break;
            }
            match sent {
                true => self.occupancy.add(at, -1),
                false => {
                    let state = &mut self.lanes[lane as usize];
                    (state.unwritten, state.offset) = (state.unwritten - 1, 0);
                }
            }
            let stamp = self.rings.pop(lane, &mut self.lanes[lane as usize].cursor);
            if excused && self.may_repeat(lane) {
                self.tally.resent(at, false);
                self.take_back(lane, stamp);
            } else {
                let label = self.lose(lane, at);
                self.tally.fault(fault, label, at);
                fault = Fault::Read;
            }
            excused = others;
        }
        self.abandon(lane, at);
        Fate::Replace
    }

    /// The oldest request of `lane` is to be sent on another connection.
    fn take_back(&mut self, lane: u32, stamp: Stamp) {
        // Whose request it was asks again; any other may be asked in the place of this one.
        if !self.source.each().is_some_and(|each| each.again(lane, stamp.intended_ns)) {
            self.again.push_back(stamp);
        }
    }

    /// Takes back what a connection still holds, to send it on another as if it were for the first time.
    #[cold]
    pub(super) fn abandon(&mut self, lane: u32, at: u64) {
        self.waits_no_more(lane, at);
        let state = &self.lanes[lane as usize];
        let sent = state.cursor.held - state.unwritten;
        self.occupancy.add(at, -i64::from(sent));
        while self.lanes[lane as usize].cursor.held > 0 {
            let stamp = self.rings.pop(lane, &mut self.lanes[lane as usize].cursor);
            self.take_back(lane, Stamp { sent_ns: 0, ..stamp });
        }
        if let Some(each) = self.source.each() {
            each.clear(lane);
        }
        let state = &mut self.lanes[lane as usize];
        (state.unwritten, state.offset) = (0, 0);
        state.reader = Reader::default();
        state.side.clear();
        (state.begun_ns, state.free_ns, state.again_ns) = (0, 0, 0);
        (state.open, state.proven) = (false, false);
        self.note_users();
    }

    /// Gives up requests that are too old at `now`; `replace` is called with each connection that this costs.
    ///
    /// A request counts once. Those behind it on the same connection are sent again on another.
    pub fn expire(&mut self, now: u64, mut replace: impl FnMut(u32)) {
        self.release_overdue(now);
        let Some(timeout_ns) = self.spec.timeout_ns.filter(|_| now >= self.expiry_ns) else { return };
        self.expiry_ns = NEVER;
        for lane in 0..self.spec.lanes {
            let waits_ns = self.lanes[lane as usize].waits_ns;
            if waits_ns != 0 {
                match waits_ns.saturating_add(timeout_ns) {
                    deadline if deadline > now => self.expiry_ns = self.expiry_ns.min(deadline),
                    _ => {
                        let stamp = self.take_waiting(lane, now);
                        self.time_out(lane, stamp, now);
                        replace(lane);
                    }
                }
                continue;
            }
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
            self.time_out(lane, oldest, now);
            replace(lane);
        }
    }

    /// The oldest request of `lane`, which was of this stamp, has grown too old.
    fn time_out(&mut self, lane: u32, stamp: Stamp, now: u64) {
        let label = self.lose(lane, now);
        self.tally.timeout(stamp, label, now);
        if self.tally.covers(now) {
            self.note_begun(lane, stamp, now);
        }
        self.abandon(lane, now);
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
