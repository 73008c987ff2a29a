//! Causes from evidence made up for each: what was planted is named first, and nothing is named where nothing differs.

use analyse::{Cause, Findings, Grade};
use model::plan::GateId;
use model::record::{Counts, DiagnosticRecord, Pass, PassKind, Run, UnitCosts, Window};

use crate::support::{analyse, change, pair};

/// Round figures, so that what is carried can be told at a glance.
const COSTS: UnitCosts = UnitCosts {
    syscall_ns: 100.0,
    loopback_write_ns: 1000.0,
    loopback_read_ns: 400.0,
    futex_wake_ns: 900.0,
    context_switch_ns: 600.0,
    minor_fault_ns: 1000.0,
    malloc_free_ns: 20.0,
    memcpy_kib_ns: 10.0,
};

/// Calls of a plain server, per request.
const PLAIN: [(&str, f64); 3] = [("epoll_wait", 0.1), ("recvfrom", 1.0), ("sendto", 1.0)];

/// How one arm differs from a plain server, per request.
#[derive(Clone, Copy)]
pub(crate) struct Plant {
    pub(crate) user_ns: f64,
    pub(crate) system_ns: f64,
    /// Added system calls.
    pub(crate) calls: &'static [(&'static str, f64)],
    pub(crate) switches: f64,
    pub(crate) faults: f64,
    pub(crate) segments: f64,
    pub(crate) refused: f64,
    /// Responses of 40 ms, of 100, for each of which an acknowledgement is delayed.
    pub(crate) delayed: u64,
    /// How much later all others are.
    pub(crate) late_ns: u64,
    /// Rate over that of the baseline, with the CPUs idle meanwhile.
    pub(crate) idle_rate: Option<f64>,
}

impl Plant {
    pub(crate) const NONE: Self = Self {
        user_ns: 0.0,
        system_ns: 0.0,
        calls: &[],
        switches: 0.0,
        faults: 0.0,
        segments: 0.0,
        refused: 0.0,
        delayed: 0,
        late_ns: 0,
        idle_rate: None,
    };
}

pub(crate) fn planted(plant: Plant) -> Run {
    let mut run = pair(1.0);
    run.host.unit_costs = Some(COSTS);
    for (arm, plant) in [("main", Plant::NONE), ("pr", plant)] {
        change(&mut run, arm, 0, |window| apply(window, &plant));
        let late = |window: &mut Window| {
            window.load.response_ns.p50 = window.load.response_ns.p50.map(|ns| ns + plant.late_ns);
        };
        change(&mut run, arm, 1, late);
        let window = run.rounds.iter().find(|record| record.arm == arm).unwrap().windows[0].clone();
        for block in 0..2 {
            run.diagnostics.push(diagnostic(arm, block, &window, plant.calls));
        }
    }
    run
}

/// System time of the second arm goes up and down from block to block.
pub(crate) fn scatter(run: &mut Run, each_ns: f64) {
    for (index, record) in run.rounds.iter_mut().filter(|record| record.arm == "pr").enumerate() {
        let window = &mut record.windows[0];
        let more = window.load.requests as f64 * each_ns * [-1.0, 1.0][index % 2];
        let cpu = &mut window.target.cpu;
        cpu.system_ns = (cpu.system_ns as f64 + more) as u64;
        cpu.total_ns = cpu.user_ns + cpu.system_ns;
    }
}

pub(crate) fn apply(window: &mut Window, plant: &Plant) {
    window.server_cpus.cpus = 2;
    if let Some(rate) = plant.idle_rate {
        window.load.requests = (window.load.requests as f64 * rate) as u64;
        window.load.bytes_read = (window.load.bytes_read as f64 * rate) as u64;
        window.load.rate_per_s *= rate;
        let cpu = &mut window.target.cpu;
        for ns in
            [&mut cpu.total_ns, &mut cpu.user_ns, &mut cpu.system_ns, &mut window.target.busiest_thread_ns]
        {
            *ns = (*ns as f64 * rate) as u64;
        }
        window.server_cpus.user_ns = cpu.total_ns;
        window.server_cpus.idle_ns = 2 * window.target.wall_ns - cpu.total_ns;
    }
    let requests = window.load.requests as f64;
    let times = |count: f64| (requests * count).round() as u64;
    window.target.cpu.user_ns += times(plant.user_ns);
    window.target.cpu.system_ns += times(plant.system_ns);
    window.target.cpu.total_ns = window.target.cpu.user_ns + window.target.cpu.system_ns;
    window.target.voluntary_switches = times(0.01 + plant.switches);
    window.target.minor_faults = times(plant.faults);
    window.server_cpus.tcp.segments_out = times(2.0 + plant.segments);
    window.server_cpus.tcp.listen_overflows = times(plant.refused);
    window.server_cpus.tcp.delayed_acks = times(plant.delayed as f64 / 100.0);
    window.load.response_ns.mean += plant.late_ns as f64;
    window.response_buckets =
        vec![[1_000_000 + plant.late_ns, 100 - plant.delayed], [40_894_464, plant.delayed]];
}

