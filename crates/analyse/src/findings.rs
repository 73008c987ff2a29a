//! The findings of a run: what every stage found, collected.

use std::collections::BTreeMap;

use model::job::Reuse;
use model::plan::{Placement, Plan, SentFile};
use model::record::{FailureKind, Host, RoundRecord, Run, RunStatus, without_values};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::attribution::Attribution;
use crate::attribution::cause::Cause;
use crate::attribution::parked::ParkedRow;
use crate::attribution::profile::ProfileDifference;
use crate::attribution::split::Split;
use crate::attribution::tree::AttributionRow;
use crate::attribution::tree::gap_function::GapFunction;
use crate::attribution::tree::gap_nodes::GapNode;
use crate::attribution::waits::WaitRow;
use crate::attribution::why::{LedgerLine, RestOfGap};
use crate::facts::Facts;
use crate::facts::arms::ArmFindings;
use crate::facts::beside::ServiceGap;
use crate::facts::passes::PassFindings;
use crate::facts::resources::{self, ArmResources};
use crate::facts::sheet::{self, Sheet};
use crate::fail_if::FailIfSays;
use crate::gates::{self, Gate, GateSays};
use crate::limits::{Limit, Limits};
use crate::next::{self, Next};
use crate::verdicts::{self, Comparison};
use crate::warned::{Warned, warned};

/// Version of the findings' JSON.
pub const FINDINGS_SCHEMA: u32 = 1;

/// Everything that follows from a run. A pure function of its directory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Findings {
    /// Schema version.
    pub schema: u32,
    /// The run.
    pub run_id: String,
    /// The case, or `compare`.
    pub case: String,
    /// Seed of all randomness.
    pub seed: u64,
    /// Where it was made.
    pub host: Host,
    /// The command that repeats it.
    pub command: Vec<String>,
    /// What was sent, in words: connections, depth, path, placement.
    pub workload: String,
    /// What that is made from.
    #[serde(skip)]
    pub sent: Option<Sent>,
    /// Files that say what was sent, with their hashes.
    #[serde(default)]
    pub files: Vec<SentFile>,
    /// How far the run got, if it is not complete.
    pub partial: Option<String>,
    /// What that is made from.
    #[serde(skip)]
    pub unfinished: Option<Unfinished>,
    /// Condition under which CPU per request, rate and memory are compared.
    pub condition: String,
    /// Condition under which latency is compared; absent if there was none.
    pub latency_condition: Option<String>,
    /// Length of a window in nanoseconds.
    pub window_ns: u64,
    /// The baseline's name.
    pub baseline: String,
    /// One row for each arm, the baseline among them.
    pub arms: Vec<ArmFindings>,
    /// One row for each metric and each arm but the baseline, primary metrics first.
    pub comparisons: Vec<Comparison>,
    /// What limits each arm, by its name, if that is known.
    #[serde(skip)]
    pub limits: BTreeMap<String, Limit>,
    /// What makes figures believable or void.
    pub gates: Vec<Gate>,
    /// CPU time of a request as a tree, leaf by leaf; the leaves of an arm add up to its CPU per request.
    #[serde(default)]
    pub attribution: Vec<AttributionRow>,
    /// The nodes of that tree in which each gap in CPU per request lies; the report names these.
    #[serde(default)]
    pub said: Vec<GapNode>,
    /// What is left of each gap, as far as it has names, largest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub smaller: Vec<GapNode>,
    /// For each gap in CPU per request: the function that only one arm runs and under which most of the gap lies, if there is
    /// one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gap_functions: Vec<GapFunction>,
    /// What services beside use for each arm but the baseline.
    #[serde(default)]
    pub services: Vec<ServiceGap>,
    /// What ended the waits of the threads that served, longest first; the rows of an arm add up to its idle time. An arm has
    /// none if its wakers were not seen; `passes` says why.
    #[serde(default)]
    pub waits: Vec<WaitRow>,
    /// For what goroutines of Go waited, most first, at most 16 rows for each arm. An arm has none if none were seen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub goroutines: Vec<ParkedRow>,
    /// What explains the difference, most important first.
    pub causes: Vec<Cause>,
    /// Utilisation, saturation and errors of every resource, one table for each arm.
    pub resources: Vec<ArmResources>,
    /// Where in the code the difference is, for each sampled arm but the baseline.
    pub profiles: Vec<ProfileDifference>,
    /// What one request costs, line by line, for every arm that differs from the baseline.
    pub ledger: Vec<LedgerLine>,
    /// How much watching closely slowed each arm, and whether the observations are used.
    pub passes: Vec<PassFindings>,
    /// Exact split of the rate ratio, one for each arm but the baseline.
    pub splits: Vec<Split>,
    /// Share of a gap of which nothing was seen, so that neither a cause nor a part that is too small to be one carries it, the largest of
    /// all arms'; below 0 where they carry more than the gap, and what is not known goes the other way. Absent where there is no gap to explain.
    pub unattributed_share: Option<f64>,
    /// The arm that this gap belongs to.
    #[serde(default)]
    pub unattributed_arm: Option<String>,
    /// What no cause carries of every gap that was explained.
    #[serde(default)]
    pub rests: Vec<RestOfGap>,
    /// What the reader must know.
    pub warnings: Vec<String>,
    /// What that is made from.
    #[serde(skip)]
    pub warned: Vec<Warned>,
    /// How the arms were loaded.
    #[serde(default)]
    pub design: DesignFindings,
    /// From the start of the first server to the end of the last block, in nanoseconds; 0 if it is not known.
    #[serde(default)]
    pub took_ns: u64,
    /// What to run next.
    pub next: Option<String>,
    /// What that is made from.
    #[serde(skip)]
    pub proposed: Option<Next>,
    /// Conditions of `--fail-if`, and the outcome of each.
    #[serde(default)]
    pub fail_if: Vec<FailIfFindings>,
    /// Rounds that do not count because the arm failed in them.
    #[serde(default)]
    pub void_rounds: Vec<VoidRound>,
}

