//! Which commits are compared next, and what a comparison says. Pure: `whyslow bisect` makes the comparisons, a
//! calibration makes them up.

use model::plan::{HistoryAnswer, HistorySearch, NextStep};
use model::record::Run;

use super::{Halfway, slower_ln};
use crate::facts::metric::Metric;
use crate::findings::turned;
use crate::verdicts::{Comparison, Verdict, comparisons, extend_until};

/// What a comparison is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BisectPurpose {
    /// Whether the bad end is slower than the good one, and which of them the commit in the middle resembles.
    Ends,
    /// Which end a commit resembles.
    Step,
    /// Which of the commits that are left is slower than its parent.
    Last,
}

/// Commits to compare side by side, by their places in the history: the good end is at 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BisectAsk {
    /// Why they are compared.
    pub purpose: BisectPurpose,
    /// The commits, two at least, in the order of the history. In this order they are the arms, the first one is the baseline.
    pub places: Vec<usize>,
}

impl BisectAsk {
    /// Returns the first comparison in a history of `commits` after the good end.
    #[must_use]
    pub fn ends(commits: usize) -> Self {
        let middle = match HistorySearch::new(commits).next() {
            NextStep::Ask(place) => Some(place),
            NextStep::Last(_) => None,
        };
        let places = [Some(0), middle, Some(commits)].into_iter().flatten().collect();
        Self { purpose: BisectPurpose::Ends, places }
    }

    /// Says whether the search ends with this comparison. Only then are causes worth looking for.
    #[must_use]
    pub fn can_end(&self) -> bool {
        self.purpose == BisectPurpose::Last
    }

    /// Returns which commits are to be compared, the earlier one first. Of the last comparison that is each with the one before it, of
    /// others each with the first one, beginning with the latest.
    #[must_use]
    pub fn pairs(&self) -> Vec<[usize; 2]> {
        match self.purpose {
            BisectPurpose::Last => self.places.windows(2).map(|pair| [pair[0], pair[1]]).collect(),
            BisectPurpose::Ends | BisectPurpose::Step => {
                self.places[1..].iter().rev().map(|place| [self.places[0], *place]).collect()
            }
        }
    }
}

/// Two commits of a comparison, by their places.
#[derive(Debug, Clone, PartialEq)]
pub struct BisectPair {
    /// The earlier commit.
    pub before: usize,
    /// The later commit.
    pub after: usize,
    /// How the later one compares with the earlier one; absent if one of them could not be built or started.
    pub row: Option<Comparison>,
}

impl BisectPair {
    fn is(&self, [before, after]: [usize; 2]) -> bool {
        self.before == before && self.after == after
    }

    /// Whether nothing can be said of the later commit.
    fn is_void(&self) -> bool {
        self.row.as_ref().is_none_or(|row| row.verdict == Verdict::Invalid)
    }

    /// ln of how many times slower the later commit is.
    fn slower_ln(&self) -> f64 {
        let ln = self.row.as_ref().and_then(|row| Some(slower_ln(row.metric, row.ratio?)));
        ln.unwrap_or(f64::NEG_INFINITY)
    }
}

/// What a comparison says of a commit.
#[derive(Debug, Clone, PartialEq)]
pub struct BisectTold {
    /// The commit, as the later one, and what it was compared with.
    pub pair: BisectPair,
    /// The answer.
    pub answer: HistoryAnswer,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BisectNext {
    /// Compare commits.
    Compare(BisectAsk),
    /// Nothing more: the bad end was not shown to be slower.
    NotSlower,
    /// Nothing more: the commit at this place is slower than its parent.
    Named(usize),
    /// Nothing more: the search led to this commit, but it was not shown to be slower than its parent.
    NotShown(usize),
    /// Nothing more: it is one of these commits, and no comparison can tell which. The last of them was compared with the parent of
    /// the first.
    Among(Vec<usize>),
}

/// What is known of the two ends.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Ends {
    Unknown,
    Alike,
    Differ(Halfway),
}

/// A search through a history from the first comparison to the last.
#[derive(Debug, Clone)]
pub struct Bisection {
    commits: usize,
    metric: Metric,
    ends: Ends,
    search: HistorySearch,
    /// What the last comparison came to.
    end: Option<BisectNext>,
}

