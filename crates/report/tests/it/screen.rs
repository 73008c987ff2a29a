//! The first screen, whole, on findings of each kind.

mod why;

use analyse::{
    ArmFindings, BiasFindings, BiasSource, Cause, Comparison, Findings, GateSays, Grade, LedgerLine, Metric,
    Verdict,
};
use model::plan::{CauseId, GateId};
use report::{SCREEN_COLUMNS, Style};

use crate::support::{cause, comparison, findings, findings_text, gate, ledger_line, row, split};

const BASELINE: &str = "threads";

/// An arm with its CPU per request in nanoseconds, and the ratio with its ends.
type Arm<'a> = (&'a str, f64, [f64; 3], Verdict);

/// Findings on arms of which CPU, rate and latency were compared, without a cause.
fn run(arms: &[Arm]) -> Findings {
    let mut found = findings();
    found.baseline = BASELINE.to_owned();
    found.arms = vec![row(BASELINE, 10_400.0)];
    found.latency_condition = Some("35000 requests/s".to_owned());
    found.comparisons.clear();
    for (name, cpu_ns, ends, verdict) in arms {
        found.arms.push(row(name, *cpu_ns));
        found.comparisons.push(compared(name, Metric::CpuPerRequest, *verdict, *ends));
        let [ratio, low, high] = *ends;
        found.comparisons.push(compared(name, Metric::Rate, *verdict, [1.0 / ratio, 1.0 / high, 1.0 / low]));
        found.comparisons.push(compared(name, Metric::P50, Verdict::Equal, [1.0, 0.99, 1.01]));
        found.comparisons.push(compared(name, Metric::P99, Verdict::Inconclusive, [1.0, 0.9, 1.1]));
    }
    found.gates = vec![gate(GateId::Parity, true, &[])];
    found.warnings.clear();
    (found.causes, found.ledger, found.splits) = (Vec::new(), Vec::new(), Vec::new());
    found.took_ns = 48_000_000_000;
    found.next = None;
    found
}

fn compared(arm: &str, metric: Metric, verdict: Verdict, [ratio, low, high]: [f64; 3]) -> Comparison {
    Comparison {
        ratio: Some(ratio),
        ci_low: Some(low),
        ci_high: Some(high),
        blocks: 6,
        noise_floor: Some(0.004),
        blocks_needed: None,
        undecided_by: None,
        ..comparison(BASELINE, arm, metric, verdict)
    }
}

/// A cause of the gap of an arm, in nanoseconds per request.
fn of_gap(arm: &str, id: &str, grade: Grade, ns: f64, gap: f64) -> Cause {
    Cause { ns_per_request: ns, share: Some(ns / gap), ..cause(BASELINE, arm, id, grade) }
}

fn counted(arm: &str, id: &str, from: f64, to: f64) -> LedgerLine {
    LedgerLine { id: id.to_owned(), baseline: from, value: to, change: to - from, ..ledger_line(arm) }
}

fn slower() -> Findings {
    let mut found = run(&[("pr", 11_900.0, [1.144, 1.13, 1.16], Verdict::Slower)]);
    found.causes = vec![
        of_gap("pr", "user_time", Grade::AccountsFor, 1000.0, 1500.0),
        of_gap("pr", "context_switches", Grade::ConfirmedBy, 900.0, 1500.0),
        of_gap("pr", "small_writes", Grade::BoundedBy, 300.0, 1500.0),
        of_gap("pr", "allocation", Grade::ConsistentWith, 200.0, 1500.0),
        of_gap("pr", "kernel_memory", Grade::RuledOut, 1.0, 1500.0),
        of_gap("pr", "extra_syscalls", Grade::RuledOut, 1.0, 1500.0),
    ];
    found.ledger = vec![
        counted("pr", "voluntary_switches", 0.002, 0.98),
        counted("pr", "involuntary_switches", 0.0, 0.001),
        counted("pr", "syscall:write", 1.0, 2.0),
    ];
    found.next = Some(
        "take 'context_switches' away from both, and measure again (--confirm)\nwhyslow compare threads pr --confirm"
            .to_owned(),
    );
    found
}

/// Longest name that an arm may have, with what a terminal would act on.
const NASTY: &str = "a-name-as-long-as-a-name-may-be-\u{1b}[31m-1234567890123456789012345";