fn diagnostic(arm: &str, block: u32, window: &Window, calls: &[(&str, f64)]) -> DiagnosticRecord {
    let requests = window.load.requests as f64;
    let mut counts = Counts::default();
    for (name, per_request) in PLAIN.iter().chain(calls) {
        *counts.syscalls.entry((*name).to_owned()).or_default() += (requests * per_request).round() as u64;
    }
    counts.events.insert("syscalls".to_owned(), counts.syscalls.values().sum());
    let pass = |kind, counts| Pass { counts, ..Pass::new(kind, window.clone()) };
    let passes = vec![pass(PassKind::Untouched, None), pass(PassKind::Counting, Some(counts))];
    DiagnosticRecord { passes, ..DiagnosticRecord::new(arm, block) }
}

/// Causes beside the exact split.
pub(crate) fn named(findings: &Findings) -> Vec<&Cause> {
    let named = |cause: &&Cause| matches!(cause.grade, Grade::BoundedBy | Grade::ConsistentWith);
    findings.causes.iter().filter(named).collect()
}

#[test]
fn what_was_planted_is_named_first_with_what_it_carries() {
    let plain = Plant::NONE;
    let idle = |rate| Plant { idle_rate: Some(rate), ..plain };
    for (first, share, plant) in [
        ("extra_syscalls", 0.77, Plant { system_ns: 1300.0, calls: &[("getppid", 10.0)], ..plain }),
        (
            "small_writes",
            0.83,
            Plant { system_ns: 6000.0, calls: &[("sendto", 5.0)], segments: 5.0, ..plain },
        ),
        ("file_writes", 0.67, Plant { user_ns: 500.0, system_ns: 1000.0, calls: &[("write", 1.0)], ..plain }),
        (
            "thread_handoff",
            0.9,
            Plant { system_ns: 2000.0, calls: &[("futex", 4.0)], switches: 2.0, ..plain },
        ),
        (
            "backend_calls",
            0.83,
            Plant {
                system_ns: 6000.0,
                calls: &[("sendto", 5.0), ("recvfrom", 5.0)],
                segments: 10.0,
                ..plain
            },
        ),
        ("context_switches", 0.6, Plant { system_ns: 2000.0, switches: 2.0, ..plain }),
        ("kernel_memory", 0.9, Plant { system_ns: 2222.0, faults: 2.0, ..plain }),
        ("sleep", 1.0, Plant { calls: &[("clock_nanosleep", 1.0)], switches: 1.0, ..idle(0.1) }),
        (
            "sync_writes",
            1.0,
            Plant { calls: &[("pwrite64", 1.0), ("fsync", 1.0)], switches: 1.0, ..idle(0.1) },
        ),
        ("lock_contention", 1.0, Plant { calls: &[("futex", 1.4)], switches: 0.7, ..idle(0.3) }),
        ("backend_wait", 1.0, Plant { calls: &[("read", 1.0), ("write", 1.0)], switches: 1.0, ..idle(0.1) }),
        ("timer_wait", 1.0, Plant { late_ns: 9_000_000, ..idle(0.1) }),
        ("delayed_ack", 0.9, Plant { delayed: 50, ..idle(0.1) }),
        ("listen_backlog", 1.0, Plant { refused: 0.01, ..idle(0.1) }),
    ] {
        let findings = analyse(&planted(plant));
        let causes = named(&findings);
        let ids: Vec<&str> = causes.iter().map(|cause| cause.id.name()).collect();
        assert_eq!(ids.first(), Some(&first), "{ids:?} {:?}", findings.causes);
        let found = causes[0].share.unwrap();
        assert!((found - share).abs() < 0.12, "{first} carries {found}, expected {share}");
        assert!(causes[0].ns_per_request > 0.0 && causes[0].arm == "pr");
    }
}

#[test]
fn a_wait_carries_the_switches_that_it_makes() {
    for (calls, switches, first) in [
        (&[("clock_nanosleep", 1.0)][..], 1.0, "sleep"),
        (&[("fsync", 1.0)], 6.0, "sync_writes"),
        // Most of these have another reason.
        (&[("clock_nanosleep", 0.5)], 6.0, "context_switches"),
    ] {
        let plant =
            Plant { system_ns: 600.0 * switches, calls, switches, idle_rate: Some(0.99), ..Plant::NONE };
        let findings = analyse(&planted(plant));
        assert_eq!(named(&findings)[0].id.name(), first, "{:?}", findings.causes);
        let switches = findings.causes.iter().find(|cause| cause.id.name() == "context_switches").unwrap();
        assert!(switches.text.contains("of waits that are reckoned by themselves"), "{switches:?}");
    }
}