/// What was sent, and where from.
#[derive(Debug, Clone, PartialEq)]
pub struct Sent {
    /// The requests, as the plan names them.
    pub requests: String,
    /// Connections.
    pub connections: u32,
    /// Requests in flight on each.
    pub depth: u32,
    /// How long a connection is kept.
    pub reuse: Reuse,
    /// CPUs of server and generator.
    pub placement: Placement,
}

/// How far a run got that is not complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unfinished {
    /// Whether it was interrupted; otherwise it was killed, or is still running.
    pub interrupted: bool,
    /// The last block that was measured, from 1; nothing if it ended before the first was.
    pub block: Option<u32>,
}

/// A round that does not count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VoidRound {
    /// The arm.
    pub arm: String,
    /// The block, from 0.
    pub block: u32,
    /// Why.
    pub reason: VoidReason,
}

/// Why a round does not count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VoidReason {
    /// The step in which it failed.
    pub gate: FailureKind,
    /// One sentence.
    pub text: String,
}

/// How the arms of a run were loaded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DesignKind {
    /// In turns, alive together.
    Slices,
    /// One at a time.
    #[default]
    Alone,
}

/// How a run was really carried out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DesignFindings {
    /// How arms were loaded.
    pub kind: DesignKind,
    /// How long requests were sent in one turn, in nanoseconds.
    pub slice_ns: u64,
    /// Turns of each arm in a block, under the first condition.
    pub cycles: u32,
    /// Blocks done.
    pub blocks: u32,
    /// Why the arms ran one at a time although they were to take turns.
    pub why_alone: Option<String>,
}

/// The outcome of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailIfOutcome {
    /// It holds: the comparison counts as failed.
    Holds,
    /// It does not.
    DoesNotHold,
    /// The interval contains the value.
    Undecided,
    /// A gate voids the figure.
    Void,
    /// The figure was not measured.
    NotMeasured,
}

