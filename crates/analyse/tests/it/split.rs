//! The exact split and the causes it accounts for.

use analyse::{Findings, Grade};
use model::record::Window;

use crate::support::{analyse, change, pair};

#[test]
fn rate_is_busy_cores_over_cost_and_nothing_is_left() {
    for ratio in [0.5, 0.97, 1.0, 1.1, 3.0] {
        let findings = analyse(&pair(ratio));
        let split = &findings.splits[0];
        assert!((split.cpu_per_request_ratio / ratio - 1.0).abs() < 0.005, "x{ratio}: {split:?}");
        assert!((split.busy_cores_ratio - 1.0).abs() < 0.005, "x{ratio}: {split:?}");
        assert!(split.residual_ln.abs() < 1e-5, "x{ratio}: {split:?}");
        let sum = split.user_ns + split.system_ns;
        assert!((sum - split.total_ns).abs() < 1e-6, "x{ratio}: {split:?}");
    }
}

#[test]
fn a_rate_lost_to_idle_cores_is_not_laid_on_the_cost() {
    let mut run = pair(1.0);
    change(&mut run, "pr", 0, |window| {
        let half = |value: &mut u64| *value /= 2;
        half(&mut window.load.requests);
        window.load.rate_per_s /= 2.0;
        half(&mut window.target.cpu.total_ns);
        half(&mut window.target.cpu.user_ns);
        half(&mut window.target.cpu.system_ns);
    });
    let split = &analyse(&run).splits[0];
    assert!((split.rate_ratio - 0.5).abs() < 0.005, "{split:?}");
    assert!((split.busy_cores_ratio - 0.5).abs() < 0.005, "{split:?}");
    assert!((split.cpu_per_request_ratio - 1.0).abs() < 0.005, "{split:?}");
    assert!(split.residual_ln.abs() < 1e-5, "{split:?}");
}

/// `pr` spends so much more per request, in nanoseconds, in its own code and in the kernel.
fn planted(user_ns: f64, system_ns: f64) -> Findings {
    let mut run = pair(1.0);
    let add = |window: &mut Window| {
        let requests = window.load.requests as f64;
        window.target.cpu.user_ns += (requests * user_ns) as u64;
        window.target.cpu.system_ns += (requests * system_ns) as u64;
        window.target.cpu.total_ns = window.target.cpu.user_ns + window.target.cpu.system_ns;
        window.server_cpus.cpus = 2;
    };
    for index in [0, 1] {
        change(&mut run, "pr", index, add);
        change(&mut run, "main", index, |window| window.server_cpus.cpus = 2);
    }
    analyse(&run)
}

#[test]
fn the_cause_that_was_planted_comes_first_with_its_share() {
    for (user_ns, system_ns, first) in [
        (1000.0, 0.0, "user_time"),
        (0.0, 1000.0, "system_time"),
        (300.0, 900.0, "system_time"),
        (900.0, 300.0, "user_time"),
    ] {
        let findings = planted(user_ns, system_ns);
        let causes = &findings.causes;
        assert_eq!(causes.len(), 2);
        assert_eq!(causes[0].id.name(), first, "{user_ns} + {system_ns}");
        assert!(causes.iter().all(|cause| cause.grade == Grade::AccountsFor && cause.arm == "pr"));
        let want = user_ns.max(system_ns) / (user_ns + system_ns);
        // Rounds differ by ±0.2 % of 10 µs, so the arms differ by some nanoseconds.
        assert!((causes[0].share.unwrap() - want).abs() < 0.03, "{user_ns} + {system_ns}: {:?}", causes[0]);
        let sum: f64 = causes.iter().filter_map(|cause| cause.share).sum();
        assert!((sum - 1.0).abs() < 1e-9, "shares sum to {sum}");
        assert!(findings.unattributed_share.unwrap() < 1e-9);
    }
}

#[test]
fn the_interval_of_a_change_holds_what_was_planted() {
    let findings = planted(900.0, 300.0);
    let intervals = findings.splits[0].intervals.as_ref().unwrap();
    assert!(intervals.level >= 0.95 && intervals.blocks == findings.arms[0].rounds, "{intervals:?}");
    for (interval, planted) in
        [(intervals.user_ns, 900.0), (intervals.system_ns, 300.0), (intervals.total_ns, 1200.0)]
    {
        let [low, high] = interval;
        // Rounds differ by ±0.2 % of 10 µs.
        assert!(low <= high && low > planted - 40.0 && high < planted + 40.0, "{interval:?} for {planted}");
    }
    let arm = &findings.arms[1];
    let ([low, high], total) = (arm.cpu_ns_per_request_range.unwrap(), arm.cpu_ns_per_request.unwrap().total);
    assert!(low < total && total < high, "{low} {total} {high}");
    let ([low, high], busy) = (arm.server_set_busy_range.unwrap(), arm.server_set_busy.unwrap());
    assert!(low <= busy && busy <= high, "{low} {busy} {high}");
}

#[test]
fn a_server_against_itself_has_no_cause() {
    for findings in [analyse(&pair(1.0)), planted(0.0, 0.0)] {
        assert!(findings.causes.is_empty(), "{:?}", findings.causes);
        assert_eq!(findings.unattributed_share, None);
        assert_eq!(findings.splits.len(), 1, "the split is shown all the same");
    }
}
