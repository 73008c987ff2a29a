//! What a session sends, receives and records, on a simulated clock.

use load::Latencies;
use load::schedule::{Arrival, Dispatch, Intensity, Pace};
use load::session::{End, Fate, Finished, Http1, Http2, Protocol, Session, Span, Spec};
use model::record::Pieces;
use testkit::{ANSWER, Behaviour};

use crate::simulation::{MILLI, ORIGIN, SECOND, constant, simulate, spec};

fn response(finished: &Finished) -> Latencies {
    let mut all = finished.tally.censored.clone();
    finished.tally.full.iter().for_each(|second| load::add_latencies(&mut all, &second.response));
    all
}

pub(crate) fn assert_near(found: u64, wanted: u64, what: &str) {
    let off = (found as f64 - wanted as f64).abs();
    assert!(off <= 0.002 * wanted as f64 + 1.0, "{what}: {found}, not {wanted}");
}

#[test]
fn a_closed_loop_keeps_every_connection_busy_and_obeys_little() {
    for depth in [1u32, 7, 16] {
        let spec = Spec { depth, ..spec(8, Pace::Closed) };
        let (finished, received) = simulate(spec, Behaviour::Delay { by_ns: MILLI }, SECOND);
        let in_flight = u64::from(8 * depth);
        // An answer each millisecond up to the last one, at the end of the window.
        assert_eq!(finished.tally.requests, in_flight * 1000, "depth {depth}");
        assert_eq!(received, finished.tally.requests + finished.tally.unfinished);
        assert_near(finished.in_flight_ns as u64, in_flight * SECOND, "requests in flight");
        assert!(finished.tally.split.is_none(), "a closed loop has no send lag");
    }
}

#[test]
fn an_open_loop_charges_the_wait_for_a_connection() {
    // 100/s on one connection that takes 20 ms each: request k, due at 10·k ms, is done at 20·(k + 1) ms.
    let (finished, _) = simulate(spec(1, constant(100.0)), Behaviour::Delay { by_ns: 20 * MILLI }, SECOND);
    let tally = &finished.tally;
    assert_eq!(
        (tally.requests, tally.unfinished, tally.unsent),
        (50, 1, 49),
        "number 50 is sent at the very end"
    );
    let split = tally.split.as_ref().unwrap();
    assert_near(split.service.max(), 20 * MILLI, "service");
    // The last answered one, number 49, was due at 490 ms and done at 1000 ms.
    assert_near(response(&finished).max(), 510 * MILLI, "response");
    assert_near(split.send_lag.max(), 500 * MILLI, "send lag");
}

#[test]
fn a_frozen_server_shows_in_the_median() {
    let (finished, _) =
        simulate(spec(10, constant(1000.0)), Behaviour::Freeze { after_ns: SECOND / 5 }, SECOND);
    let all = response(&finished);
    let tally = &finished.tally;
    assert_eq!((tally.requests, tally.unfinished, tally.unsent), (200, 10, 790));
    assert_eq!(all.len(), 1000);
    // Of 1000 requests the 800 last are censored with ages evenly from 0 to 800 ms: the median is the 300th of them.
    assert_near(all.value_at_quantile(0.5), 300 * MILLI, "median");
    assert_near(all.value_at_quantile(0.99), 790 * MILLI, "p99");
}

#[test]
fn the_connection_schedule_waits_for_its_connection() {
    // Two connections in turn, one arrival each 10 ms; the third request is late by 100 ms.
    let pace = |dispatch| Pace::Open {
        intensity: Intensity::Flat { per_s: 100.0 },
        arrival: Arrival::Constant,
        dispatch,
    };
    let slow = Behaviour::Slow { one_in: 3, by_ns: 100 * MILLI };
    let late = |dispatch| {
        let (finished, _) = simulate(spec(2, pace(dispatch)), slow, 70 * MILLI);
        finished.tally.split.unwrap().send_lag.count_between(MILLI, SECOND)
    };
    // Shared: the other connection serves 30, 40 and 50 ms, the sixth is late too, and 60 waits. Own: 40 and 60 wait.
    assert_eq!((late(Dispatch::Shared), late(Dispatch::Connection)), (1, 2));
}