/// A condition, its outcome, and what that rests on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FailIfFindings {
    /// As it was written.
    pub condition: String,
    /// The arm that it is on.
    pub arm: String,
    /// The outcome.
    pub outcome: FailIfOutcome,
    /// What was measured, of how much, and how; or why it was not.
    pub text: String,
    /// What the sentence is made from.
    #[serde(skip)]
    pub says: Option<FailIfSays>,
}

/// Share of half an interval from which on what disturbed the arms is a part of it that matters: less, taken away, leaves the verdict as
/// exact as it was.
const MATTERS: f64 = 0.25;

impl Findings {
    /// Whether a check that failed is worth telling whoever reads no details. Other load on the server's CPUs is only where it can have
    /// moved a ratio by a part of its interval that matters: it is inside the interval, and nobody need do anything about the rest.
    #[must_use]
    pub fn is_notable(&self, gate: &Gate) -> bool {
        let Some(GateSays::Disturbed { who, .. }) = &gate.says else { return true };
        let mut judged = self.comparisons.iter().filter(|row| row.void_by.is_empty() && row.ci_low.is_some());
        let moved = |row: &Comparison| {
            let sources = row.bias.of.iter().filter(|source| source.what == *who);
            sources.map(|source| source.low.max(source.high)).fold(0.0, f64::max)
        };
        judged.clone().next().is_none()
            || judged.any(|row| moved(row) > MATTERS * row.half_width().unwrap_or(0.0))
    }
}

fn void_rounds(run: &Run) -> Vec<VoidRound> {
    let void = |record: &RoundRecord| {
        let failure = record.failure.as_ref()?;
        let reason = VoidReason { gate: failure.kind, text: failure.text.clone() };
        Some(VoidRound { arm: record.arm.clone(), block: record.round.block, reason })
    };
    run.rounds.iter().filter_map(void).collect()
}

/// Everything that follows from a run.
#[must_use]
pub fn analyse(run: &Run) -> Findings {
    let facts = Facts::from_run(run);
    let gates = gates::all(&facts.sheet);
    let comparisons = verdicts::all(&facts.sheet, &gates);
    let attribution = Attribution::from_facts(&facts, &gates, &comparisons);
    let limits = Limits::from_facts(&facts, &gates, &attribution);
    let next = next::next(&run.manifest, &facts.arms, &gates, &comparisons, &attribution, block_s(run));
    let (sheet, plan) = (&facts.sheet, &run.manifest.plan);
    let (most_left_arm, most_left_share) = attribution.most_left.unzip();
    let mut findings = Findings {
        schema: FINDINGS_SCHEMA,
        run_id: run.manifest.run_id.clone(),
        case: plan.case.clone(),
        seed: plan.seed,
        host: run.host.clone(),
        command: without_values(&run.manifest.command),
        workload: String::new(),
        sent: Some(sent(plan)),
        files: plan.workload.files.clone(),
        partial: None,
        unfinished: unfinished(run),
        condition: sheet.describe(sheet.main),
        latency_condition: sheet.latency.map(|index| sheet.describe(index)),
        window_ns: plan.timing.window.as_ns(),
        baseline: sheet.baseline().to_owned(),
        resources: resources::all(sheet),
        profiles: attribution.profiles.into_iter().map(ProfileDifference::shortened).collect(),
        unattributed_share: most_left_share,
        unattributed_arm: most_left_arm,
        rests: attribution.rests,
        design: design(sheet),
        took_ns: took_ns(run),
        arms: facts.arms,
        services: facts.services,
        comparisons,
        limits: limits.0,
        gates,
        causes: attribution.causes,
        attribution: attribution.tree.into_iter().map(|(_, row)| row).collect(),
        said: attribution.said,
        smaller: attribution.smaller,
        gap_functions: attribution.gap_functions,
        waits: attribution.waited,
        goroutines: attribution.parked,
        ledger: attribution.ledger,
        passes: facts.passes,
        splits: attribution.splits,
        warnings: Vec::new(),
        warned: Vec::new(),
        next: None,
        proposed: next,
        fail_if: Vec::new(),
        void_rounds: void_rounds(run),
    };
    findings.warned = warned(&findings, run);
    findings
}

