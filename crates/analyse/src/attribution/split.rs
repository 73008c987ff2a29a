//! The exact split of a rate ratio into busy cores and cost per request, and the causes it accounts for.

use model::plan::CauseId;
use model::record::Window;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::paired;

use super::cause::{Carries, Cause, CauseSays, Grade};
use crate::facts::arms::{ArmFindings, CpuPerRequest};
use crate::facts::metric::{Metric, per_request};
use crate::facts::sheet::{Sheet, by_block};
use crate::verdicts::{Comparison, Verdict};

/// Level of the intervals of a split.
const LEVEL: f64 = 0.95;

/// Share of the gap below which nothing is left of a part.
const SMALL: f64 = 0.005;

/// ln(rate ratio) = ln(busy cores ratio) − ln(CPU per request ratio), on figures pooled over rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Split {
    /// The arm.
    pub arm: String,
    /// Arm over baseline.
    pub rate_ratio: f64,
    /// Arm over baseline.
    pub busy_cores_ratio: f64,
    /// Arm over baseline.
    pub cpu_per_request_ratio: f64,
    /// Part of ln(rate ratio) that the other two leave unexplained.
    pub residual_ln: f64,
    /// Arm minus baseline, nanoseconds per request.
    pub user_ns: f64,
    /// Arm minus baseline, nanoseconds per request.
    pub system_ns: f64,
    /// Arm minus baseline, nanoseconds per request.
    pub total_ns: f64,
    /// How sure the three are; absent where there are too few pairs.
    #[serde(default)]
    pub intervals: Option<SplitIntervals>,
}

/// Exact Wilcoxon intervals of the changes in a split, low and high, in nanoseconds per request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SplitIntervals {
    /// Of the change in user time.
    pub user_ns: [f64; 2],
    /// Of the change in system time.
    pub system_ns: [f64; 2],
    /// Of the change in all of it.
    pub total_ns: [f64; 2],
    /// Level that they attain, 0 to 1.
    pub level: f64,
    /// Pairs behind them.
    pub blocks: u32,
}

/// The split for every arm that has figures.
pub(crate) fn all(sheet: &Sheet, arms: &[ArmFindings]) -> Vec<Split> {
    let baseline = sheet.baseline();
    let Some(base) = arms.iter().find(|arm| arm.name == baseline) else { return Vec::new() };
    arms.iter().filter(|arm| arm.name != baseline).filter_map(|arm| split(sheet, base, arm)).collect()
}

fn split(sheet: &Sheet, base: &ArmFindings, arm: &ArmFindings) -> Option<Split> {
    let (from, to) = (base.cpu_ns_per_request?, arm.cpu_ns_per_request?);
    let rate_ratio = arm.rate_per_s? / base.rate_per_s?;
    let busy_cores_ratio = arm.busy_cores? / base.busy_cores?;
    let cpu_per_request_ratio = to.total / from.total;
    Some(Split {
        arm: arm.name.clone(),
        rate_ratio,
        busy_cores_ratio,
        cpu_per_request_ratio,
        residual_ln: rate_ratio.ln() - busy_cores_ratio.ln() + cpu_per_request_ratio.ln(),
        user_ns: to.user - from.user,
        system_ns: to.system - from.system,
        total_ns: to.total - from.total,
        intervals: intervals(sheet, &arm.name),
    })
}

/// Exact intervals of what changed, from the blocks in which both arms have a round; nothing where there are too few.
fn intervals(sheet: &Sheet, arm: &str) -> Option<SplitIntervals> {
    let of = |count: fn(&Window) -> u64| {
        let changes = changes(sheet, arm, count);
        paired::estimate_or_widest(&changes, LEVEL).ok()
    };
    let total = of(|window| window.target.cpu.total_ns)?;
    let ends = |estimate: stats::Estimate| [estimate.interval.low, estimate.interval.high];
    Some(SplitIntervals {
        user_ns: ends(of(|window| window.target.cpu.user_ns)?),
        system_ns: ends(of(|window| window.target.cpu.system_ns)?),
        blocks: total.n as u32,
        level: total.interval.level,
        total_ns: ends(total),
    })
}

