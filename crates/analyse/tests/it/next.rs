//! What is to be run next is a command that can be run.

use analyse::{Findings, Metric, Verdict};
use model::plan::Blocks;
use model::record::{PerConnection, Run, RunStatus};

use crate::support::{Behaves, analyse, arm, pair, run};

const ARMS: [&str; 2] = ["main=./old --port {port}", "pr=./it's new"];
/// The same as a shell takes them.
const QUOTED: &str = r"'main=./old --port {port}' 'pr=./it'\''s new'";

/// A run whose spread leaves it open, made by `whyslow compare` with these flags.
fn open(flags: &[&str]) -> Run {
    let with = |name| Behaves { jitter: 0.1, ..arm(name, 10_000.0) };
    with_command(run(1, 10, &[with("main"), with("pr")]), &["compare"], flags)
}

fn with_command(mut run: Run, command: &[&str], flags: &[&str]) -> Run {
    let words = [&["whyslow"], command, &ARMS, flags].concat();
    run.manifest.command = words.into_iter().map(str::to_owned).collect();
    run
}

fn command(findings: &Findings) -> &str {
    findings.next.as_deref().unwrap().split_once('\n').unwrap().1
}

/// The blocks that findings ask for.
fn needed(findings: &Findings) -> u64 {
    let open = |row: &&analyse::Comparison| row.primary && row.verdict == Verdict::Inconclusive;
    findings.comparisons.iter().filter(open).filter_map(|row| row.blocks_needed).max().unwrap()
}

#[test]
fn more_blocks_take_the_place_of_those_that_were_asked_for() {
    for (flags, kept) in [
        (&["--blocks", "10"][..], ""),
        (&["--blocks=10", "--seed", "7"], " --seed 7"),
        (&["--quick"], ""),
        (&["--rigorous", "--path", "/a b", "--out", "there"], " --path '/a b'"),
        (&["--out=there"], ""),
    ] {
        let mut run = open(flags);
        if !flags[0].starts_with("--blocks") {
            run.manifest.plan.design.blocks = Blocks::Looks { first: 6, max: 6 };
        }
        let findings = analyse(&run);
        let blocks = needed(&findings);
        assert_eq!(command(&findings), format!("whyslow compare {QUOTED}{kept} --blocks {blocks}"));
    }
}

#[test]
fn who_took_much_of_the_cpus_is_to_be_ended_first() {
    let next = |taken: u64| {
        let mut run = open(&["--quick"]);
        for window in run.rounds.iter_mut().flat_map(|record| &mut record.windows) {
            let host = &mut window.server_cpus;
            host.others_ns = host.wall_ns * taken / 100;
            host.wall_ns += host.others_ns;
            host.user_ns += host.others_ns;
        }
        let next = analyse(&run).next.unwrap();
        next.split_once('\n').unwrap().0.to_owned()
    };
    let busy = next(30);
    assert!(
        busy.starts_with(
            "a quieter machine first: other processes took 23.1 % of the server's CPUs; --blocks "
        ),
        "{busy}"
    );
    assert!(next(5).starts_with("--blocks "), "{}", next(5));
}

#[test]
fn connections_that_nobody_serves_are_to_be_left_out() {
    let mut run = open(&["--quick", "--connections=64"]);
    run.manifest.plan.workload.job.connections = 64;
    for window in run.rounds.iter_mut().filter(|record| record.arm == "pr").flat_map(|r| &mut r.windows) {
        window.load.per_connection = PerConnection { min: 0, max: 500, jain: 10.5 / 64.0 };
    }
    let findings = analyse(&run);
    let next = findings.next.as_ref().unwrap();
    assert!(next.starts_with("fewer connections: pr serves about 10 of 64 and starves the others"), "{next}");
    assert_eq!(command(&findings), format!("whyslow compare {QUOTED} --quick --connections 10"));
}

