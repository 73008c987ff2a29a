//! What else happened on the server's CPUs: it voids nothing and is inside the intervals.

use analyse::{Comparison, Metric, Verdict};
use model::plan::GateId;
use model::record::{Run, Slice};

use crate::support::{analyse, change, gates, pair, row, sliced};

/// A run of slices in which `disturb` is done to each slice of the arm named.
fn disturbed(ratio: f64, arm: &str, disturb: impl Fn(&mut Slice)) -> Run {
    let mut run = sliced(pair(ratio), 6);
    for record in run.rounds.iter_mut().filter(|record| record.arm == arm) {
        record.windows.iter_mut().flat_map(|window| &mut window.slices).for_each(&disturb);
    }
    run
}

/// Others take this share of the server's CPUs, and the slice takes as much longer.
fn taken(slice: &mut Slice, share: f64) {
    slice.others_ns = (slice.wall_ns as f64 * share / (1.0 - share)) as u64;
    slice.wall_ns += slice.others_ns;
}

/// The kernel accounts for what slices say that others took.
fn accounted(mut run: Run) -> Run {
    for window in run.rounds.iter_mut().flat_map(|record| &mut record.windows) {
        let sum = |of: fn(&Slice) -> u64| window.slices.iter().map(of).sum::<u64>();
        let host = &mut window.server_cpus;
        host.others_ns = sum(|slice| slice.others_ns);
        host.user_ns += sum(|slice| slice.others_ns.min(slice.wall_ns - slice.cpu_ns));
        host.wall_ns = sum(|slice| slice.wall_ns);
    }
    run
}

fn cpu(run: &Run) -> Comparison {
    row(&analyse(run), "pr", Metric::CpuPerRequest).clone()
}

#[test]
fn what_meets_all_arms_alike_moves_nothing_and_is_told() {
    let mut run = disturbed(1.1, "main", |slice| taken(slice, 0.1));
    let other = disturbed(1.1, "pr", |slice| taken(slice, 0.1));
    for (record, disturbed) in run.rounds.iter_mut().zip(other.rounds) {
        if record.arm == "pr" {
            *record = disturbed;
        }
    }
    let findings = analyse(&accounted(run));
    let found = row(&findings, "pr", Metric::CpuPerRequest);
    assert!(found.verdict == Verdict::Slower && found.bias.high < 1e-6, "{:?}", found.bias);
    let gate = gates(&findings, GateId::Host)[0];
    assert!(!gate.ok && gate.voids.is_empty(), "{gate:?}");
    let begin =
        "other processes took 10 % of the server's CPUs in the turns of 'main' and 10 % in those of 'pr'";
    assert!(gate.text.starts_with(begin), "{}", gate.text);
}

#[test]
fn what_meets_one_arm_only_widens_the_interval_by_what_it_can_have_done() {
    let quiet = cpu(&disturbed(1.1, "pr", |_| ()));
    let found = cpu(&accounted(disturbed(1.1, "pr", |slice| taken(slice, 0.1))));
    // A tenth of the CPUs is gone; a quarter of that is what it does to caches.
    assert!((found.bias.high - 0.025).abs() < 1e-6 && found.bias.low == found.bias.high, "{:?}", found.bias);
    assert_eq!(found.bias.of[0].what, "other processes");
    let wider = |found: &Comparison| (found.ci_high.unwrap() / found.ci_low.unwrap()).ln();
    assert!((wider(&found) - wider(&quiet) - 0.05).abs() < 1e-6);
    assert_eq!(found.verdict, Verdict::Slower, "ten per cent are more than that");
}

#[test]
fn others_take_no_more_than_is_left_of_the_cpus_nor_more_than_these_were_busy() {
    let share = |run: &Run| gates(&analyse(run), GateId::Host)[0].value;
    // Six CPUs of others, of which the one of the server can have had what it left.
    let everywhere = |slice: &mut Slice| {
        slice.wall_ns *= 2;
        slice.others_ns = slice.wall_ns * 6;
    };
    let left = share(&accounted(disturbed(1.0, "pr", everywhere))).unwrap();
    assert!((left - 0.51).abs() < 0.01, "{left}");
    // The server's CPU was idle but for the server: they were on another one.
    let elsewhere = share(&disturbed(1.0, "pr", everywhere)).unwrap();
    assert!(elsewhere < 0.051, "{elsewhere}");
}

