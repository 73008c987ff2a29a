//! What a session does for protocols other than HTTP/1.1.

use super::answer::{Answer, Malformed};
use super::tally::Fault;
use super::{Events, Fate, Heard, Session};

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

    /// The request of `lane` was answered with `status` at `at`.
    pub fn stream_answered(&mut self, lane: u32, status: u16, at: u64) -> Fate {
        self.answered(lane, Answer { status, keep_alive: true }, at)
    }

    /// The answer of `lane` is none: its request fails, and no other.
    pub fn stream_malformed(&mut self, lane: u32, malformed: Malformed, at: u64) -> Fate {
        self.malformed(lane, malformed, at)
    }

    /// The request of `lane` was not looked at: it is sent on another connection.
    pub fn stream_refused(&mut self, lane: u32, at: u64) -> Fate {
        self.tally.resent(at);
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
