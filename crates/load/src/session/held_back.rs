//! Bodies that wait until the server asks for them: `Expect: 100-continue`.

use super::Session;
use super::dispatch::NEVER;

/// How long a body waits for a server that does not ask: as long as in curl, which asks the same of servers.
///
/// Source: RFC 9110, section 10.1.1: a client should not wait indefinitely; curl's CURLOPT_EXPECT_100_TIMEOUT_MS.
const LONGEST_WAIT_NS: u64 = 1_000_000_000;

/// How much of a request may be written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Rest {
    /// Its head.
    #[default]
    Head,
    /// Nothing until then.
    WaitsUntil(u64),
    /// All of it.
    Released,
}

/// What may be written now of `bytes`, which follow the first `offset` bytes of a request.
pub(super) fn writable(bytes: &[u8], hold: usize, offset: usize, rest: Rest) -> &[u8] {
    match rest {
        Rest::Released => bytes,
        Rest::Head | Rest::WaitsUntil(_) => &bytes[..hold.saturating_sub(offset).min(bytes.len())],
    }
}

impl Session {
    /// Lets the body of `lane` wait if its head has just been written. Its request counts as sent from then on.
    #[inline]
    pub(super) fn hold_back(&mut self, lane: u32, at: u64) {
        let Some(hold) = self.spec.hold else { return };
        let state = &mut self.lanes[lane as usize];
        if state.unwritten == 0 || state.rest != Rest::Head || state.offset < hold {
            return;
        }
        state.rest = Rest::WaitsUntil(at.saturating_add(LONGEST_WAIT_NS));
        self.release_ns = self.release_ns.min(at.saturating_add(LONGEST_WAIT_NS));
        let stamp = self.rings.at(lane, state.cursor, state.cursor.held - state.unwritten);
        stamp.sent_ns = at;
        self.waits_from(lane, at);
    }

    /// Lets go the body of `lane` if the server has asked for it.
    #[inline]
    pub(super) fn heed_continue(&mut self, lane: u32) {
        if self.spec.hold.is_some() && self.lanes[lane as usize].reader.take_continued() {
            self.release(lane);
        }
    }

    fn release(&mut self, lane: u32) {
        if self.lanes[lane as usize].unwritten > 0 {
            self.lanes[lane as usize].rest = Rest::Released;
            self.mark_dirty(lane);
        }
    }

    /// Lets go bodies that have waited long enough.
    #[inline]
    pub(super) fn release_overdue(&mut self, now: u64) {
        if now < self.release_ns {
            return;
        }
        self.release_ns = NEVER;
        for lane in 0..self.spec.lanes {
            match self.lanes[lane as usize].rest {
                Rest::WaitsUntil(until) if until <= now => self.release(lane),
                Rest::WaitsUntil(until) if self.lanes[lane as usize].unwritten > 0 => {
                    self.release_ns = self.release_ns.min(until);
                }
                _ => {}
            }
        }
    }
}