#[test]
fn answers_may_wait_only_where_no_request_waits_for_one() {
    let pace = |dispatch| Pace::Open {
        intensity: Intensity::Flat { per_s: 100.0 },
        arrival: Arrival::Constant,
        dispatch,
    };
    let begun = |dispatch, requests| {
        let mut session = Session::new(Spec { requests, ..spec(2, pace(dispatch)) });
        (0..2).for_each(|lane| session.opened(lane));
        session.begin_window(Span { start_ns: ORIGIN, end_ns: ORIGIN + SECOND });
        session
    };
    let mut shared = begun(Dispatch::Shared, None);
    assert!(shared.has_spare());
    shared.pace(ORIGIN);
    assert!(shared.has_spare(), "the second connection is free for the next arrival");
    shared.pace(ORIGIN + 10 * MILLI);
    assert!(!shared.has_spare(), "both are taken: the next arrival waits for an answer");
    let mut counted = begun(Dispatch::Shared, Some(1));
    counted.pace(ORIGIN);
    assert!(!counted.has_spare(), "the last was sent: the run ends with its answer");
    assert!(
        !begun(Dispatch::Connection, None).has_spare(),
        "the other's arrival waits for its own connection"
    );
}

#[test]
fn slack_lets_requests_wait_for_the_next_but_never_longer_and_loses_none() {
    // One each millisecond; the fourth of each lot comes when the first has waited for 3 ms.
    let with = |slack_ns| Spec { slack_ns, requests: Some(997), ..spec(8, constant(1000.0)) };
    let lots = |slack_ns| {
        let mut session = Session::new(with(slack_ns));
        (0..8).for_each(|lane| session.opened(lane));
        session.begin_window(Span { start_ns: ORIGIN, end_ns: ORIGIN + SECOND });
        let wake_ns = session.wake_ns();
        session.pace(wake_ns);
        (wake_ns - ORIGIN, std::iter::from_fn(|| session.next_write()).count())
    };
    assert_eq!((lots(0), lots(3 * MILLI)), ((0, 1), (3 * MILLI, 4)));
    let (finished, received) = simulate(with(3 * MILLI), Behaviour::Delay { by_ns: MILLI / 2 }, 2 * SECOND);
    let split = finished.tally.split.as_ref().unwrap();
    assert_eq!((finished.tally.requests, received), (997, 997));
    assert_near(split.send_lag.max(), 3 * MILLI, "send lag");
    assert_near(split.service.max(), MILLI / 2, "the server is charged with none of it");
    assert_near(response(&finished).max(), 7 * MILLI / 2, "the response has all of it");
}

#[test]
fn a_count_is_kept_to_the_letter() {
    for (lanes, depth, count) in [(1, 1, 7), (13, 4, 10_007), (64, 16, 101)] {
        let spec = Spec { depth, requests: Some(count), ..spec(lanes, Pace::Closed) };
        let (finished, received) = simulate(spec, Behaviour::Delay { by_ns: MILLI }, 100 * SECOND);
        assert_eq!((finished.tally.requests, received), (count, count));
    }
}

#[test]
fn a_timeout_counts_once_with_its_age_and_costs_the_connection() {
    let spec = Spec { timeout_ns: Some(50 * MILLI), ..spec(4, constant(100.0)) };
    let (finished, _) = simulate(spec, Behaviour::Freeze { after_ns: 0 }, SECOND);
    let tally = &finished.tally;
    assert_eq!(tally.requests, 0);
    let all = tally.errors.timeout + tally.unfinished + tally.unsent;
    assert_eq!(all, 100, "{:?}", tally.errors);
    // Four connections, each free again after 50 ms: 4 × 20 timeouts, less those at the very end.
    assert!((72..=80).contains(&tally.errors.timeout), "{}", tally.errors.timeout);
    assert_near(tally.split.as_ref().unwrap().service.max(), 50 * MILLI, "age at the timeout");
}

/// A session with one connection that has sent `sent` requests at `ORIGIN`.
fn sending(spec: Spec) -> Session {
    let mut session = Session::new(spec);
    session.opened(0);
    session.begin_window(Span { start_ns: ORIGIN, end_ns: ORIGIN + SECOND });
    write_all(&mut session, ORIGIN);
    session
}

pub(crate) fn write_all(session: &mut Session, now: u64) -> usize {
    session.pace(now);
    let mut total = 0;
    while let Some(lane) = session.next_write() {
        while !session.outgoing(lane).is_empty() {
            let bytes = session.outgoing(lane).len();
            session.wrote(lane, bytes, now);
            total += bytes;
        }
    }
    total
}