#[test]
fn a_full_queue_is_named_though_the_generator_is_busy_too() {
    let plant = Plant { idle_rate: Some(0.8), refused: 0.01, ..Plant::NONE };
    let first = |plant| {
        let mut run = planted(plant);
        for arm in ["main", "pr"] {
            change(&mut run, arm, 0, |window| {
                (window.load.busiest_thread, window.target.busiest_thread_ns) = (0.9, 0);
                // Those who are kept away are starved, too.
                window.load.per_connection.jain = if arm == "pr" { 0.5 } else { 1.0 };
            });
        }
        let findings = analyse(&run);
        assert!(
            findings.gates.iter().any(|gate| gate.id == GateId::Generator && !gate.ok),
            "{:?}",
            findings.gates
        );
        named(&findings).first().map(|cause| cause.id)
    };
    assert_eq!(first(plant).map(|id| id.name()), Some("listen_backlog"));
    assert_eq!(first(Plant { refused: 0.0, ..plant }), None, "the rate of the slower one is the generator's");
}

#[test]
fn the_arm_that_is_faster_lacks_what_its_baseline_has() {
    let mut run = planted(Plant { system_ns: 1300.0, calls: &[("getppid", 10.0)], ..Plant::NONE });
    run.manifest.plan.baseline = 1;
    let findings = analyse(&run);
    let cause = named(&findings)[0];
    assert_eq!(
        (cause.id.name(), cause.baseline.as_str(), cause.arm.as_str()),
        ("extra_syscalls", "pr", "main")
    );
    assert!(cause.ns_per_request < -900.0, "{cause:?}");
    assert!(
        cause.text.starts_with("in pr, system calls other than writes and waits: "),
        "whose they are is said: {cause:?}"
    );
    let line = findings.ledger.iter().find(|line| line.id == "syscall:getppid").unwrap();
    assert!((line.change + 10.0).abs() < 0.01, "{line:?}");
}

#[test]
fn a_large_change_of_little_worth_is_ruled_out() {
    let findings = analyse(&planted(Plant { user_ns: 9000.0, switches: 0.13, ..Plant::NONE }));
    let switches = findings.causes.iter().find(|cause| cause.id.name() == "context_switches").unwrap();
    assert_eq!(switches.grade, Grade::RuledOut, "13 times as many, and still {}", switches.text);
    assert!(named(&findings).is_empty(), "{:?}", named(&findings));
    assert!(findings.unattributed_share.unwrap() > 0.9);
}

#[test]
fn a_server_against_itself_names_nothing() {
    let findings = analyse(&planted(Plant::NONE));
    assert!(findings.causes.is_empty() && findings.ledger.is_empty(), "{:?}", findings.causes);
}

#[test]
fn what_was_seen_while_the_server_was_another_one_is_not_used() {
    let plant = Plant { system_ns: 1300.0, calls: &[("getppid", 10.0)], ..Plant::NONE };
    let mut run = planted(plant);
    let counting = run.diagnostics.iter_mut().flat_map(|record| &mut record.passes);
    for pass in counting.filter(|pass| pass.kind == PassKind::Counting) {
        pass.window.target.voluntary_switches += pass.window.load.requests;
    }
    let findings = analyse(&run);
    assert!(findings.passes.iter().all(|pass| !pass.used && pass.text.contains("context switches went")));
    assert!(named(&findings).is_empty(), "{:?}", named(&findings));
    let used = analyse(&planted(plant));
    assert!(
        used.passes.iter().all(|pass| pass.used && (pass.slowdown.unwrap() - 1.0).abs() < 1e-9),
        "{:?}",
        used.passes
    );
}

/// A cause that carries 6 % of the gap carries more of the least that the gap may be.
#[test]
fn what_the_interval_of_the_gap_leaves_a_tenth_is_neither_named_nor_ruled_out() {
    let switches = |scatter_ns: f64| {
        let plant = Plant { system_ns: 1300.0, calls: &[("getppid", 10.0)], switches: 0.13, ..Plant::NONE };
        let mut run = planted(plant);
        scatter(&mut run, scatter_ns);
        let causes = analyse(&run).causes;
        causes.into_iter().find(|cause| cause.id.name() == "context_switches")
    };
    let sure = switches(0.0).unwrap();
    assert!(sure.grade == Grade::RuledOut && (0.03..0.10).contains(&sure.share.unwrap()), "{sure:?}");
    assert_eq!(switches(1000.0), None);
}

