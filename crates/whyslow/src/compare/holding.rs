//! Servers that answer on a few connections at a time, and stay with each of them until it asks nothing more.
//!
//! While all connections ask without end, such a server answers on a few of them, or on a few after another, as fast as any. When a
//! turn ends, those have nothing more to ask; it waits in vain for their next requests, and only then goes to others, again a few,
//! and waits again. What was in flight is then answered far more slowly than the turn was, with pauses in between. A server that
//! merely takes its time is not like that: what was in flight is answered as fast as before, or all at once.

use std::time::Duration;

use model::job::{Job, MOST_LATE, Reuse, TurnReport};

/// Share of what was in flight by which it is judged how fast it was answered: a few that take long say nothing of the others.
const JUDGED: f64 = 0.75;
/// So many times as fast as what was in flight were answers in the turn, at least.
const FASTER: f64 = 2.0;
/// Shortest pause in which a server waits for a connection in vain: longer than threads wait for a CPU.
const PAUSE: Duration = Duration::from_millis(50);
/// The same in answers of one request alone, which is no pause.
const PAUSE_ANSWERS: f64 = 2.0;
/// Connections are so many times as many as a server holds, at least: to lower them by less buys nothing.
const MANY: u32 = 2;

/// Whether a server may stay with connections, of which it turned so many away in a turn. Where each request has its own, those that were
/// turned away are asked for again a second later, and late answers are theirs.
pub(super) fn can_hold(job: &Job, turned_away: u64) -> bool {
    job.reuse != Reuse::Requests(1) || turned_away == 0
}

/// Connections that a server answers at a time, by what it did in one turn over `connections`, with `depth` requests in flight on each;
/// `one_answer_s` is how long one request takes that is asked alone. Nothing of a server that answers all of them alike.
pub(super) fn held(report: &TurnReport, connections: u32, depth: u32, one_answer_s: f64) -> Option<u32> {
    let late = &report.late_ns;
    let in_flight = report.requests - report.in_time + report.given_up;
    if report.in_time == 0 || in_flight == 0 {
        return None;
    }
    let judged = ((in_flight as f64 * JUDGED).ceil() as usize).clamp(1, MOST_LATE);
    let waited_ns = report.quiet_ns.saturating_sub(report.end_ns);
    let until_ns = late.get(judged - 1).copied().unwrap_or(waited_ns).max(1);
    let late_per_s = judged.min(late.len()) as f64 * 1e9 / until_ns as f64;
    if per_s(report) < FASTER * late_per_s {
        return None;
    }
    // The first requests of a server may take far longer than later ones: by Little's law, these took no longer than this.
    let answer_s = one_answer_s.min(f64::from(connections) * f64::from(depth) / per_s(report));
    let pause_ns = PAUSE.as_secs_f64().max(PAUSE_ANSWERS * answer_s) * 1e9;
    let before = std::iter::once(0).chain(late.iter().copied());
    let at_once = before.zip(late).take_while(|(before, now)| ((**now - before) as f64) < pause_ns).count();
    let held = u32::try_from(at_once).ok()?.div_ceil(depth).max(1);
    (held.saturating_mul(MANY) <= connections).then_some(held)
}

/// Answers a second while requests were sent.
pub(super) fn per_s(report: &TurnReport) -> f64 {
    let length_ns = report.end_ns.saturating_sub(report.start_ns).max(1);
    report.in_time as f64 * 1e9 / length_ns as f64
}

/// Whether a server that answered `all_per_s` over `all` connections answers on more than `held` of them at a time, for with these alone
/// it answers only `held_per_s`: nearer to what each connection brings by itself than to what they all brought.
pub(super) fn is_refuted(held: u32, all: u32, held_per_s: f64, all_per_s: f64) -> bool {
    held_per_s < all_per_s * (f64::from(held) / f64::from(all)).sqrt()
}

#[cfg(test)]
mod tests {
    use model::job::Polled;
    use model::record::Errors;

    use super::*;

    const MS: u64 = 1_000_000;
    const CONNECTIONS: u32 = 64;

