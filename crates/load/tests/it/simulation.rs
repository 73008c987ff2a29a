//! A session against a server in memory and a clock that is a variable.

use load::schedule::{Arrival, Dispatch, Intensity, Pace, Part};
use load::session::{Fate, Finished, Session, Span, Spec};
use testkit::{Behaviour, Memory};

pub(crate) const SECOND: u64 = 1_000_000_000;
pub(crate) const MILLI: u64 = 1_000_000;
/// Where simulated clocks begin: not at zero, as no machine's does.
pub(crate) const ORIGIN: u64 = 5 * SECOND;

pub(crate) fn spec(lanes: u32, pace: Pace) -> Spec {
    Spec {
        per_connection: None,
        lanes,
        depth: 1,
        request: b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
        head: false,
        hold: None,
        pace,
        seed: 1,
        part: Part { part: 0, parts: 1 },
        requests: None,
        timeout_ns: None,
        slack_ns: 0,
        expected_status: None,
    }
}

pub(crate) fn constant(per_s: f64) -> Pace {
    Pace::Open {
        intensity: Intensity::Flat { per_s },
        arrival: Arrival::Constant,
        dispatch: Dispatch::Shared,
    }
}

/// Runs `spec` against `behaviour` for a window of `window_ns`; no time passes but in the server.
pub(crate) fn simulate(spec: Spec, behaviour: Behaviour, window_ns: u64) -> (Finished, u64) {
    let end = ORIGIN + window_ns;
    let lanes = spec.lanes;
    let mut server = Memory::new(behaviour, lanes, spec.request.len());
    let mut session = Session::new(spec);
    (0..lanes).for_each(|lane| session.opened(lane));
    session.begin_window(Span { start_ns: ORIGIN, end_ns: end });
    let mut seconds = Vec::new();
    let mut now = ORIGIN;
    // A simulation that does not come forward fails instead of running for ever.
    for _ in 0..10_000_000 {
        let mut replaced = Vec::new();
        session.expire(now, |lane| replaced.push(lane));
        replaced.into_iter().for_each(|lane| session.opened(lane));
        session.pace(now);
        while let Some(lane) = session.next_write() {
            while !session.outgoing(lane).is_empty() {
                let bytes = session.outgoing(lane).len();
                server.send(lane, bytes, now);
                session.wrote(lane, bytes, now);
            }
        }
        let next = session.wake_ns().min(server.next_ns().unwrap_or(u64::MAX));
        if next > end || session.is_exhausted() {
            let mut finished = session.finish(end);
            finished.tally.full.extend(seconds);
            return (finished, server.received());
        }
        now = next.max(now);
        while server.next_ns() == Some(now) {
            let (delivery, bytes) = server.receive().unwrap();
            let fate = session.received(delivery.lane, bytes, bytes.len(), now);
            assert_eq!(fate, Fate::Keep);
        }
        session.take_seconds(now).for_each(|second| seconds.push(second));
    }
    panic!("the simulation stands still at {now}");
}
