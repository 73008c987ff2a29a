//! Requests that are sent again because they met the closing of a connection.

use load::schedule::Pace;
use load::session::{Fate, Http1, Protocol, Session, Span, Spec};

use crate::session::{assert_near, write_all};
use crate::simulation::{MILLI, ORIGIN, SECOND, constant, spec};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

/// A session whose only connection has sent all that is due at `ORIGIN`.
fn connected(method: &str, depth: u32, pace: Pace) -> Session {
    let request = format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n").into_bytes();
    let mut session = Session::new(Spec { request, depth, ..spec(1, pace) });
    assert_eq!(Http1.opened(&mut session, 0, ORIGIN), Fate::Keep);
    session.begin_window(Span { start_ns: ORIGIN, end_ns: ORIGIN + SECOND });
    write_all(&mut session, ORIGIN);
    session
}

/// What became of a request for `method` that was sent `rested_ns` after its connection had answered another, where the server
/// closed the connection then: (sent again, read errors).
fn lost_after(method: &str, rested_ns: u64) -> (u64, u64) {
    let mut session = connected(method, 1, constant(1.0e9 / rested_ns as f64));
    assert_eq!(session.received(0, OK, OK.len(), ORIGIN + 1), Fate::Keep);
    let due = ORIGIN + 1 + rested_ns;
    assert!(write_all(&mut session, due) > 0, "the second request is due");
    assert_eq!(session.closed(0, due + MILLI), Fate::Replace);
    // The server takes the next connection and drops it too: that is its fault.
    assert_eq!(Http1.opened(&mut session, 0, due + MILLI), Fate::Keep);
    write_all(&mut session, due + 2 * MILLI);
    assert_eq!(session.closed(0, due + 3 * MILLI), Fate::Replace);
    let tally = session.finish(due + 4 * MILLI).tally;
    (tally.resent, tally.errors.read)
}

#[test]
fn a_request_that_met_the_closing_of_a_connection_that_had_answered_is_sent_again_on_another() {
    for method in ["GET", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE"] {
        for rested_ns in [100 * MILLI, 5 * MILLI, 1_000] {
            assert_eq!(lost_after(method, rested_ns), (1, 1), "{method} after {rested_ns} ns");
        }
    }
    for method in ["POST", "PATCH", "GETTING"] {
        assert_eq!(lost_after(method, 100 * MILLI).0, 0, "a second {method} may be a second order");
    }
}

#[test]
fn what_is_sent_again_is_timed_from_the_first_time() {
    for pace in [Pace::Closed, constant(1000.0)] {
        let mut session = connected("GET", 1, pace);
        assert_eq!(session.received(0, OK, OK.len(), ORIGIN + 1), Fate::Keep);
        let sent = ORIGIN + MILLI;
        write_all(&mut session, sent);
        assert_eq!(session.closed(0, sent + 20 * MILLI), Fate::Replace);
        assert_eq!(Http1.opened(&mut session, 0, sent + 40 * MILLI), Fate::Keep);
        write_all(&mut session, sent + 40 * MILLI);
        assert_eq!(session.received(0, OK, OK.len(), sent + 50 * MILLI), Fate::Keep);
        session.drain();
        let tally = session.finish(sent + 51 * MILLI).tally;
        assert_eq!((tally.resent, tally.requests, tally.errors.total()), (1, 2, 0));
        let drift_max = tally.full.iter().map(|second| second.response.max()).max().unwrap();
        assert_near(drift_max, 50 * MILLI, "the response");
        if let Some(split) = &tally.split {
            assert_near(split.service.max(), 50 * MILLI, "the service");
        }
    }
}

#[test]
fn of_pipelined_requests_those_whose_answer_has_not_begun_are_sent_again() {
    // (what the server says before it closes the connection, sent again, read errors)
    let cases: [(&[&[u8]], u64, u64); 5] = [
        (&[OK], 3, 0),
        (&[OK, b"HTTP/1.1 2"], 2, 1),
        (&[OK, b"HTTP/1.1 100 Continue\r\n\r\n"], 2, 1),
        (&[OK, OK, OK], 1, 0),
        // A connection that never answered is no excuse.
        (&[], 0, 4),
    ];
    for (answers, resent, read) in cases {
        let mut session = connected("GET", 4, Pace::Closed);
        let answers = answers.concat();
        if !answers.is_empty() {
            assert_eq!(session.received(0, &answers, answers.len(), ORIGIN + 1), Fate::Keep);
        }
        assert_eq!(session.failed(0, false, ORIGIN + 2), Fate::Replace);
        let tally = session.finish(ORIGIN + 3).tally;
        assert_eq!(
            (tally.resent, tally.errors.read),
            (resent, read),
            "{:?}",
            String::from_utf8_lossy(&answers)
        );
    }
}

#[test]
fn a_server_that_closes_every_idle_connection_and_never_answers_fails() {
    let mut session = Session::new(spec(4, Pace::Closed));
    let mut now = ORIGIN;
    for lane in 0..4 {
        assert_eq!(Http1.opened(&mut session, lane, now), Fate::Keep);
    }
    session.begin_window(Span { start_ns: ORIGIN, end_ns: ORIGIN + 100 * SECOND });
    for _ in 0..8 {
        now += SECOND;
        session.pace(now);
        while let Some(lane) = session.next_write() {
            session.wrote(lane, session.outgoing(lane).len(), now);
            assert_eq!(session.closed(lane, now), Fate::Replace);
            assert_eq!(Http1.opened(&mut session, lane, now), Fate::Keep);
        }
    }
    let tally = session.finish(now).tally;
    assert_eq!(tally.resent, 4, "each of the four connections has one excuse");
    assert!(tally.errors.read >= 7, "{:?}", tally.errors);
}

#[test]
fn connections_that_are_closed_together_for_being_idle_cost_no_request() {
    let mut session = Session::new(spec(3, constant(1.0e9 / (100 * MILLI) as f64)));
    for lane in 0..3 {
        assert_eq!(Http1.opened(&mut session, lane, ORIGIN), Fate::Keep);
    }
    let due = ORIGIN + 100 * MILLI;
    session.begin_window(Span { start_ns: due, end_ns: due + SECOND });
    let mut lanes = Vec::new();
    for now in [due, due + MILLI, due + 2 * MILLI] {
        session.pace(now);
        let lane = session.next_write().expect("the request is sent again");
        session.wrote(lane, session.outgoing(lane).len(), now);
        assert_eq!(session.closed(lane, now), Fate::Replace);
        lanes.push(lane);
    }
    lanes.sort_unstable();
    assert_eq!(lanes, [0, 1, 2], "each loss costs another connection");
    assert_eq!(Http1.opened(&mut session, 0, due + 3 * MILLI), Fate::Keep);
    write_all(&mut session, due + 3 * MILLI);
    assert_eq!(session.received(0, OK, OK.len(), due + 4 * MILLI), Fate::Keep);
    let tally = session.finish(due + 5 * MILLI).tally;
    assert_eq!((tally.resent, tally.errors.read, tally.requests), (3, 0, 1));
}
