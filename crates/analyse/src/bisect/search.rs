//! Which two commits are compared next, and what a comparison says. Pure: `whyslow bisect` makes the comparisons, a
//! calibration makes them up.

use model::plan::{HistoryAnswer, HistorySearch, NextStep};
use model::record::Run;

use super::Halfway;
use crate::facts::metric::Metric;
use crate::verdicts::{Comparison, Verdict, extend_until};

/// What a comparison is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BisectPurpose {
    /// Whether the bad end is slower than the good one.
    Ends,
    /// Which end a commit resembles.
    Step,
    /// Which end a commit resembles, found by comparing it with its parent, which is known to be good. If it is bad, it is
    /// both found and proved.
    Closing,
    /// Whether the commit that was found is slower than its parent.
    Last,
    /// How much slower the first bad commit is than the last good one, where none between can be judged.
    Range,
}

/// Two commits to compare, by their places in the history: the good end is at 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BisectAsk {
    /// Why they are compared.
    pub purpose: BisectPurpose,
    /// The earlier commit.
    pub before: usize,
    /// The later commit, which the comparison is about.
    pub after: usize,
}

impl BisectAsk {
    /// Says whether the search can end with this comparison. Only then are causes worth looking for.
    #[must_use]
    pub fn can_end(&self) -> bool {
        matches!(self.purpose, BisectPurpose::Closing | BisectPurpose::Last | BisectPurpose::Range)
    }
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BisectNext {
    /// Compare two commits.
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
    /// The commit that was compared with its parent in the end, and whether it is slower.
    last: Option<(usize, bool)>,
    /// Whether the range was compared that no comparison can divide.
    ranged: bool,
}

impl Bisection {
    /// Begins a search through `commits` commits after the good end, by one metric.
    #[must_use]
    pub fn new(commits: usize, metric: Metric) -> Self {
        Self {
            commits,
            metric,
            ends: Ends::Unknown,
            search: HistorySearch::new(commits),
            last: None,
            ranged: false,
        }
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
        let compare = |purpose, before, after| BisectNext::Compare(BisectAsk { purpose, before, after });
        match (self.ends, self.last) {
            (Ends::Unknown, _) => compare(BisectPurpose::Ends, 0, self.commits),
            (Ends::Alike, _) => BisectNext::NotSlower,
            (Ends::Differ(_), Some((place, true))) => BisectNext::Named(place),
            (Ends::Differ(_), Some((place, false))) => BisectNext::NotShown(place),
            (Ends::Differ(_), None) => match self.search.next() {
                NextStep::Ask(place) if place == self.search.good() + 1 => {
                    compare(BisectPurpose::Closing, place - 1, place)
                }
                NextStep::Ask(place) => compare(BisectPurpose::Step, 0, place),
                NextStep::Found(place) => compare(BisectPurpose::Last, place - 1, place),
                NextStep::Among(places) if self.ranged => BisectNext::Among(places),
                NextStep::Among(places) => {
                    let good = self.search.good();
                    compare(BisectPurpose::Range, good, good + places.len())
                }
            },
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

    /// Returns the row of a comparison that is in the metric of this search.
    #[must_use]
    pub fn row<'a>(&self, rows: &'a [Comparison]) -> Option<&'a Comparison> {
        rows.iter().find(|row| row.metric == self.metric)
    }

    /// Returns how many blocks the run of a comparison should have before its next look; nothing if it has decided.
    #[must_use]
    pub fn extend_to(&self, ask: BisectAsk, run: &Run) -> Option<u32> {
        // Without the row there is nothing to go on for.
        extend_until(run, |rows| self.row(rows).is_none_or(|row| self.is_settled(ask, row)))
    }

    fn is_settled(&self, ask: BisectAsk, row: &Comparison) -> bool {
        let is_decided = row.verdict.is_decided() || row.verdict == Verdict::Invalid;
        match (ask.purpose, self.side(row)) {
            (BisectPurpose::Ends | BisectPurpose::Last | BisectPurpose::Range, _)
            | (BisectPurpose::Closing, HistoryAnswer::Bad) => is_decided,
            (BisectPurpose::Step | BisectPurpose::Closing, side) => {
                row.verdict == Verdict::Invalid || side != HistoryAnswer::Open
            }
        }
    }

    fn side(&self, row: &Comparison) -> HistoryAnswer {
        self.halfway().map_or(HistoryAnswer::Open, |halfway| halfway.side(row))
    }

