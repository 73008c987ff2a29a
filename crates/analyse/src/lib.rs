//! A run into findings: gates, then verdicts, then what explains them.
//!
//! Everything is a pure function of the run directory, so that an old run can be analysed again on another machine.
//! The order is fixed: a figure that a gate voids gets no verdict, and a difference that was not shown gets no cause.
#![forbid(unsafe_code)]

mod arms;
mod bound;
pub mod capacity;
mod case;
mod compare;
mod course;
mod detail;
mod figures;
mod findings;
mod gates;
mod ladder;
mod limiter;
mod metric;
mod next;
pub mod profile;
mod resources;
pub mod sameness;
mod sheet;
mod split;
mod stacks;
pub mod warm_up;
mod watched;
mod why;

use model::plan::{Blocks, Condition, Turns};
use model::record::{AloneReason, PassKind, Run, RunStatus};

pub use bound::{Bound, BoundError, Judged};
pub use case::{
    CASE_SCHEMA, CaseFindings, CaseRun, ClaimFindings, FigureFindings, FunctionCost, InstructionProfile,
    PublishedProfile, PublishedProfileRow, Reproduced, case_findings,
};
pub use course::{CoursePoint, course};
pub use detail::{
    Detail, LatencyCurve, LatencyPoint, RoundDetail, WindowDetail, detail, host_difference,
    machine_difference, unjudged,
};
pub use figures::{Figure, figures};
pub use findings::{
    ArmFindings, BiasFindings, BiasSource, Cause, Comparison, CpuPerRequest, DesignFindings, DesignKind, FINDINGS_SCHEMA, Findings, Gate, Grade, Latency, Overload,
    ResponsePeak, ResponseShape, Segments, Split, SplitIntervals, StallActivity, Stalls, Standing, Switches, Verdict,
    VoidRound,
};
pub use gates::difference;
pub use ladder::{Alone, Ladder, MetricLadder, Rung, ladder};
pub use metric::{Metric, per_request};
pub use profile::{ArmProfile, Category, ProfileDifference, ProfileRow};
pub use resources::{ArmResources, UseInput, UseLevel, UseRow, UseScope, use_table};
pub use sheet::{counted_rounds, is_compared, main_condition};
pub use stacks::{ArmStacks, stacks};
pub use watched::{LedgerRow, Seen, WatchInput, Watched, watched};
pub use why::{LedgerLine, PassFindings, stalls};

use sheet::Sheet;

/// What the second copy of the baseline is called: the baseline's name with this behind it.
pub const SECOND_BASELINE_SUFFIX: &str = "_again";

/// Level of the interval that a noise floor is read from.
const FLOOR_LEVEL: f64 = 0.95;

/// Everything that follows from a run.
#[must_use]
pub fn analyse(run: &Run) -> Findings {
    let sheet = Sheet::new(run);
    let gates = gates::all(&sheet);
    let comparisons = compare::all(&sheet, &gates);
    let mut arms = arms::all(&sheet);
    let plan = sheet.plan();
    let splits = if plan.design.why { split::all(&sheet, &arms) } else { Vec::new() };
    let split = split::causes(&splits, &comparisons, &arms);
    let passes = why::passes(&sheet);
    for arm in &mut arms {
        arm.syscalls_per_request = why::syscalls(&sheet, &arm.name, &passes);
        let alone = why::alone(&sheet, &arm.name, &passes);
        arm.limiter = limiter::name(&sheet, &arm.name, &gates, &alone);
        arm.response_shapes = alone.shapes;
        arm.stalls = alone.stalls;
    }
    let profiles = profile::all(&sheet, &arms, |arm| {
        why::used(&passes, arm, PassKind::Sampling).map(PassFindings::divides)
    });
    let material = why::Material {
        arms: &arms,
        gates: &gates,
        comparisons: &comparisons,
        passes: &passes,
        profiles: &profiles,
    };
    let why = if plan.design.why { why::explain(&sheet, &material) } else { why::Why::default() };
    for (arm, evidence) in &why.waits {
        arms.iter_mut().filter(|row| row.name == *arm).for_each(|row| {
            row.limiter = Some(format!("a wait, not its CPU: {evidence}"));
        });
    }
    let left = if why.unattributed.is_empty() { left_by_split(&split) } else { why.unattributed };
    let most_left = left.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
    let causes = most_important_first(&sheet, [split, why.causes].concat());
    let mut findings = Findings {
        schema: FINDINGS_SCHEMA,
        run_id: run.manifest.run_id.clone(),
        case: plan.case.clone(),
        seed: plan.seed,
        host: run.host.clone(),
        command: run.manifest.command.clone(),
        workload: workload(&sheet),
        partial: partial(run),
        condition: sheet.describe(sheet.main),
        latency_condition: sheet.latency.map(|index| sheet.describe(index)),
        window_ns: plan.timing.window.as_ns(),
        baseline: sheet.baseline().to_owned(),
        resources: resources::all(&sheet),
        profiles: profiles.into_iter().map(ProfileDifference::shortened).collect(),
        unattributed_share: most_left.as_ref().map(|(_, share)| *share),
        unattributed_arm: most_left.map(|(arm, _)| arm),
        arms,
        comparisons,
        gates,
        causes,
        ledger: why.ledger,
        passes,
        splits,
        warnings: Vec::new(),
        design: design(&sheet),
        took_ns: took_ns(run),
        void_rounds: Vec::new(),
        next: None,
    };
    findings.warnings = warnings(&findings, run);
    findings.next = next::next(&findings, plan);
    findings
}