/// Arm minus baseline of a count per request, one for each block in which both have it.
fn changes(sheet: &Sheet, arm: &str, count: fn(&Window) -> u64) -> Vec<f64> {
    let figures = |name: &str| sheet.figures(name, sheet.main, |window| per_request(window, count(window)));
    let both = by_block(&figures(sheet.baseline()), &figures(arm));
    both.into_iter().map(|(_, [below, figure])| figure - below).collect()
}

/// User and system time as causes: an identity, so they account for the gap in CPU per request and leave nothing.
///
/// Where other causes carry a part of either, only `residues` of it are left: user and system time of each arm.
pub(crate) fn causes(
    splits: &[Split],
    comparisons: &[Comparison],
    arms: &[ArmFindings],
    residues: &[(String, [f64; 2])],
) -> Vec<Cause> {
    let mut causes = Vec::new();
    for split in splits.iter().filter(|split| is_decided(comparisons, &split.arm)) {
        let left = residues.iter().find(|(arm, _)| *arm == split.arm).map(|(_, left)| *left);
        let mut parts = of_split(split, comparisons, arms);
        if let Some(left) = left {
            parts.retain_mut(|part| leave(part, left, split));
        }
        causes.extend(parts);
    }
    causes
}

/// Makes of a part what of it no other cause carries; false where others carry all of it.
fn leave(part: &mut Cause, [user, system]: [f64; 2], split: &Split) -> bool {
    let ns = if part.id == CauseId::UserTime { user } else { system };
    let share = ns / split.total_ns;
    let is_whole = (ns - part.ns_per_request).abs() <= SMALL * split.total_ns.abs();
    if !is_whole {
        part.says = Some(says(Carries::Rest { part: part.id, share }));
    }
    (part.ns_per_request, part.share) = (ns, Some(share));
    is_whole || share.abs() >= SMALL
}

fn says(carries: Carries) -> CauseSays {
    CauseSays { tests: Vec::new(), of: None, seen: Vec::new(), carries }
}

/// Only a difference that was shown is explained: a server against itself has no cause.
pub(crate) fn is_decided(comparisons: &[Comparison], arm: &str) -> bool {
    comparisons.iter().any(|row| {
        row.arm == arm
            && row.metric == Metric::CpuPerRequest
            && matches!(row.verdict, Verdict::Slower | Verdict::Faster)
    })
}

fn of_split(split: &Split, comparisons: &[Comparison], arms: &[ArmFindings]) -> Vec<Cause> {
    let baseline = comparisons
        .iter()
        .find(|row| row.arm == split.arm)
        .map(|row| row.baseline.clone())
        .unwrap_or_default();
    let figures =
        |name: &str| arms.iter().find(|row| row.name == name).and_then(|row| row.cpu_ns_per_request);
    let (Some(from), Some(to)) = (figures(&baseline), figures(&split.arm)) else { return Vec::new() };
    let part = |id: CauseId, ns: f64, between: Option<[f64; 2]>, pick: fn(&CpuPerRequest) -> f64| {
        let share = ns / split.total_ns;
        let between = between.map(|ends| ends.map(|end| end / split.total_ns));
        let between = between.map(|ends| [ends[0].min(ends[1]), ends[0].max(ends[1])]);
        Cause {
            id,
            grade: Grade::AccountsFor,
            baseline: baseline.clone(),
            arm: split.arm.clone(),
            ns_per_request: ns,
            share: Some(share),
            place: None,
            text: String::new(),
            says: Some(says(Carries::Split { part: id, share, between, ns: [pick(&to), pick(&from)] })),
        }
    };
    let between = split.intervals.as_ref();
    let mut causes = vec![
        part(CauseId::UserTime, split.user_ns, between.map(|ends| ends.user_ns), |cpu| cpu.user),
        part(CauseId::SystemTime, split.system_ns, between.map(|ends| ends.system_ns), |cpu| cpu.system),
    ];
    causes.sort_by(|a, b| b.ns_per_request.abs().total_cmp(&a.ns_per_request.abs()));
    causes
}
