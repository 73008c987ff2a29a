//! What must hold for any bytes that a server may send. The fuzzer outside of the tree runs the same check.

use load::schedule::{Arrival, Dispatch, Intensity, Pace, Part};
use load::session::{Fate, Session, Span, Spec};

/// When every request was sent, on the clock of these tests.
const BEGIN: u64 = 1_000;
/// Requests that wait for an answer.
const ASKED: u32 = 4;
/// Longest beginning of an answer that is kept: the longest head that is read (`http1::limits::HEAD_BYTES`).
const KEPT_BYTES: usize = 32 * 1024;
/// Longest input: what one read of a worker brings.
const READ_BYTES: usize = 64 * 1024;

/// What became of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) answers: u64,
    pub(crate) malformed: u64,
    pub(crate) lost: u64,
    /// Whether the connection could go on.
    pub(crate) kept: bool,
}

/// Reads `bytes` at once and in pieces: the same must come of it, no more may be kept than a head is long, and every
/// request is counted once.
pub(crate) fn check(bytes: &[u8], head: bool) -> Verdict {
    let bytes = &bytes[..bytes.len().min(READ_BYTES)];
    let whole = read(bytes, bytes.len().max(1), head);
    for piece in [1, 7, 61] {
        // Single bytes of a long input would only repeat what those of a short one show.
        if bytes.len() / piece <= 4096 {
            assert_eq!(read(bytes, piece, head), whole, "in pieces of {piece}");
        }
    }
    whole
}

fn read(bytes: &[u8], piece: usize, head: bool) -> Verdict {
    let mut session = asked(head);
    let mut buf = vec![0; KEPT_BYTES + piece];
    let mut kept = true;
    for part in bytes.chunks(piece) {
        let begun = session.unstash(0, &mut buf);
        assert!(begun <= KEPT_BYTES, "{begun} bytes of one head are kept");
        buf[begun..begun + part.len()].copy_from_slice(part);
        if session.received(0, &buf[..begun + part.len()], part.len(), BEGIN + 1) == Fate::Replace {
            kept = false;
            break;
        }
    }
    if kept {
        let _ = session.closed(0, BEGIN + 2);
    }
    let tally = session.finish(BEGIN + 3).tally;
    let counted = tally.requests + tally.errors.parse + tally.errors.read + tally.unfinished + tally.unsent;
    // An answer to nothing is one more that is wrong.
    assert!((u64::from(ASKED)..=u64::from(ASKED) + 1).contains(&counted), "{counted} of {ASKED}: {tally:?}");
    Verdict { answers: tally.requests, malformed: tally.errors.parse, lost: tally.errors.read, kept }
}

/// A session that has sent [`ASKED`] requests on one connection, all due in the window.
fn asked(head: bool) -> Session {
    const END: u64 = 1 << 40;
    let pace = Pace::Open {
        intensity: Intensity::Flat { per_s: 1e9 },
        arrival: Arrival::Constant,
        dispatch: Dispatch::Shared,
    };
    let mut session = Session::new(Spec {
        per_connection: None,
        lanes: 1,
        depth: ASKED,
        request: b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
        head,
        hold: None,
        pace,
        seed: 1,
        part: Part { part: 0, parts: 1 },
        requests: Some(u64::from(ASKED)),
        timeout_ns: None,
        slack_ns: 0,
        expected_status: None,
    });
    session.opened(0);
    session.begin_window(Span { start_ns: BEGIN - 100, end_ns: END });
    session.pace(BEGIN);
    while let Some(lane) = session.next_write() {
        let bytes = session.outgoing(lane).len();
        session.wrote(lane, bytes, BEGIN);
    }
    session
}