/// Findings in which everything has something to say, on so many arms.
fn full(arms: usize, name: impl Fn(usize) -> String) -> Findings {
    let names: Vec<String> = (1..arms).map(name).collect();
    let rows: Vec<Arm> =
        names.iter().map(|name| (name.as_str(), 11_900.0, [1.144, 1.13, 1.16], Verdict::Slower)).collect();
    let mut found = run(&rows);
    for name in &names {
        for (id, ns) in
            [("context_switches", 600.0), ("small_writes", 300.0), ("copying", 200.0), ("gc", 100.0)]
        {
            found.causes.push(of_gap(name, id, Grade::BoundedBy, ns, 1500.0));
        }
        found.causes.push(of_gap(name, "allocation", Grade::ConsistentWith, -300.0, 1500.0));
        let of_kernel = CauseId::ALL.iter().filter(|id| id.name().starts_with("kernel_"));
        let ruled_out = of_kernel.map(|id| of_gap(name, id.name(), Grade::RuledOut, 1.0, 1500.0));
        found.causes.extend(ruled_out);
        found.ledger.push(counted(name, "voluntary_switches", 0.002, 0.98));
    }
    for row in found.comparisons.iter_mut().filter(|row| row.metric != Metric::CpuPerRequest) {
        (row.verdict, row.ratio) = (Verdict::Slower, Some(3.0));
        (row.ci_low, row.ci_high) = (Some(2.9), Some(3.1));
    }
    for (index, arm) in found.arms.iter_mut().enumerate() {
        arm.limiter = Some(format!(
            "a wait, not its CPU ({index} % busy): its threads wait for the disk ({})",
            "x".repeat(90)
        ));
    }
    found.partial = Some("interrupted in block 7".to_owned());
    found.warnings = vec!["something that the reader must know".to_owned()];
    let failed = [GateId::Errors, GateId::Little, GateId::Stall, GateId::Wire, GateId::Host];
    found.gates = failed.into_iter().map(|id| gate(id, false, &[Metric::P50])).collect();
    found.gates[0].text = "what it saw ".repeat(20);
    found.next = Some(format!(
        "a reason that is long {}\nwhyslow compare {} --blocks 99",
        "and longer ".repeat(20),
        "word ".repeat(60)
    ));
    found.comparisons[0].bias.of =
        vec![BiasSource { what: "other processes".to_owned(), low: 0.01, high: 0.02 }];
    found
}

#[test]
fn the_lines_are_few_and_short_however_much_there_is_to_say() {
    let names: [fn(usize) -> String; 2] = [|index| format!("arm{index}"), |index| format!("{NASTY}{index}")];
    for (arms, name) in (2..=6).flat_map(|arms| names.map(|name| (arms, name))) {
        let text = findings_text(&full(arms, name), Style::Plain);
        let most = 20 + 5 * (arms - 2);
        assert!(
            text.lines().count() <= most,
            "{} lines of {most} for {arms} arms:\n{text}",
            text.lines().count()
        );
        for line in text.lines() {
            assert!(line.chars().count() <= SCREEN_COLUMNS, "{} columns: {line}", line.chars().count());
            assert!(!line.chars().any(char::is_control), "{line:?}");
            assert_eq!(line, line.trim_end());
        }
        assert!(
            text.contains("Limits   ") && text.contains("Trust    ") && text.contains("Next     "),
            "{text}"
        );
    }
}

#[test]
fn names_that_are_too_long_stay_apart() {
    let text = findings_text(&full(3, |index| format!("{NASTY}{index}")), Style::Plain);
    assert!(text.contains("23451 ") && text.contains("23452 "), "{text}");
}

#[test]
fn a_number_and_its_unit_stay_together() {
    for width in 0..60 {
        let mut found = full(6, |index| format!("{}{index}", "n".repeat(1 + width % 17)));
        found.latency_condition = Some(format!("{} 35000 requests/s", "x".repeat(width)));
        for line in findings_text(&found, Style::Plain).lines() {
            let first = line.split_whitespace().next().unwrap_or_default();
            assert!(!["%", "µs", "ns", "k", "k/s", "requests/s"].contains(&first), "{line}");
        }
    }
}