    /// Records the outcome of a comparison and returns the answer. `row` is absent if the later commit could not be built or
    /// started.
    pub fn record(&mut self, ask: BisectAsk, row: Option<&Comparison>) -> HistoryAnswer {
        let is_slower = row.is_some_and(|row| row.verdict == Verdict::Slower);
        let shown = if is_slower { HistoryAnswer::Bad } else { HistoryAnswer::Open };
        match ask.purpose {
            BisectPurpose::Ends => {
                self.recall_ends(row.and_then(Halfway::to));
                if self.halfway().is_some() { HistoryAnswer::Bad } else { HistoryAnswer::Open }
            }
            BisectPurpose::Last => {
                self.last = Some((ask.after, is_slower));
                shown
            }
            BisectPurpose::Range => {
                self.ranged = true;
                shown
            }
            BisectPurpose::Step | BisectPurpose::Closing => {
                let side = row.map_or(HistoryAnswer::Broken, |row| self.side(row));
                if ask.purpose == BisectPurpose::Closing && side == HistoryAnswer::Bad {
                    self.last = Some((ask.after, is_slower));
                    return shown;
                }
                self.search.record(ask.after, side);
                side
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::row;
    use super::*;

    /// Searches where the commit at `culprit` costs a fifth; gives what was asked and how it ended.
    fn search(commits: usize, culprit: usize) -> (Vec<BisectAsk>, BisectNext) {
        let mut search = Bisection::new(commits, Metric::CpuPerRequest);
        let mut asked = Vec::new();
        loop {
            let BisectNext::Compare(ask) = search.next() else { return (asked, search.next()) };
            asked.push(ask);
            let differs = ask.before < culprit && culprit <= ask.after;
            let (verdict, ratio) = if differs { (Verdict::Slower, 1.2) } else { (Verdict::Equal, 1.0) };
            let row = row(Metric::CpuPerRequest, verdict, [ratio, ratio - 0.01, ratio + 0.01]);
            search.record(ask, Some(&row));
        }
    }

    #[test]
    fn a_commit_is_named_by_a_comparison_with_its_parent_and_none_is_made_twice() {
        let mut comparisons = 0;
        for culprit in 1..=200 {
            let (asked, end) = search(200, culprit);
            assert_eq!(end, BisectNext::Named(culprit));
            let last = asked.last().unwrap();
            assert_eq!([last.before, last.after], [culprit - 1, culprit]);
            let twice = |ask: &BisectAsk| {
                asked.iter().filter(|one| [one.before, one.after] == [ask.before, ask.after]).count() > 1
            };
            assert!(!asked.iter().any(twice), "{asked:?}");
            assert!(asked.len() <= HistorySearch::most_steps(200) as usize, "{asked:?}");
            comparisons += asked.len();
        }
        // On average fewer than log2 n + 2.
        assert!((comparisons as f64) / 200.0 <= 200_f64.log2() + 2.0, "{comparisons} comparisons");
        assert_eq!(search(1, 1).0.len(), 2);
    }

    #[test]
    fn what_cannot_be_told_apart_is_compared_as_a_range() {
        let mut search = Bisection::new(4, Metric::CpuPerRequest);
        let slower = row(Metric::CpuPerRequest, Verdict::Slower, [1.2, 1.19, 1.21]);
        let alike = row(Metric::CpuPerRequest, Verdict::Equal, [1.0, 0.99, 1.01]);
        // The first is good, the second and the third do not build.
        let mut asked = Vec::new();
        while let BisectNext::Compare(ask) = search.next() {
            asked.push(ask);
            search.record(
                ask,
                match ask.after {
                    1 => Some(&alike),
                    4 => Some(&slower),
                    _ => None,
                },
            );
        }
        assert_eq!(search.next(), BisectNext::Among(vec![2, 3, 4]));
        let last = asked.last().unwrap();
        assert_eq!((last.purpose, last.before, last.after), (BisectPurpose::Range, 1, 4));
        assert!(last.can_end() && search.is_settled(*last, &slower));
    }

    #[test]
    fn ends_that_are_alike_end_it_and_a_closing_comparison_that_shows_nothing_names_nothing() {
        let mut search = Bisection::new(3, Metric::CpuPerRequest);
        let BisectNext::Compare(ends) = search.next() else { panic!("the ends come first") };
        let alike = row(Metric::CpuPerRequest, Verdict::Equal, [1.0, 0.99, 1.01]);
        assert_eq!(search.clone().record(ends, Some(&alike)), HistoryAnswer::Open);
        search.record(ends, Some(&row(Metric::CpuPerRequest, Verdict::Slower, [1.2, 1.19, 1.21])));
        let BisectNext::Compare(closing) = search.next() else { panic!("a commit is asked about") };
        assert_eq!(closing.purpose, BisectPurpose::Closing);
        let undecided = row(Metric::CpuPerRequest, Verdict::Inconclusive, [1.2, 1.15, 1.3]);
        assert!(!search.is_settled(closing, &undecided), "its verdict is asked for, too");
        let mut other = search.clone();
        other.record(closing, Some(&undecided));
        assert_eq!(other.next(), BisectNext::NotShown(1));
        assert_eq!(search.record(closing, None), HistoryAnswer::Broken);
        let BisectNext::Compare(next) = search.next() else { panic!("the next commit is asked about") };
        assert_eq!((next.purpose, next.before, next.after), (BisectPurpose::Step, 0, 2));
    }
}