impl Bisection {
    /// Begins a search through `commits` commits after the good end, by one metric.
    #[must_use]
    pub fn new(commits: usize, metric: Metric) -> Self {
        Self { commits, metric, ends: Ends::Unknown, search: HistorySearch::new(commits), end: None }
    }

    /// Restores what an earlier run of the command found out about the ends.
    pub fn recall_ends(&mut self, halfway: Option<Halfway>) {
        self.ends = halfway.map_or(Ends::Alike, Ends::Differ);
    }

    /// Restores what an earlier run of the command found out about the commit at `place`.
    pub fn recall(&mut self, place: usize, answer: HistoryAnswer) {
        self.search.record(place, answer);
    }

    /// Returns what to do next.
    #[must_use]
    pub fn next(&self) -> BisectNext {
        match (self.ends, &self.end) {
            (Ends::Unknown, _) => BisectNext::Compare(BisectAsk::ends(self.commits)),
            (Ends::Alike, _) => BisectNext::NotSlower,
            (Ends::Differ(_), Some(end)) => end.clone(),
            (Ends::Differ(_), None) => BisectNext::Compare(match self.search.next() {
                NextStep::Ask(place) => BisectAsk { purpose: BisectPurpose::Step, places: vec![0, place] },
                NextStep::Last(places) => BisectAsk { purpose: BisectPurpose::Last, places },
            }),
        }
    }

    /// Returns how many commits it can still be.
    #[must_use]
    pub fn left(&self) -> usize {
        self.search.left()
    }

    /// Halfway between the ends, once they are known to differ.
    #[must_use]
    pub fn halfway(&self) -> Option<Halfway> {
        match self.ends {
            Ends::Differ(halfway) => Some(halfway),
            Ends::Unknown | Ends::Alike => None,
        }
    }

    /// Returns how each two commits of a comparison compare, in the metric of this search.
    #[must_use]
    pub fn pairs(&self, ask: &BisectAsk, run: &Run) -> Vec<BisectPair> {
        self.pairs_from(ask, run, &comparisons(run))
    }

    /// The same where what all arms are against the first one is known.
    fn pairs_from(&self, ask: &BisectAsk, run: &Run, against_first: &[Comparison]) -> Vec<BisectPair> {
        let name = |arm: usize| &run.manifest.plan.arms[arm].name;
        let fails =
            |arm| run.rounds.iter().any(|record| record.arm == *name(arm) && record.failure.is_some());
        let mut pairs = Vec::new();
        for (before, place) in ask.places.iter().enumerate() {
            let rest = before + 1..ask.places.len();
            let turned = (before > 0 && !rest.is_empty()).then(|| comparisons(&turned(run, before)));
            let rows = turned.as_deref().unwrap_or(against_first);
            pairs.extend(rest.map(|after| {
                let row = rows.iter().find(|row| row.metric == self.metric && row.arm == *name(after));
                let row = row.filter(|_| !fails(before) && !fails(after)).cloned();
                BisectPair { before: *place, after: ask.places[after], row }
            }));
        }
        pairs
    }

    /// Returns how many blocks the run of a comparison should have before its next look; nothing if it has decided.
    #[must_use]
    pub fn extend_to(&self, ask: &BisectAsk, run: &Run) -> Option<u32> {
        extend_until(run, |rows| self.is_settled(ask, &self.pairs_from(ask, run, rows)))
    }

    /// Whether more blocks would tell no more. Where there is no row, there is nothing to go on for.
    fn is_settled(&self, ask: &BisectAsk, pairs: &[BisectPair]) -> bool {
        let asked = asked(ask, pairs);
        let mut rows = asked.iter().filter_map(|pair| pair.row.as_ref());
        match ask.purpose {
            BisectPurpose::Step => rows.all(|row| is_sided(self.halfway(), row)),
            BisectPurpose::Ends => {
                let Some(ends) = asked.first().and_then(|pair| pair.row.as_ref()) else { return true };
                let halfway = Halfway::to(ends);
                is_decided(ends) && (halfway.is_none() || rows.skip(1).all(|row| is_sided(halfway, row)))
            }
            BisectPurpose::Last => {
                let lies = |row: &Comparison, at| side(self.halfway(), row) == at;
                let is_found = |row: &Comparison| is_slower(row) && lies(row, HistoryAnswer::Bad);
                let one_is_slower = rows.clone().any(is_slower);
                rows.clone().any(is_found)
                    || rows.all(|row| is_decided(row) || one_is_slower && lies(row, HistoryAnswer::Good))
            }
        }
    }

