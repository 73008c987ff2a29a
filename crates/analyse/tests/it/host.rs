//! What the host does to a round: void and repeated, and the end of a run that has too much of it.

use analyse::{Metric, Verdict, analyse, host_fault, moved_since};
use model::record::{HostUsage, Run};

use crate::support::{gates, pair, row};

const S: u64 = 1_000_000_000;

/// A disturbance of a window of ten seconds, and what is said of it; nothing where it is allowed.
type Disturbance = (fn(&mut HostUsage), Option<&'static str>);

const DISTURBANCES: [Disturbance; 8] = [
    (|usage| usage.steal_ns = S / 10, None),
    (|usage| usage.steal_ns = S / 5, Some("the hypervisor took 2.0 % of the server CPUs")),
    (|usage| usage.throttled_ns = 1, Some("the cgroup was throttled: raise its CPU quota")),
    // Of ten seconds on both CPUs.
    (|usage| usage.others_ns = 2 * S / 5, None),
    (|usage| usage.others_ns = S, Some("other processes used 5.0 % of the CPUs measured on: stop them")),
    (|usage| usage.frequency_khz = Some([2_900_000, 3_000_000]), None),
    (
        |usage| usage.frequency_khz = Some([2_000_000, 3_000_000]),
        Some("the CPU frequency moved between 2000000 and 3000000 kHz: fix the governor"),
    ),
    (|_| (), None),
];

#[test]
fn a_disturbed_round_is_void_with_the_reason() {
    for (disturb, want) in DISTURBANCES {
        let mut record = pair(1.0).rounds.remove(0);
        disturb(&mut record.windows[1].server_cpus);
        let found = host_fault(&record);
        assert_eq!(found.as_ref().map(|reason| reason.text.as_str()), want);
        assert!(found.is_none_or(|reason| reason.gate == "host"));
    }
}

#[test]
fn the_generators_cpus_count_too() {
    let mut record = pair(1.0).rounds.remove(0);
    record.windows[0].load_cpus.steal_ns = S;
    assert_eq!(host_fault(&record).unwrap().text, "the hypervisor took 10 % of the load CPUs");
}

/// A run of 20 rounds of which the first `count` were disturbed.
fn disturbed(count: usize) -> Run {
    let mut run = pair(1.1);
    run.rounds.iter_mut().take(count).for_each(|record| record.windows[0].server_cpus.steal_ns = S);
    run
}

#[test]
fn a_void_round_takes_its_pair_with_it_and_nothing_more() {
    let findings = analyse(&disturbed(1));
    assert_eq!(findings.void_rounds.len(), 1);
    assert_eq!(findings.void_rounds[0].reason.text, "the hypervisor took 10 % of the server CPUs");
    let row = row(&findings, "pr", Metric::CpuPerRequest);
    assert_eq!((row.blocks, row.verdict), (9, Verdict::Slower));
    let gate = gates(&findings, "host")[0];
    assert!(gate.ok && gate.text.starts_with("1 of 20 rounds void"), "{}", gate.text);
}

#[test]
fn more_than_a_fifth_void_is_the_end_of_the_run() {
    for (count, ok) in [(0, true), (4, true), (5, false), (20, false)] {
        let findings = analyse(&disturbed(count));
        let gate = gates(&findings, "host")[0];
        assert_eq!(gate.ok, ok, "{count} void: {}", gate.text);
        let invalid = findings.comparisons.iter().all(|row| row.verdict == Verdict::Invalid);
        assert_eq!(invalid, !ok, "{count} void");
        let next = findings.next.unwrap_or_default();
        assert_eq!(next.starts_with("mend gate 'host' and measure again ("), !ok, "{count} void: {next}");
    }
}

#[test]
fn a_repeated_round_takes_the_place_of_the_void_one() {
    let mut run = disturbed(1);
    let mut again = run.rounds[0].clone();
    again.round.attempt = 1;
    again.windows[0].server_cpus.steal_ns = 0;
    run.rounds.insert(1, again);
    let findings = analyse(&run);
    assert_eq!(row(&findings, "pr", Metric::CpuPerRequest).blocks, 10);
    assert_eq!(findings.void_rounds.len(), 1, "what was void stays told");
}

/// A run of 20 rounds in which server and generator were `distances[n % len]` nanoseconds apart in the n-th.
fn placed(distances: &[&[f64]]) -> Run {
    let mut run = pair(1.1);
    for (index, record) in run.rounds.iter_mut().enumerate() {
        record.started_unix_ms = index as u64 * 6000;
        for window in &mut record.windows {
            window.cpu_distances_ns = distances[index % distances.len()].to_vec();
        }
    }
    run
}

#[test]
fn a_cpu_that_was_moved_within_a_window_voids_the_round() {
    /// Samples about 450 ns, then some of another way, then about 450 ns again.
    fn amid(before: usize, other: &[f64], after: usize) -> Vec<f64> {
        let about = |count: usize| (0..count).map(|index| 445.0 + f64::from(index as u32 % 5) * 2.5);
        about(before).chain(other.iter().copied()).chain(about(after)).collect()
    }
    let cases: [(Vec<f64>, bool); 12] = [
        (vec![], false),
        (vec![450.0, 450.0, 450.0], false),
        // Few samples tell large changes only.
        (vec![390.0, 560.0, 400.0, 390.0], false),
        (vec![70.0, 120.0, 120.0, 120.0], false),
        (vec![450.0, 450.0, 130.0, 450.0, 450.0], true),
        (vec![130.0, 130.0, 130.0, 450.0, 450.0], true),
        (amid(18, &[], 0), false),
        (amid(9, &[490.0], 8), false),
        (amid(9, &[90.0], 8), true),
        // One of thirty is too short a time to matter.
        (amid(20, &[90.0], 9), false),
        (amid(20, &[90.0, 92.0], 8), true),
        (amid(9, &[490.0, 488.0, 492.0, 495.0, 485.0, 490.0, 491.0, 489.0, 493.0], 0), true),
    ];
    for (samples, moved) in cases {
        let fault = host_fault(&placed(&[&samples]).rounds[0]);
        assert_eq!(fault.as_ref().is_some_and(|fault| fault.moved), moved, "{samples:?}");
        assert_eq!(fault.is_some(), moved, "{samples:?}");
    }
}

#[test]
fn a_slightly_longer_way_is_another_where_samples_are_sure_of_it() {
    let spread = |about: f64, by: f64| -> Vec<f64> {
        (0..18).map(|index| about + by * (f64::from(index % 7) - 3.0)).collect()
    };
    // About, and how far samples lie apart, in two rounds of a block; whether they are a pair.
    let cases = [
        ((428.0, 4.0), (473.0, 4.0), false),
        ((428.0, 4.0), (440.0, 4.0), true),
        ((428.0, 25.0), (473.0, 25.0), true),
        ((82.0, 2.0), (95.0, 2.0), true),
    ];
    for (one, other, pair) in cases {
        let run = placed(&[&spread(one.0, one.1), &spread(other.0, other.1)]);
        let rounds: Vec<_> = run.rounds[..2].iter().collect();
        assert_eq!(moved_since(&rounds).is_empty(), pair, "{one:?} {other:?}");
    }
}

#[test]
fn rounds_on_either_side_of_a_move_are_no_pair() {
    let mut run = placed(&[&[450.0; 2]]);
    // The second round of the first block, and everything after it, on CPUs near each other.
    for record in &mut run.rounds[1..] {
        record.windows.iter_mut().for_each(|window| window.cpu_distances_ns = vec![130.0; 2]);
    }
    let findings = analyse(&run);
    assert_eq!(row(&findings, "pr", Metric::CpuPerRequest).blocks, 9);
    assert_eq!(findings.void_rounds.len(), 1);
    let void = &findings.void_rounds[0];
    assert_eq!((void.block, void.attempt, void.reason.moved), (0, 0, true));
    assert!(
        void.reason.text.contains("took 450 ns, and 130 ns in the round beside it"),
        "{}",
        void.reason.text
    );
    // Repeated after the move, it is a pair again.
    let mut again = run.rounds[0].clone();
    again.round.attempt = 1;
    again.started_unix_ms = run.rounds[1].started_unix_ms + 6000;
    again.windows.iter_mut().for_each(|window| window.cpu_distances_ns = vec![131.0; 2]);
    run.rounds.insert(1, again);
    let findings = analyse(&run);
    assert_eq!(row(&findings, "pr", Metric::CpuPerRequest).blocks, 10);
    assert_eq!(findings.void_rounds.len(), 1, "what was void stays told");
}

#[test]
fn moves_say_nothing_against_the_rounds_beside_them_until_half_are_void() {
    for (moved, ok) in [(9, true), (11, false)] {
        let mut run = placed(&[&[130.0; 2]]);
        for record in run.rounds.iter_mut().take(moved) {
            record.windows[0].cpu_distances_ns = vec![130.0, 130.0, 130.0, 450.0, 450.0];
        }
        let gate = gates(&analyse(&run), "host")[0].clone();
        assert_eq!(gate.ok, ok, "{moved} moved: {}", gate.text);
    }
}

#[test]
fn the_noise_floor_is_of_rounds_between_which_nothing_was_moved() {
    let floor = |run: &Run| row(&analyse(run), "pr", Metric::CpuPerRequest).noise_floor.unwrap();
    let mut run = pair(1.1);
    let still = floor(&run);
    // After five blocks everything costs three times as much, for both arms alike.
    for record in &mut run.rounds {
        let far = record.round.block >= 5;
        let window = &mut record.windows[0];
        window.cpu_distances_ns = vec![if far { 450.0 } else { 120.0 }; 3];
        if far {
            window.target.cpu.total_ns *= 3;
        }
    }
    let moved = floor(&run);
    assert!(moved < 1.5 * still + 1e-4, "{moved} {still}");
    run.rounds.iter_mut().for_each(|record| record.windows[0].cpu_distances_ns.clear());
    assert!(floor(&run) > 0.2, "without knowing of the move it is noise: {}", floor(&run));
}
