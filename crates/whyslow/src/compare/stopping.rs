//! Servers that stop for everybody now and then: to collect garbage, to write a snapshot, to read something anew.
//!
//! A turn that is shorter than the time between two stops holds one or none. A median over turns passes over those that hold one; what
//! falls due while nobody asks is paid before the turn that counts; and a short block ends before a server has stopped at all. So the first
//! block lasts long enough for stops that come every few seconds, and turns are made long enough for some of them. What else happens on the
//! machine is told apart: a server that was ready to run and had no CPU did not stop, and what stops all arms alike is of the machine, for
//! they take turns.

use std::f64::consts::SQRT_2;
use std::time::Duration;

use model::job::TurnReport;
use model::record::{Stopping, Stops};
use model::units::Span;

use observe::{Readiness, ReadinessAt};

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
/// How far apart the square roots of two counts are at least that differ: two standard deviations, which are one half for each root,
/// whatever the count. Where another never stops, two are enough; one may have been of the machine.
const ROOTS_APART: f64 = SQRT_2;
/// How many times as many stops as came would have come at the pace from the first to the last: beyond that it is no rhythm, but a host
/// that took a CPU twice in a short time, or a compiler that had not ended.
const BUNCHED: f64 = 2.0;
/// Times between two stops in a turn. What stops when a time has passed, and somebody asks, does so as soon as the turn begins: a little
/// less than two hold two stops, a little more would hold three.
const TIMES: f64 = 1.95;

/// Share of a silence from which on having no CPU is its cause.
const WITHOUT_CPU: f64 = 0.5;
/// Of the time between the readings around a silence, the share from which on a server was at work meanwhile, and that from which on a
/// generator would have seen answers: it shares its CPU with another program, and polls whenever it has it.
const AT_WORK: f64 = 0.5;
const SEES: f64 = 0.2;
/// How many times as long as a silence the time between the readings around it is at most: on a crowded machine these come late, and then
/// nobody knows what happened during the silence.
const TOLD_APART: f64 = 2.0;

/// How long a first block looks for stops, with turns of all arms.
pub(super) const LOOK: Duration = Duration::from_millis(7500);

/// When a server was loaded, when it was quiet, and what it answered.
#[derive(Debug, Clone, Default)]
pub(super) struct TurnTimes {
    /// Begin of each turn, its end, and when all was answered.
    turns_ns: Vec<[u64; 3]>,
    /// When no answer came though it was loaded: begin and end of each silence.
    silences_ns: Vec<[u64; 2]>,
    answers: u64,
    /// Mean response of each turn, in nanoseconds.
    responses_ns: Vec<u64>,
    /// What was read in the turns of the server and of its generator, in the order of time.
    pub(super) readings: Vec<ReadinessAt>,
}

impl TurnTimes {
    pub(super) fn add(&mut self, report: &TurnReport) {
        self.turns_ns.push([report.start_ns, report.end_ns, report.quiet_ns]);
        self.silences_ns.extend(&report.silences_ns);
        self.answers += report.requests;
        self.responses_ns.push(report.mean_response_ns as u64);
    }

    /// How long a response usually took, or how long after the end of a turn all was answered, if that is longer. Lower quartiles: a server
    /// that stops often may do so in most turns.
    fn usual_ns(&self) -> u64 {
        let late_ns = self.turns_ns.iter().map(|[_, end, quiet]| quiet.saturating_sub(*end)).collect();
        lower_quartile(late_ns).max(lower_quartile(self.responses_ns.clone()))
    }

    /// The silences and those after each turn. One that lasts to the end of a turn and beyond it is one.
    fn with_late(&self) -> Vec<[u64; 2]> {
        let (mut all, mut silences) = (Vec::<[u64; 2]>::new(), self.silences_ns.iter().copied().peekable());
        for &[_, end, quiet] in &self.turns_ns {
            while let Some(silence) = silences.next_if(|[begin, _]| *begin < end) {
                all.push(silence);
            }
            match all.last_mut() {
                Some(last) if end.abs_diff(last[1]) < SAME_NS => last[1] = quiet,
                _ => all.push([end, quiet]),
            }
        }
        all
    }

