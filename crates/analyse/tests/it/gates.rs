//! Each gate: green where nothing is wrong, red for its reason, and what it then voids.

use analyse::{Metric, Verdict};
use model::plan::GateId;
use model::record::{Run, Stopping, Stops, Window};

use crate::support::{analyse, change, gates, pair, row, sliced};

const CAPACITY: usize = 0;
const EQUAL_RATE: usize = 1;
const LATENCIES: [Metric; 4] = [Metric::P50, Metric::P90, Metric::P99, Metric::P999];

/// A way to spoil the windows of `pr`, the gate that must see it, what it says, and what it voids.
struct Fault {
    gate: GateId,
    condition: usize,
    spoil: fn(&mut Window),
    text: &'static str,
    voids: &'static [Metric],
}

/// Some connections were served and others not.
fn starved(window: &mut Window) {
    (window.load.per_connection.min, window.load.per_connection.jain) = (0, 0.89);
}

const FAULTS: [Fault; 15] = [
    Fault {
        gate: GateId::Errors,
        condition: CAPACITY,
        spoil: |window| window.load.errors.timeout = window.load.requests / 100,
        text: "'pr' failed 0.8 % of its requests (timeout ",
        voids: &Metric::ALL,
    },
    Fault {
        gate: GateId::Errors,
        condition: EQUAL_RATE,
        spoil: |window| window.load.errors.status = window.load.requests,
        text: "(another status 2000000 times): look at its log",
        voids: &Metric::ALL,
    },
    Fault {
        gate: GateId::Generator,
        condition: CAPACITY,
        spoil: |window| {
            idle_server(window);
            window.load.busiest_thread = 0.97;
        },
        text: "at capacity 'pr' was 60 % busy while the generator was 97 % busy: the rate is the generator's.",
        voids: &[Metric::Rate],
    },
    Fault {
        gate: GateId::Generator,
        condition: EQUAL_RATE,
        spoil: |window| {
            window.load.busiest_thread = 0.81;
            window.load.send_lag_ns.p99 = Some(51_000);
        },
        text: "at 20000 requests/s, 'pr': the generator was 81 % busy: lower the rate or add --load-cpus",
        voids: &LATENCIES,
    },
    Fault {
        gate: GateId::Generator,
        condition: EQUAL_RATE,
        spoil: |window| window.load.rate_ratio = Some(0.98),
        text: "98 % of the intended rate was answered: the server is overloaded",
        voids: &LATENCIES,
    },
    Fault {
        gate: GateId::Generator,
        condition: EQUAL_RATE,
        spoil: |window| window.load.send_lag_ns.p99 = Some(51_000),
        text: "requests left 51.0 µs late (send lag p99): add connections or --load-cpus",
        voids: &LATENCIES,
    },
    Fault {
        gate: GateId::Generator,
        condition: EQUAL_RATE,
        spoil: |window| {
            window.load.send_lag_ns.p99 = None;
            window.load.send_lag_ns.p90 = Some(51_000);
        },
        text: "requests left 51.0 µs late (send lag p90): add connections or --load-cpus",
        voids: &LATENCIES,
    },
    Fault {
        gate: GateId::Little,
        condition: CAPACITY,
        spoil: |window| window.load.response_ns.mean *= 0.9,
        text: "'pr': rate x mean response differs from the requests in flight by 10 %",
        voids: &[],
    },
    Fault {
        gate: GateId::Stall,
        condition: CAPACITY,
        spoil: |window| {
            window.load.per_connection.min = 3;
            window.load.per_connection.max = 3;
        },
        text: "'pr' gave every connection the same few answers and then none (block 1)",
        voids: &[Metric::Rate, Metric::P50, Metric::P90, Metric::P99, Metric::P999],
    },
    Fault {
        gate: GateId::Stall,
        condition: EQUAL_RATE,
        spoil: |window| window.load.seconds.last_mut().unwrap().requests = 0,
        text: "'pr' gave no answer in the last second (block 1)",
        voids: &[Metric::Rate, Metric::P50, Metric::P90, Metric::P99, Metric::P999],
    },
    Fault {
        gate: GateId::Stall,
        condition: EQUAL_RATE,
        spoil: starved,
        text: "'pr' served some connections 0 times and others 3126 times (block 1): some were starved",
        voids: &[Metric::Rate, Metric::P50, Metric::P90, Metric::P99, Metric::P999],
    },
    Fault {
        gate: GateId::Stall,
        condition: EQUAL_RATE,
        spoil: |window| {
            starved(window);
            window.server_cpus.tcp.listen_overflows = 476;
        },
        text: "'pr' served some connections 0 times and others 3126 times (block 1): some were starved; its listen queue \
               was full 476 times, and each client turned away tries again after a second: raise the backlog of listen()",
        voids: &[Metric::Rate, Metric::P50, Metric::P90, Metric::P99, Metric::P999],
    },
    Fault {
        gate: GateId::Utilisation,
        condition: CAPACITY,
        spoil: |window| window.target.cpu.total_ns = window.target.wall_ns * 11 / 10,
        text: "'pr' is said to have used 110 % of its CPUs: a counter is wrong",
        voids: &[Metric::CpuPerRequest],
    },
    Fault {
        gate: GateId::Wire,
        condition: CAPACITY,
        spoil: |window| window.load.bytes_read = window.load.window_ns * 9 / 2,
        text: "'pr' sent 4.5 GB/s for each of its CPUs, 90 % of what loopback carries here",
        voids: &[Metric::Rate],
    },
    Fault {
        gate: GateId::Fairness,
        condition: CAPACITY,
        spoil: |window| window.target.cpu.total_ns /= 2,
        text: "'pr' kept 0.49 cores busy, 'main' 0.98 (50 %): compare rates per core",
        voids: &[],
    },
];