#[test]
fn every_framing_is_one_answer_wherever_it_is_cut() {
    let head = "HTTP/1.1 200 OK\r\n";
    let cases = [
        (format!("{head}Content-Length: 5\r\n\r\nhello"), false),
        (format!("{head}Content-Length: 0\r\n\r\n"), false),
        (format!("{head}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: y\r\n\r\n"), false),
        ("HTTP/1.1 204 No Content\r\n\r\n".to_owned(), false),
        ("HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n".to_owned(), false),
        (format!("HTTP/1.1 100 Continue\r\n\r\n{head}Content-Length: 1\r\n\r\nx"), false),
        (format!("{head}Content-Length: 900\r\n\r\n"), true),
    ];
    for (answer, bodiless) in cases {
        for piece in 1..=answer.len() {
            let mut session = sending(Spec { head: bodiless, ..spec(1, Pace::Closed) });
            let mut buf = vec![0; 1024];
            for part in answer.as_bytes().chunks(piece) {
                let kept = session.unstash(0, &mut buf);
                buf[kept..kept + part.len()].copy_from_slice(part);
                let fate = session.received(0, &buf[..kept + part.len()], part.len(), ORIGIN + 1);
                assert_eq!(fate, Fate::Keep, "{answer:?} in pieces of {piece}");
            }
            let finished = session.finish(ORIGIN + SECOND);
            assert_eq!(finished.tally.requests, 1, "{answer:?} in pieces of {piece}");
            assert_eq!(finished.tally.bytes_read, answer.len() as u64);
        }
    }
}

#[test]
fn what_is_not_an_answer_costs_its_request() {
    let endless = format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(70_000));
    let cases = [
        "SSH-2.0-OpenSSH\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
        "HTTP/1.1 101 Switching Protocols\r\n\r\n",
        &endless,
    ];
    for bytes in cases {
        let mut session = sending(spec(1, Pace::Closed));
        let fate = session.received(0, bytes.as_bytes(), bytes.len(), ORIGIN + 1);
        let shown = &bytes[..bytes.len().min(60)];
        assert_eq!(fate, Fate::Replace, "{shown:?}");
        let finished = session.finish(ORIGIN + SECOND);
        assert_eq!((finished.tally.errors.parse, finished.tally.requests), (1, 0), "{shown:?}");
        assert!(finished.first_malformed.is_some());
    }
}