    /// When it stopped for everybody: begin and end of each time.
    fn stops_ns(&self) -> Vec<[u64; 2]> {
        let loaded_ns = self.turns_ns.iter().map(|[begin, _, quiet]| quiet.saturating_sub(*begin)).sum();
        let least_ns = RESPONSES * self.usual_ns();
        let mut stops_ns: Vec<[u64; 2]> = Vec::new();
        for stall in analyse::stalls(&self.with_late(), loaded_ns, self.answers) {
            match stops_ns.last_mut() {
                _ if length(&stall) < least_ns || self.had_no_cpu(&stall) => {}
                Some(last) if stall[0].saturating_sub(last[1]) < SAME_NS => last[1] = stall[1],
                _ => stops_ns.push(stall),
            }
        }
        stops_ns
    }

    /// Whether the server had no CPU in this time though it was ready to run, or the generator had none, which then sees no answers; also
    /// where that cannot be told. A server that keeps its CPU busy meanwhile stops by itself, whatever else of it waits for that CPU.
    fn had_no_cpu(&self, stop: &[u64; 2]) -> bool {
        let first_after = self.readings.partition_point(|reading| reading.at_ns <= stop[0]);
        let ended = self.readings.partition_point(|reading| reading.at_ns < stop[1]);
        let before = first_after.checked_sub(1).and_then(|at| self.readings.get(at));
        let (Some(before), Some(after)) = (before, self.readings.get(ended)) else { return false };
        let between_ns = after.at_ns.saturating_sub(before.at_ns);
        if between_ns as f64 > TOLD_APART * length(stop) as f64 {
            return true;
        }
        let [server, generator] = [0, 1].map(|group| spent(group, before, after));
        let waits = |spent: &Spent| spent.longest_wait_ns as f64 >= WITHOUT_CPU * length(stop) as f64;
        let runs = |spent: &Spent, share: f64| spent.run_ns as f64 >= share * between_ns as f64;
        waits(&server) && !runs(&server, AT_WORK) || waits(&generator) && !runs(&generator, SEES)
    }

    /// Time from `from` to `to` in which a stop of `length_ns` would have been seen: one that goes on when a turn begins is seen too.
    fn watched_ns(&self, from: u64, to: u64, length_ns: u64) -> u64 {
        let mut quiet_before = 0;
        let mut watched_ns = 0;
        for &[begin, _, quiet] in &self.turns_ns {
            let seen_from = begin.saturating_sub(length_ns).max(quiet_before);
            watched_ns += quiet.min(to).saturating_sub(seen_from.max(from));
            quiet_before = quiet;
        }
        watched_ns
    }
}

/// What the threads of a group did between two readings.
struct Spent {
    /// All of them on a CPU, in nanoseconds.
    run_ns: u64,
    /// The one that was ready longest without one. When a server goes on after a stop, all its threads are ready, each for a moment.
    longest_wait_ns: u64,
}

fn spent(group: usize, before: &ReadinessAt, after: &ReadinessAt) -> Spent {
    let [before, after] = [before, after].map(|at| at.groups.get(group).map_or(&[][..], Vec::as_slice));
    let of_each = |of: fn(&Readiness) -> u64| {
        before.iter().zip(after).map(move |(before, after)| of(after).saturating_sub(of(before)))
    };
    Spent {
        run_ns: of_each(|one| one.run_ns).sum(),
        longest_wait_ns: of_each(|one| one.wait_ns).max().unwrap_or(0),
    }
}

fn lower_quartile(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values.get(values.len() / 4).copied().unwrap_or(0)
}

/// What was seen of one server under load.
#[derive(Debug, Default)]
pub(super) struct Watched {
    turns: TurnTimes,
    /// Begin and end of each stop.
    stops_ns: Vec<[u64; 2]>,
}

impl Watched {
    /// What was seen of a server in `turns`.
    pub(super) fn new(turns: TurnTimes) -> Self {
        let stops_ns = turns.stops_ns();
        Self { turns, stops_ns }
    }