fn idle_server(window: &mut Window) {
    let busy_ns = window.target.wall_ns * 6 / 10;
    window.target.cpu.total_ns = busy_ns;
    window.target.busiest_thread_ns = busy_ns;
    window.server_cpus.user_ns = busy_ns;
}

fn spoilt(fault: &Fault) -> Run {
    let mut run = pair(1.0);
    change(&mut run, "pr", fault.condition, fault.spoil);
    run
}

#[test]
fn all_ten_gates_are_green_on_a_good_run() {
    let findings = analyse(&pair(1.1));
    let ids = [
        GateId::Parity,
        GateId::Errors,
        GateId::Generator,
        GateId::Little,
        GateId::Stall,
        GateId::Utilisation,
        GateId::Wire,
        GateId::Host,
        GateId::Environment,
        GateId::Fairness,
    ];
    for id in ids {
        let gates = gates(&findings, id);
        assert!(!gates.is_empty(), "{id} was not judged");
        for gate in gates {
            assert!(gate.ok && gate.voids.is_empty() && !gate.text.is_empty(), "{gate:?}");
        }
    }
    assert!(findings.gates.iter().all(|gate| ids.contains(&gate.id)));
}

#[test]
fn a_server_that_is_only_slow_does_not_stall() {
    let slow = |window: &mut Window| {
        window.load.requests = 64;
        (window.load.per_connection.min, window.load.per_connection.max) = (1, 1);
        window.load.response_ns.mean = window.load.window_ns as f64;
    };
    let uneven = |window: &mut Window| {
        window.load.requests = 96;
        window.load.per_connection.jain = 0.85;
    };
    for spoil in [slow as fn(&mut Window), uneven] {
        let mut run = pair(1.0);
        change(&mut run, "pr", CAPACITY, spoil);
        let findings = analyse(&run);
        assert!(
            gates(&findings, GateId::Stall).iter().all(|gate| gate.ok),
            "{:?}",
            gates(&findings, GateId::Stall)
        );
    }
}

