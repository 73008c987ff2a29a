//! Servers that stop for everybody now and then: to collect garbage, to write a snapshot, to read something anew.
//!
//! A turn that is shorter than the time between two stops holds one or none. A median over turns passes over those that hold one; what
//! falls due while nobody asks is paid before the turn that counts; and a short block ends before a server has stopped at all. So a pilot
//! looks for stops while its server is loaded all the time, the first block lasts long enough for those that come every few seconds, and
//! turns are made long enough for some of them.

use std::time::Duration;

use model::job::TurnReport;
use model::record::{Stopping, Stops};
use model::units::Span;

use super::generator::Pooled;

/// Share of the time from which on stops count, of what one arm stops more than another: below, they are the latency tail's.
const LEAST_SHARE: f64 = 0.02;
/// Shortest stop, in nanoseconds: other processes on its CPUs keep a server waiting for some milliseconds at a time.
const SHORTEST_NS: u64 = 10_000_000;
/// How many times as long as most responses a stop is, at least: where each request waits, all do at the same time, and nobody is answered
/// meanwhile.
const RESPONSES: u64 = 3;
/// Of the longest stop, how long another is at least: shorter ones are of another kind.
const AS_LONG: f64 = 0.5;
/// Answers that slip in between divide a stop that goes on within this time, in nanoseconds.
const SAME_NS: u64 = 1_000_000;
/// Times between two stops in a turn. What stops when a time has passed, and somebody asks, does so as soon as the turn begins: a little
/// less than two hold two stops, a little more would hold three.
const TIMES: f64 = 1.95;

/// How long a first block looks for stops that come too seldom for a pilot.
pub(super) const LOOK: Duration = Duration::from_millis(7500);

/// What was seen of one server under load.
#[derive(Debug, Default)]
pub(super) struct Watched {
    /// Begin and end of each stop.
    stops_ns: Vec<[u64; 2]>,
    watched_ns: u64,
}

impl Watched {
    /// Adds what was seen of a server of which one request asked alone takes `one_answer`.
    pub(super) fn add(&mut self, pooled: &Pooled, one_answer: Duration) {
        let response_ns = &pooled.load.response_ns;
        let mean_ns = (response_ns.count > 0).then_some(response_ns.mean as u64);
        let alone_ns = u64::try_from(one_answer.as_nanos()).unwrap_or(u64::MAX);
        // Of too few answers no percentile is known; of none, how long one takes alone.
        let usual_ns = response_ns.p50.or(mean_ns).unwrap_or(alone_ns);
        self.add_stops(&pooled.stalls(), pooled.load.window_ns, usual_ns);
    }

    fn add_stops(&mut self, stops_ns: &[[u64; 2]], watched_ns: u64, usual_ns: u64) {
        let far = |[begin, end]: &&[u64; 2]| end.saturating_sub(*begin) >= RESPONSES * usual_ns;
        for &[begin, end] in stops_ns.iter().filter(far) {
            match self.stops_ns.last_mut() {
                Some(last) if begin.saturating_sub(last[1]) < SAME_NS => last[1] = end,
                _ => self.stops_ns.push([begin, end]),
            }
        }
        self.watched_ns += watched_ns;
    }

    /// Whether it stopped for so long that it is to be watched without a pause: after each, a server may stop at once.
    pub(super) fn is_suspect(&self) -> bool {
        self.stops().is_some_and(counts)
    }

    /// How it stopped; nothing where it did not. Of several stops the time counts from the first to the one after the last, or to the end of
    /// the last.
    pub(super) fn stops(&self) -> Option<Stops> {
        let count = self.long().count() as u64;
        let (first, last) = (self.long().next()?, self.long().last()?);
        let stopped_ns: u64 = self.long().map(|[begin, end]| end - begin).sum();
        let watched_ns = match count {
            1 => self.watched_ns.max(last[1] - first[0]),
            _ => ((last[0] - first[0]) * count / (count - 1)).max(last[1] - first[0]),
        };
        Some(Stops { count, stopped_ns, watched_ns })
    }

    fn long(&self) -> impl Iterator<Item = [u64; 2]> {
        let length = |[begin, end]: &[u64; 2]| end.saturating_sub(*begin);
        let longest = self.stops_ns.iter().map(length).max().unwrap_or(0);
        let least = SHORTEST_NS.max((AS_LONG * longest as f64) as u64);
        self.stops_ns.iter().copied().filter(move |stop| length(stop) >= least)
    }
}

/// When a server that is loaded in turns was quiet after each: late where it stopped meanwhile.
#[derive(Debug, Default)]
pub(super) struct Lateness {
    /// Begin of each turn, its end, and when all was answered.
    turns_ns: Vec<[u64; 3]>,
}

impl Lateness {
    pub(super) fn add(&mut self, report: &TurnReport) {
        self.turns_ns.push([report.start_ns, report.end_ns, report.quiet_ns]);
    }

    /// How it stopped; nothing where it did not. What passed of a stop before its turn ended is not in it.
    pub(super) fn stops(&self) -> Option<Stops> {
        let [begin, ..] = self.turns_ns.first()?;
        let [.., end] = self.turns_ns.last()?;
        let mut late_ns: Vec<u64> =
            self.turns_ns.iter().map(|[_, end, quiet]| quiet.saturating_sub(*end)).collect();
        late_ns.sort_unstable();
        let usual_ns = late_ns[late_ns.len() / 2];
        let late: Vec<[u64; 2]> = self.turns_ns.iter().map(|[_, end, quiet]| [*end, *quiet]).collect();
        let mut watched = Watched::default();
        watched.add_stops(&late, end.saturating_sub(*begin), usual_ns);
        watched.stops()
    }
}

