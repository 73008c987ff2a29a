//! The five verdicts, the level they are given at, and the noise floor.

use analyse::{Metric, SECOND_BASELINE_SUFFIX, Verdict};
use model::plan::Blocks;
use model::record::{Failure, FailureKind, RunStatus};

use crate::support::{Behaves, analyse, arm, change, pair, row, run};

/// CPU of `pr` against that of `main`, spread, blocks, and what is then said of CPU per request and of the rate.
const CASES: [(f64, f64, u32, Verdict); 9] = [
    (1.10, 0.002, 10, Verdict::Slower),
    (0.90, 0.002, 10, Verdict::Faster),
    (1.00, 0.002, 10, Verdict::Equal),
    (1.03, 0.002, 6, Verdict::Slower),
    // A quarter of a per cent is named where it is clear, less is not.
    (1.005, 0.0005, 10, Verdict::Slower),
    (1.001, 0.0005, 10, Verdict::Equal),
    (1.00, 0.05, 10, Verdict::Inconclusive),
    // Five pairs attain no 95 %.
    (1.10, 0.002, 5, Verdict::Inconclusive),
    (1.10, 0.002, 1, Verdict::Inconclusive),
];

fn two(ratio: f64, jitter: f64) -> [Behaves; 2] {
    let with = |name, cpu_ns| Behaves { jitter, ..arm(name, cpu_ns) };
    [with("main", 10_000.0), with("pr", 10_000.0 * ratio)]
}

#[test]
fn each_difference_gets_its_verdict() {
    for (ratio, jitter, blocks, want) in CASES {
        for seed in 1..=3 {
            let findings = analyse(&run(seed, blocks, &two(ratio, jitter)));
            for metric in Metric::PRIMARY {
                let row = row(&findings, "pr", metric);
                let case = format!("seed {seed}, x{ratio} ± {jitter} in {blocks} blocks: {row:?}");
                assert_eq!(row.verdict, want, "{case}");
                assert_eq!(row.blocks, blocks, "{case}");
            }
        }
    }
}

/// Answers of each block of a quick run: enough for a p90, and a third of what a p99 takes.
const FEW: u64 = 4_000;

/// A run whose blocks have few answers at the equal rate, evenly spread from 100 µs to 200 µs and for `pr` a tenth longer.
fn with_few_answers(blocks: u32) -> model::record::Run {
    let mut run = run(1, blocks, &two(1.1, 0.002));
    for (name, longer) in [("main", 100), ("pr", 110)] {
        change(&mut run, name, 1, |window| {
            window.load.response_ns = testkit::percentiles(FEW, 150 * 10 * longer);
            let edges = (0..FEW).map(|n| longer * (1_000 + n * 1_000 / FEW) * 1_024 / 1_000);
            let mut buckets: Vec<[u64; 2]> = Vec::new();
            // 16 an octave.
            for edge in edges.map(|ns| ns >> (ns.ilog2() - 4) << (ns.ilog2() - 4)) {
                match buckets.last_mut() {
                    Some([last, count]) if *last == edge => *count += 1,
                    _ => buckets.push([edge, 1]),
                }
            }
            window.response_buckets = buckets;
        });
    }
    run
}

#[test]
fn a_percentile_for_which_a_block_has_too_few_answers_is_that_of_several() {
    let findings = analyse(&with_few_answers(25));
    let p99 = row(&findings, "pr", Metric::P99);
    assert_eq!(p99.blocks, 8, "groups of three, and the last block is left over: {p99:?}");
    assert!((p99.ratio.unwrap() - 1.1).abs() < 0.02, "{p99:?}");
    assert_eq!(row(&findings, "pr", Metric::P90).blocks, 25);
    let shown = findings.arms.iter().find(|arm| arm.name == "main").unwrap().latency_ns.p99.unwrap();
    assert!((shown / (199.0 * 1_024.0) - 1.0).abs() < 0.01, "{shown}");
    for (few, metric) in [(17, Metric::P99), (25, Metric::P999)] {
        let findings = analyse(&with_few_answers(few));
        let none = row(&findings, "pr", metric);
        assert_eq!((none.blocks, none.ratio), (0, None), "too few groups for an interval: {none:?}");
    }
}

#[test]
fn a_percentile_that_a_longer_first_block_alone_has_is_left_out() {
    let mut run = with_few_answers(8);
    for record in run.rounds.iter_mut().filter(|record| record.round.block == 0) {
        record.windows[1].load.response_ns = testkit::percentiles(12_000, 150_000);
    }
    let findings = analyse(&run);
    assert_eq!(row(&findings, "pr", Metric::P99).blocks, 0);
    let shown = &findings.arms.iter().find(|arm| arm.name == "main").unwrap().latency_ns;
    assert!(shown.p90.is_some() && shown.p99.is_none(), "{shown:?}");
}