#[test]
fn colour_is_of_the_verdict_alone_and_moves_nothing() {
    let painted = |verdict: Verdict, ends: [f64; 3]| {
        let found = run(&[("faster", 11_900.0, ends, verdict)]);
        let [plain, colour] = [Style::Plain, Style::Colour].map(|style| findings_text(&found, style));
        let without = ["\u{1b}[31m", "\u{1b}[32m", "\u{1b}[33m", "\u{1b}[0m"]
            .iter()
            .fold(colour.clone(), |text, code| text.replace(code, ""));
        assert_eq!(without, plain);
        colour
    };
    let dearer = painted(Verdict::Slower, [1.144, 1.13, 1.16]);
    assert!(dearer.starts_with("faster  \u{1b}[31m1.14x dearer\u{1b}[0m than threads"), "{dearer:?}");
    let cheaper = painted(Verdict::Faster, [0.5, 0.49, 0.51]);
    assert!(cheaper.starts_with("faster  \u{1b}[32m2.00x cheaper\u{1b}[0m than threads"), "{cheaper:?}");
    let void = painted(Verdict::Invalid, [1.0, 0.9, 1.1]);
    assert!(void.starts_with("faster  \u{1b}[33mno verdict\u{1b}[0m: "), "{void:?}");
    assert!(!painted(Verdict::Equal, [1.0, 0.99, 1.01]).contains('\u{1b}'));
}

fn says(found: &Findings, want: &str) {
    let text = findings_text(found, Style::Plain);
    assert!(text == want.trim_start_matches('\n'), "it says\n{text}");
}

#[test]
fn slower_with_three_causes() {
    says(
        &slower(),
        "
pr  1.14x dearer than threads  [1.13, 1.16]   CPU per request 10.4 → 11.9 µs
rate at capacity 94.2 k → 82.4 k/s; latency at 35000 requests/s: no difference shown (p50, p99)

Why pr costs 1.5 µs more a request
     0.9 µs   60 %  context switches, 0.002 → 0.98 a request (threads sleep and are woken)    proved
     0.3 µs   20 %  answers sent in more writes, 1.00 → 2.00 a request                        likely
     0.2 µs   13 %  allocating and freeing memory                                             likely
     0.1 µs    7 %  not explained
   not it: page faults, more system calls

Limits   each: its CPU (98 % of 1 busy)
Trust    6 blocks in 48 s, noise floor 0.4 %; everything checked held
Next     whyslow compare threads pr --confirm
         proves the cause by taking it away from both, where that can be done from outside
More     whyslow report whyslow-runs/20260102-030405-9f3c   the page
         whyslow analyse whyslow-runs/20260102-030405-9f3c --details
",
    );
}

#[test]
fn equal() {
    says(
        &run(&[("pr", 10_420.0, [1.002, 0.996, 1.006], Verdict::Equal)]),
        "
pr  no difference from threads  [−0.4 %, +0.6 %]   CPU per request 10.4 → 10.4 µs
rate at capacity 94.2 k → 94.0 k/s; latency at 35000 requests/s: no difference shown (p50, p99)

Limits   each: its CPU (98 % of 1 busy)
Trust    6 blocks in 48 s, noise floor 0.4 %; everything checked held
More     whyslow report whyslow-runs/20260102-030405-9f3c   the page
         whyslow analyse whyslow-runs/20260102-030405-9f3c --details
",
    );
}

#[test]
fn inconclusive() {
    let mut found = run(&[("pr", 10_500.0, [1.01, 0.988, 1.034], Verdict::Inconclusive)]);
    found.comparisons[0].blocks_needed = Some(40);
    found.next = Some(
        "--blocks 40 would decide at this spread, in about 6 min\nwhyslow compare threads pr --blocks 40"
            .to_owned(),
    );
    says(
        &found,
        "
pr  not decided against threads: 1.2 % cheaper to 3.4 % dearer; 40 blocks would decide
rate at capacity 94.2 k → 93.3 k/s (not decided)
latency at 35000 requests/s: no difference shown (p50, p99)

Limits   each: its CPU (98 % of 1 busy)
Trust    6 blocks in 48 s, noise floor 0.4 %; everything checked held
Next     whyslow compare threads pr --blocks 40
         --blocks 40 would decide at this spread, in about 6 min
More     whyslow report whyslow-runs/20260102-030405-9f3c   the page
         whyslow analyse whyslow-runs/20260102-030405-9f3c --details
",
    );
}