#[test]
fn a_server_that_sleeps_loses_no_more_of_its_rate_than_it_was_on_a_cpu() {
    for (run_wait, want) in [(0.0, 0.1), (0.2, 0.04)] {
        let mut run = accounted(disturbed(1.0, "pr", |slice| taken(slice, 0.1)));
        for window in run.rounds.iter_mut().flat_map(|record| &mut record.windows) {
            let cpu_ns = window.target.cpu.total_ns / 5;
            window.target.run_wait_ns = (window.target.wall_ns as f64 * run_wait) as u64;
            window.server_cpus.user_ns -= window.target.cpu.total_ns - cpu_ns;
            window.target.cpu.total_ns = cpu_ns;
            window.slices.iter_mut().for_each(|slice| slice.cpu_ns /= 5);
        }
        let bias = row(&analyse(&run), "pr", Metric::Rate).bias.high;
        assert!((bias - want).abs() < 0.003, "{run_wait}: {bias}");
    }
}

#[test]
fn what_no_process_seen_used_of_the_servers_cpus_somebody_unseen_did() {
    for (share, seen) in [(0.04, None), (0.1, Some(0.025))] {
        let mut run = disturbed(1.1, "pr", |_| ());
        for record in run.rounds.iter_mut().filter(|record| record.arm == "pr") {
            for window in &mut record.windows {
                let wall_ns: u64 = window.slices.iter().map(|slice| slice.wall_ns).sum();
                let unseen_ns = (wall_ns as f64 * share) as u64;
                let host = &mut window.server_cpus;
                (host.wall_ns, host.system_ns) = (wall_ns, 0);
                host.user_ns = window.target.cpu.total_ns + host.others_ns + unseen_ns;
            }
        }
        let found = cpu(&run);
        let bias = found.bias.of.first().map(|source| source.high);
        assert_eq!(bias.is_some(), seen.is_some(), "{:?}", found.bias);
        let (bias, seen) = (bias.unwrap_or(0.0), seen.unwrap_or(0.0));
        assert!((bias - seen).abs() < 1e-3, "{share}: {bias}");
    }
}

#[test]
fn a_verdict_is_refused_only_where_the_disturbance_could_have_made_it() {
    for (ratio, share, want) in [
        (1.02, 0, Verdict::Slower),
        (1.02, 5, Verdict::Inconclusive),
        (1.2, 5, Verdict::Slower),
        (2.8, 2, Verdict::Slower),
    ] {
        let steal = |slice: &mut Slice| slice.steal_ns = slice.wall_ns.checked_div(4 * share).unwrap_or(0);
        let found = cpu(&disturbed(ratio, "pr", steal));
        assert_eq!(found.verdict, want, "{ratio} at 1/{share}: {found:?}");
    }
}

#[test]
fn the_rate_loses_the_whole_share() {
    let run = disturbed(1.1, "pr", |slice| slice.throttled_ns = slice.wall_ns / 50);
    let findings = analyse(&run);
    let bias = |metric| row(&findings, "pr", metric).bias.high;
    assert!((bias(Metric::Rate) - 0.02).abs() < 1e-9 && (bias(Metric::CpuPerRequest) - 0.005).abs() < 1e-9);
    assert_eq!(bias(Metric::Rss), 0.0);
}

#[test]
fn arms_that_work_while_others_are_asked_are_a_disturbance_and_a_figure() {
    let mut run = disturbed(1.1, "pr", |slice| slice.idle_arms_ns = slice.wall_ns / 20);
    for record in run.rounds.iter_mut().filter(|record| record.arm == "main") {
        record.background = Some(model::record::Background { wall_ns: 1_000, cpu_ns: 50 });
    }
    let findings = analyse(&run);
    assert_eq!(findings.arms[0].background_cpu_share, Some(0.05));
    assert_eq!(row(&findings, "pr", Metric::CpuPerRequest).bias.of[0].what, "arms that nobody asked");
}

