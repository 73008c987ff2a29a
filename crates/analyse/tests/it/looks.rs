//! When a run goes on after its first look, and to how many blocks.

use std::cell::Cell;

use analyse::{Metric, Verdict, analyse, extend_to};
use model::plan::Blocks;
use model::record::Run;

use crate::support::{Behaves, arm, change, row, run};

const FIRST: u32 = 10;
const MAX: u32 = 30;

fn looked_twice(seed: u64, blocks: u32, ratio: f64, jitter: f64) -> Run {
    let with = |name, cpu_ns| Behaves { jitter, ..arm(name, cpu_ns) };
    let mut run = run(seed, blocks, &[with("main", 10_000.0), with("pr", 10_000.0 * ratio)]);
    run.manifest.plan.design.blocks = Blocks::TwoLooks { first: FIRST, max: MAX };
    run
}

#[test]
fn a_decided_first_look_ends_the_run_at_99_percent() {
    for (ratio, want) in [(1.1, Verdict::Slower), (0.9, Verdict::Faster), (1.0, Verdict::Equal)] {
        let run = looked_twice(1, FIRST, ratio, 0.002);
        assert_eq!(extend_to(&run), None);
        let findings = analyse(&run);
        for row in findings.comparisons.iter().filter(|row| row.primary) {
            assert_eq!(row.verdict, want);
            assert!(row.level.unwrap() >= 0.99, "{:?}", row.level);
        }
    }
}

#[test]
fn an_open_first_look_goes_on_as_far_as_the_spread_asks() {
    let mut between = 0;
    for seed in 1..=30 {
        let run = looked_twice(seed, FIRST, 1.0, 0.035);
        let findings = analyse(&run);
        let open =
            findings.comparisons.iter().filter(|row| row.primary && row.verdict == Verdict::Inconclusive);
        let needed =
            open.filter_map(|row| row.blocks_needed).max().filter(|needed| *needed > u64::from(FIRST));
        let want = needed.map(|needed| u32::try_from(needed).unwrap().min(MAX));
        assert_eq!(extend_to(&run), want, "seed {seed}");
        between += u32::from(want.is_some_and(|blocks| blocks < MAX));
    }
    assert!(between > 0, "no seed asked for fewer than all blocks: the test shows nothing");
}

#[test]
fn a_wide_spread_goes_to_the_most_and_no_further() {
    assert_eq!(extend_to(&looked_twice(1, FIRST, 1.0, 0.2)), Some(MAX));
    assert_eq!(extend_to(&looked_twice(1, FIRST + 1, 1.0, 0.2)), None, "a second look is the last");
}

#[test]
fn the_last_look_is_at_96_percent() {
    let findings = analyse(&looked_twice(1, 20, 1.1, 0.002));
    let levels: Vec<f64> = findings.comparisons.iter().filter_map(|row| row.level).collect();
    assert!(levels.iter().all(|level| *level >= 0.96), "{levels:?}");
    assert!(levels.iter().any(|level| *level < 0.97), "{levels:?}");
}

#[test]
fn a_fixed_number_of_blocks_is_never_extended() {
    for (spread, begins, ends) in [
        (0.1, "--blocks ", " would decide at this spread, in about 168 min"),
        (0.2, "a quieter machine or longer windows (--window): at this spread it would take 7", " blocks"),
    ] {
        let mut run = looked_twice(1, FIRST, 1.0, spread);
        run.manifest.plan.design.blocks = Blocks::Fixed { blocks: FIRST };
        assert_eq!(extend_to(&run), None);
        let next = analyse(&run).next.unwrap();
        let (reason, _) = next.split_once('\n').unwrap();
        assert!(reason.starts_with(begins) && reason.ends_with(ends), "{next}");
    }
}

#[test]
fn an_arm_that_one_metric_decides_is_not_measured_on_for_the_other() {
    let mut run = looked_twice(1, FIRST, 1.3, 0.002);
    run.manifest.plan.design.blocks = Blocks::Fixed { blocks: FIRST };
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