#[test]
fn each_fault_turns_its_gate_red_with_its_reason() {
    for fault in FAULTS {
        let findings = analyse(&spoilt(&fault));
        let red: Vec<_> = gates(&findings, fault.gate).into_iter().filter(|gate| !gate.ok).collect();
        assert_eq!(red.len(), 1, "{}: {:?}", fault.text, gates(&findings, fault.gate));
        assert!(red[0].text.contains(fault.text), "'{}' is not in '{}'", fault.text, red[0].text);
        assert_eq!(red[0].arm.as_deref(), Some("pr"), "{}", fault.text);
        assert_eq!(red[0].voids, fault.voids, "{}", fault.text);
    }
}

#[test]
fn a_red_gate_leaves_no_verdict_on_what_it_voids_and_one_on_the_rest() {
    for fault in FAULTS {
        let findings = analyse(&spoilt(&fault));
        let voided: Vec<Metric> = findings.gates.iter().flat_map(|gate| gate.voids.clone()).collect();
        for comparison in &findings.comparisons {
            let invalid = comparison.verdict == Verdict::Invalid;
            assert_eq!(invalid, voided.contains(&comparison.metric), "{}: {comparison:?}", fault.text);
            assert_eq!(invalid, !comparison.void_by.is_empty(), "{}", fault.text);
        }
        for metric in fault.voids {
            assert!(row(&findings, "pr", *metric).void_by.contains(&fault.gate), "{}", fault.text);
        }
    }
}

#[test]
fn a_fault_of_one_arm_does_not_void_another() {
    let arms = [("main", 10_000.0), ("good", 10_000.0), ("bad", 10_000.0)];
    let mut run = crate::support::run(1, 10, &arms.map(|(name, cpu)| crate::support::arm(name, cpu)));
    change(&mut run, "bad", CAPACITY, |window| window.load.errors.read = window.load.requests);
    let findings = analyse(&run);
    assert_eq!(row(&findings, "bad", Metric::CpuPerRequest).verdict, Verdict::Invalid);
    assert_eq!(row(&findings, "good", Metric::CpuPerRequest).verdict, Verdict::Equal);
}

#[test]
fn a_fault_of_the_baseline_voids_every_arm() {
    let mut run = pair(1.0);
    change(&mut run, "main", CAPACITY, |window| window.load.errors.read = window.load.requests);
    assert!(analyse(&run).comparisons.iter().all(|row| row.verdict == Verdict::Invalid));
}

#[test]
fn a_generator_that_is_busy_and_sends_on_time_is_no_fault() {
    let fault = Fault {
        gate: GateId::Generator,
        condition: EQUAL_RATE,
        spoil: |window| window.load.busiest_thread = 0.94,
        text: "",
        voids: &LATENCIES,
    };
    let findings = analyse(&spoilt(&fault));
    let failed: Vec<_> =
        findings.gates.iter().filter(|gate| gate.id == GateId::Generator && !gate.ok).collect();
    assert!(failed.is_empty(), "{failed:?}");
}

#[test]
fn a_server_that_waits_with_a_generator_at_ease_is_still_the_limit() {
    let mut run = pair(1.0);
    change(&mut run, "pr", CAPACITY, idle_server);
    assert!(gates(&analyse(&run), GateId::Generator).iter().all(|gate| gate.ok));
}

#[test]
fn a_cpu_set_that_an_arm_changed_voids_everything() {
    let mut run = pair(1.0);
    let moved = run.rounds.iter_mut().filter(|record| record.arm == "pr");
    moved.for_each(|record| record.fairness.allowed_cpus = "0-1".to_owned());
    let findings = analyse(&run);
    let gate = gates(&findings, GateId::Environment)[0];
    assert_eq!(gate.text, "'pr' ran on CPUs 0-1, 'main' on 0: it changed its own CPU set");
    assert_eq!((gate.ok, gate.voids.as_slice()), (false, Metric::ALL.as_slice()));
}