#[test]
fn what_more_blocks_do_not_decide_takes_longer_windows() {
    let with = |name| Behaves { jitter: 0.2, ..arm(name, 10_000.0) };
    let wide = with_command(
        run(1, 10, &[with("main"), with("pr")]),
        &["compare"],
        &["--blocks", "10", "--window", "10s"],
    );
    let findings = analyse(&wide);
    assert!(needed(&findings) > u64::from(model::plan::MOST_BLOCKS), "{findings:?}");
    assert_eq!(command(&findings), format!("whyslow compare {QUOTED} --blocks 10 --window 40s"));
}

#[test]
fn what_a_check_found_is_to_be_mended_first_and_no_command_fails_again() {
    let mut run = with_command(pair(1.1), &["compare"], &["--out", "there", "--confirm"]);
    for record in run.rounds.iter_mut().filter(|record| record.arm == "pr") {
        record.windows[0].load.errors.status = record.windows[0].load.requests / 10;
    }
    let next = analyse(&run).next.unwrap();
    assert!(next.starts_with("mend what check 'errors' found, and measure again: 'pr' failed"), "{next}");
    assert!(!next.contains('\n'), "{next}");
}

#[test]
fn a_run_without_an_interval_is_run_to_its_end_or_with_blocks_enough() {
    for (status, flags, wanted) in [
        (
            RunStatus::Partial,
            "--quick",
            "run it to its end: there is no interval yet\nwhyslow compare {} --quick",
        ),
        (
            RunStatus::Complete,
            "--blocks=2",
            "an interval takes at least 6 blocks\nwhyslow compare {} --blocks 6",
        ),
    ] {
        let mut run = with_command(pair(1.0), &["compare"], &[flags]);
        run.rounds.retain(|record| record.round.block == 0);
        run.manifest.status = status;
        assert_eq!(analyse(&run).next.unwrap(), wanted.replace("{}", QUOTED));
    }
}

#[test]
fn a_command_without_such_flags_is_not_made_up() {
    for words in [&["case", "run"][..], &["unheard-of"]] {
        let mut run = with_command(open(&[]), words, &[]);
        assert!(!analyse(&run).next.unwrap().contains('\n'));
        run.manifest.command.clear();
        assert!(!analyse(&run).next.unwrap().contains('\n'));
    }
    let decided = analyse(&with_command(pair(1.0), &["compare"], &[]));
    let cpu = decided.comparisons.iter().find(|row| row.metric == Metric::CpuPerRequest).unwrap();
    assert_eq!((cpu.verdict, decided.next.as_deref()), (Verdict::Equal, None));
}

#[test]
fn a_row_that_is_open_needs_more_blocks_than_it_has_and_one_that_is_decided_none() {
    for (blocks, jitter, ratio) in [(4, 0.001, 1.3), (8, 0.02, 1.0), (8, 0.1, 1.05), (10, 0.1, 1.0)] {
        let with = |name, ns| Behaves { jitter, ..arm(name, ns) };
        let findings = analyse(&run(1, blocks, &[with("main", 10_000.0), with("pr", 10_000.0 * ratio)]));
        for row in &findings.comparisons {
            match row.verdict {
                Verdict::Inconclusive => assert!(row.needs() > u64::from(row.blocks), "{row:?}"),
                _ => assert_eq!(row.blocks_needed, None, "{row:?}"),
            }
        }
        let cpu = findings.comparisons.iter().find(|row| row.metric == Metric::CpuPerRequest).unwrap();
        if blocks == 4 {
            // The interval is on one side: only the level is missing.
            assert_eq!(cpu.undecided_by, Some(analyse::UndecidedBy::TooFewBlocks));
            assert!((6..=8).contains(&cpu.needs()), "{cpu:?}");
        }
    }
}

#[test]
fn the_time_that_is_offered_is_what_blocks_of_this_run_took() {
    let mut run = open(&[]);
    for record in &mut run.rounds {
        record.started_unix_ms = u64::from(record.round.block) * 22_000;
    }
    let findings = analyse(&run);
    let minutes = (needed(&findings) as f64 * 22.0 / 60.0).ceil();
    let time = if minutes < 120.0 { format!("{minutes:.0} min") } else { format!("{:.1} h", minutes / 60.0) };
    assert!(findings.next.as_deref().unwrap().contains(&format!("in about {time}\n")), "{findings:?}");
}