    /// Records the outcome of a comparison; returns what it says, of each commit in the order in which it is told. Of the last comparison
    /// what the search comes to stands last.
    pub fn record(&mut self, ask: &BisectAsk, pairs: &[BisectPair]) -> Vec<BisectTold> {
        let asked = asked(ask, pairs);
        match ask.purpose {
            BisectPurpose::Last => self.close(ask, &asked, pairs),
            BisectPurpose::Step => self.sided(&asked),
            BisectPurpose::Ends => {
                let Some((ends, rest)) = asked.split_first() else { return Vec::new() };
                self.recall_ends(ends.row.as_ref().and_then(Halfway::to));
                let answer = if self.halfway().is_some() { HistoryAnswer::Bad } else { HistoryAnswer::Open };
                [vec![BisectTold { pair: (*ends).clone(), answer }], self.sided(rest)].concat()
            }
        }
    }

    /// Records which end commits resemble that were compared with the good one.
    fn sided(&mut self, asked: &[&BisectPair]) -> Vec<BisectTold> {
        let halfway = self.halfway();
        let told = asked.iter().map(|pair| {
            let likely = |row| halfway.map_or(HistoryAnswer::Open, |halfway| halfway.likely_side(row));
            let answer = pair.row.as_ref().map_or(HistoryAnswer::Broken, likely);
            self.search.record(pair.after, answer);
            BisectTold { pair: (*pair).clone(), answer }
        });
        told.collect()
    }

    /// What the last comparison comes to: the commit that is slower than the one before it, of several the one that is by most.
    fn close(&mut self, ask: &BisectAsk, asked: &[&BisectPair], pairs: &[BisectPair]) -> Vec<BisectTold> {
        let slower = asked.iter().filter(|pair| pair.row.as_ref().is_some_and(is_slower));
        let found = slower.max_by(|one, other| one.slower_ln().total_cmp(&other.slower_ln()));
        let found = found.map(|pair| [pair.before, pair.after]);
        let [before, after] = found.unwrap_or_else(|| self.not_ruled_out(ask, asked));
        self.end = Some(match (after - before, found.is_some()) {
            (1, true) => BisectNext::Named(after),
            (1, false) => BisectNext::NotShown(after),
            _ => BisectNext::Among((before + 1..=after).collect()),
        });
        let told = |pair: &BisectPair| BisectTold { pair: pair.clone(), answer: self.answer(pair) };
        let is_end = |pair: &&BisectPair| pair.is([before, after]);
        let [begin, rest @ .., _] = &ask.places[..] else { return Vec::new() };
        let is_left_out =
            |pair: &&BisectPair| pair.before == *begin && rest.contains(&pair.after) && pair.is_void();
        let left_out = pairs.iter().filter(is_left_out);
        let others = asked.iter().copied().filter(|pair| !is_end(pair));
        left_out.chain(others).chain(pairs.iter().find(is_end)).map(told).collect()
    }

    /// The commit before those that the last comparison leaves open, and the last of these; of all, if it rules out each.
    fn not_ruled_out(&self, ask: &BisectAsk, asked: &[&BisectPair]) -> [usize; 2] {
        let mut open = asked.iter().filter(|pair| self.answer(pair) != HistoryAnswer::Good);
        let first = open.next();
        let last = open.next_back().or(first);
        let [begin, end] = [ask.places[0], ask.places[ask.places.len() - 1]];
        [first.map_or(begin, |pair| pair.before), last.map_or(end, |pair| pair.after)]
    }

