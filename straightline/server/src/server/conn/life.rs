//! How a connection goes on, decided from what happened to it: no socket, no clock, no coroutine and no thread. The
//! drivers beside this file tell it what happened and do what it says.
//!
//! ```text
//!            readable                 all answered
//! Receive ────────────▶ Serve ──────────────────────▶ Receive
//!    │                    │  the socket is full          ▲
//!    │ too late           ├────────────────▶ Flush ──────┘
//!    ▼                    │ refused            │
//!  Closed ◀── Linger ◀────┴────────────────────┘
//! ```

use crate::server::limits::Limits;
use std::time::Duration;

/// How long a connection that was just opened may take to its first request when the server drains.
const FIRST_REQUEST: Duration = Duration::from_millis(100);

/// What a connection does at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Waits for a request, or for the rest of a head.
    Receive,
    /// Its requests are answered.
    Serve,
    /// Waits for room to send the last of an answer.
    Flush(After),
    /// Waits for a refused client to read why.
    Linger,
    Closed,
}

/// What is to become of a connection once its answers are out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// It waits for bytes.
    Receive,
    /// It is served again after the others had their turn.
    Again,
    /// It is closed in a way that lets the client read the answer, whatever it still sends.
    Linger,
    /// It is closed.
    Close,
    /// It speaks HTTP/2.
    Http2,
}

/// What is done before bytes are received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// Nothing.
    Usual,
    /// The stash is looked at: it may hold whole requests, which waited for others to have their turn.
    Again,
    /// It is found out which protocol the client speaks.
    First,
}

/// What the driver does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Goes on as it does.
    Nothing,
    /// The same, within so much time from now on.
    Within(Duration),
    /// Waits for bytes, within so much time from now on; `None` where a time runs already.
    Await(Option<Duration>),
    /// Serves what is there once the others had their turn.
    Again,
    /// Tells the client that it was too slow, and lets it read that.
    Refuse,
    /// Says that no more comes, and drops what the client still sends until it closes.
    Linger,
    Close,
    /// Closes so that the client does not take what it has for the whole.
    Reset,
    /// Hands over to HTTP/2.
    Http2,
}

/// What there is of a request that has not come whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Bytes of it.
    pub(super) of_request: bool,
    /// Bytes below it: half a record of TLS.
    pub(super) of_record: bool,
}

/// A connection, as far as that decides how it goes on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Life {
    pub(super) phase: Phase,
    pub(super) start: Start,
    /// Whether the time that runs is that of a head.
    pub(super) amid_head: bool,
    /// Whether the client must not take what it has for the whole.
    pub(super) cut: bool,
}

impl Life {
    pub(super) const NEW: Self =
        Self { phase: Phase::Receive, start: Start::First, amid_head: true, cut: false };

    /// All answers are out.
    #[inline]
    pub(super) fn sent(&mut self, after: After, part: Part, draining: bool, limits: &Limits) -> Next {
        match after {
            After::Receive if draining && !part.of_request => Next::Close,
            After::Receive => {
                self.phase = Phase::Receive;
                Next::Await(self.time_for_next(part, limits))
            }
            After::Again => {
                (self.phase, self.start) = (Phase::Receive, Start::Again);
                Next::Again
            }
            After::Linger => self.linger(),
            After::Close => Next::Close,
            After::Http2 => Next::Http2,
        }
    }

    /// The client does not take the answers as fast as they are made.
    pub(super) fn held_up(&mut self, after: After, limits: &Limits) -> Next {
        self.phase = Phase::Flush(after);
        Next::Within(limits.write_stall)
    }

    pub(super) fn linger(&mut self) -> Next {
        self.phase = Phase::Linger;
        Next::Linger
    }

    /// How long the next request may take to come; `None` if a head is under way, whose time runs already.
    #[inline]
    fn time_for_next(&mut self, part: Part, limits: &Limits) -> Option<Duration> {
        let was_amid = std::mem::replace(&mut self.amid_head, part.of_request || part.of_record);
        match (self.amid_head, was_amid) {
            (false, _) => Some(limits.idle_time),
            (true, false) => Some(limits.head_time),
            (true, true) => None,
        }
    }

    /// What is waited for did not come in time.
    pub(super) fn too_late(&self, part: Part, limits: &Limits) -> Next {
        match self.phase {
            // A handler may take its time; what it waits for has times of its own.
            Phase::Serve => Next::Within(limits.idle_time),
            Phase::Receive if part.of_request => Next::Refuse,
            Phase::Flush(_) => Next::Reset,
            Phase::Receive | Phase::Linger => Next::Close,
            Phase::Closed => Next::Nothing,
        }
    }