    /// A turn of 300 ms with so many answers in it, late ones after so many milliseconds, and the rest given up after a second.
    fn turn(in_time: u64, late_ms: impl IntoIterator<Item = u64>) -> TurnReport {
        let late_ns: Vec<u64> = late_ms.into_iter().map(|ms| ms * MS).collect();
        let given_up = u64::from(CONNECTIONS) - late_ns.len() as u64;
        let waited_ms = if given_up > 0 { 1000 * MS } else { late_ns.last().copied().unwrap_or(0) };
        TurnReport {
            endpoint: 0,
            start_ns: 0,
            end_ns: 300 * MS,
            quiet_ns: 300 * MS + waited_ms,
            requests: in_time + late_ns.len() as u64,
            in_time,
            due: None,
            errors: Errors::default(),
            given_up,
            late_ns,
            silences_ns: Vec::new(),
            unsent: 0,
            bytes_read: 0,
            mean_response_ns: 0.0,
            cpu: Polled::default(),
        }
    }

    #[test]
    fn a_server_that_stays_with_some_connections_answers_the_others_after_pauses() {
        let rows = [
            ("stays with one for good", turn(5_000, [0]), Some(1)),
            ("stays with five for good", turn(5_000, [0, 0, 1, 1, 2]), Some(5)),
            ("waits 200 ms for the next request of one", turn(1_500, (0..5).map(|n| n * 200)), Some(1)),
            ("was between two when the turn ended", turn(1_500, (1..6).map(|n| n * 200)), Some(1)),
            ("waits so with five threads", turn(1_500, (0..25).map(|n| n / 5 * 200 + n % 5)), Some(5)),
            ("one that takes 50 ms for an answer", turn(6, [40, 290, 540, 790]), Some(1)),
        ];
        let cold_s = 0.3;
        for (what, report, expected) in rows {
            let one_answer_s = 0.3 / report.in_time as f64;
            assert_eq!(held(&report, CONNECTIONS, 1, one_answer_s), expected, "{what}");
            if report.in_time > 100 {
                assert_eq!(held(&report, CONNECTIONS, 1, cold_s), expected, "{what}, slow at first");
            }
        }
    }

    #[test]
    fn a_full_listen_queue_is_no_connection_that_is_held() {
        let of = |reuse| Job { reuse, ..Job::get(1) };
        for (reuse, turned_away, expected) in [
            (Reuse::All, 3, true),
            (Reuse::Requests(100), 3, true),
            (Reuse::Requests(1), 0, true),
            (Reuse::Requests(1), 3, false),
        ] {
            assert_eq!(can_hold(&of(reuse), turned_away), expected, "{reuse:?} {turned_away}");
        }
    }

    #[test]
    fn a_server_that_takes_its_time_answers_as_fast_after_a_turn_as_in_it() {
        let rows = [
            ("answers at once", turn(5_000, (0..64).map(|_| 0)), 0.0001),
            ("sleeps for longer than a turn", turn(0, (0..64).map(|_| 700)), 1.0),
            ("sleeps for most of one", turn(64, (0..64).map(|_| 200)), 0.25),
            ("works 5 ms on each, one after the other", turn(60, (1..65).map(|n| n * 5)), 0.005),
            ("works 200 ms on each, one after the other", turn(1, (1..6).map(|n| n * 200 - 100)), 0.2),
            ("lets some wait for 400 ms", turn(5_000, (0..64).map(|n| if n < 56 { 1 } else { 400 })), 0.001),
            ("was stopped for 30 ms", turn(5_000, (0..64).map(|_| 30)), 0.0002),
        ];
        for (what, report, one_answer_s) in rows {
            assert_eq!(held(&report, CONNECTIONS, 1, one_answer_s), None, "{what}");
        }
    }

    #[test]
    fn requests_in_flight_on_one_connection_are_of_one_connection() {
        let report = turn(5_000, (0..8).map(|_| 1));
        assert_eq!(
            [1, 4, 8].map(|depth| held(&report, CONNECTIONS, depth, 0.001)),
            [Some(8), Some(2), Some(1)]
        );
        // Fewer connections would hardly be fewer.
        assert_eq!(held(&report, 15, 1, 0.001), None);
    }

    #[test]
    fn what_seemed_to_be_held_is_not_where_the_rate_falls_with_the_connections() {
        for (held, of_all, refuted) in
            [(1, 0.9, false), (1, 0.3, false), (1, 0.02, true), (32, 0.9, false), (32, 0.5, true)]
        {
            assert_eq!(is_refuted(held, 64, of_all * 5_000.0, 5_000.0), refuted, "{held} {of_all}");
        }
    }
}
