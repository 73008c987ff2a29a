//! What a page draws: rounds in order, curves by percentile, and findings for each choice of the baseline.

use analyse::{Metric, analyse, analyse_each_baseline, course, detail, host_difference, unjudged};
use model::record::Host;

use crate::support::{arm, run};

#[test]
fn each_round_keeps_its_place_and_the_values_that_its_verdict_rests_on() {
    let run = run(3, 6, &[arm("main", 10_000.0), arm("pr", 11_000.0)]);
    let detail = detail(&run);
    assert_eq!(detail.rounds.len(), run.rounds.len());
    for (round, record) in detail.rounds.iter().zip(&run.rounds) {
        assert_eq!(
            (round.block, round.position, &round.arm),
            (record.round.block, record.round.position, &record.arm)
        );
        assert_eq!(round.windows.len(), record.windows.len());
        assert_eq!(
            round.windows[0].values[&Metric::CpuPerRequest],
            Metric::CpuPerRequest.value_in(&record.windows[0]).unwrap()
        );
    }
    // The pairs of the verdict are those of the rounds drawn.
    let findings = analyse(&run);
    let row = findings.comparisons.iter().find(|row| row.metric == Metric::CpuPerRequest).unwrap();
    let value = |block: u32, arm: &str| {
        let round = detail.rounds.iter().find(|round| round.block == block && round.arm == arm).unwrap();
        round.windows[0].values[&Metric::CpuPerRequest]
    };
    for (block, ln) in &row.pairs {
        assert!((ln - (value(*block, "pr") / value(*block, "main")).ln()).abs() < 1e-12);
    }
}

#[test]
fn a_percentile_that_one_round_lacks_is_left_out() {
    let mut run = run(4, 6, &[arm("main", 10_000.0), arm("pr", 10_000.0)]);
    let shares = |run: &model::record::Run| {
        let curve =
            detail(run).latency.into_iter().find(|curve| curve.arm == "pr" && !curve.closed_loop).unwrap();
        curve.points.iter().map(|point| point.quantile).collect::<Vec<_>>()
    };
    assert!(shares(&run).contains(&0.99));
    let record = run.rounds.iter_mut().find(|record| record.arm == "pr").unwrap();
    record.windows[1].load.response_ns.p99 = None;
    assert!(!shares(&run).contains(&0.99));
    assert!(shares(&run).contains(&0.5));
}

#[test]
fn the_band_of_a_curve_holds_its_median_and_reaches_the_extreme_rounds() {
    let mut run = run(5, 6, &[arm("main", 10_000.0), arm("pr", 10_000.0)]);
    for (index, record) in run.rounds.iter_mut().filter(|record| record.arm == "pr").enumerate() {
        record.windows[1].load.response_ns.p50 = Some(1000 + 100 * index as u64);
    }
    let curve =
        detail(&run).latency.into_iter().find(|curve| curve.arm == "pr" && !curve.closed_loop).unwrap();
    let point = curve.points[0];
    assert_eq!((point.low_ns, point.ns, point.high_ns, point.rounds), (1000.0, 1250.0, 1500.0, 6));
}

#[test]
fn each_arm_can_be_the_baseline_and_two_choices_agree() {
    let run = run(6, 10, &[arm("a", 10_000.0), arm("b", 11_000.0), arm("c", 12_000.0)]);
    let all = analyse_each_baseline(&run);
    let names: Vec<&str> = all.iter().map(|findings| findings.baseline.as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert_eq!(all[0], analyse(&run), "the plan's own baseline comes first and is unchanged");
    let ratio = |baseline: usize, arm: &str| {
        let rows = &all[baseline].comparisons;
        rows.iter().find(|row| row.arm == arm && row.metric == Metric::CpuPerRequest).unwrap().ratio.unwrap()
    };
    assert!((ratio(0, "b") * ratio(1, "a") - 1.0).abs() < 1e-9, "a over b is one over b over a");
}

#[test]
fn the_interval_of_a_course_narrows_around_the_ratio() {
    let findings = analyse(&run(7, 30, &[arm("main", 10_000.0), arm("pr", 11_000.0)]));
    let row = findings.comparisons.iter().find(|row| row.metric == Metric::CpuPerRequest).unwrap();
    let points = course(row);
    let pairs: Vec<u32> = points.iter().map(|point| point.pairs).collect();
    assert_eq!(pairs, (3..=30).collect::<Vec<_>>());
    assert!(
        points.iter().all(|point| point.level >= 0.95 && point.exact == (point.pairs >= 6)),
        "{points:?}"
    );
    let wide = |pairs: usize| points[pairs - 3].ci_high - points[pairs - 3].ci_low;
    assert!(wide(3) > wide(6) && wide(6) > wide(12) && wide(12) > wide(30), "{points:?}");
    let last = points.last().unwrap();
    assert_eq!(Some(last.ratio), row.ratio);
    // The verdict is of a family of two, and its level the higher for it.
    assert!(
        row.ci_low.unwrap() <= last.ci_low && last.ci_high <= row.ci_high.unwrap(),
        "{last:?} in {row:?}"
    );
    assert!(course(&analyse::Comparison { pairs: Vec::new(), ..row.clone() }).is_empty());
}

#[test]
fn rounds_without_their_plan_are_as_they_ran_and_not_judged() {
    let run = run(8, 2, &[arm("main", 10_000.0), arm("pr", 10_000.0)]);
    let alone = unjudged(&run.rounds);
    assert_eq!(alone.len(), 4);
    assert!(alone.iter().all(|round| round.void.is_none()));
    assert_eq!(alone[0].windows, detail(&run).rounds[0].windows);
}

#[test]
fn unlike_hosts_are_told_apart_by_name() {
    let host = Host { cpu_model: "one".to_owned(), kernel: "6.1".to_owned(), ..Host::default() };
    assert_eq!(host_difference(&host, &host), [""; 0]);
    let mut other = Host { kernel: "6.2".to_owned(), ..host.clone() };
    other.sysctls.insert("net.core.somaxconn".to_owned(), "128".to_owned());
    assert_eq!(
        host_difference(&host, &other),
        ["kernel: 6.1 against 6.2", "setting net.core.somaxconn: none against 128"]
    );
}