/// Ticks find a server that a timer wakes in what it does first, whatever that is.
#[test]
fn user_time_by_ticks_says_what_counting_changed_only_where_the_server_is_full() {
    let used = |busy: f64| {
        let mut run = planted(Plant { system_ns: 1300.0, calls: &[("getppid", 10.0)], ..Plant::NONE });
        for pass in run.diagnostics.iter_mut().flat_map(|record| &mut record.passes) {
            let cpu = &mut pass.window.target.cpu;
            let cpus = f64::from(pass.window.server_cpus.cpus.max(1));
            pass.window.load.window_ns = (cpu.total_ns as f64 / (busy * cpus)) as u64;
            if pass.kind == PassKind::Counting {
                (cpu.user_ns, cpu.system_ns) = (cpu.user_ns / 10, cpu.total_ns - cpu.user_ns / 10);
            }
        }
        analyse(&run).passes.into_iter().map(|pass| pass.used).collect::<Vec<_>>()
    };
    assert_eq!((used(0.99), used(0.5)), (vec![false; 2], vec![true; 2]));
}

#[test]
fn what_differs_as_much_while_nobody_watches_is_not_laid_to_watching() {
    let mut run = planted(Plant { system_ns: 1300.0, calls: &[("getppid", 10.0)], ..Plant::NONE });
    let switched = |window: &mut Window, per_request: f64| {
        window.target.voluntary_switches = (window.load.requests as f64 * per_request) as u64;
    };
    // A server whose switches go from 7 to 8 by themselves, and to 6.5 while calls are counted.
    for (index, record) in run.rounds.iter_mut().enumerate() {
        record.windows.iter_mut().for_each(|window| switched(window, 7.0 + (index / 2 % 2) as f64));
    }
    for pass in run.diagnostics.iter_mut().flat_map(|record| &mut record.passes) {
        switched(&mut pass.window, if pass.kind == PassKind::Counting { 6.5 } else { 7.5 });
    }
    let findings = analyse(&run);
    assert!(findings.passes.iter().all(|pass| pass.used), "{:?}", findings.passes);
    assert_eq!(named(&findings)[0].id.name(), "extra_syscalls");
}

#[test]
fn a_pass_that_was_refused_what_it_came_for_is_not_called_used() {
    let mut run = planted(Plant { system_ns: 1300.0, calls: &[("getppid", 10.0)], ..Plant::NONE });
    for record in &mut run.diagnostics {
        let (plain, counting) = (record.passes[0].clone(), &mut record.passes[1]);
        counting.counts = Some(Counts::default());
        record.passes.push(Pass { kind: PassKind::Sampling, profile: None, ..plain });
    }
    let passes = analyse(&run).passes;
    assert_eq!(passes.len(), 4, "{passes:?}");
    for pass in passes {
        assert!(!pass.used && pass.text.ends_with("not used: nothing was seen"), "{}", pass.text);
    }
}

#[test]
fn a_pass_that_changed_the_server_by_more_than_a_fifth_either_way_is_not_used() {
    for (times, divided, used) in [(3, 1, false), (11, 10, true), (10, 11, true), (1, 2, false)] {
        let mut run = planted(Plant { system_ns: 1300.0, calls: &[("getppid", 10.0)], ..Plant::NONE });
        for pass in run.diagnostics.iter_mut().flat_map(|record| &mut record.passes) {
            if pass.kind == PassKind::Counting {
                let cpu = &mut pass.window.target.cpu;
                for ns in [&mut cpu.user_ns, &mut cpu.system_ns, &mut cpu.total_ns] {
                    *ns = times * *ns / divided;
                }
            }
        }
        let findings = analyse(&run);
        let counting = findings.passes.iter().filter(|pass| pass.kind == PassKind::Counting);
        assert!(counting.clone().all(|pass| pass.used == used), "{times}/{divided}: {:?}", findings.passes);
    }
}

#[test]
fn without_unit_costs_or_counts_there_is_less_and_the_verdict_stands() {
    let mut run = planted(Plant { system_ns: 1300.0, calls: &[("getppid", 10.0)], ..Plant::NONE });
    let verdicts = |run: &Run| analyse(run).comparisons.iter().map(|row| row.verdict).collect::<Vec<_>>();
    let with = verdicts(&run);
    run.host.unit_costs = None;
    run.diagnostics.clear();
    assert_eq!(verdicts(&run), with);
    let findings = analyse(&run);
    assert!(named(&findings).is_empty());
    assert!(
        findings
            .causes
            .iter()
            .any(|cause| cause.id.name() == "system_time" && cause.grade == Grade::AccountsFor)
    );
}