    /// The answer of the last comparison about a commit, in relation to the one that it is compared with.
    fn answer(&self, pair: &BisectPair) -> HistoryAnswer {
        match &pair.row {
            None => HistoryAnswer::Broken,
            Some(row) if is_slower(row) => HistoryAnswer::Bad,
            Some(row) if row.verdict == Verdict::Invalid => HistoryAnswer::Open,
            Some(row) if row.verdict.is_decided() => HistoryAnswer::Good,
            Some(row) if side(self.halfway(), row) == HistoryAnswer::Good => HistoryAnswer::Good,
            Some(_) => HistoryAnswer::Open,
        }
    }
}

/// The pairs that a comparison is about. In the last one commits of which nothing can be said are left out: one behind them is compared
/// with the nearest one before them.
fn asked<'p>(ask: &BisectAsk, pairs: &'p [BisectPair]) -> Vec<&'p BisectPair> {
    let [first, last] = [ask.places[0], ask.places[ask.places.len() - 1]];
    let is_void = |place: usize| pairs.iter().any(|pair| pair.is([first, place]) && pair.is_void());
    let mut working = ask.clone();
    if ask.purpose == BisectPurpose::Last {
        working.places.retain(|place| *place == last || !is_void(*place));
    }
    working.pairs().into_iter().filter_map(|two| pairs.iter().find(|pair| pair.is(two))).collect()
}

fn is_slower(row: &Comparison) -> bool {
    row.verdict == Verdict::Slower
}

fn is_decided(row: &Comparison) -> bool {
    row.verdict.is_decided() || row.verdict == Verdict::Invalid
}

/// Which end a commit resembles that `row` compares with the good one; open while the ends are not known to differ.
fn side(halfway: Option<Halfway>, row: &Comparison) -> HistoryAnswer {
    halfway.map_or(HistoryAnswer::Open, |halfway| halfway.side(row))
}

/// Whether it is known, or never will be.
fn is_sided(halfway: Option<Halfway>, row: &Comparison) -> bool {
    row.verdict == Verdict::Invalid || side(halfway, row) != HistoryAnswer::Open
}

#[cfg(test)]
mod tests {
    use super::super::tests::row;
    use super::*;

    /// What is measured of a history: whether each commit is slow, or that it does not build.
    type Commit = Option<bool>;

    /// How each two commits of `ask` compare where a slow one costs a fifth more.
    fn measured(ask: &BisectAsk, commit: impl Fn(usize) -> Commit) -> Vec<BisectPair> {
        let pair = |before: usize, after: usize| {
            let row = commit(before).zip(commit(after)).map(|slow| match slow {
                (false, true) => row(Metric::CpuPerRequest, Verdict::Slower, [1.2, 1.19, 1.21]),
                (true, false) => row(Metric::CpuPerRequest, Verdict::Faster, [0.83, 0.82, 0.84]),
                _ => row(Metric::CpuPerRequest, Verdict::Equal, [1.0, 0.99, 1.01]),
            });
            BisectPair { before, after, row }
        };
        let after = |index: usize| ask.places[index + 1..].iter();
        let places = ask.places.iter().enumerate();
        places.flat_map(|(index, before)| after(index).map(move |after| pair(*before, *after))).collect()
    }

    /// Searches; gives what was asked, what was told of the last comparison, and how it ended.
    fn search(
        commits: usize,
        commit: impl Fn(usize) -> Commit + Copy,
    ) -> (Vec<BisectAsk>, Vec<BisectTold>, BisectNext) {
        let mut search = Bisection::new(commits, Metric::CpuPerRequest);
        let (mut asked, mut told) = (Vec::new(), Vec::new());
        loop {
            let BisectNext::Compare(ask) = search.next() else { return (asked, told, search.next()) };
            told = search.record(&ask, &measured(&ask, commit));
            asked.push(ask);
        }
    }

    #[test]
    fn a_commit_is_named_by_a_comparison_with_its_parent_in_the_fewest_comparisons() {
        for commits in (1..=20).chain([200]) {
            for culprit in 1..=commits {
                let (asked, told, end) = search(commits, |place| Some(place >= culprit));
                assert_eq!(end, BisectNext::Named(culprit), "{commits} commits");
                let last = told.last().unwrap();
                assert!(last.pair.is([culprit - 1, culprit]) && last.answer == HistoryAnswer::Bad);
                let others = &told[..told.len() - 1];
                assert!(others.iter().all(|other| other.answer == HistoryAnswer::Good), "{told:?}");
                assert!(asked.len() <= HistorySearch::most_steps(commits) as usize, "{asked:?}");
                assert!(asked.iter().all(|ask| ask.places.len() <= 3), "{asked:?}");
                let can_end: Vec<bool> = asked.iter().map(BisectAsk::can_end).collect();
                assert_eq!(can_end.iter().position(|can| *can), Some(asked.len() - 1));
            }
        }
    }