#[test]
fn the_interval_is_around_the_truth() {
    let mut covered = 0;
    for seed in 1..=40 {
        let findings = analyse(&run(seed, 10, &two(1.1, 0.01)));
        let (cpu, rate) = (row(&findings, "pr", Metric::CpuPerRequest), row(&findings, "pr", Metric::Rate));
        let inside =
            |low: Option<f64>, truth: f64, high: Option<f64>| low.unwrap() <= truth && truth <= high.unwrap();
        covered += u32::from(inside(cpu.ci_low, 1.1, cpu.ci_high));
        assert!(
            (rate.ratio.unwrap() * cpu.ratio.unwrap() - 1.0).abs() < 0.001,
            "seed {seed}: the busy CPU is one"
        );
    }
    // At 95 % fewer than 33 of 40 is a chance of one in five hundred; the seeds are fixed.
    assert!(covered >= 33, "{covered} of 40 intervals cover the truth");
}

#[test]
fn latency_is_compared_at_the_equal_rate_only() {
    let findings = analyse(&pair(1.1));
    assert_eq!(findings.latency_condition.as_deref(), Some("20000 requests/s"));
    assert_eq!(row(&findings, "pr", Metric::P50).verdict, Verdict::Slower);
    let mut closed = pair(1.1);
    closed.manifest.plan.workload.conditions.truncate(1);
    closed.rounds.iter_mut().for_each(|record| record.windows.truncate(1));
    let findings = analyse(&closed);
    assert!(findings.comparisons.iter().all(|row| !row.metric.is_latency()));
    assert_eq!(findings.latency_condition, None);
}

#[test]
fn a_percentile_that_a_window_had_too_few_requests_for_is_not_compared() {
    let mut run = pair(1.1);
    change(&mut run, "pr", 1, |window| window.load.response_ns.p99 = None);
    let row = row(&analyse(&run), "pr", Metric::P99).clone();
    assert_eq!((row.blocks, row.ratio, row.verdict), (0, None, Verdict::Inconclusive));
}

#[test]
fn primary_metrics_share_one_level_by_holm() {
    let level = |findings: &analyse::Findings, arm: &str, metric| row(findings, arm, metric).level.unwrap();
    let findings = analyse(&pair(1.1));
    let mut primary = Metric::PRIMARY.map(|metric| level(&findings, "pr", metric));
    primary.sort_by(f64::total_cmp);
    assert!(primary[0] >= 0.95 && primary[0] < 0.975, "the last of two: {primary:?}");
    assert!(primary[1] >= 0.975, "the first of two: {primary:?}");
    let exploratory = level(&findings, "pr", Metric::P50);
    assert!((0.95..0.975).contains(&exploratory), "{exploratory}");

    let three = analyse(&run(1, 10, &[arm("main", 1e4), arm("b", 1.1e4), arm("c", 1.2e4)]));
    let strictest =
        three.comparisons.iter().filter(|row| row.primary).filter_map(|row| row.level).reduce(f64::max);
    assert!(strictest.unwrap() >= 1.0 - 0.05 / 4.0, "the first of four: {strictest:?}");
}

#[test]
fn a_voided_metric_leaves_the_family() {
    let mut run = pair(1.1);
    change(&mut run, "pr", 0, |window| window.load.per_connection.jain = 0.5);
    let seldom = analyse(&run);
    assert_eq!(row(&seldom, "pr", Metric::Rate).verdict, Verdict::Slower, "all are served, some seldom");
    change(&mut run, "pr", 0, |window| window.load.per_connection.min = 0);
    let findings = analyse(&run);
    assert_eq!(row(&findings, "pr", Metric::Rate).verdict, Verdict::Invalid);
    let cpu = row(&findings, "pr", Metric::CpuPerRequest);
    assert_eq!(cpu.verdict, Verdict::Slower);
    assert!(cpu.level.unwrap() < 0.975, "alone it has the whole level: {:?}", cpu.level);
}

