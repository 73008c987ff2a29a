//! Causes put to the test: how much of the gap went when a cause was taken away from both arms.

use model::plan::Intervention;
use model::record::{Run, Window};
use stats::paired;

use super::gap::Pair;
use crate::attribution::cause::{Cause, Grade, TestOutcome, Tested};
use crate::facts::metric::Metric;
use crate::facts::sheet::{Sheet, by_block};

/// Level of the interval of what went.
const LEVEL: f64 = 0.95;
/// Fewest blocks that are judged, where the host spoilt some: all of five on one side happen by chance in one of sixteen.
const FEWEST: usize = 5;
/// Share of what a cause was said to carry that must go with it.
const REMOVED: f64 = 0.5;

/// What a change made of the gap; nanoseconds per request of the slower arm.
struct Tried<'a> {
    intervention: &'a Intervention,
    /// Median gap as they are, and changed.
    gap_ns: [f64; 2],
    /// By how much the gap fell: estimate, low, high.
    fell_ns: [f64; 3],
    /// Level of that interval, 0 to 1.
    level: f64,
    blocks: usize,
}

/// `causes` of `pair` with their grades after every test that was made of them.
pub(super) fn put_to_the_test(pair: &Pair, interventions: &[Run], causes: &mut [Cause]) {
    let tried: Vec<Tried> = interventions.iter().filter_map(|run| tried(pair, run)).collect();
    for tried in &tried {
        let open: Vec<usize> = (0..causes.len()).filter(|index| tried.speaks_of(&causes[*index])).collect();
        // A change that takes two suspects away at once tells which of them it was of neither.
        let alone = open.len() == 1;
        for index in open {
            judge(pair, tried, alone, &mut causes[index]);
        }
    }
}

fn judge(pair: &Pair, tried: &Tried, alone: bool, cause: &mut Cause) {
    let [fell, low, high] = tried.fell_ns;
    let carried = cause.ns_per_request.abs();
    let matters = Metric::CpuPerRequest.delta() * pair.slow_ns();
    let went = fell >= REMOVED * carried && low > 0.0;
    let stayed = low > -matters && high < matters.min(REMOVED * carried);
    let outcome = match (went, stayed && tried.intervention.rules_out) {
        (true, _) if alone => TestOutcome::Confirmed,
        (true, _) => TestOutcome::NotAlone,
        (false, true) if cause.grade != Grade::ConfirmedBy => TestOutcome::RuledOut,
        (false, _) => TestOutcome::NotConfirmed,
    };
    match outcome {
        TestOutcome::Confirmed => cause.grade = Grade::ConfirmedBy,
        TestOutcome::RuledOut => cause.grade = Grade::RuledOut,
        TestOutcome::NotAlone | TestOutcome::NotConfirmed => {}
    }
    if let Some(says) = &mut cause.says {
        says.tests.insert(0, tried.tested(outcome));
    }
}

impl Tried<'_> {
    /// Whether the test was of this cause, and it is still open.
    fn speaks_of(&self, cause: &Cause) -> bool {
        let open = matches!(cause.grade, Grade::BoundedBy | Grade::ConsistentWith | Grade::ConfirmedBy);
        open && self.intervention.causes.contains(&cause.id)
    }

    fn tested(&self, outcome: TestOutcome) -> Tested {
        let [_, low, high] = self.fell_ns;
        Tested {
            outcome,
            with: self.intervention.with.clone(),
            gap_ns: self.gap_ns,
            fell_ns: [low, high],
            level: self.level,
            blocks: self.blocks,
        }
    }
}

/// What the run of an intervention says of `pair`; nothing where it is of another pair, or has too few blocks.
fn tried<'a>(pair: &Pair, run: &'a Run) -> Option<Tried<'a>> {
    let intervention = run.manifest.plan.intervention.as_ref()?;
    let sheet = Sheet::new(run);
    let names = [&pair.slow.name, &pair.fast.name];
    let plain = gaps(&sheet, pair, names.map(String::as_str))?;
    let changed = names.map(|name| intervention.arm(name));
    let changed = gaps(&sheet, pair, [&changed[0], &changed[1]])?;
    let both = by_block(&changed, &plain);
    let fell: Vec<f64> = both.iter().map(|(_, [after, before])| before - after).collect();
    if fell.len() < FEWEST {
        return None;
    }
    let estimate = paired::estimate_or_widest(&fell, LEVEL).ok()?;
    let (after, before): (Vec<f64>, Vec<f64>) =
        both.into_iter().map(|(_, [after, before])| (after, before)).unzip();
    Some(Tried {
        intervention,
        gap_ns: [stats::descriptive::median(&before)?, stats::descriptive::median(&after)?],
        fell_ns: [estimate.value, estimate.interval.low, estimate.interval.high],
        level: estimate.interval.level,
        blocks: fell.len(),
    })
}

/// Slow minus fast in each block that has both, in the terms in which the pair's gap is told.
fn gaps(sheet: &Sheet, pair: &Pair, [slow, fast]: [&str; 2]) -> Option<Vec<(u32, f64)>> {
    let known = |name: &str| sheet.plan().arms.iter().any(|arm| arm.name == name);
    if !known(slow) || !known(fast) {
        return None;
    }
    let values = |name: &str| sheet.figures(name, 0, |window| cost_ns(pair, window));
    let both = by_block(&values(fast), &values(slow));
    Some(both.into_iter().map(|(block, [fast, slow])| (block, slow - fast)).collect())
}

/// What a request cost: CPU time, or all time of the server's CPUs where the slow server waits.
fn cost_ns(pair: &Pair, window: &Window) -> Option<f64> {
    if !pair.counts_idle() {
        return Metric::CpuPerRequest.value_in(window);
    }
    let cpus = f64::from(window.server_cpus.cpus.max(1));
    Metric::Rate.value_in(window).map(|per_s| cpus * 1e9 / per_s)
}