    #[test]
    fn the_first_comparison_asks_about_the_middle_too_and_one_that_does_not_build_is_passed_by() {
        let ask = BisectAsk::ends(8);
        assert_eq!((ask.places.clone(), ask.pairs()), (vec![0, 4, 8], vec![[0, 8], [0, 4]]));
        assert_eq!([1, 2].map(|commits| BisectAsk::ends(commits).places), [vec![0, 1], vec![0, 2]]);
        for (middle, answer, next) in [
            (Some(true), HistoryAnswer::Bad, 2),
            (Some(false), HistoryAnswer::Good, 6),
            (None, HistoryAnswer::Broken, 3),
        ] {
            let mut search = Bisection::new(8, Metric::CpuPerRequest);
            let told = search
                .record(&ask, &measured(&ask, |place| if place == 4 { middle } else { Some(place > 4) }));
            assert_eq!([told[0].answer, told[1].answer], [HistoryAnswer::Bad, answer]);
            let step = BisectAsk { purpose: BisectPurpose::Step, places: vec![0, next] };
            assert_eq!(search.next(), BisectNext::Compare(step));
        }
    }

    #[test]
    fn the_first_comparison_goes_on_until_the_middle_is_known_unless_the_ends_are_alike() {
        let search = Bisection::new(8, Metric::CpuPerRequest);
        let ask = BisectAsk::ends(8);
        let slower = row(Metric::CpuPerRequest, Verdict::Slower, [1.2, 1.19, 1.21]);
        let alike = row(Metric::CpuPerRequest, Verdict::Equal, [1.0, 0.99, 1.01]);
        let undecided = row(Metric::CpuPerRequest, Verdict::Inconclusive, [1.1, 1.0, 1.2]);
        let invalid = row(Metric::CpuPerRequest, Verdict::Invalid, [1.1, 1.0, 1.2]);
        for (ends, middle, settled) in [
            (Some(&slower), Some(&undecided), false),
            (Some(&slower), Some(&alike), true),
            (Some(&slower), Some(&invalid), true),
            (Some(&slower), None, true),
            (Some(&alike), Some(&undecided), true),
            (Some(&undecided), Some(&alike), false),
            (None, Some(&undecided), true),
        ] {
            let pair = |after, row: Option<&Comparison>| BisectPair { before: 0, after, row: row.cloned() };
            let pairs = [pair(4, middle), pair(8, ends)];
            assert_eq!(search.is_settled(&ask, &pairs), settled, "{ends:?} {middle:?}");
        }
    }

