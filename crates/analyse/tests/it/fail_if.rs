//! Conditions of `--fail-if` on runs whose figures are known.

use analyse::{FailIf, FailIfFindings, FailIfOutcome, Metric, Stored, foreseen};
use model::plan::{Blocks, Condition, Plan, Split, Turns};
use model::record::{Counts, DiagnosticRecord, Fitted, Pass, PassKind, Run, Slice};
use model::units::Span;

use crate::support::{analyse, arm, change, pair, run};

/// What comes of `text` on a run.
fn judge(run: &Run, text: &str) -> FailIfFindings {
    let condition = FailIf::parse(text, &run.manifest.plan).unwrap();
    let found = analyse(run).judged(run, &[condition], None);
    report::worded(found).into_inner().fail_if.remove(0)
}

fn outcomes(run: &Run, cases: &[(&str, FailIfOutcome)]) {
    for (text, outcome) in cases {
        let judged = judge(run, text);
        assert_eq!(judged.outcome, *outcome, "{judged:?}");
        assert_eq!((judged.condition.as_str(), judged.text.is_empty()), (*text, false), "{judged:?}");
    }
}

#[test]
fn verdicts_ratios_differences_and_values() {
    use FailIfOutcome::{DoesNotHold, Holds, Undecided};
    // 10 µs against 11 µs, p99 of an equal rate 20 times that; 8 MiB each.
    outcomes(
        &pair(1.1),
        &[
            ("pr slower", Holds),
            ("pr slower in cpu_per_request", Holds),
            ("pr faster", DoesNotHold),
            ("pr cpu_per_request > 1.05x", Holds),
            ("pr cpu > 1.2x", DoesNotHold),
            ("pr cpu > 1.1x", Undecided),
            ("pr cpu_per_request < 1.05x", DoesNotHold),
            ("pr cpu > +500ns", Holds),
            ("pr cpu > +2us", DoesNotHold),
            ("pr cpu < -1ns", DoesNotHold),
            ("pr cpu > 10500ns", Holds),
            ("main cpu > 10500ns", DoesNotHold),
            ("pr rss > 1.1x", DoesNotHold),
            ("pr rss >= 8MiB", Holds),
            ("pr rss > 9MiB", DoesNotHold),
            ("pr rate < 95k", Holds),
            ("pr rate < 95k/s", Holds),
            ("pr p50 > 1us", Holds),
            ("pr p50 > 1s", DoesNotHold),
        ],
    );
}

#[test]
fn counts_are_pooled_and_what_none_becomes_is_more() {
    use FailIfOutcome::{DoesNotHold, Holds};
    let mut switching = pair(1.0);
    change(&mut switching, "pr", 0, |window| window.target.voluntary_switches = window.load.requests / 2);
    outcomes(
        &switching,
        &[
            ("pr context_switches > +0.1", Holds),
            ("pr context_switches > +0.6", DoesNotHold),
            ("pr context_switches.voluntary > 1.05x", Holds),
            ("pr context_switches_involuntary > 1.05x", DoesNotHold),
        ],
    );
    let text = judge(&switching, "pr context_switches > +0.1").text;
    assert!(text.contains("0.500 a request against 0.000 a request of 'main', +0.500"), "{text}");
    assert!(text.contains("of 10 blocks"), "{text}");
}

/// A run of two arms of which writes were counted in turns of so many per request, each in a tenth of the turn.
fn counted_in_turns(writes: [[f64; 5]; 2]) -> Run {
    const REQUESTS: u64 = 10_000;
    let mut run = pair(1.0);
    for (arm, per_request) in ["main", "pr"].into_iter().zip(writes) {
        let round = run.rounds.iter().find(|record| record.arm == arm).unwrap();
        let mut window = round.windows[0].clone();
        (window.load.requests, window.target.cpu.total_ns) = (5 * REQUESTS, 500_000_000);
        window.slices = vec![Slice { requests: REQUESTS, ..Slice::default() }; per_request.len()];
        let turn = |calls: f64| Counts {
            syscalls: [("write".to_owned(), (calls * REQUESTS as f64) as u64)].into(),
            counted_share: 0.1,
            ..Counts::default()
        };
        let counts = Counts::of_turns(&per_request.map(turn));
        let pass = |kind, counts| Pass { counts, ..Pass::new(kind, window.clone()) };
        let passes = vec![pass(PassKind::Untouched, None), pass(PassKind::Counting, Some(counts))];
        run.diagnostics.push(DiagnosticRecord { passes, ..DiagnosticRecord::new(arm, 0) });
    }
    run
}

#[test]
fn counts_of_turns_that_differ_decide_no_small_difference() {
    use FailIfOutcome::{DoesNotHold, Holds, Undecided};
    let apart = counted_in_turns([[1.0, 1.1, 0.8, 1.0, 1.1], [1.2, 1.0, 0.9, 1.1, 1.1]]);
    outcomes(
        &apart,
        &[("pr writes > 1.05x", Undecided), ("pr writes > 2x", DoesNotHold), ("pr writes > 0.5", Holds)],
    );
    let text = judge(&apart, "pr writes > 1.05x").text;
    assert!(text.contains("1.060 times as much ±0.215") && text.contains("(95 %)"), "{text}");
    assert!(text.contains("5000 requests"), "those that were counted: {text}");
    let alike = counted_in_turns([[1.0; 5], [1.1; 5]]);
    outcomes(&alike, &[("pr writes > 1.05x", Holds), ("pr writes > 1.15x", DoesNotHold)]);
}

