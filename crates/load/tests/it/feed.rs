//! Requests from a feed: what goes out, on which connection and when, and what the feed hears.

use std::sync::{Arc, Mutex};

use load::session::{Batch, Fate, Feed, FeedError, HEARD_BODY_BYTES, Heard, Session, Span, Spec};
use testkit::ANSWER;

use crate::simulation::{MILLI, ORIGIN, SECOND, constant, spec};
use load::schedule::Pace;

/// Numbers its requests, so many at once.
#[derive(Debug, Default)]
struct Numbers {
    at_once: u32,
    rest_ns: u64,
    listens: bool,
    batches_only: bool,
    fails_at: Option<u32>,
    stops_after: Option<u32>,
    next: u32,
    heard: Arc<Mutex<Vec<Heard>>>,
}

impl Feed for Numbers {
    fn most(&self) -> u32 {
        self.at_once
    }

    fn next(&mut self, batch: &mut Batch) -> Result<(), FeedError> {
        for _ in 0..self.at_once {
            if self.fails_at == Some(self.next) {
                return Err(FeedError("no more".to_owned()));
            }
            batch.push(&request(self.next));
            self.next += 1;
        }
        Ok(())
    }

    fn rests(&self) -> bool {
        self.rest_ns > 0
    }

    fn rest_ns(&mut self) -> Result<u64, FeedError> {
        Ok(self.rest_ns)
    }

    fn listens(&self) -> bool {
        self.listens
    }

    fn heard(&mut self, answer: &Heard) -> Result<(), FeedError> {
        self.heard.lock().unwrap().push(answer.clone());
        Ok(())
    }

    fn stopped(&self) -> bool {
        self.stops_after.is_some_and(|after| self.next >= after)
    }

    fn times_batches(&self) -> bool {
        self.batches_only
    }
}

/// Every third is HEAD; each has another length.
fn request(number: u32) -> Vec<u8> {
    let method = if number % 3 == 2 { "HEAD" } else { "GET" };
    format!("{method} /{} HTTP/1.1\r\nHost: x\r\n\r\n", "n".repeat(number as usize + 1)).into_bytes()
}

fn requests(numbers: impl IntoIterator<Item = u32>) -> Vec<u8> {
    numbers.into_iter().flat_map(request).collect()
}

fn fed(spec: Spec, feed: Numbers) -> Session {
    let lanes = spec.lanes;
    let mut session = Session::fed(spec, Box::new(feed));
    (0..lanes).for_each(|lane| session.opened(lane));
    session.begin_window(Span { start_ns: ORIGIN, end_ns: ORIGIN + SECOND });
    session
}

/// Everything that is to be written at `now`, by connection, `step` bytes at a time.
fn write_all(session: &mut Session, now: u64, step: usize) -> Vec<(u32, Vec<u8>)> {
    session.pace(now);
    let mut written = Vec::new();
    while let Some(lane) = session.next_write() {
        let mut bytes = Vec::new();
        while !session.outgoing(lane).is_empty() {
            let part = session.outgoing(lane);
            let part = part[..part.len().min(step)].to_vec();
            session.wrote(lane, part.len(), now);
            bytes.extend(part);
        }
        written.push((lane, bytes));
    }
    written
}

fn answer(session: &mut Session, lane: u32, bytes: &[u8], at: u64) {
    assert_eq!(session.received(lane, bytes, bytes.len(), at), Fate::Keep);
}