    /// The server is about to end. A request that is on its way in, of which the kernel may have `more`, is still answered.
    pub(super) fn drain(&self, part: Part, more: bool) -> Next {
        match (self.phase, self.start) {
            _ if self.phase != Phase::Receive || part.of_request || more => Next::Nothing,
            // Who has only just connected has a first request on the way, and no reason to ask for it again.
            (_, Start::First) => Next::Within(FIRST_REQUEST),
            (_, Start::Usual | Start::Again) => Next::Close,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{After, FIRST_REQUEST, Life, Next, Part, Phase, Start};
    use crate::server::limits::Limits;

    const NONE: Part = Part { of_request: false, of_record: false };
    const HALF: Part = Part { of_request: true, of_record: false };
    const RECORD: Part = Part { of_request: false, of_record: true };

    fn in_phase(phase: Phase) -> Life {
        Life { phase, start: Start::Usual, ..Life::NEW }
    }

    #[test]
    fn what_becomes_of_a_connection_whose_answers_are_out() {
        let limits = Limits::default();
        let idle = Next::Await(Some(limits.idle_time));
        let cases = [
            (After::Receive, NONE, false, idle, Phase::Receive),
            (After::Receive, NONE, true, Next::Close, Phase::Serve),
            // What has begun to come is answered, though the server drains.
            (After::Receive, HALF, true, Next::Await(None), Phase::Receive),
            (After::Again, NONE, false, Next::Again, Phase::Receive),
            (After::Linger, NONE, false, Next::Linger, Phase::Linger),
            (After::Close, NONE, false, Next::Close, Phase::Serve),
            (After::Http2, NONE, false, Next::Http2, Phase::Serve),
        ];
        for (after, part, draining, next, phase) in cases {
            let mut life = in_phase(Phase::Serve);
            assert_eq!(life.sent(after, part, draining, &limits), next, "{after:?} {part:?} {draining}");
            assert_eq!(life.phase, phase, "{after:?} {part:?} {draining}");
        }
    }

    #[test]
    fn the_time_of_a_head_begins_with_its_first_byte_and_no_later_one_buys_more() {
        let limits = Limits::default();
        let mut life = in_phase(Phase::Serve);
        let mut time = |part| life.sent(After::Receive, part, false, &limits);
        assert_eq!(time(NONE), Next::Await(Some(limits.idle_time)));
        assert_eq!(time(HALF), Next::Await(Some(limits.head_time)));
        assert_eq!(time(HALF), Next::Await(None));
        assert_eq!(time(RECORD), Next::Await(None));
        assert_eq!(time(NONE), Next::Await(Some(limits.idle_time)));
        assert_eq!(time(RECORD), Next::Await(Some(limits.head_time)));
    }

    #[test]
    fn who_is_too_late_hears_of_it_where_that_is_possible() {
        let limits = Limits::default();
        let cases = [
            (Phase::Receive, NONE, Next::Close),
            (Phase::Receive, RECORD, Next::Close),
            (Phase::Receive, HALF, Next::Refuse),
            (Phase::Serve, NONE, Next::Within(limits.idle_time)),
            (Phase::Flush(After::Receive), NONE, Next::Reset),
            (Phase::Linger, NONE, Next::Close),
            (Phase::Closed, NONE, Next::Nothing),
        ];
        for (phase, part, next) in cases {
            assert_eq!(in_phase(phase).too_late(part, &limits), next, "{phase:?} {part:?}");
        }
    }

    #[test]
    fn a_drain_closes_what_is_idle_and_nothing_else() {
        let idle = in_phase(Phase::Receive);
        assert_eq!(idle.drain(NONE, false), Next::Close);
        assert_eq!(idle.drain(NONE, true), Next::Nothing, "a request is on its way");
        assert_eq!(idle.drain(HALF, false), Next::Nothing);
        assert_eq!(Life::NEW.drain(NONE, false), Next::Within(FIRST_REQUEST));
        for phase in [Phase::Serve, Phase::Flush(After::Receive), Phase::Linger, Phase::Closed] {
            assert_eq!(in_phase(phase).drain(NONE, false), Next::Nothing, "{phase:?}");
        }
    }

    #[test]
    fn a_client_that_takes_nothing_has_the_time_for_that() {
        let (limits, mut life) = (Limits::default(), in_phase(Phase::Serve));
        assert_eq!(life.held_up(After::Close, &limits), Next::Within(limits.write_stall));
        assert_eq!(life.phase, Phase::Flush(After::Close));
    }
}