#[test]
fn what_differs_between_the_arms_is_printed() {
    let findings = analyse(&pair(1.0));
    assert_eq!(
        gates(&findings, GateId::Environment)[0].text,
        "same host and CPUs; the arms differ in command"
    );
    let mut run = pair(1.0);
    run.manifest.plan.placement.shared = true;
    run.manifest.plan.arms[1].env.insert("A".to_owned(), "1".to_owned());
    let findings = analyse(&run);
    let want = "same host and CPUs; the arms differ in command, environment variables; server and generator share CPUs";
    assert_eq!(gates(&findings, GateId::Environment)[0].text, want);
}

#[test]
fn two_copies_of_the_baseline_that_differ_void_what_they_differ_in() {
    let arms = |again_ns: f64| {
        let [main, pr, again] = [("main", 1e4), ("pr", 1.1e4), ("main_again", again_ns)]
            .map(|(name, cpu_ns)| crate::support::arm(name, cpu_ns));
        let mut run = crate::support::run(1, 10, &[main, pr, again]);
        run.manifest.plan.design.second_baseline = true;
        analyse(&run)
    };
    let findings = arms(1.03e4);
    let gate = gates(&findings, GateId::Environment)[0];
    assert!(
        !gate.ok && gate.text.starts_with("the second copy of 'main' differs from the first by 3.0 %"),
        "{gate:?}"
    );
    assert_eq!(row(&findings, "pr", Metric::CpuPerRequest).verdict, Verdict::Invalid);
    assert_eq!(
        row(&findings, "pr", Metric::P50).verdict,
        Verdict::Slower,
        "only the primary metrics are judged"
    );
    // Less than half of what matters is no reason, however clearly it is seen.
    for again_ns in [1.005e4, 1e4] {
        assert!(gates(&arms(again_ns), GateId::Environment)[0].ok);
    }
}

#[test]
fn cpu_per_request_at_a_rate_stands_while_the_rate_was_kept() {
    type Spoil = fn(&mut Window);
    let cases: [(Spoil, Verdict); 3] = [
        (|window| window.load.send_lag_ns.p99 = Some(51_000), Verdict::Slower),
        (
            |window| {
                window.load.busiest_thread = 0.97;
                window.load.send_lag_ns.p99 = Some(51_000);
            },
            Verdict::Slower,
        ),
        (|window| window.load.rate_ratio = Some(0.98), Verdict::Invalid),
    ];
    for (spoil, verdict) in cases {
        let mut run = pair(1.1);
        run.manifest.plan.workload.conditions.remove(CAPACITY);
        run.rounds.iter_mut().for_each(|record| drop(record.windows.remove(CAPACITY)));
        change(&mut run, "pr", 0, spoil);
        let findings = analyse(&run);
        assert_eq!(row(&findings, "pr", Metric::CpuPerRequest).verdict, verdict);
        assert_eq!(row(&findings, "pr", Metric::P50).verdict, Verdict::Invalid);
    }
}

#[test]
fn lag_is_of_one_percentile_even_where_a_window_has_too_few_requests_for_its_p99() {
    let mut run = pair(1.0);
    change(&mut run, "pr", EQUAL_RATE, |window| {
        window.load.send_lag_ns.p90 = Some(51_000);
        window.load.send_lag_ns.p99 = Some(90_000);
    });
    let first = run.rounds.iter_mut().find(|record| record.arm == "pr").unwrap();
    first.windows[EQUAL_RATE].load.send_lag_ns.p99 = None;
    let findings = analyse(&run);
    let late = gates(&findings, GateId::Generator).into_iter().find(|gate| !gate.ok).unwrap();
    assert!(late.text.contains("left 51.0 µs late (send lag p90)"), "{}", late.text);
}