#[test]
fn what_was_not_measured_or_is_void_is_neither_true_nor_false() {
    // Nothing was watched: no system call was counted.
    for text in ["pr syscalls > 1.05x", "pr writes > 1", "pr writes < 1", "main syscalls > 1"] {
        let judged = judge(&pair(1.1), text);
        assert_eq!(judged.outcome, FailIfOutcome::NotMeasured, "{judged:?}");
        assert!(judged.text.contains("no watched turns"), "{judged:?}");
    }
    // One block has a ratio, and no interval that decides.
    let one = run(1, 1, &[arm("main", 10_000.0), arm("pr", 20_000.0)]);
    assert_eq!(judge(&one, "pr cpu > 1.05x").outcome, FailIfOutcome::Undecided);
    let mut different = pair(1.1);
    for record in different.rounds.iter_mut().filter(|record| record.arm == "pr") {
        record.answer.as_mut().unwrap().status = 404;
    }
    let voided =
        analyse(&different).gates.iter().any(|gate| !gate.ok && gate.voids.contains(&Metric::CpuPerRequest));
    assert!(voided, "an answer with another status is no comparison");
    for text in ["pr cpu > 1.05x", "pr cpu > 1ns", "pr context_switches > +0.1"] {
        assert_eq!(judge(&different, text).outcome, FailIfOutcome::Void, "{text}");
    }
}

#[test]
fn a_verdict_that_could_not_be_reached_is_no_pass() {
    use FailIfOutcome::{DoesNotHold, Holds, NotMeasured, Undecided, Void};
    // Every metric is void, since the answers differ.
    let mut different = pair(1.1);
    for record in different.rounds.iter_mut().filter(|record| record.arm == "pr") {
        record.answer.as_mut().unwrap().status = 404;
    }
    outcomes(
        &different,
        &[
            ("pr slower", Void),
            ("pr faster in cpu_per_request", Void),
            ("pr invalid", Holds),
            ("pr inconclusive", DoesNotHold),
        ],
    );
    // One block tells a ratio and decides nothing; there is no percentile of so few answers.
    let one = run(1, 1, &[arm("main", 10_000.0), arm("pr", 20_000.0)]);
    outcomes(
        &one,
        &[
            ("pr slower", Undecided),
            ("pr slower in cpu_per_request", Undecided),
            ("pr inconclusive", Holds),
            ("pr invalid", DoesNotHold),
        ],
    );
    let mut none = pair(1.1);
    none.rounds.clear();
    assert_eq!(judge(&none, "pr slower").outcome, NotMeasured);
    // One primary metric is decided, the other is void: the one that was decided stands for the arm.
    let mut late = pair(1.0);
    change(&mut late, "pr", 1, |window| window.load.send_lag_ns.p99 = Some(51_000));
    outcomes(&late, &[("pr slower", DoesNotHold), ("pr slower in p99", Void)]);
}

#[test]
fn a_wrong_condition_is_refused_with_what_was_meant() {
    let plan = pair(1.1).manifest.plan;
    let cases = [
        ("pr", "is not a condition"),
        ("pr p99 >", "'' is no time: write 10ms for p99 itself"),
        ("pr p99 > 20", "'20' is no time: write 20ms for p99 itself, 1.05x"),
        ("pr rss > x", "'x' is no size: write 64KiB for rss itself"),
        ("pr nosuch > 20", "known are cpu_per_request, rate, "),
        ("pr nosuch > 20", ", context_switches.voluntary, "),
        ("p99 > 20ms", "is not a condition"),
        ("or p99 > 20ms", "no 'or'; did you mean 'pr'?"),
        ("pr wirtes > 1", "did you mean 'writes'?"),
        ("pr sloower", "did you mean 'slower'?"),
        ("pr slower in p9", "did you mean 'p90'?"),
        ("pr p99 > 1.05", "'1.05' is no time: write 1.05ms"),
        ("pr writes > x", "'x' is no number: write 0.5"),
        ("main rss > 1.1x", "can never hold: 'main' is the baseline"),
    ];
    for (text, reason) in cases {
        let error = FailIf::parse(text, &plan).unwrap_err().to_string();
        assert!(error.contains(reason) && error.starts_with("--fail-if"), "{error}");
    }
}