#[test]
fn the_noise_floor_comes_from_the_rounds_themselves_or_from_a_second_baseline() {
    let findings = analyse(&run(1, 10, &two(1.0, 0.01)));
    let within = row(&findings, "pr", Metric::CpuPerRequest);
    assert_eq!(within.noise_floor_from.as_deref(), Some("within_run"));
    // Uniform within ±1 %: 1.96 · √2 · 0.01/√3 / √10 = 0.5 %.
    assert!((0.003..0.008).contains(&within.noise_floor.unwrap()), "{:?}", within.noise_floor);

    assert_eq!(SECOND_BASELINE_SUFFIX, "_again");
    let [main, pr] = two(1.0, 0.01);
    let mut rigorous = run(1, 10, &[main, pr, Behaves { name: "main_again", ..main }]);
    rigorous.manifest.plan.design.second_baseline = true;
    let findings = analyse(&rigorous);
    let second = row(&findings, "pr", Metric::CpuPerRequest);
    assert_eq!(second.noise_floor_from.as_deref(), Some("second_baseline"));
    assert!((0.002..0.012).contains(&second.noise_floor.unwrap()), "{:?}", second.noise_floor);
}

#[test]
fn rounds_that_were_not_steady_are_told() {
    let mut run = pair(1.0);
    run.rounds.iter_mut().filter(|record| record.arm == "pr").take(3).for_each(|r| r.warmup.steady = false);
    let want = "'pr' was not steady when 3 of its 10 blocks began: raise --warmup-cap";
    assert_eq!(analyse(&run).warnings, [want]);
}

#[test]
fn a_run_that_did_not_end_is_analysed_and_says_so() {
    let cases = [
        (RunStatus::Complete, None),
        (RunStatus::Partial, Some("interrupted after block 6: figures are of what was measured")),
        (RunStatus::Running, Some("not ended (killed, or still running) after block 6")),
    ];
    for (status, want) in cases {
        let mut run = pair(1.1);
        run.rounds.truncate(13);
        run.manifest.status = status;
        let findings = analyse(&run);
        assert_eq!(findings.partial.as_deref(), want);
        assert_eq!(row(&findings, "pr", Metric::CpuPerRequest).blocks, 6);
    }
}

#[test]
fn a_run_without_any_round_is_analysed_too() {
    let mut run = pair(1.0);
    run.rounds.clear();
    run.manifest.status = RunStatus::Running;
    let findings = analyse(&run);
    let want = "not ended (killed, or still running) before the first block";
    assert_eq!(findings.partial.as_deref(), Some(want));
    assert!(findings.arms.iter().all(|arm| !arm.ok && arm.rounds == 0));
    assert!(findings.comparisons.iter().all(|row| row.verdict == Verdict::Inconclusive && row.blocks == 0));
}

#[test]
fn the_same_run_gives_the_same_findings() {
    for blocks in [Blocks::Fixed { blocks: 10 }, Blocks::Looks { first: 8, max: 24 }] {
        let mut run = run(9, 10, &two(1.01, 0.02));
        run.manifest.plan.design.blocks = blocks;
        assert_eq!(analyse(&run), analyse(&run.clone()));
    }
}

#[test]
fn a_round_in_which_an_arm_failed_is_listed_with_its_reason() {
    let mut run = run(1, 8, &[arm("main", 10_000.0), arm("pr", 10_000.0)]);
    assert!(analyse(&run).void_rounds.is_empty());
    let last = run.rounds.last_mut().unwrap();
    last.failure = Some(Failure {
        kind: FailureKind::Crashed,
        text: "it ended with signal 9".to_owned(),
        log: Vec::new(),
    });
    let (name, block) = (last.arm.clone(), last.round.block);
    let found = analyse(&run).void_rounds;
    assert_eq!(found.len(), 1);
    assert_eq!((&found[0].arm, found[0].block, found[0].reason.gate), (&name, block, FailureKind::Crashed));
    assert_eq!(found[0].reason.text, "it ended with signal 9");
}

#[test]
fn an_interval_is_wider_where_neighbouring_blocks_go_together() {
    let half = |dear: fn(u32) -> bool| {
        let mut run = run(1, 24, &two(1.0, 0.002));
        for record in run.rounds.iter_mut().filter(|record| record.arm == "pr" && dear(record.round.block)) {
            let cpu = &mut record.windows[0].target.cpu;
            cpu.total_ns = cpu.total_ns / 100 * 103;
        }
        let findings = analyse(&run);
        let row = row(&findings, "pr", Metric::CpuPerRequest);
        (row.half_width().unwrap(), row.bias.of.iter().map(|source| source.what.clone()).collect::<Vec<_>>())
    };
    // Half of the blocks 3 % dearer: now and then, or all those of the second half.
    let (scattered, nothing) = half(|block| (block * 5) % 8 < 4);
    let (slow, changes) = half(|block| block >= 12);
    assert_eq!((nothing.len(), changes), (0, vec!["slow changes".to_owned()]));
    assert!(slow > 1.8 * scattered, "{slow} {scattered}");
}