    /// Whether it stopped once, or some times close together, for so long that more such stops would count: that does not tell how often
    /// they come, nor whether the machine was the cause.
    pub(super) fn is_unclear(&self) -> bool {
        let unclear = |stops: &Stops| stops.count == 1 || self.are_bunched(stops);
        self.stops().is_some_and(|stops| unclear(&stops) && stops.share() >= LEAST_SHARE)
    }

    /// Whether many more of these stops would have come if they had gone on.
    fn are_bunched(&self, stops: &Stops) -> bool {
        let all_ns = self.turns.watched_ns(0, u64::MAX, stops.stopped_ns / stops.count);
        all_ns as f64 > BUNCHED * stops.every_ns() * stops.count as f64
    }

    /// How it stopped; nothing where it did not. The time counts from the first of several stops to the one after the last.
    fn stops(&self) -> Option<Stops> {
        let long: Vec<[u64; 2]> = self.at_least(self.least_ns()).collect();
        let (first, last) = (long.first()?, long.last()?);
        let stopped_ns: u64 = long.iter().map(length).sum();
        let count = long.len() as u64;
        let watched = |from, to| self.turns.watched_ns(from, to, stopped_ns / count);
        let watched_ns = match count {
            1 => watched(0, u64::MAX),
            _ => watched(first[0], last[0]) * count / (count - 1),
        };
        Some(Stops { count, stopped_ns, watched_ns: watched_ns.max(stopped_ns) })
    }

    /// Length of the shortest stop of the kind that is longest, in nanoseconds.
    fn least_ns(&self) -> u64 {
        let longest = self.stops_ns.iter().map(length).max().unwrap_or(0);
        SHORTEST_NS.max((AS_LONG * longest as f64) as u64)
    }

    fn at_least(&self, least_ns: u64) -> impl Iterator<Item = [u64; 2]> {
        self.stops_ns.iter().copied().filter(move |stop| length(stop) >= least_ns)
    }

    /// How it stops more than `other` does, which was watched in turns with it; nothing where that may be by chance.
    fn beyond(&self, other: &Self) -> Option<Stops> {
        let stops = self.stops().filter(|stops| !self.are_bunched(stops))?;
        let alike: Vec<u64> = other.at_least(self.least_ns()).map(|stop| length(&stop)).collect();
        let root = |count: u64| (count as f64).sqrt();
        if root(stops.count) - root(alike.len() as u64) < ROOTS_APART {
            return None;
        }
        let more = Stops {
            count: stops.count - alike.len() as u64,
            stopped_ns: stops.stopped_ns.saturating_sub(alike.iter().sum()),
            ..stops
        };
        (more.share() >= LEAST_SHARE).then_some(more)
    }
}

fn length([begin, end]: &[u64; 2]) -> u64 {
    end.saturating_sub(*begin)
}

/// The arms that stop for more of the time than the one that does least.
pub(super) fn apart(all: &[(&str, Watched)]) -> Vec<Stopping> {
    let stopping = |(index, (arm, watched)): (usize, &(&str, Watched))| {
        let others = all.iter().enumerate().filter(|(other, _)| *other != index);
        let beyond = others.filter_map(|(_, (_, other))| watched.beyond(other));
        let stops = beyond.max_by(|a, b| a.share().total_cmp(&b.share()))?;
        Some(Stopping { arm: (*arm).to_owned(), stops })
    };
    all.iter().enumerate().filter_map(stopping).collect()
}