#[test]
fn an_answer_with_more_than_was_asked_for_counts_once_and_is_told() {
    let twice = [ANSWER, ANSWER].concat();
    let long = [ANSWER, b"more"].concat();
    for (bytes, head, why) in [
        (&twice[..], false, "more often than it is asked"),
        (&long, false, "more bytes than Content-Length says"),
        (b"HTTP/1.1 204 No Content\r\n\r\nhello", false, "a 204 with a body"),
        (b"HTTP/1.1 304 Not Modified\r\n\r\nhello", false, "a 304 with a body"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", true, "an answer to HEAD with a body"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nx", false, "after the last chunk"),
    ] {
        let mut session = sending(Spec { head, ..spec(1, constant(1.0)) });
        assert_eq!(session.received(0, bytes, bytes.len(), ORIGIN + 1), Fate::Replace, "{why}");
        let finished = session.finish(ORIGIN + SECOND);
        let errors = finished.tally.errors;
        assert_eq!((finished.tally.requests, errors.surplus, errors.total()), (1, 1, 1), "{why}");
        let malformed = finished.first_malformed.unwrap();
        assert!(malformed.to_string().contains(why) && !malformed.is_foreign(), "{malformed}");
    }
    // What a server says that is tired of waiting for a request is no answer, and no fault.
    for (bytes, surplus) in
        [(&b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n"[..], 0), (ANSWER, 1)]
    {
        let mut session = sending(spec(1, constant(1.0)));
        assert_eq!(session.received(0, ANSWER, ANSWER.len(), ORIGIN + 1), Fate::Keep);
        assert_eq!(session.received(0, bytes, bytes.len(), ORIGIN + 2), Fate::Replace);
        let finished = session.finish(ORIGIN + SECOND);
        let errors = finished.tally.errors;
        assert_eq!((finished.tally.requests, errors.surplus, errors.total()), (1, surplus, surplus));
    }
}

#[test]
fn half_a_line_end_in_a_head_is_named() {
    for (bytes, why) in [
        ("HTTP/1.1 200 OK\nContent-Length: 0\r\n\r\n", "line feed alone"),
        ("HTTP/1.1 200 OK\rContent-Length: 0\r\n\r\n", "no line feed after it"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 0\n\r\n", "line feed alone"),
    ] {
        let mut session = sending(spec(1, Pace::Closed));
        let _ = session.received(0, bytes.as_bytes(), bytes.len(), ORIGIN + 1);
        let malformed = session.finish(ORIGIN + SECOND).first_malformed.unwrap();
        assert!(malformed.to_string().contains(why), "{bytes:?}: {malformed}");
    }
}

#[test]
fn an_answer_that_ends_with_a_connection_cut_short_counts_and_is_told() {
    let endless = b"HTTP/1.1 200 OK\r\n\r\nhello";
    let length = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello";
    for (bytes, counts) in [(&endless[..], (1, 0)), (length, (0, 1))] {
        let mut session = sending(spec(1, constant(1.0)));
        assert_eq!(session.received(0, bytes, bytes.len(), ORIGIN + 1), Fate::Keep);
        assert_eq!(Http1.ended(&mut session, 0, End::Cut, ORIGIN + 2), Fate::Replace);
        let finished = session.finish(ORIGIN + SECOND);
        assert_eq!((finished.tally.requests, finished.tally.errors.read), counts);
        assert_eq!(finished.first_malformed.is_some(), counts.0 == 1);
    }
}

/// A server that allows no stream at all.
const NO_STREAMS: &[u8] = b"\0\0\x06\x04\0\0\0\0\0\0\x03\0\0\0\0";

#[test]
fn a_request_that_waits_for_a_stream_is_under_way_and_grows_too_old() {
    for (pace, timeout_ns) in [(Pace::Closed, None), (constant(1000.0), None), (Pace::Closed, Some(MILLI))] {
        let mut session = Session::new(Spec { timeout_ns, ..spec(2, pace) });
        let request = session_request();
        let mut protocol = Http2::new(2, 2, Some(&request), false, None);
        assert_eq!(protocol.opened(&mut session, 0, ORIGIN), Fate::Keep);
        assert_eq!(protocol.received(&mut session, 0, NO_STREAMS, NO_STREAMS.len(), ORIGIN), Fate::Keep);
        session.begin_window(Span { start_ns: ORIGIN, end_ns: ORIGIN + SECOND });
        session.pace(ORIGIN + MILLI);
        while let Some(lane) = session.next_write() {
            let _ = protocol.ask(&mut session, lane, ORIGIN + MILLI);
        }
        session.expire(ORIGIN + 3 * MILLI, |_| ());
        let finished = session.finish(ORIGIN + SECOND);
        let tally = &finished.tally;
        match timeout_ns {
            None => {
                assert_eq!((tally.unfinished, tally.without_stream), (2, 2), "{tally:?}");
                assert!(finished.in_flight_ns >= u128::from(2 * (SECOND - 2 * MILLI)));
                // Of a closed loop without an answer nobody knows what is long.
                assert!(tally.split.is_none() || response(&finished).max() > SECOND - 3 * MILLI);
            }
            Some(_) => assert_eq!((tally.errors.timeout, tally.unfinished), (2, 0), "{tally:?}"),
        }
    }
}

#[test]
fn text_of_http_1_where_a_frame_should_be_is_named() {
    let mut session = Session::new(spec(2, Pace::Closed));
    let request = session_request();
    let mut protocol = Http2::new(2, 2, Some(&request), false, None);
    assert_eq!(protocol.opened(&mut session, 0, ORIGIN), Fate::Keep);
    session.begin_window(Span { start_ns: ORIGIN, end_ns: ORIGIN + SECOND });
    let bytes = [b"\0\0\0\x04\0\0\0\0\0", &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..]].concat();
    assert_eq!(protocol.received(&mut session, 0, &bytes, bytes.len(), ORIGIN), Fate::Replace);
    let malformed = session.finish(ORIGIN + SECOND).first_malformed.unwrap();
    assert!(malformed.to_string().contains("answers in HTTP/1.x"), "{malformed}");
}

fn session_request() -> Vec<u8> {
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec()
}

#[test]
fn a_body_that_waits_for_leave_is_in_flight_from_its_head_on() {
    let request = b"POST / HTTP/1.1\r\nContent-Length: 4\r\n\r\nbody".to_vec();
    let (hold, bytes) = (request.len() - 4, request.len());
    let mut session = sending_part(Spec { request, hold: Some(hold), ..spec(1, Pace::Closed) }, hold);
    let go = b"HTTP/1.1 100 Continue\r\n\r\n";
    assert_eq!(session.received(0, go, go.len(), ORIGIN + SECOND / 2), Fate::Keep);
    assert_eq!(session.next_write(), Some(0));
    session.wrote(0, bytes - hold, ORIGIN + SECOND / 2);
    assert_eq!(session.received(0, ANSWER, ANSWER.len(), ORIGIN + SECOND), Fate::Keep);
    let finished = session.finish(ORIGIN + SECOND);
    assert_near(finished.in_flight_ns as u64, SECOND, "requests in flight");
    assert_eq!(finished.tally.requests, 1);
}

/// A session whose window has begun, and which has written the first `bytes` of its request.
fn sending_part(spec: Spec, bytes: usize) -> Session {
    let mut session = Session::new(spec);
    session.opened(0);
    session.begin_window(Span { start_ns: ORIGIN, end_ns: ORIGIN + SECOND });
    session.pace(ORIGIN);
    assert_eq!(session.next_write(), Some(0));
    session.wrote(0, bytes, ORIGIN);
    session
}

#[test]
fn an_early_end_costs_what_was_sent_and_a_close_in_order_nothing() {
    let pipelined = || sending(Spec { depth: 3, ..spec(1, Pace::Closed) });
    let mut session = pipelined();
    assert_eq!(session.received(0, ANSWER, ANSWER.len(), ORIGIN + 1), Fate::Keep);
    assert_eq!(session.closed(0, ORIGIN + 2), Fate::Replace);
    let tally = session.finish(ORIGIN + SECOND).tally;
    assert_eq!((tally.requests, tally.errors.read), (1, 2), "the third was answered, two were lost");

    let mut session = pipelined();
    let last = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(session.received(0, last, last.len(), ORIGIN + 1), Fate::Replace);
    session.opened(0);
    let request = spec(1, Pace::Closed).request.len();
    assert_eq!(write_all(&mut session, ORIGIN + 2), 3 * request, "two again and a new one");
    let tally = session.finish(ORIGIN + SECOND).tally;
    assert_eq!((tally.requests, tally.errors.total()), (1, 0));
}

#[test]
fn a_body_until_close_ends_with_the_connection() {
    let mut session = sending(spec(1, Pace::Closed));
    let body = b"HTTP/1.0 200 OK\r\n\r\nhello";
    assert_eq!(session.received(0, body, body.len(), ORIGIN + 1), Fate::Keep);
    assert_eq!(session.closed(0, ORIGIN + 7), Fate::Replace);
    let finished = session.finish(ORIGIN + SECOND);
    assert_eq!((finished.tally.requests, finished.tally.errors.total()), (1, 0));
    assert_eq!(response(&finished).max(), 7);
}

#[test]
fn answers_in_pieces_are_told_with_how_far_apart_these_came() {
    let mut session = sending(spec(1, Pace::Closed));
    let mut buf = vec![0; 1024];
    let mut receive = |session: &mut Session, part: &[u8], at: u64| {
        let kept = session.unstash(0, &mut buf);
        buf[kept..kept + part.len()].copy_from_slice(part);
        assert_eq!(session.received(0, &buf[..kept + part.len()], part.len(), ORIGIN + at), Fate::Keep);
    };
    // Cut in its head, in its body, and not at all.
    for (cut, begin) in [(9, 100), (ANSWER.len() - 1, 200), (ANSWER.len(), 300)] {
        receive(&mut session, &ANSWER[..cut], begin);
        if cut < ANSWER.len() {
            receive(&mut session, &ANSWER[cut..], begin + cut as u64);
        }
        write_all(&mut session, ORIGIN + begin + 90);
    }
    let tally = session.finish(ORIGIN + SECOND).tally;
    let apart = [9, ANSWER.len() as u64 - 1];
    let expected = Pieces { answers: 2, apart_ns: apart[0] + apart[1], longest_ns: apart[1] };
    assert_eq!((tally.requests, tally.pieces), (3, expected));
    // The second was sent at 190 and begun at 200.
    let pieces = tally.in_pieces.expect("two answers came in pieces");
    assert_eq!((pieces.first.len(), pieces.first.min()), (2, 10));
    assert_eq!((pieces.last.len(), pieces.last.min()), (2, 10 + apart[1]));
}

#[test]
fn a_write_in_pieces_is_sent_when_its_last_byte_is() {
    let mut session = Session::new(Spec { depth: 2, ..spec(1, Pace::Closed) });
    session.opened(0);
    session.begin_window(Span { start_ns: ORIGIN, end_ns: ORIGIN + SECOND });
    session.pace(ORIGIN);
    let lane = session.next_write().unwrap();
    let request = spec(1, Pace::Closed).request.len();
    assert_eq!(session.outgoing(lane).len(), 2 * request);
    session.wrote(lane, request + 3, ORIGIN + 10);
    assert_eq!(session.outgoing(lane).len(), request - 3);
    session.wrote(lane, request - 3, ORIGIN + 20);
    assert!(session.outgoing(lane).is_empty());
    let both = [ANSWER, ANSWER].concat();
    assert_eq!(session.received(lane, &both, both.len(), ORIGIN + 30), Fate::Keep);
    let finished = session.finish(ORIGIN + SECOND);
    let all = response(&finished);
    assert_eq!((all.min(), all.max()), (10, 20), "20 ns and 10 ns after they were sent");
}

#[test]
fn requests_due_before_the_window_do_not_count() {
    let mut session = Session::new(spec(4, constant(1000.0)));
    (0..4).for_each(|lane| session.opened(lane));
    session.begin_warmup(ORIGIN);
    write_all(&mut session, ORIGIN + 2 * MILLI);
    session.begin_window(Span { start_ns: ORIGIN + 3 * MILLI, end_ns: ORIGIN + SECOND });
    for lane in 0..3 {
        assert_eq!(session.received(lane, ANSWER, ANSWER.len(), ORIGIN + 3 * MILLI), Fate::Keep);
    }
    write_all(&mut session, ORIGIN + 3 * MILLI);
    let tally = session.finish(ORIGIN + 3 * MILLI + 1).tally;
    // Three from the warm-up were answered in the window; its own first request is in flight.
    assert_eq!((tally.requests, tally.answers, tally.unfinished, tally.unsent), (0, 3, 1, 0));
}

/// Who polls looks at the clock at the end of the window itself.
#[test]
fn what_is_due_when_the_window_ends_is_no_part_of_it() {
    let mut session = Session::new(spec(2_000, constant(1000.0)));
    (0..2_000).for_each(|lane| session.opened(lane));
    session.begin_window(Span { start_ns: ORIGIN, end_ns: ORIGIN + SECOND });
    for ms in 0..=1000 {
        write_all(&mut session, ORIGIN + ms * MILLI);
    }
    let tally = session.finish(ORIGIN + SECOND).tally;
    assert_eq!((tally.unfinished, tally.unsent, tally.censored.len()), (1000, 0, 1000));
}

#[test]
fn a_body_waits_until_the_server_asks_for_it_or_a_second_has_passed() {
    const HEAD: &[u8] = b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n";
    let spec =
        || Spec { request: [HEAD, b"body"].concat(), hold: Some(HEAD.len()), ..spec(1, constant(1.0)) };
    let ok: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    // Asked for after 10 ms.
    let mut session = sending(spec());
    assert!(session.outgoing(0).is_empty(), "only the head goes first");
    let go_on: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
    assert_eq!(session.received(0, go_on, go_on.len(), ORIGIN + 10 * MILLI), Fate::Keep);
    assert_eq!(write_all(&mut session, ORIGIN + 10 * MILLI), 4);
    assert_eq!(session.received(0, ok, ok.len(), ORIGIN + 20 * MILLI), Fate::Keep);
    let finished = session.finish(ORIGIN + SECOND / 2);
    assert_eq!(finished.tally.requests, 1);
    assert_near(finished.tally.split.unwrap().service.max(), 20 * MILLI, "service counts from the head on");
    // Not asked for.
    let mut session = sending(spec());
    session.expire(ORIGIN + SECOND - 1, |_| {});
    assert_eq!(write_all(&mut session, ORIGIN + SECOND - 1), 0);
    assert!(session.wake_ns() <= ORIGIN + SECOND);
    session.expire(ORIGIN + SECOND, |_| {});
    assert_eq!(write_all(&mut session, ORIGIN + SECOND), 4);
    // Refused: the body is never sent, and the connection, whose next bytes the server may take for it, is replaced.
    let mut session = sending(spec());
    let refused: &[u8] = b"HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(session.received(0, refused, refused.len(), ORIGIN + MILLI), Fate::Replace);
    let tally = session.finish(ORIGIN + SECOND / 2).tally;
    assert_eq!((tally.requests, tally.errors.status), (1, 1));
    assert_near(tally.split.unwrap().service.max(), MILLI, "service of a refusal");
}