#[test]
fn invalid_by_parity() {
    let mut found = run(&[("pr", 10_500.0, [1.01, 1.0, 1.02], Verdict::Invalid)]);
    found.comparisons.iter_mut().for_each(|row| {
        row.verdict = Verdict::Invalid;
        row.void_by = vec![GateId::Parity];
    });
    found.gates = vec![analyse::Gate {
        text: "'pr' does not answer as 'threads': status 404 instead of 200; make them alike, or pass \
               --allow-difference to go on"
            .to_owned(),
        arm: Some("pr".to_owned()),
        ..gate(GateId::Parity, false, &Metric::ALL)
    }];
    says(
        &found,
        "
pr  no verdict: gate parity failed; make the answers alike, or pass --allow-difference

Limits   each: its CPU (98 % of 1 busy)
Trust    6 blocks in 48 s
         parity: 'pr' does not answer as 'threads': status 404 instead of 200
More     whyslow report whyslow-runs/20260102-030405-9f3c   the page
         whyslow analyse whyslow-runs/20260102-030405-9f3c --details
",
    );
}

#[test]
fn rate_void_but_cpu_decided() {
    let mut found = run(&[("pr", 11_900.0, [1.144, 1.13, 1.16], Verdict::Slower)]);
    found.comparisons[1].verdict = Verdict::Invalid;
    found.comparisons[1].void_by = vec![GateId::Generator];
    found.comparisons[0].bias = BiasFindings {
        low: 0.011,
        high: 0.011,
        of: vec![BiasSource { what: "other processes".to_owned(), low: 0.011, high: 0.011 }],
    };
    let text = "at capacity 'pr' was 62.0 % busy while the generator was 99.8 % busy: the rate is the generator's. Give it \
                more CPUs (--load-cpus) or use --pipeline; CPU per request stands";
    found.gates.push(analyse::Gate {
        text: text.to_owned(),
        arm: Some("pr".to_owned()),
        ..gate(GateId::Generator, false, &[Metric::Rate])
    });
    says(
        &found,
        "
pr  1.14x dearer than threads  [1.13, 1.16]   CPU per request 10.4 → 11.9 µs
rate at capacity: no verdict (gate generator failed)
latency at 35000 requests/s: no difference shown (p50, p99)

Limits   each: its CPU (98 % of 1 busy)
Trust    6 blocks in 48 s, interval ±1.3 %, of which ±1.1 % for other processes
         check generator of pr voids rate: more CPUs for it (--load-cpus), or a lower rate
More     whyslow report whyslow-runs/20260102-030405-9f3c   the page
         whyslow analyse whyslow-runs/20260102-030405-9f3c --details
",
    );
}

fn three() -> Findings {
    let mut found = run(&[
        ("futures", 6_880.0, [0.658, 0.606, 0.746], Verdict::Faster),
        ("coroutines", 6_190.0, [0.588, 0.571, 0.667], Verdict::Faster),
    ]);
    for (arm, gap) in [("futures", -3_520.0), ("coroutines", -4_210.0)] {
        found.causes.push(of_gap(arm, "context_switches", Grade::BoundedBy, gap * 0.92, gap));
        found.causes.push(of_gap(arm, "kernel_memory", Grade::RuledOut, -1.0, gap));
        found.ledger.push(counted(arm, "voluntary_switches", 0.98, 0.002));
    }
    found
}

#[test]
fn three_arms() {
    says(
        &three(),
        "
futures     1.52x cheaper than threads  [1.34, 1.65]   CPU per request 10.4 → 6.88 µs
coroutines  1.70x cheaper than threads  [1.50, 1.75]   CPU per request 10.4 → 6.19 µs
rate at capacity 94.2 k → 142 k, 158 k/s
latency at 35000 requests/s: no difference shown (p50, p99)

Why futures saves 3.5 µs a request
     3.2 µs   92 %  context switches, 0.98 → 0.002 a request (threads sleep and are woken)    likely
     0.3 µs    8 %  not explained
Why coroutines saves 4.2 µs a request
     3.9 µs   92 %  context switches, 0.98 → 0.002 a request (threads sleep and are woken)    likely
     0.3 µs    8 %  not explained
   not it: page faults

Limits   each: its CPU (98 % of 1 busy)
Trust    6 blocks in 48 s, noise floor 0.4 %; everything checked held
More     whyslow report whyslow-runs/20260102-030405-9f3c   the page
         whyslow analyse whyslow-runs/20260102-030405-9f3c --details
",
    );
}

