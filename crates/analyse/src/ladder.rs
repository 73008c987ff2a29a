//! A ladder: the arms of a run as one change after another, each against the one before it.

use std::collections::BTreeMap;

use model::plan::GateId;
use model::record::Run;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::bootstrap;
use stats::paired;
use stats::verdict::{Question, decide};

use crate::facts::metric::Metric;
use crate::facts::sheet::{Sheet, by_block};
use crate::findings::{FINDINGS_SCHEMA, Findings, Unfinished, analyse_from, unfinished};
use crate::gates;
use crate::verdicts::Verdict;

/// Level of every rung's interval.
const LEVEL: f64 = 0.95;
/// Resamples that keep the ends of a 95 % interval still to about 5 % of its width: it is read, and decides nothing.
const RESAMPLES: u32 = 2000;

/// One arm against another, over the blocks in which both have a figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rung {
    /// The arm that is climbed from.
    pub from: String,
    /// The arm that is climbed to.
    pub to: String,
    /// The verdict on `to`: `equal` means a rung without effect, `inconclusive` one whose effect is unknown.
    pub verdict: Verdict,
    /// `to` over `from`; absent where there are no pairs.
    pub ratio: Option<f64>,
    /// Low end of the interval of the ratio.
    pub ci_low: Option<f64>,
    /// High end.
    pub ci_high: Option<f64>,
    /// Level that the interval attains.
    pub level: Option<f64>,
    /// Pairs behind it.
    pub blocks: u32,
    /// Gates that void it.
    pub void_by: Vec<GateId>,
}

/// The change of one step by itself, and what the steps below do to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Alone {
    /// The step.
    pub step: String,
    /// The arm with its change alone against the first step.
    pub by_itself: Rung,
    /// The gain of the step on top of the others, over the gain of its change by itself, both as ratios, paired by block. 1
    /// means no interaction; `faster` means that it gains more on top of the others, `slower` that it gains less.
    pub interaction: Rung,
}

/// All rungs in one metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MetricLadder {
    /// The metric.
    pub metric: Metric,
    /// Each step against the one before it.
    pub rungs: Vec<Rung>,
    /// The last step against the first.
    pub whole: Rung,
    /// Product of the rungs' ratios; absent if a rung has none.
    pub product: Option<f64>,
    /// 95 % interval of the product over the ratio of the whole, low and high; absent for a single rung, and if fewer than
    /// three blocks have every step.
    #[serde(default)]
    pub product_over_whole_ci: Option<[f64; 2]>,
    /// Changes measured by themselves, in the order of their steps.
    #[serde(default)]
    pub alone: Vec<Alone>,
}

/// A run as a ladder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ladder {
    /// Schema version.
    pub schema: u32,
    /// The run.
    pub run_id: String,
    /// The steps in order.
    pub steps: Vec<String>,
    /// The primary metrics.
    pub metrics: Vec<MetricLadder>,
    /// How far the run got, where it is not complete.
    #[serde(skip)]
    pub unfinished: Option<Unfinished>,
    /// What is known of each rung: findings on the two arms of it, of which the one that is climbed from is the baseline.
    #[serde(skip)]
    pub of_rungs: Vec<Findings>,
}

/// The arms of `run`, in the order of its plan, as the steps of a ladder.
#[must_use]
pub fn ladder(run: &Run) -> Ladder {
    let sheet = Sheet::new(run);
    let plan = sheet.plan();
    let is_step = |name: &str| !plan.alone.values().any(|alone| alone == name);
    let names = plan.arms.iter().map(|arm| arm.name.clone());
    let steps: Vec<String> = names.filter(|name| is_step(name)).collect();
    let metrics = Metric::PRIMARY.into_iter().filter(|metric| sheet.condition_of(*metric).is_some());
    let from: From = steps[..steps.len() - 1].iter().map(|step| (step.clone(), turned(run, step))).collect();
    let of_rung = |rung: &[String]| {
        let mut findings = from[&rung[0]].clone();
        findings.arms.retain(|arm| rung.contains(&arm.name));
        findings
    };
    Ladder {
        schema: FINDINGS_SCHEMA,
        run_id: run.manifest.run_id.clone(),
        unfinished: unfinished(run),
        metrics: metrics.map(|metric| of_metric(&sheet, &from, &steps, metric)).collect(),
        of_rungs: steps.windows(2).map(of_rung).collect(),
        steps,
    }
}

/// Findings with each step in turn as the baseline, but for the last.
type From = BTreeMap<String, Findings>;

/// Findings with `step` as the baseline.
fn turned(run: &Run, step: &str) -> Findings {
    let plan = &run.manifest.plan;
    let baseline = plan.arms.iter().position(|arm| arm.name == step).unwrap_or(plan.baseline);
    analyse_from(run, baseline)
}

fn of_metric(sheet: &Sheet, from: &From, steps: &[String], metric: Metric) -> MetricLadder {
    let rung = |below: &str, step: &str| rung(sheet, from, [below, step], metric);
    let rungs: Vec<Rung> = steps.windows(2).map(|pair| rung(&pair[0], &pair[1])).collect();
    let (first, last) = (&steps[0], &steps[steps.len() - 1]);
    let product = rungs.iter().map(|rung| rung.ratio).product();
    let product_over_whole_ci = product_over_whole(sheet, steps, metric);
    let with_own = steps.windows(2).filter_map(|pair| {
        let by_itself = sheet.plan().alone.get(&pair[1])?;
        Some(alone(sheet, rung(first, by_itself), [first, &pair[0], &pair[1], by_itself], metric))
    });
    let alone = with_own.collect();
    MetricLadder { metric, whole: rung(first, last), product, product_over_whole_ci, alone, rungs }
}