    #[test]
    fn what_cannot_be_told_apart_is_compared_as_a_range() {
        // The first is good, the second and the third do not build.
        let (asked, told, end) = search(4, |place| [Some(false), Some(false), None, None, Some(true)][place]);
        assert_eq!(end, BisectNext::Among(vec![2, 3, 4]));
        assert_eq!(asked.last().unwrap().places, [1, 3, 4]);
        let last = told.last().unwrap();
        assert!(last.pair.is([1, 4]) && last.answer == HistoryAnswer::Bad, "{told:?}");
        // One that breaks in the last comparison: what is left of it compares the range.
        let (asked, told, end) = search(2, |place| [Some(false), None, Some(true)][place]);
        assert_eq!((asked.len(), end), (2, BisectNext::Among(vec![1, 2])));
        let pairs: Vec<_> =
            told.iter().map(|told| (told.pair.before, told.pair.after, told.answer)).collect();
        assert_eq!(pairs, [(0, 1, HistoryAnswer::Broken), (0, 2, HistoryAnswer::Bad)]);
        // One that answers otherwise is void, and the range goes on until it is decided.
        let last = BisectAsk { purpose: BisectPurpose::Last, places: vec![0, 1, 2] };
        let mut search = Bisection::new(2, Metric::CpuPerRequest);
        search.record(&BisectAsk::ends(2), &measured(&BisectAsk::ends(2), |place| Some(place > 0)));
        let mut pairs = measured(&last, |place| Some(place > 0));
        for (verdict, place) in [(Verdict::Invalid, 0), (Verdict::Inconclusive, 1), (Verdict::Invalid, 2)] {
            pairs[place].row = Some(row(Metric::CpuPerRequest, verdict, [1.1, 1.0, 1.2]));
        }
        assert!(!search.is_settled(&last, &pairs));
        let told = search.record(&last, &pairs);
        assert_eq!(search.next(), BisectNext::Among(vec![1, 2]));
        assert!(told.len() == 2 && told[1].pair.is([0, 2]), "{told:?}");
        // The bad end built before and does not now: it is not ruled out.
        let mut search = Bisection::new(2, Metric::CpuPerRequest);
        search.record(&BisectAsk::ends(2), &measured(&BisectAsk::ends(2), |place| Some(place > 0)));
        let told = search.record(&last, &measured(&last, |place| (place < 2).then_some(false)));
        assert_eq!((search.next(), told.len()), (BisectNext::NotShown(2), 2));
    }

    #[test]
    fn the_last_comparison_names_what_it_shows_and_no_more() {
        let slower =
            |ratio: f64| row(Metric::CpuPerRequest, Verdict::Slower, [ratio, ratio - 0.01, ratio + 0.01]);
        let alike = row(Metric::CpuPerRequest, Verdict::Equal, [1.0, 0.99, 1.01]);
        // Halfway is 1.095: the first is surely below it, the second is not.
        let small = row(Metric::CpuPerRequest, Verdict::Inconclusive, [1.01, 0.97, 1.05]);
        let open = row(Metric::CpuPerRequest, Verdict::Inconclusive, [1.05, 0.97, 1.13]);
        let ask = BisectAsk { purpose: BisectPurpose::Last, places: vec![0, 1, 2] };
        for (first, second, end, settled) in [
            (&slower(1.2), &open, BisectNext::Named(1), true),
            (&small, &slower(1.2), BisectNext::Named(2), true),
            // Both made it slower: the one that did by more.
            (&slower(1.05), &slower(1.14), BisectNext::Named(2), true),
            // One is slower, and the other may be by more.
            (&slower(1.05), &open, BisectNext::Named(1), false),
            (&slower(1.05), &small, BisectNext::Named(1), true),
            (&alike, &open, BisectNext::NotShown(2), false),
            (&open, &alike, BisectNext::NotShown(1), false),
            (&open, &open, BisectNext::Among(vec![1, 2]), false),
            (&small, &small, BisectNext::Among(vec![1, 2]), false),
            (&alike, &alike, BisectNext::Among(vec![1, 2]), true),
        ] {
            let mut search = Bisection::new(2, Metric::CpuPerRequest);
            search.recall_ends(Halfway::to(&slower(1.2)));
            assert_eq!(search.next(), BisectNext::Compare(ask.clone()));
            let pair = |before, after, row: &Comparison| BisectPair { before, after, row: Some(row.clone()) };
            let pairs = [pair(0, 1, first), pair(0, 2, &slower(1.2)), pair(1, 2, second)];
            assert_eq!(search.is_settled(&ask, &pairs), settled, "{end:?}");
            let told = search.record(&ask, &pairs);
            assert_eq!(search.next(), end);
            let last = &told.last().unwrap().pair;
            let want = match end {
                BisectNext::Named(place) | BisectNext::NotShown(place) => [place - 1, place],
                _ => [0, 2],
            };
            assert!(last.is(want), "{end:?}: {told:?}");
            assert_eq!(told.len(), if want == [0, 2] { 3 } else { 2 });
        }
    }

    #[test]
    fn ends_that_are_alike_end_it() {
        let (asked, told, end) = search(3, |_| Some(false));
        assert_eq!((asked.len(), end), (1, BisectNext::NotSlower));
        assert!(told.iter().all(|told| told.answer == HistoryAnswer::Open), "{told:?}");
    }
}