/// Everything that follows from a run if the arm at the place `baseline` of its plan is the baseline.
#[must_use]
pub fn analyse_from(run: &Run, baseline: usize) -> Findings {
    analyse(&turned(run, baseline))
}

/// The run with another arm as the baseline.
pub(crate) fn turned(run: &Run, baseline: usize) -> Run {
    let mut turned = run.clone();
    turned.manifest.plan.baseline = baseline;
    turned
}

/// The findings with each arm in turn as the baseline: first the plan's own, then the others in the order of the plan.
///
/// A second copy of the baseline is an arm like any other, but never a baseline itself.
#[must_use]
pub fn analyse_each_baseline(run: &Run) -> Vec<Findings> {
    let plan = &run.manifest.plan;
    let own = plan.baseline;
    let second = sheet::second_baseline(plan, &plan.arms[own].name);
    let others = (0..plan.arms.len())
        .filter(|index| *index != own && second.as_ref() != Some(&plan.arms[*index].name));
    std::iter::once(own).chain(others).map(|index| analyse_from(run, index)).collect()
}

pub(crate) fn unfinished(run: &Run) -> Option<Unfinished> {
    let mut arms_of: BTreeMap<u32, usize> = BTreeMap::new();
    for record in run.rounds.iter().filter(|record| record.failure.is_none() && !record.windows.is_empty()) {
        *arms_of.entry(record.round.block).or_default() += 1;
    }
    // A block that lacks an arm that the last whole one has was begun.
    let whole = |arms: &usize| *arms >= run.manifest.plan.arms.len().min(2);
    let block = arms_of.iter().filter(|(_, arms)| whole(arms)).map(|(block, _)| block + 1).max();
    let interrupted = run.manifest.status == RunStatus::Partial;
    (run.manifest.status != RunStatus::Complete).then_some(Unfinished { interrupted, block })
}

fn sent(plan: &Plan) -> Sent {
    let job = &plan.workload.job;
    Sent {
        requests: plan.workload.describe(),
        connections: job.connections,
        depth: job.depth(),
        reuse: job.reuse,
        placement: plan.placement.clone(),
    }
}

/// The design as it was carried out.
fn design(sheet: &Sheet) -> DesignFindings {
    let (plan, fitted) = (sheet.plan(), &sheet.run.manifest.fitted);
    let alone = fitted.is_alone(plan);
    DesignFindings {
        kind: if alone { DesignKind::Alone } else { DesignKind::Slices },
        slice_ns: fitted.turn_of(plan).as_ns(),
        cycles: if alone { 1 } else { fitted.cycles_of(plan, 0) },
        blocks: verdicts::blocks(sheet),
        why_alone: fitted.alone.as_ref().map(ToString::to_string),
    }
}

/// Seconds that a block of this run took, from the start of its first server to that of the next block's: the median. Nothing
/// where fewer than two were begun.
fn block_s(run: &Run) -> Option<f64> {
    let mut begun: BTreeMap<u32, u64> = BTreeMap::new();
    for record in &run.rounds {
        let first = begun.entry(record.round.block).or_insert(record.started_unix_ms);
        *first = (*first).min(record.started_unix_ms);
    }
    let begun: Vec<u64> = begun.into_values().collect();
    let took: Vec<f64> = begun.windows(2).map(|pair| pair[1].saturating_sub(pair[0]) as f64 / 1e3).collect();
    stats::descriptive::median(&took).filter(|block_s| *block_s > 0.0)
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