/// A step against the one before it, over its change alone against the first.
fn alone(
    sheet: &Sheet,
    of_itself: Rung,
    [first, below, step, by_itself]: [&str; 4],
    metric: Metric,
) -> Alone {
    let gains = [gains(sheet, [first, by_itself], metric), gains(sheet, [below, step], metric)];
    let both = by_block(&gains[0], &gains[1]);
    let differences: Vec<f64> = both.into_iter().map(|(_, [apart, on_top])| on_top - apart).collect();
    let void_by = void_by(sheet, &[first, below, step, by_itself], metric);
    Alone {
        step: step.to_owned(),
        by_itself: of_itself,
        interaction: weighed([by_itself, step], &differences, void_by, metric),
    }
}

/// How far apart the product of the rungs and the whole may be, as a ratio.
///
/// Within a block the rungs multiply to the whole exactly, whatever the steps do to each other: a difference is one of
/// estimates, whose medians need not add up. So there is nothing to be paired by block, and it is whole blocks that are
/// drawn anew.
fn product_over_whole(sheet: &Sheet, steps: &[String], metric: Metric) -> Option<[f64; 2]> {
    if steps.len() < 3 {
        return None;
    }
    let values: Vec<Vec<(u32, f64)>> = steps.iter().map(|step| sheet.values(step, metric)).collect();
    let of_block = |block: u32| -> Option<Vec<f64>> {
        let value = |step: &Vec<(u32, f64)>| Some(step.iter().find(|(other, _)| *other == block)?.1.ln());
        values.iter().map(value).collect()
    };
    let blocks: Vec<Vec<f64>> = values[0].iter().filter_map(|(block, _)| of_block(*block)).collect();
    let apart = |blocks: &[&Vec<f64>]| {
        let centre = |from: usize, to: usize| {
            let differences: Vec<f64> = blocks.iter().map(|steps| steps[to] - steps[from]).collect();
            paired::hodges_lehmann(&differences).unwrap_or(f64::NAN)
        };
        (1..steps.len()).map(|to| centre(to - 1, to)).sum::<f64>() - centre(0, steps.len() - 1)
    };
    let random = &mut stats::Rng::seeded(sheet.plan().seed);
    let estimate = bootstrap::bca(&blocks, apart, LEVEL, RESAMPLES, random).ok()?;
    let interval = estimate.ratio_interval();
    Some([interval.low, interval.high])
}

/// `to` against `from`, with the verdict that a comparison of the two comes to.
fn rung(sheet: &Sheet, findings: &From, [from, to]: [&str; 2], metric: Metric) -> Rung {
    let rows = findings.get(from).map_or(&[][..], |found| &found.comparisons);
    match rows.iter().find(|row| row.arm == to && row.metric == metric) {
        Some(row) => Rung {
            from: from.to_owned(),
            to: to.to_owned(),
            verdict: row.verdict,
            ratio: row.ratio,
            ci_low: row.ci_low,
            ci_high: row.ci_high,
            level: row.level,
            blocks: row.blocks,
            void_by: row.void_by.clone(),
        },
        None => weighed([from, to], &[], void_by(sheet, &[from, to], metric), metric),
    }
}

/// ln(to / from) in each block that has both.
fn gains(sheet: &Sheet, [from, to]: [&str; 2], metric: Metric) -> Vec<(u32, f64)> {
    let both = by_block(&sheet.values(from, metric), &sheet.values(to, metric));
    both.into_iter().map(|(block, [below, value])| (block, (value / below).ln())).collect()
}

/// What differences by block come to.
fn weighed([from, to]: [&str; 2], differences: &[f64], void_by: Vec<GateId>, metric: Metric) -> Rung {
    let estimate = paired::estimate_or_widest(differences, LEVEL).ok();
    let interval = estimate.as_ref().map(stats::Estimate::ratio_interval);
    let question = Question { delta: metric.delta(), least: metric.least(), higher_is: metric.higher_is() };
    let verdict = match &estimate {
        _ if !void_by.is_empty() => Verdict::Invalid,
        Some(estimate) if estimate.interval.level >= LEVEL => decide(estimate, &question).into(),
        _ => Verdict::Inconclusive,
    };
    Rung {
        from: from.to_owned(),
        to: to.to_owned(),
        verdict,
        ratio: estimate.as_ref().map(stats::Estimate::ratio),
        ci_low: interval.as_ref().map(|interval| interval.low),
        ci_high: interval.as_ref().map(|interval| interval.high),
        level: interval.as_ref().map(|interval| interval.level),
        blocks: differences.len() as u32,
        void_by,
    }
}

fn void_by(sheet: &Sheet, arms: &[&str], metric: Metric) -> Vec<GateId> {
    let concerns = |arm: &Option<String>| arm.as_deref().is_none_or(|arm| arms.contains(&arm));
    let mut ids: Vec<GateId> = gates::all(sheet)
        .into_iter()
        .filter(|gate| !gate.ok && gate.voids.contains(&metric) && concerns(&gate.arm))
        .map(|gate| gate.id)
        .collect();
    ids.dedup();
    ids
}
