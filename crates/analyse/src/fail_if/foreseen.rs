//! Conditions for which a run will have too few answers: known as soon as the pilot has told how fast the arms are.

use std::time::Duration;

use model::plan::{Blocks, Condition, Design, Plan};
use model::record::Fitted;
use model::units::Span;
use stats::looks;
use stats::paired::min_pairs;
use stats::quantile::min_observations;

use super::{Asks, FailIf};
use crate::facts::metric::Metric;
use crate::facts::sheet::{latency_condition, main_condition};

/// Seconds of a window of an arm alone in a run that is not quick, where nobody says.
const UNHURRIED_WINDOW_S: f64 = 10.0;
/// Room for a window that turns out to have fewer answers than the pilot let expect.
const ROOM: f64 = 1.1;
/// Longest window that is advised, in seconds: who asks for more waits for hours.
const LONGEST_WINDOW_S: f64 = 60.0;
/// Percentiles by which another may be replaced, the highest first.
const PERCENTILES: [Metric; 4] = [Metric::P999, Metric::P99, Metric::P90, Metric::P50];

/// A condition on a percentile for which the blocks of a run will have too few answers.
#[derive(Debug, Clone, PartialEq)]
pub struct Foreseen {
    /// The condition as it was written.
    pub condition: String,
    /// The percentile.
    pub metric: Metric,
    /// Answers that it needs: of a block, or of several together where enough groups of them are left.
    pub needed: u64,
    /// About how many answers an arm gives in a block.
    pub of_block: f64,
    /// Requests a second at which it does.
    pub per_s: f64,
    /// Blocks that are planned.
    pub blocks: u32,
    /// Groups of blocks that there must be at least.
    pub groups: u32,
    /// Whether a run that is not quick has enough.
    pub quick: bool,
    /// Seconds of a window of an arm alone that has enough, if that is no long time.
    pub window_s: Option<u32>,
    /// The highest percentile that this run has.
    pub instead: Option<Metric>,
}

/// Those of `conditions` that a run of `plan` can not decide, fitted so and with arms that gave so many answers a second in their
/// pilots, in the order of the plan; 0 of one that failed.
#[must_use]
pub fn foreseen(conditions: &[FailIf], plan: &Plan, fitted: &Fitted, pilot_per_s: &[f64]) -> Vec<Foreseen> {
    conditions.iter().filter_map(|condition| condition.foreseen(plan, fitted, pilot_per_s)).collect()
}

impl FailIf {
    fn foreseen(&self, plan: &Plan, fitted: &Fitted, pilot_per_s: &[f64]) -> Option<Foreseen> {
        let metric = self.percentile()?;
        let needed = min_observations(metric.quantile()?);
        let arm = plan.arms.iter().position(|arm| arm.name == self.arm)?;
        let index = latency_condition(&plan.workload.conditions).unwrap_or(main_condition(plan));
        let per_s = rate(plan, index, arm, pilot_per_s).filter(|per_s| *per_s > 0.0)?;
        let blocks = fitted.blocks(plan);
        let of_block = per_s * block_s(plan, fitted, index);
        let has = |metric: &Metric| {
            let needed = metric.quantile().map_or(0, min_observations);
            has_enough(of_block, needed, blocks, latency_condition(&plan.workload.conditions).is_some())
        };
        let window_s = (needed as f64 * ROOM / per_s).ceil();
        (!has(&metric)).then(|| Foreseen {
            condition: self.text.clone(),
            metric,
            needed,
            of_block,
            per_s,
            blocks,
            groups: min_pairs(looks::ONLY_LEVEL) as u32,
            quick: plan.is_quick() && per_s * unhurried_s(plan, fitted) >= needed as f64 * ROOM,
            window_s: (window_s <= LONGEST_WINDOW_S).then_some(window_s as u32),
            instead: PERCENTILES.into_iter().find(has),
        })
    }

    /// The percentile that it is on.
    fn percentile(&self) -> Option<Metric> {
        let metric = match &self.asks {
            Asks::Verdict(_, metric) => *metric,
            Asks::Figure(figure, ..) => figure.metric,
        };
        metric.filter(|metric| metric.is_latency())
    }
}

/// Seconds in which an arm is asked in a block under the condition at `index`.
fn block_s(plan: &Plan, fitted: &Fitted, index: usize) -> f64 {
    let turns = if fitted.is_alone(plan) { 1 } else { fitted.cycles_of(plan, index) };
    f64::from(turns) * fitted.turn_of(plan).0.as_secs_f64()
}

/// The same of a run that is not quick.
fn unhurried_s(plan: &Plan, fitted: &Fitted) -> f64 {
    if fitted.is_alone(plan) {
        return UNHURRIED_WINDOW_S;
    }
    let design = Design { blocks: Blocks::Fixed { blocks: fitted.blocks(plan) }, ..plan.design };
    let slice = Span(Duration::from_nanos(fitted.turn_ns));
    f64::from(Plan { design, ..plan.clone() }.cycles(slice)) * slice.0.as_secs_f64()
}

/// How many requests a second the arm answers under the condition at `index`; nothing of one that failed.
fn rate(plan: &Plan, index: usize, arm: usize, pilot_per_s: &[f64]) -> Option<f64> {
    let own = pilot_per_s.get(arm).copied().filter(|per_s| *per_s > 0.0)?;
    let slowest = pilot_per_s.iter().copied().filter(|per_s| *per_s > 0.0).fold(own, f64::min);
    Some(match plan.workload.conditions.get(index)?.resolve(slowest) {
        Condition::EqualRate { rate } => rate.get(),
        _ => own,
    })
}

/// Whether blocks of so many answers have a percentile that needs so many: one block, or where blocks are taken together as many as
/// leave groups enough for an interval.
fn has_enough(of_block: f64, needed: u64, blocks: u32, together: bool) -> bool {
    let each = (needed as f64 / of_block).ceil();
    each <= 1.0 || together && (f64::from(blocks) / each).floor() >= min_pairs(looks::ONLY_LEVEL) as f64
}