#[test]
fn opposite_signs() {
    let mut found = run(&[("pr", 7_100.0, [0.683, 0.67, 0.69], Verdict::Faster)]);
    found.causes = vec![
        of_gap("pr", "context_switches", Grade::BoundedBy, -3700.0, -3300.0),
        of_gap("pr", "copying", Grade::ConsistentWith, 700.0, -3300.0),
    ];
    says(
        &found,
        "
pr  1.46x cheaper than threads  [1.45, 1.49]   CPU per request 10.4 → 7.10 µs
rate at capacity 94.2 k → 138 k/s; latency at 35000 requests/s: no difference shown (p50, p99)

Why pr saves 3.3 µs a request: saves 4.0 µs, pays 0.7 µs in copying bytes
     3.7 µs  112 %  context switches                                                          likely
    −0.7 µs  −21 %  copying bytes                                                             likely
     0.3 µs    9 %  not explained

Limits   each: its CPU (98 % of 1 busy)
Trust    6 blocks in 48 s, noise floor 0.4 %; everything checked held
More     whyslow report whyslow-runs/20260102-030405-9f3c   the page
         whyslow analyse whyslow-runs/20260102-030405-9f3c --details
",
    );
}

/// A check that saw why connections starved says what to do about that.
#[test]
fn a_full_listen_queue_is_said_where_a_check_failed() {
    let mut found = run(&[("pr", 11_900.0, [1.144, 1.13, 1.16], Verdict::Slower)]);
    for (refused, words) in
        [(0, "times (block 1): some were starved"), (6, "its listen queue was full: raise")]
    {
        let how = analyse::Stalled::Starved { min: 3, max: 9, refused };
        let says = Some(GateSays::Stalled { how, block: 1 });
        found.gates = vec![analyse::Gate { says, ..gate(GateId::Stall, false, &[Metric::Rate]) }];
        let text = findings_text(&found, Style::Plain);
        assert!(text.contains(words), "{text}");
    }
}

#[test]
fn a_failed_arm() {
    let mut found = run(&[("pr", 11_900.0, [1.144, 1.13, 1.16], Verdict::Slower)]);
    found.arms.push(ArmFindings {
        name: "broken".to_owned(),
        error: Some("it exited with 7 before it was ready".to_owned()),
        log: vec!["starting".to_owned(), "no database: giving up".to_owned()],
        ..ArmFindings::default()
    });
    says(
        &found,
        "
pr      1.14x dearer than threads  [1.13, 1.16]   CPU per request 10.4 → 11.9 µs
broken  no verdict: it exited with 7 before it was ready; its log ends: no database: giving up
rate at capacity 94.2 k → 82.4 k/s; latency at 35000 requests/s: no difference shown (p50, p99)

Limits   threads and pr, each: its CPU (98 % of 1 busy)
Trust    6 blocks in 48 s, noise floor 0.4 %; everything checked held
More     whyslow report whyslow-runs/20260102-030405-9f3c   the page
         whyslow analyse whyslow-runs/20260102-030405-9f3c --details
",
    );
}

#[test]
fn other_load_is_noted_where_it_makes_up_a_part_of_an_interval_that_matters() {
    let who = "other processes";
    let mut found = run(&[("pr", 11_900.0, [1.144, 1.13, 1.16], Verdict::Slower)]);
    let turns = [("threads".to_owned(), 0.02), ("pr".to_owned(), 0.01)];
    let says = Some(GateSays::Disturbed { who, turns });
    found.gates.push(analyse::Gate { says, ..gate(GateId::Host, false, &[]) });
    // Half of the interval of CPU per request is 1.3 %.
    for (moved, note) in [(0.002, false), (0.006, true)] {
        found.comparisons[0].bias = BiasFindings {
            low: moved,
            high: moved,
            of: vec![BiasSource { what: who.into(), low: moved, high: moved }],
        };
        let text = findings_text(&found, Style::Plain);
        assert_eq!(text.contains("no check voids a figure, 1 note"), note, "{text}");
        assert_eq!(text.contains("everything checked held"), !note, "{text}");
    }
}