/// Whether so many stops tell how often more of them come; one may have been of the machine.
pub(super) fn is_told(stops: Stops) -> bool {
    stops.count > 1
}

/// Whether they take enough of the time to count.
pub(super) fn counts(stops: Stops) -> bool {
    stops.share() >= LEAST_SHARE
}

/// The arms that stop for more of the time than another does.
pub(super) fn apart(all: &[(&str, Option<Stops>)]) -> Vec<Stopping> {
    let share = |stops: Option<Stops>| stops.map_or(0.0, |stops| stops.share());
    let least = all.iter().map(|(_, stops)| share(*stops)).fold(f64::INFINITY, f64::min);
    let stopping = |(arm, stops): &(&str, Option<Stops>)| {
        let stops = stops.filter(|stops| stops.share() - least >= LEAST_SHARE)?;
        Some(Stopping { arm: (*arm).to_owned(), stops })
    };
    all.iter().filter_map(stopping).collect()
}

/// How long turns are that hold some of these stops.
pub(super) fn turn(stops: Stops) -> Span {
    Span(Duration::from_secs_f64(stops.every_ns() * TIMES / 1e9))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn watched<const N: usize>(ms: [[u64; 2]; N], all_ms: u64) -> Watched {
        let mut watched = Watched::default();
        watched.add_stops(&ms.map(|stop| stop.map(|ms| ms * MS)), all_ms * MS, MS);
        watched
    }

    #[test]
    fn stops_are_counted_that_are_nearly_as_long_as_the_longest() {
        let stops =
            watched([[100, 130], [200, 202], [350, 380], [600, 612], [612, 630]], 1000).stops().unwrap();
        assert_eq!(stops, Stops { count: 3, stopped_ns: 90 * MS, watched_ns: 750 * MS });
        assert_eq!(watched([], 1000).stops(), None);
        assert_eq!(turn(stops), Span(Duration::from_micros(487_500)));
    }

    #[test]
    fn stops_are_no_longer_than_the_time_in_which_they_were_seen() {
        let nearly_all = watched([[0, 250], [260, 710]], 750).stops();
        assert_eq!(nearly_all, Some(Stops { count: 2, stopped_ns: 700 * MS, watched_ns: 710 * MS }));
    }

    #[test]
    fn one_stop_that_outlasts_the_load_is_no_more_than_all_of_the_time() {
        let stops = watched([[0, 2000]], 300).stops().unwrap();
        assert_eq!((stops.count, stops.share()), (1, 1.0));
    }

    #[test]
    fn who_stops_for_long_is_watched_without_a_pause() {
        assert!(watched([[100, 150]], 1000).is_suspect());
        assert!(!watched([[100, 115]], 1000).is_suspect());
        assert!(!watched([[100, 109], [300, 309], [500, 509]], 1000).is_suspect());
        assert!(!watched([], 1000).is_suspect());
    }

    /// A server asked for 50 of each 100 ms, which is quiet so many milliseconds after each turn.
    fn in_turns(late_ms: impl IntoIterator<Item = u64>) -> Option<Stops> {
        let (mut lateness, mut now_ms) = (Lateness::default(), 0);
        for late in late_ms {
            lateness.turns_ns.push([now_ms, now_ms + 50, now_ms + 50 + late].map(|ms| ms * MS));
            now_ms += 100 + late;
        }
        lateness.stops()
    }

    #[test]
    fn a_server_in_turns_stops_where_it_is_late_as_at_no_other_time() {
        let every_3_s = (1..=75).map(|turn| if turn % 25 == 0 { 250 } else { 1 });
        let stops = in_turns(every_3_s).unwrap();
        assert_eq!((stops.count, stops.stopped_ns), (3, 750 * MS));
        assert!((2.5e9..3.0e9).contains(&stops.every_ns()), "{stops:?}");
        assert!(counts(stops) && is_told(stops));
        let once = in_turns((1..=75).map(|turn| if turn == 40 { 250 } else { 1 })).unwrap();
        assert!(counts(once) && !is_told(once), "one may have been of the machine");
        assert_eq!(in_turns([100; 50]), None, "each answer takes as long");
        assert_eq!(in_turns([]), None);
    }

    #[test]
    fn requests_that_wait_together_are_no_stop() {
        let mut watched = Watched::default();
        watched.add_stops(&[[0, 50 * MS], [51 * MS, 101 * MS]], 110 * MS, 50 * MS);
        assert_eq!(watched.stops(), None);
    }

    #[test]
    fn what_all_arms_share_is_of_the_machine() {
        let stops = |ms| Some(Stops { count: 2, stopped_ns: ms * MS, watched_ns: 1000 * MS });
        let found = |all: &[(&str, Option<Stops>)]| {
            apart(all).into_iter().map(|one| one.arm).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(found(&[("a", stops(50)), ("b", stops(60))]), "");
        assert_eq!(found(&[("a", stops(10)), ("b", stops(60))]), "b");
        assert_eq!(found(&[("a", stops(90)), ("b", stops(60)), ("c", None)]), "a b");
    }
}