/// How long turns are that hold some of these stops.
pub(super) fn turn(stops: Stops) -> Span {
    Span(Duration::from_secs_f64(stops.every_ns() * TIMES / 1e9))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Turns of a server that is asked for 50 of each 100 ms, and is quiet so many milliseconds after each.
    fn turns(late_ms: impl IntoIterator<Item = u64>) -> TurnTimes {
        let (mut turns, mut now_ms) = (answered(MS), 0);
        for late in late_ms {
            turns.turns_ns.push([now_ms, now_ms + 50, now_ms + 50 + late].map(|ms| ms * MS));
            now_ms += 100 + late;
        }
        turns
    }

    /// A server loaded for so long without a pause, which was silent meanwhile; most answers take 1 ms.
    fn loaded<const N: usize>(ms: [[u64; 2]; N], all_ms: u64) -> Watched {
        Watched::new(TurnTimes {
            turns_ns: vec![[0, all_ms, all_ms].map(|ms| ms * MS)],
            silences_ns: ms.map(|stop| stop.map(|ms| ms * MS)).to_vec(),
            ..answered(MS)
        })
    }

    /// Many answers, most of which take so long.
    fn answered(response_ns: u64) -> TurnTimes {
        TurnTimes { answers: 100_000, responses_ns: vec![response_ns], ..TurnTimes::default() }
    }

    fn late(late_ms: impl IntoIterator<Item = u64>) -> Watched {
        Watched::new(turns(late_ms))
    }

    /// `often` of a hundred turns are late by 250 ms, the others by 1 ms.
    fn late_in(often: u64) -> Watched {
        late((0..100).map(|turn| if turn * often % 100 < often { 250 } else { 1 }))
    }

    #[test]
    fn stops_are_counted_that_are_nearly_as_long_as_the_longest() {
        let stops =
            loaded([[100, 130], [200, 202], [350, 380], [600, 612], [612, 630]], 1000).stops().unwrap();
        assert_eq!(stops, Stops { count: 3, stopped_ns: 90 * MS, watched_ns: 750 * MS });
        assert_eq!(loaded([], 1000).stops(), None);
        assert_eq!(turn(stops), Span(Duration::from_micros(487_500)));
    }

    #[test]
    fn two_stops_close_together_are_no_rhythm() {
        let never = loaded([], 3750);
        let twice = |second: u64| loaded([[1000, 1070], [second, second + 70]], 3750);
        let close = twice(1626);
        assert!(close.is_unclear() && close.beyond(&never).is_none(), "{:?}", close.stops());
        let apart = twice(2500);
        assert_eq!((apart.is_unclear(), apart.beyond(&never).map(|stops| stops.count)), (false, Some(2)));
    }

    #[test]
    fn stops_are_no_longer_than_the_time_in_which_they_were_seen() {
        let nearly_all = loaded([[0, 250], [260, 710]], 750).stops();
        assert_eq!(nearly_all, Some(Stops { count: 2, stopped_ns: 700 * MS, watched_ns: 700 * MS }));
    }

    #[test]
    fn a_server_in_turns_stops_where_it_is_late_as_at_no_other_time() {
        let stops = late((1..=75).map(|turn| if turn % 25 == 0 { 250 } else { 1 })).stops().unwrap();
        assert_eq!((stops.count, stops.stopped_ns), (3, 750 * MS));
        assert!((2.5e9..3.0e9).contains(&stops.every_ns()), "{stops:?}");
        assert_eq!(late([100; 50]).stops(), None, "each answer takes as long");
        assert_eq!(late([]).stops(), None);
    }

    #[test]
    fn a_stop_goes_on_after_its_turn() {
        // Each third turn of 50 ms ends 20 ms after the server stopped, for 60 ms in all.
        let mut turns = turns((1..=30).map(|turn| if turn % 3 == 0 { 40 } else { 1 }));
        let begun = turns.turns_ns.iter().filter(|[_, end, quiet]| quiet - end > MS);
        turns.silences_ns = begun.map(|[_, end, _]| [end - 20 * MS, *end]).collect();
        let stops = Watched::new(turns).stops().unwrap();
        assert_eq!((stops.count, stops.stopped_ns), (10, 600 * MS));
    }

    #[test]
    fn one_stop_in_the_middle_of_the_load_is_unclear() {
        assert!(late((1..=75).map(|turn| if turn == 40 { 250 } else { 1 })).is_unclear());
        assert!(!late((1..=75).map(|turn| if turn % 25 == 0 { 250 } else { 1 })).is_unclear());
        assert!(!late([1; 75]).is_unclear() && !late([]).is_unclear());
        assert!(loaded([[1000, 1700]], 8000).is_unclear(), "within a long turn");
        assert!(!loaded([[1000, 1700], [6000, 6700]], 8000).is_unclear());
    }

    #[test]
    fn requests_that_wait_together_are_no_stop() {
        let silences_ns = vec![[0, 50 * MS], [51 * MS, 101 * MS]];
        let turns = TurnTimes { turns_ns: vec![[0, 110 * MS, 110 * MS]], silences_ns, ..answered(50 * MS) };
        assert_eq!(Watched::new(turns).stops(), None);
    }

    /// How a server stops that answered nobody from 100 to 150 and from 300 to 350 ms, and what it and its generator did meanwhile: so many
    /// milliseconds each of two threads was on a CPU, and ready to run.
    fn read(server_ms: [u64; 2], generator_ms: [u64; 2]) -> Option<u64> {
        let mut turns = TurnTimes { turns_ns: vec![[0, 400 * MS, 400 * MS]], ..answered(MS) };
        let at = |ms: u64, times: u64| {
            let group =
                |[run, wait]: [u64; 2]| Readiness { run_ns: run * times * MS, wait_ns: wait * times * MS };
            ReadinessAt { at_ns: ms * MS, groups: vec![vec![group(server_ms); 2], vec![group(generator_ms)]] }
        };
        turns.readings = vec![at(98, 0), at(152, 1), at(298, 1), at(352, 2)];
        turns.silences_ns = vec![[100 * MS, 150 * MS], [300 * MS, 350 * MS]];
        Watched::new(turns).stops().map(|stops| stops.count)
    }

    #[test]
    fn who_has_no_cpu_does_not_stop() {
        assert_eq!(read([0, 0], [5, 0]), Some(2), "it sleeps");
        assert_eq!(
            read([25, 30], [5, 0]),
            Some(2),
            "it collects garbage, and its threads wait for each other"
        );
        assert_eq!(read([2, 48], [5, 0]), None, "another program had its CPU");
        assert_eq!(read([20, 5], [2, 45]), None, "another program had the generator's");
        assert_eq!(read([0, 0], [25, 25]), Some(2), "it shares it with another program");
    }

    #[test]
    fn readings_that_come_late_tell_nothing() {
        // A silence of 20 ms in which the server slept, as far as readings tell that are so far apart.
        let mut turns = TurnTimes { turns_ns: vec![[0, 400 * MS, 400 * MS]], ..answered(MS) };
        turns.silences_ns = vec![[120 * MS, 140 * MS]];
        let at = |ms: u64| ReadinessAt {
            at_ns: ms * MS,
            groups: vec![vec![Readiness { run_ns: 0, wait_ns: 0 }], vec![]],
        };
        let stops = |[before, after]: [u64; 2]| {
            let turns = TurnTimes { readings: vec![at(before), at(after)], ..turns.clone() };
            Watched::new(turns).stops().map(|stops| stops.count)
        };
        assert_eq!([stops([118, 142]), stops([100, 160])], [Some(1), None]);
    }

    #[test]
    fn what_all_arms_share_is_of_the_machine() {
        let found = |often: [u64; 2]| {
            let [a, b] = often.map(late_in);
            apart(&[("a", a), ("b", b)]).into_iter().map(|one| (one.arm, one.stops.count)).collect::<Vec<_>>()
        };
        assert_eq!(found([0, 0]), []);
        assert_eq!(found([0, 1]), [], "one may have been of the machine");
        assert_eq!(found([0, 2]), [("b".to_owned(), 2)]);
        assert_eq!(found([5, 10]), [], "so many more come by chance");
        assert_eq!(found([20, 5]), [("a".to_owned(), 15)], "what it stops more than the other");
    }

    #[test]
    fn an_arm_without_another_is_not_told_from_the_machine() {
        assert_eq!(apart(&[("a", late_in(20))]), []);
    }
}