#[test]
fn counts_are_held_against_a_stored_run_of_the_same_machine() {
    use FailIfOutcome::{DoesNotHold, Holds, Void};
    let switching = |share: u64| {
        let mut run = pair(1.1);
        change(&mut run, "pr", 0, |window| window.target.voluntary_switches = window.load.requests * share);
        run
    };
    let (before, after) = (switching(1), switching(3));
    let judge = |run: &Run, against: &Run, text: &str| {
        let plan = &run.manifest.plan;
        let conditions = [FailIf::parse(text, plan).unwrap()];
        let stored = Stored::new("kept", against, plan, &conditions).map_err(|error| error.to_string())?;
        let found = analyse(run).judged(run, &conditions, Some(&stored));
        Ok::<_, String>(report::worded(found).into_inner().fail_if.remove(0))
    };
    let text = "pr context_switches > 1.5x";
    for (run, against, outcome) in [(&after, &before, Holds), (&after, &after, DoesNotHold)] {
        let judged = judge(run, against, text).unwrap();
        assert_eq!(judged.outcome, outcome, "{judged:?}");
        assert!(judged.text.contains(" of 'pr in kept', "), "{judged:?}");
    }
    assert_eq!(judge(&after, &before, "pr rss > 1.1x").unwrap().outcome, DoesNotHold);
    let mut elsewhere = before.clone();
    elsewhere.host.cpus += 1;
    let judged = judge(&after, &elsewhere, text).unwrap();
    assert_eq!(judged.outcome, Void);
    assert!(judged.text.contains("kept is of another machine ("), "{judged:?}");

    let refused = |against: &Run, text: &str| judge(&after, against, text).unwrap_err();
    assert!(
        refused(&before, "pr cpu > 1.05x").contains("--against kept: no --fail-if holds a count against it")
    );
    assert!(refused(&before, "pr context_switches > 1").contains("no --fail-if holds a count"));
    let mut other = before.clone();
    other.manifest.plan.arms[1].name = "old".to_owned();
    assert!(refused(&other, text).contains("it has no arm 'pr', only main, old"));
    let mut other = before.clone();
    other.manifest.plan.workload.job.connections += 1;
    assert!(refused(&other, text).contains("it asked for something else: "));
}

/// What is said of conditions on a run of such a plan, fitted so, whose arms answer so many requests a second at most.
fn told(plan: &Plan, fitted: &Fitted, texts: &[&str], per_s: [f64; 2]) -> Vec<String> {
    let conditions: Vec<FailIf> = texts.iter().map(|text| FailIf::parse(text, plan).unwrap()).collect();
    foreseen(&conditions, plan, fitted, &per_s).iter().map(report::too_few_answers).collect()
}

#[test]
fn a_condition_for_which_there_will_be_too_few_answers_is_told_once_the_rates_are_known() {
    let mut plan = pair(1.0).manifest.plan;
    plan.workload.conditions = vec![Condition::Capacity, Condition::ShareOfSlowest { percent: 25 }];
    plan.design.blocks = Blocks::Fitted { fewest: 8, most: 32 };
    plan.design.turns = Turns::Slices { slice: None, cycles: None };
    // Eight turns of 50 ms under the second condition.
    let split = Some(Split { blocks: 12, cycles: 12, block_s: 1.0 });
    let fitted = Fitted { turn_ns: 50_000_000, split, ..Fitted::default() };
    let texts = ["pr p99 > 20ms", "pr slower in p50", "pr slower", "pr cpu > 1.05x", "pr max > 1s"];
    let quick = |per_s| told(&plan, &fitted, &texts, per_s);
    assert!(quick([400_000.0, 300_000.0]).is_empty(), "75 000 a second give 30 000 answers a block");
    assert!(quick([80_000.0, 60_000.0]).is_empty(), "of two blocks together 12 000, in six groups");
    let [one] = &quick([40_000.0, 45_000.0])[..] else { panic!("{:?}", quick([40_000.0, 45_000.0])) };
    assert_eq!(
        one,
        "--fail-if 'pr p99 > 20ms' cannot be judged by this run: at 10000 requests/s a block has about 4000 answers, and p99 needs \
         10000, in a block or in each of 6 groups of the 12 blocks: leave out --quick, or pass --window 2s, or ask for p90, for which \
         there are enough"
    );
    let slow = quick([400.0, 500.0]);
    let [p99, p50] = &slow[..] else { panic!("{slow:?}") };
    assert!(
        p99.ends_with("of the 12 blocks: ask for more requests a second (--equal-rates, --rate)"),
        "{p99}"
    );
    assert!(p50.contains("'pr slower in p50'") && p50.ends_with("blocks: pass --window 3s"), "{p50}");
    assert!(quick([0.0, 0.0]).is_empty(), "nothing is known of arms that failed");
}

#[test]
fn an_arm_alone_has_the_answers_of_its_window_and_without_equal_rates_those_at_its_capacity() {
    let mut plan = pair(1.0).manifest.plan;
    plan.workload.conditions = vec![Condition::Capacity];
    plan.design.blocks = Blocks::Fixed { blocks: 8 };
    plan.design.turns = Turns::Alone;
    plan.timing.window = Span(std::time::Duration::from_secs(10));
    let of = |per_s| told(&plan, &Fitted::default(), &["pr p99 > 20ms", "main p99 > 20ms"], per_s);
    assert!(of([1_000.0, 2_000.0]).is_empty());
    let found = of([900.0, 2_000.0]);
    let [main] = &found[..] else { panic!("{found:?}") };
    assert!(
        main.contains("'main p99 > 20ms'") && main.contains("pass --window 13s, or ask for p90"),
        "{main}"
    );
}
