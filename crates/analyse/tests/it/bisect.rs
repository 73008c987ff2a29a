//! Comparisons of a search through a history, of runs with three arms.

use analyse::{BisectAsk, BisectNext, BisectPurpose, Bisection, Halfway, Metric};
use model::plan::{Blocks, HistoryAnswer};
use model::record::{Failure, FailureKind, Run};

use crate::support::{Behaves, analyse, arm, row, run};

/// A search through two commits whose ends differ by a fifth, and its last comparison.
fn search() -> (Bisection, BisectAsk) {
    let ends = analyse(&run(1, 10, &[arm("good", 10_000.0), arm("bad", 12_000.0)]));
    let mut search = Bisection::new(2, Metric::CpuPerRequest);
    search.recall_ends(Halfway::to(row(&ends, "bad", Metric::CpuPerRequest)));
    let BisectNext::Compare(ask) = search.next() else { panic!("{search:?}") };
    assert_eq!((ask.purpose, &ask.places[..]), (BisectPurpose::Last, &[0, 1, 2][..]));
    (search, ask)
}

/// The good commit, and two behind it that cost so many nanoseconds a request.
fn three([first, second]: [f64; 2], jitter: f64) -> Run {
    let noisy = |name, cpu_ns| Behaves { jitter, ..arm(name, cpu_ns) };
    run(1, 8, &[noisy("good", 10_000.0), noisy("first", first), noisy("second", second)])
}

#[test]
fn each_commit_of_the_last_comparison_is_held_against_the_one_before_it() {
    for (costs, culprit) in [([12_000.0, 12_000.0], 1), ([10_000.0, 12_000.0], 2)] {
        let (mut search, ask) = search();
        let pairs = search.pairs(&ask, &three(costs, 0.002));
        let places: Vec<_> = pairs.iter().map(|pair| [pair.before, pair.after]).collect();
        assert_eq!(places, [[0, 1], [0, 2], [1, 2]]);
        let told = search.record(&ask, &pairs);
        assert_eq!(search.next(), BisectNext::Named(culprit));
        let found = told.last().unwrap();
        let pair = found.pair.row.as_ref().unwrap();
        assert_eq!([&pair.baseline, &pair.arm], [["good", "first"], ["first", "second"]][culprit - 1]);
        assert!((pair.ratio.unwrap() - 1.2).abs() < 0.01 && pair.blocks == 8, "{pair:?}");
    }
}

#[test]
fn a_commit_that_fails_leaves_the_others_to_be_compared() {
    let (mut search, ask) = search();
    let mut broken = three([12_000.0, 12_000.0], 0.002);
    let failed = broken.rounds.iter_mut().find(|record| record.arm == "first").unwrap();
    let text = "it ended".to_owned();
    failed.failure = Some(Failure { kind: FailureKind::Crashed, text, log: Vec::new() });
    let told = search.record(&ask, &search.pairs(&ask, &broken));
    assert_eq!(search.next(), BisectNext::Among(vec![1, 2]));
    let answers: Vec<_> = told.iter().map(|told| (told.pair.after, told.answer)).collect();
    assert_eq!(answers, [(1, HistoryAnswer::Broken), (2, HistoryAnswer::Bad)]);
}

#[test]
fn the_last_comparison_goes_on_while_neither_commit_is_told() {
    let (search, ask) = search();
    for (costs, jitter, next) in [([10_000.0, 12_000.0], 0.002, None), ([10_000.0, 12_000.0], 0.3, Some(14))]
    {
        let mut run = three(costs, jitter);
        run.manifest.plan.design.blocks = Blocks::Looks { first: 8, max: 24 };
        assert_eq!(search.extend_to(&ask, &run), next, "{jitter}");
    }
}