/// Causes arm by arm: what may be a cause by what it carries, then user and system time, which account for a gap but do
/// not explain it, then what was ruled out.
fn most_important_first(sheet: &Sheet, mut causes: Vec<Cause>) -> Vec<Cause> {
    let arm = |cause: &Cause| sheet.plan().arms.iter().position(|arm| arm.name == cause.arm);
    let rank = |cause: &Cause| match cause.grade {
        Grade::ConfirmedBy | Grade::BoundedBy | Grade::ConsistentWith => 0,
        Grade::AccountsFor => 1,
        Grade::RuledOut => 2,
    };
    let carried = |cause: &Cause| cause.ns_per_request.abs();
    causes.sort_by(|a, b| {
        (arm(a), rank(a)).cmp(&(arm(b), rank(b))).then_with(|| carried(b).total_cmp(&carried(a)))
    });
    causes
}

/// The findings with each arm in turn as the baseline: the plan's own first, then the others in the order of the plan.
///
/// A second copy of the baseline stays an arm like any other and is no baseline itself.
#[must_use]
pub fn analyse_each_baseline(run: &Run) -> Vec<Findings> {
    let plan = &run.manifest.plan;
    let own = plan.baseline;
    let second = sheet::second_baseline(plan, &plan.arms[own].name);
    let others = (0..plan.arms.len())
        .filter(|index| *index != own && second.as_ref() != Some(&plan.arms[*index].name));
    let mut turned = run.clone();
    std::iter::once(own)
        .chain(others)
        .map(|index| {
            turned.manifest.plan.baseline = index;
            analyse(&turned)
        })
        .collect()
}

/// Blocks that the run should have before its next look, or nothing when it need not go on.
#[must_use]
pub fn extend_to(run: &Run) -> Option<u32> {
    let Blocks::Looks { max, .. } = run.manifest.plan.design.blocks else { return None };
    let sheet = Sheet::new(run);
    let comparisons = compare::all(&sheet, &gates::all(&sheet));
    let told = |arm: &str| {
        let rows = comparisons.iter().filter(|row| row.primary && row.arm == arm);
        rows.into_iter().any(|row| matches!(row.verdict, Verdict::Slower | Verdict::Faster))
    };
    // An arm of which one metric was decided is slower or faster, whatever the other would tell.
    let open = comparisons.iter().any(|row| row.primary && !compare::is_settled(row) && !told(&row.arm));
    let next = stats::looks::next(compare::blocks(&sheet) as usize, max as usize)?;
    open.then(|| u32::try_from(next).unwrap_or(max))
}

/// How each arm stands against the baseline in CPU per request.
#[must_use]
pub fn standings(run: &Run) -> Vec<Standing> {
    let sheet = Sheet::new(run);
    let rows = compare::all(&sheet, &[]);
    let of_cpu = rows.into_iter().filter(|row| row.metric == Metric::CpuPerRequest);
    of_cpu
        .filter_map(|row| Some(Standing { ratio: row.ratio?, low: row.ci_low?, high: row.ci_high?, arm: row.arm }))
        .collect()
}