#[test]
fn what_a_stop_of_the_server_makes_late_is_not_the_generators() {
    let mut run = pair(1.0);
    change(&mut run, "pr", EQUAL_RATE, |window| {
        (window.load.send_lag_ns.p90, window.load.send_lag_ns.p99) = (Some(40_000_000), Some(60_000_000));
    });
    let late = |run: &Run| gates(&analyse(run), GateId::Generator).iter().any(|gate| !gate.ok);
    assert!(late(&run));
    let stops = Stops { count: 8, stopped_ns: 400_000_000, watched_ns: 2_000_000_000 };
    run.manifest.fitted.stopping = vec![Stopping { arm: "pr".to_owned(), stops }];
    assert!(!late(&run), "{:?}", gates(&analyse(&run), GateId::Generator));
    // A generator that is late with most requests is so beside any stop.
    change(&mut run, "pr", EQUAL_RATE, |window| window.load.send_lag_ns.p50 = Some(51_000));
    assert!(late(&run));
}

#[test]
fn of_turns_that_only_drain_what_was_in_flight_is_what_was_answered_until_quiet() {
    let mut run = sliced(pair(1.0), 6);
    // As of a server that sleeps for longer than a turn: nothing is answered in time.
    change(&mut run, "pr", CAPACITY, |window| {
        window.load.rate_per_s = 0.0;
        window.load.requests = 64 * 6;
        window.load.connections.established = 64;
        window.load.response_ns.mean = 317e6;
        for slice in &mut window.slices {
            (slice.length_ns, slice.wall_ns, slice.requests, slice.in_time) =
                (298_000_000, 320_000_000, 64, 0);
        }
    });
    let found = analyse(&run);
    assert!(gates(&found, GateId::Little)[0].ok, "{:?}", gates(&found, GateId::Little));
}

#[test]
fn a_server_that_answers_in_its_last_turn_has_not_stopped() {
    let few = |window: &mut Window| {
        (window.load.per_connection.min, window.load.per_connection.max) = (3, 3);
    };
    for (last, ok) in [(5, true), (0, false)] {
        let mut run = sliced(pair(1.0), 6);
        change(&mut run, "pr", CAPACITY, |window| {
            few(window);
            window.slices.last_mut().unwrap().requests = last;
        });
        assert_eq!(gates(&analyse(&run), GateId::Stall)[0].ok, ok, "{last}");
    }
}

#[test]
fn connections_that_starve_while_others_have_the_cpus_void_nothing() {
    let mut run = pair(1.0);
    change(&mut run, "pr", CAPACITY, |window| {
        starved(window);
        let host = &mut window.server_cpus;
        host.others_ns = host.wall_ns;
        host.wall_ns *= 2;
        host.user_ns += host.others_ns;
    });
    let findings = analyse(&run);
    let found = gates(&findings, GateId::Stall)[0];
    assert!(!found.ok && found.voids.is_empty(), "{found:?}");
    assert!(found.text.contains("while others took 50 % of its CPUs"), "{}", found.text);
}

#[test]
fn a_server_that_carries_more_than_loopback_was_measured_to_shows_that_the_measure_was_low() {
    for (share, ok) in [(0.9, false), (1.9, true)] {
        let mut run = pair(1.0);
        change(&mut run, "pr", CAPACITY, |window| {
            window.load.bytes_read = (5e9 * share * window.load.window_ns as f64 / 1e9) as u64;
        });
        assert_eq!(gates(&analyse(&run), GateId::Wire)[0].ok, ok, "{share}");
    }
}

#[test]
fn of_a_run_without_a_round_no_gate_says_that_something_held() {
    let mut run = pair(1.0);
    run.rounds.clear();
    run.answers.clear();
    for gate in analyse(&run).gates {
        let said = ["nothing to judge", "the baseline never answered"];
        assert!(said.contains(&gate.text.as_str()), "{gate:?}");
    }
}