#[test]
fn runs_of_before_there_were_slices_are_judged_by_their_windows() {
    let mut run = pair(1.1);
    for record in run.rounds.iter_mut().filter(|record| record.arm == "pr") {
        let host = &mut record.windows[0].server_cpus;
        host.others_ns = host.wall_ns / 9;
        host.wall_ns += host.others_ns;
        host.user_ns += host.others_ns;
    }
    assert!((cpu(&run).bias.high - 0.025).abs() < 1e-6);
}

#[test]
fn the_value_of_a_block_is_the_median_of_its_cycles_and_does_not_see_the_one_that_straddles_a_move() {
    let mut run = sliced(pair(1.1), 7);
    for record in run.rounds.iter_mut().filter(|record| record.arm == "pr") {
        // In one cycle of seven the arm paid twice as much.
        record.windows[0].slices[3].cpu_ns *= 2;
        record.windows[0].target.cpu.total_ns = record.windows[0].target.cpu.total_ns * 8 / 7;
    }
    let found = cpu(&run);
    assert!((found.ratio.unwrap() - 1.1).abs() < 0.01, "{:?}", found.ratio);
    assert_eq!(found.block_ratios.len(), 10);
    // It was in every block: no move of a CPU, and within the interval.
    assert_eq!(found.bias.of[0].what, "work that comes in few turns");
    assert!(
        (found.bias.high - (8.0_f64 / 7.0).ln()).abs() < 1e-3 && found.bias.low == 0.0,
        "{:?}",
        found.bias
    );
    assert!(found.ci_high.unwrap() > 1.1 * 8.0 / 7.0, "{found:?}");
    assert!(found.ci_low.unwrap() > 1.09, "{found:?}");
}

#[test]
fn turns_of_few_answers_are_no_work_that_comes_in_few_turns() {
    // As of a server that answers 64 connections every 30 ms: half of the answers of each turn come after it.
    let mut run = sliced(pair(1.0), 4);
    change(&mut run, "pr", 0, |window| {
        for slice in &mut window.slices {
            (slice.length_ns, slice.wall_ns, slice.requests, slice.in_time) =
                (50_000_000, 60_000_000, 128, 64);
        }
    });
    let findings = analyse(&run);
    assert!(
        row(&findings, "pr", Metric::Rate).bias.of.is_empty(),
        "{:?}",
        row(&findings, "pr", Metric::Rate)
    );
}

#[test]
fn cycles_that_straddle_a_move_in_either_arm_widen_nothing() {
    let mut run = sliced(pair(1.1), 7);
    for record in run.rounds.iter_mut().filter(|record| (record.arm == "pr") == (record.round.block % 2 == 0))
    {
        record.windows[0].slices[3].cpu_ns *= 2;
    }
    assert!(cpu(&run).bias.of.is_empty());
}

#[test]
fn what_a_disturbance_alone_leaves_open_no_number_of_blocks_decides() {
    use analyse::UndecidedBy;
    let steal = |slice: &mut Slice| slice.steal_ns = slice.wall_ns / 10;
    let mut run = disturbed(1.05, "pr", steal);
    run.manifest.command = ["whyslow", "compare"].map(str::to_owned).to_vec();
    let findings = analyse(&run);
    let found = row(&findings, "pr", Metric::CpuPerRequest);
    let why = (found.verdict, found.undecided_by, found.blocks_needed);
    assert_eq!(why, (Verdict::Inconclusive, Some(UndecidedBy::Disturbance), None));
    let next = findings.next.unwrap();
    assert!(
        next.starts_with("a quieter machine, not more blocks: the hypervisor can have moved pr by"),
        "{next}"
    );
    assert!(!next.contains('\n'), "the same command would end alike: {next}");
}
