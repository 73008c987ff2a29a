//! When a run goes on after a look, and to how many blocks.

use std::cell::Cell;

use analyse::{Metric, Verdict, extend_to};
use model::plan::Blocks;
use model::record::Run;

use crate::support::{Behaves, analyse, arm, change, row, run};

const FIRST: u32 = 8;
const MAX: u32 = 24;

fn looked_at(seed: u64, blocks: u32, ratio: f64, jitter: f64) -> Run {
    let with = |name, cpu_ns| Behaves { jitter, ..arm(name, cpu_ns) };
    let mut run = run(seed, blocks, &[with("main", 10_000.0), with("pr", 10_000.0 * ratio)]);
    run.manifest.plan.design.blocks = Blocks::Looks { first: FIRST, max: MAX };
    run
}

#[test]
fn a_decided_look_ends_the_run() {
    for (ratio, want) in [(1.1, Verdict::Slower), (0.9, Verdict::Faster), (1.0, Verdict::Equal)] {
        let run = looked_at(1, FIRST, ratio, 0.002);
        assert_eq!(extend_to(&run), None);
        for row in analyse(&run).comparisons.iter().filter(|row| row.primary) {
            assert_eq!(row.verdict, want);
        }
    }
}

#[test]
fn an_open_look_goes_on_to_the_next_and_the_last_is_the_last() {
    for (blocks, next) in [(FIRST, Some(14)), (14, Some(MAX)), (MAX, None)] {
        assert_eq!(extend_to(&looked_at(1, blocks, 1.0, 0.2)), next, "after {blocks}");
    }
}

#[test]
fn each_look_has_its_level() {
    for (blocks, level) in [(8, 0.97), (14, 0.98), (24, 0.98)] {
        let findings = analyse(&looked_at(1, blocks, 1.1, 0.002));
        // Exploratory metrics are judged at the look's own level, primary ones by Holm's steps.
        let own = row(&findings, "pr", Metric::Rss).level.unwrap();
        assert!((level..level + 0.012).contains(&own), "{blocks}: {own}");
    }
}

#[test]
fn a_fixed_number_of_blocks_is_never_extended() {
    for (spread, begins, ends) in [
        (0.1, "--blocks ", " h"),
        (0.2, "a quieter machine or longer windows (--window): at this spread it would take 9", " blocks"),
    ] {
        let mut run = looked_at(1, 10, 1.0, spread);
        run.manifest.plan.design.blocks = Blocks::Fixed { blocks: 10 };
        assert_eq!(extend_to(&run), None);
        let next = analyse(&run).next.unwrap();
        let (reason, _) = next.split_once('\n').unwrap();
        assert!(reason.starts_with(begins) && reason.ends_with(ends), "{next}");
    }
}

#[test]
fn an_arm_that_one_metric_decides_is_not_measured_on_for_the_other() {
    let mut run = looked_at(1, 10, 1.3, 0.002);
    run.manifest.plan.design.blocks = Blocks::Fixed { blocks: 10 };
    let odd = Cell::new(false);
    change(&mut run, "pr", 0, |window| {
        odd.set(!odd.get());
        let cpu = &mut window.target.cpu;
        if odd.get() {
            (cpu.total_ns, cpu.user_ns, cpu.system_ns) =
                (cpu.total_ns / 2, cpu.user_ns / 2, cpu.system_ns / 2);
        }
    });
    let findings = analyse(&run);
    let verdict = |metric| row(&findings, "pr", metric).verdict;
    assert_eq!(
        [verdict(Metric::Rate), verdict(Metric::CpuPerRequest)],
        [Verdict::Slower, Verdict::Inconclusive]
    );
    let next = findings.next.unwrap_or_default();
    assert!(!next.contains("at this spread"), "{next}");
}