/// A condition in words.
#[must_use]
pub fn describe_condition(condition: Condition) -> String {
    match condition {
        Condition::Capacity => "capacity".to_owned(),
        Condition::EqualRate { rate } => format!("{:.0} requests/s", rate.get()),
        Condition::ShareOfSlowest { percent } => format!("{percent} % of the slowest arm's capacity"),
    }
}

/// A share as a percentage for people: one decimal below 10 %.
pub(crate) fn percent(share: f64) -> String {
    let value = share * 100.0;
    if value.abs() < 9.95 { format!("{value:.1} %") } else { format!("{value:.0} %") }
}

fn workload(sheet: &Sheet) -> String {
    let plan = sheet.plan();
    let workload = &plan.workload;
    let depth = if workload.pipeline > 1 {
        format!(", {} in flight on each", workload.pipeline)
    } else {
        String::new()
    };
    let each = if workload.keep_alive { "" } else { ", a new one for each request" };
    format!(
        "GET {} over {} connections{depth}{each}; server on CPU {}, generator on CPU {}",
        workload.path, workload.connections, plan.placement.server, plan.placement.load
    )
}

/// The design as it was carried out.
fn design(sheet: &Sheet) -> DesignFindings {
    let (plan, fitted) = (sheet.plan(), &sheet.run.manifest.fitted);
    let alone = fitted.alone.is_some() || plan.design.turns == Turns::Alone;
    DesignFindings {
        kind: if alone { DesignKind::Alone } else { DesignKind::Slices },
        slice_ns: if alone { plan.timing.window.as_ns() } else { fitted.turn_ns },
        cycles: if alone { 1 } else { plan.design.turns.cycles() },
        blocks: compare::blocks(sheet),
        why_alone: fitted.alone.as_ref().map(why_alone),
    }
}

fn why_alone(reason: &AloneReason) -> String {
    match reason {
        AloneReason::Memory { .. } => "together they need more memory than there is".to_owned(),
        AloneReason::Descriptors { .. } => "their connections need more file descriptors than there are".to_owned(),
        AloneReason::Background { arm, share } => {
            format!("'{arm}' keeps {} of a CPU busy while nobody asks it anything", percent(*share))
        }
    }
}

/// From the start of the first server to the latest reading of a window.
fn took_ns(run: &Run) -> u64 {
    const MILLISECOND_NS: u64 = 1_000_000;
    let began = run.rounds.iter().map(|record| record.started_unix_ms).min().unwrap_or(0);
    let last = run.rounds.iter().max_by_key(|record| record.started_unix_ms);
    let Some(last) = last else { return 0 };
    let walls = last.windows.iter().map(|window| window.server_cpus.wall_ns).sum::<u64>();
    (last.started_unix_ms - began) * MILLISECOND_NS + last.warmup.took_ns + walls
}

fn partial(run: &Run) -> Option<String> {
    let block = run.rounds.iter().map(|record| record.round.block + 1).max();
    let place =
        block.map_or_else(|| "before its first round ended".to_owned(), |block| format!("in block {block}"));
    match run.manifest.status {
        RunStatus::Complete => None,
        RunStatus::Partial => Some(format!("interrupted {place}: figures are of what was measured")),
        RunStatus::Running => Some(format!("not ended (killed, or still running) {place}")),
    }
}

/// The part of each arm's gap that its split leaves.
fn left_by_split(causes: &[Cause]) -> Vec<(String, f64)> {
    let mut accounted: std::collections::BTreeMap<&str, f64> = std::collections::BTreeMap::new();
    for cause in causes {
        if let Some(share) = cause.share {
            *accounted.entry(&cause.arm).or_default() += share;
        }
    }
    accounted.into_iter().map(|(arm, sum)| (arm.to_owned(), (1.0 - sum).abs())).collect()
}

fn warnings(findings: &Findings, run: &Run) -> Vec<String> {
    let mut warnings = run.damaged.clone();
    for arm in &findings.arms {
        warnings.extend(arm.overload.map(|overload| format!("'{}' is {}", arm.name, overload.text())));
    }
    for arm in findings.arms.iter().filter(|arm| arm.unsteady_rounds > 0) {
        warnings.push(format!(
            "'{}' was not steady when {} of its {} blocks began: raise --warmup-cap",
            arm.name, arm.unsteady_rounds, arm.rounds
        ));
    }
    warnings
}