#[test]
fn a_rate_that_is_much_farther_apart_than_cpu_time_is_said_first() {
    let mut found = run(&[("pr", 11_900.0, [1.144, 1.13, 1.16], Verdict::Slower)]);
    for (ratio, begins, beside) in [
        (0.8, "pr  1.14x dearer than threads  [1.13, 1.16]", "(1.25x slower)"),
        (0.02, "pr  50.0x slower than threads  [49.5, 50.5]", "(1.14x dearer in CPU per request)"),
    ] {
        found.comparisons[1] =
            compared("pr", Metric::Rate, Verdict::Slower, [ratio, 0.99 * ratio, 1.01 * ratio]);
        let text = findings_text(&found, Style::Plain);
        let mut lines = text.lines();
        assert!(lines.next().is_some_and(|line| line.starts_with(begins)), "{text}");
        assert!(lines.next().is_some_and(|line| line.contains(beside)), "{text}");
    }
}

#[test]
fn what_bounds_alone_leave_open_is_said_not_to_be_for_more_blocks() {
    let mut found = run(&[("pr", 10_500.0, [1.01, 0.9, 1.1], Verdict::Inconclusive)]);
    found.comparisons[0].undecided_by = Some(analyse::UndecidedBy::Disturbance);
    found.comparisons[0].bias.of =
        vec![BiasSource { what: "other processes".to_owned(), low: 0.1, high: 0.1 }];
    let page = findings_text(&found, Style::Plain);
    assert!(page.contains("; limited by other processes, not by blocks\n"), "{page}");
}

#[test]
fn that_arms_ran_one_at_a_time_is_said_with_why() {
    let mut found = run(&[("pr", 11_900.0, [1.144, 1.13, 1.16], Verdict::Slower)]);
    (found.design.kind, found.design.blocks) = (analyse::DesignKind::Alone, 6);
    assert!(findings_text(&found, Style::Plain).contains("\n         arms ran one at a time, as asked\n"));
    found.design.why_alone = Some("'pr' keeps 20 % of a CPU busy while nobody asks it anything".to_owned());
    let page = findings_text(&found, Style::Plain);
    assert!(page.contains("arms ran one at a time, because 'pr' keeps 20 % of a CPU busy"), "{page}");
}

#[test]
fn background_work_is_said_with_its_part_of_a_request() {
    let mut found = run(&[("pr", 20_800.0, [2.0, 1.9, 2.1], Verdict::Slower)]);
    (found.arms[1].background_cpu_share, found.arms[1].busy_cores) = (Some(0.3), Some(0.6));
    let page = findings_text(&found, Style::Plain).split_whitespace().collect::<Vec<_>>().join(" ");
    let said = "pr uses 30.0 % of a CPU while nobody asks it anything: 10.4 µs of its 20.8 µs a request, most of the gap";
    assert!(page.contains(said), "{page}");
    found.arms[1].background_cpu_share = Some(0.001);
    assert!(!findings_text(&found, Style::Plain).contains("while nobody asks it"));
}

#[test]
fn where_no_percentile_can_be_had_that_is_said() {
    let mut found = run(&[("pr", 11_900.0, [1.144, 1.13, 1.16], Verdict::Slower)]);
    for row in found.comparisons.iter_mut().filter(|row| row.metric.is_latency()) {
        (row.ratio, row.ci_low, row.ci_high) = (None, None, None);
    }
    let page = findings_text(&found, Style::Plain);
    assert!(page.contains("latency at 35000 requests/s: too few answers for a percentile"), "{page}");
}

#[test]
fn what_to_do_about_a_check_is_never_cut_off() {
    let mut found = run(&[("pr", 11_900.0, [1.144, 1.13, 1.16], Verdict::Slower)]);
    let name = "a-name-as-long-as-it-may-be";
    found.gates = vec![gate(
        GateId::Stall,
        false,
        &[Metric::Rate, Metric::P50, Metric::P90, Metric::P99, Metric::P999],
    )];
    found.gates[0].arm = Some(name.to_owned());
    found.gates[0].text = "what it saw ".repeat(20);
    let page = findings_text(&found, Style::Plain);
    assert!(page.contains(": look for a lock, a lost wake-up or a short listen queue\n"), "{page}");
}