#[test]
fn batches_go_out_whole_however_the_socket_takes_them() {
    for step in [1, 7, 30, usize::MAX] {
        let feed = Numbers { at_once: 3, ..Numbers::default() };
        let mut session = fed(spec(2, Pace::Closed), feed);
        let written = write_all(&mut session, ORIGIN, step);
        assert_eq!(written, [(0, requests(0..3)), (1, requests(3..6))], "in pieces of {step}");
        // Two of three answers, the second to a HEAD, give the connection no room.
        answer(&mut session, 0, ANSWER, ORIGIN + 5);
        answer(&mut session, 0, ANSWER, ORIGIN + 6);
        assert!(write_all(&mut session, ORIGIN + 6, step).is_empty());
        answer(&mut session, 0, b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n", ORIGIN + 7);
        assert_eq!(write_all(&mut session, ORIGIN + 8, step), [(0, requests(6..9))]);
        let tally = session.finish(ORIGIN + SECOND).tally;
        assert_eq!((tally.requests, tally.unfinished, tally.errors.total()), (3, 6, 0));
        assert_eq!(tally.full[0].response.max(), 7, "each answer has a time of its own");
        assert_eq!(tally.full[0].response.min(), 5);
    }
}

#[test]
fn a_batch_is_due_with_its_first_request_and_uses_up_arrivals_for_all() {
    let feed = Numbers { at_once: 4, ..Numbers::default() };
    // Arrivals 1 ms apart: batches at the 1st and the 5th.
    let mut session = fed(spec(8, constant(1000.0)), feed);
    let mut sent = 0;
    for tenth in 0..80 {
        sent += write_all(&mut session, ORIGIN + tenth * MILLI / 10, usize::MAX).len();
    }
    assert_eq!(sent, 2, "8 ms at 1000/s are 8 requests in two batches");
}

#[test]
fn exactly_as_many_are_sent_as_were_asked_for() {
    let feed = Numbers { at_once: 4, ..Numbers::default() };
    let mut session = fed(Spec { requests: Some(6), ..spec(8, Pace::Closed) }, feed);
    let written = write_all(&mut session, ORIGIN, usize::MAX);
    assert_eq!(written, [(0, requests(0..4)), (1, requests(4..6))]);
}

#[test]
fn a_connection_rests_before_it_asks() {
    let feed = Numbers { at_once: 1, rest_ns: 20 * MILLI, ..Numbers::default() };
    let mut session = fed(spec(1, Pace::Closed), feed);
    assert!(write_all(&mut session, ORIGIN, usize::MAX).is_empty());
    assert_eq!(session.wake_ns(), ORIGIN + 20 * MILLI);
    assert_eq!(write_all(&mut session, ORIGIN + 20 * MILLI, usize::MAX).len(), 1);
    answer(&mut session, 0, ANSWER, ORIGIN + 21 * MILLI);
    assert!(write_all(&mut session, ORIGIN + 40 * MILLI, usize::MAX).is_empty());
    assert_eq!(write_all(&mut session, ORIGIN + 60 * MILLI, usize::MAX).len(), 1);
    let tally = session.finish(ORIGIN + SECOND).tally;
    assert_eq!(tally.full[0].response.max(), MILLI - MILLI % 1024 + 1023, "rest is not response");
}

#[test]
fn answers_are_heard_whole_wherever_they_are_cut() {
    let cases = [
        ("HTTP/1.1 404 Not Found\r\nA: b\r\nContent-Length: 5\r\n\r\n", "hello", "hello"),
        (
            "HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n",
            "2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
            "hello",
        ),
        ("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "", ""),
    ];
    for (head, sent, body) in cases {
        let whole = [head, sent].concat();
        for piece in 1..=whole.len() {
            let feed = Numbers { at_once: 1, listens: true, ..Numbers::default() };
            let heard = Arc::clone(&feed.heard);
            let mut session = fed(spec(1, Pace::Closed), feed);
            write_all(&mut session, ORIGIN, usize::MAX);
            let mut buf = vec![0; 1024];
            for part in whole.as_bytes().chunks(piece) {
                let kept = session.unstash(0, &mut buf);
                buf[kept..kept + part.len()].copy_from_slice(part);
                let fate = session.received(0, &buf[..kept + part.len()], part.len(), ORIGIN + 1);
                assert_eq!(fate, Fate::Keep);
            }
            let want = Heard { status: 404, head: head.into(), body: body.into() };
            assert_eq!(*heard.lock().unwrap(), [want], "in pieces of {piece}");
        }
    }
}

#[test]
fn no_answer_costs_memory_without_bound() {
    let feed = Numbers { at_once: 1, listens: true, ..Numbers::default() };
    let heard = Arc::clone(&feed.heard);
    let mut session = fed(spec(1, Pace::Closed), feed);
    write_all(&mut session, ORIGIN, usize::MAX);
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", HEARD_BODY_BYTES + 1000);
    answer(&mut session, 0, head.as_bytes(), ORIGIN + 1);
    let mebibyte = vec![b'x'; 1 << 20];
    for _ in 0..HEARD_BODY_BYTES >> 20 {
        answer(&mut session, 0, &mebibyte, ORIGIN + 1);
    }
    answer(&mut session, 0, &mebibyte[..1000], ORIGIN + 1);
    assert_eq!(heard.lock().unwrap()[0].body.len(), HEARD_BODY_BYTES);
}

#[test]
fn a_feed_that_fails_or_stops_ends_its_session() {
    let feed = Numbers { at_once: 1, fails_at: Some(1), ..Numbers::default() };
    let mut session = fed(spec(3, Pace::Closed), feed);
    assert_eq!(write_all(&mut session, ORIGIN, usize::MAX).len(), 1);
    assert!(session.is_over() && session.has_sent());
    assert_eq!(session.take_failure(), Some(FeedError("no more".to_owned())));

    let feed = Numbers { at_once: 1, stops_after: Some(2), ..Numbers::default() };
    let mut session = fed(spec(2, Pace::Closed), feed);
    assert_eq!(write_all(&mut session, ORIGIN, usize::MAX).len(), 2);
    assert!(session.is_over());
    answer(&mut session, 0, ANSWER, ORIGIN + 1);
    assert!(write_all(&mut session, ORIGIN + 1, usize::MAX).is_empty(), "nothing after the stop");
    assert_eq!(session.take_failure(), None);
}

#[test]
fn a_broken_batch_is_asked_again_by_the_next_ones_of_the_feed() {
    let feed = Numbers { at_once: 3, ..Numbers::default() };
    let mut session = fed(spec(1, Pace::Closed), feed);
    write_all(&mut session, ORIGIN, usize::MAX);
    let last = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(session.received(0, last, last.len(), ORIGIN + 1), Fate::Replace);
    session.opened(0);
    assert_eq!(write_all(&mut session, ORIGIN + 2, usize::MAX), [(0, requests(3..6))]);
}

#[test]
fn of_a_batch_only_the_last_answer_is_timed_if_so_asked() {
    let feed = Numbers { at_once: 2, batches_only: true, ..Numbers::default() };
    let mut session = fed(spec(1, Pace::Closed), feed);
    write_all(&mut session, ORIGIN, usize::MAX);
    answer(&mut session, 0, ANSWER, ORIGIN + 10);
    answer(&mut session, 0, ANSWER, ORIGIN + 20);
    let tally = session.finish(ORIGIN + SECOND).tally;
    assert_eq!((tally.requests, tally.full[0].response.len(), tally.full[0].response.min()), (2, 1, 20));
    assert_eq!(tally.rates_per_s().collect::<Vec<_>>(), [20.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
}
