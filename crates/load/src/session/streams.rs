//! What a session does for protocols other than HTTP/1.1.

use super::answer::{Answer, Malformed};
use super::ring::Stamp;
use super::tally::Fault;
use super::{Events, Fate, Heard, Session};
use crate::schedule::AT_ONCE;

impl Session {
    /// `bytes` were read at `at`.
    #[inline]
    pub fn count_bytes(&mut self, bytes: usize, at: u64) {
        if self.tally.covers(at) {
            self.tally.bytes_read += bytes as u64;
        }
    }

    /// Counts events from now on.
    #[inline]
    pub(super) fn count_events(&mut self) {
        self.tally.events.get_or_insert_with(|| Box::new(Events::ready()));
    }

    /// The request of `lane` has begun at `at`, and what is left of it waits for the server: for a stream, or for leave to send its
    /// body. It is under way for whoever asks, and can grow too old.
    #[cold]
    pub(super) fn waits_from(&mut self, lane: u32, at: u64) {
        let state = &mut self.lanes[lane as usize];
        if state.waits_ns != 0 || state.unwritten == 0 {
            return;
        }
        state.waits_ns = at;
        let stamp = self.rings.at(lane, state.cursor, state.cursor.held - state.unwritten);
        if stamp.intended_ns == AT_ONCE {
            stamp.intended_ns = at;
        }
        self.occupancy.add(at, 1);
        if let Some(timeout_ns) = self.spec.timeout_ns {
            self.expiry_ns = self.expiry_ns.min(at.saturating_add(timeout_ns));
        }
    }

    /// The request of `lane` does not wait any more.
    #[inline]
    pub(super) fn waits_no_more(&mut self, lane: u32, at: u64) {
        let state = &mut self.lanes[lane as usize];
        if state.waits_ns != 0 {
            state.waits_ns = 0;
            self.occupancy.add(at, -1);
        }
    }

    /// Takes the request of `lane` that has waited in vain: its stamp is as if it had been sent when it began to.
    #[cold]
    pub(super) fn take_waiting(&mut self, lane: u32, at: u64) -> Stamp {
        let state = &mut self.lanes[lane as usize];
        let sent_ns = state.waits_ns;
        (state.unwritten, state.offset) = (state.unwritten.saturating_sub(1), 0);
        let stamp = self.rings.pop(lane, &mut state.cursor);
        self.waits_no_more(lane, at);
        Stamp { sent_ns, ..stamp }
    }

    /// The request of `lane` was answered with `status` at `at`.
    pub fn stream_answered(&mut self, lane: u32, status: u16, at: u64) -> Fate {
        self.answered(lane, Answer { status, keep_alive: true }, at)
    }

    /// The answer of `lane` is none: its request fails, and no other.
    pub fn stream_malformed(&mut self, lane: u32, malformed: Malformed, at: u64) -> Fate {
        self.malformed(lane, malformed, at)
    }

    /// The request of `lane` was not looked at: it is sent on another connection. `farewell` is whether that is as the server ended
    /// this one in good order.
    pub fn stream_refused(&mut self, lane: u32, farewell: bool, at: u64) -> Fate {
        self.tally.resent(at, farewell);
        self.abandon(lane, at);
        Fate::Replace
    }

    /// The server broke off the stream of `lane`: its request fails.
    pub fn stream_reset(&mut self, lane: u32, at: u64) -> Fate {
        self.break_off(lane, Fault::Read, false, false, at)
    }

    /// The connection of `lane` was closed or broke; `proven` says that it had answered others. A request whose answer has not begun
    /// is sent on another, where that is safe.
    pub fn stream_closed(&mut self, lane: u32, proven: bool, at: u64) {
        let begun = self.lanes[lane as usize].begun_ns != 0;
        let excused = !begun && (proven || self.excuses(lane));
        let _ = self.break_off(lane, Fault::Read, excused, excused, at);
    }

    /// The connection of `lane` is over; `malformed` says that the server did not speak the protocol. Whether a request failed by
    /// that.
    pub fn stream_lost(&mut self, lane: u32, malformed: bool, at: u64) -> bool {
        let state = &self.lanes[lane as usize];
        let outstanding = state.cursor.held > state.unwritten;
        let fault = if malformed { Fault::Parse } else { Fault::Read };
        let _ = self.break_off(lane, fault, false, false, at);
        outstanding
    }

    /// The answer of `lane` is complete, for a feed that wants to hear it.
    pub fn stream_heard(&mut self, lane: u32, heard: Heard) {
        if let Some(place) = self.heard.get_mut(lane as usize) {
            *place = heard;
        }
    }

    /// Whether answers are to be heard.
    #[must_use]
    pub fn listens(&self) -> bool {
        !self.heard.is_empty()
    }
}
