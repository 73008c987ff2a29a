//! What a page draws beside the findings: each round as it went, and response times by percentile.
//!
//! It does not depend on which arm is the baseline, and nothing is concluded from it.

use std::collections::BTreeMap;

use model::plan::Condition;
use model::record::{Host, Percentiles, RoundRecord, Run, Window};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::metric::Metric;
use super::sheet::Sheet;
use super::words::describe_condition;

/// Rounds and latency curves of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Detail {
    /// Unix time of the run's begin in seconds.
    pub started_unix_s: u64,
    /// Every round that was begun, in the order in which they ran, including those that are void or failed.
    pub rounds: Vec<RoundDetail>,
    /// One curve for each arm and condition.
    pub latency: Vec<LatencyCurve>,
}

/// One round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RoundDetail {
    /// Block, from 0.
    pub block: u32,
    /// Place within the block, from 0.
    pub position: u32,
    /// 0, or how often it was repeated before.
    pub attempt: u32,
    /// Arm.
    pub arm: String,
    /// Unix time of its begin in milliseconds.
    pub started_unix_ms: u64,
    /// Why it does not count: a failure.
    pub void: Option<String>,
    /// Requests completed in each turn of the warm-up.
    pub warmup_per_turn: Vec<u64>,
    /// Whether the warm-up ended steady.
    pub steady: bool,
    /// One for each condition.
    pub windows: Vec<WindowDetail>,
}

/// One window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WindowDetail {
    /// The condition in words.
    pub condition: String,
    /// The value of each metric that the window can give: nanoseconds, bytes or per second.
    pub values: BTreeMap<Metric, f64>,
    /// Requests completed in each second.
    pub per_s: Vec<u64>,
    /// 99 % response in each second, nanoseconds; absent where none came.
    pub p99_ns: Vec<Option<u64>>,
}

/// Response times of one arm under one condition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyCurve {
    /// Arm.
    pub arm: String,
    /// The condition in words.
    pub condition: String,
    /// Whether each connection waited for its answer, so that the arm set its own rate.
    pub closed_loop: bool,
    /// Completed requests per second, mean over the rounds.
    pub rate_per_s: f64,
    /// Requests in all windows.
    pub requests: u64,
    /// Percentiles that every window had enough requests for, ascending.
    pub points: Vec<LatencyPoint>,
}

/// One percentile over the rounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyPoint {
    /// 0 to 1.
    pub quantile: f64,
    /// Median of the rounds, nanoseconds.
    pub ns: f64,
    /// Lowest round.
    pub low_ns: f64,
    /// Highest round.
    pub high_ns: f64,
    /// Rounds.
    pub rounds: u32,
}

/// Rounds and latency curves of `run`.
#[must_use]
pub fn detail(run: &Run) -> Detail {
    let sheet = Sheet::new(run);
    let conditions = run.manifest.plan.workload.conditions.len();
    let arms = || run.manifest.plan.arms.iter().map(|arm| arm.name.as_str());
    let mut rounds: Vec<RoundDetail> = run.rounds.iter().map(round).collect();
    rounds.sort_by_key(|round| (round.block, round.started_unix_ms, round.position, round.attempt));
    Detail {
        started_unix_s: run.manifest.started_unix_s,
        rounds,
        latency: arms()
            .flat_map(|arm| (0..conditions).map(move |index| (arm, index)))
            .filter_map(|(arm, index)| curve(&sheet, arm, index))
            .collect(),
    }
}

/// The rounds of a run whose plan is missing: they are not judged, and only those that failed are void.
#[must_use]
pub fn unjudged(rounds: &[RoundRecord]) -> Vec<RoundDetail> {
    rounds.iter().map(round).collect()
}

/// What tells two machines apart at first sight, in words.
#[must_use]
pub fn machine_difference(a: &Host, b: &Host) -> Vec<String> {
    unlike([
        ("CPU model", a.cpu_model.clone(), b.cpu_model.clone()),
        ("CPUs", a.cpus.to_string(), b.cpus.to_string()),
        ("kernel", a.kernel.clone(), b.kernel.clone()),
    ])
}

fn unlike<const N: usize>(rows: [(&str, String, String); N]) -> Vec<String> {
    let unlike = rows.into_iter().filter(|(_, a, b)| a != b);
    unlike.map(|(what, a, b)| format!("{what}: {a} against {b}")).collect()
}

/// What differs between two machines, in words. Figures from machines that differ are not comparable.
#[must_use]
pub fn host_difference(a: &Host, b: &Host) -> Vec<String> {
    let mut differences = machine_difference(a, b);
    differences.extend(unlike([
        ("memory bytes", a.memory_bytes.to_string(), b.memory_bytes.to_string()),
        ("frequency governor", word(&a.governor), word(&b.governor)),
        ("hypervisor", word(&a.hypervisor), word(&b.hypervisor)),
    ]));
    for (what, a, b) in [("mitigation", &a.mitigations, &b.mitigations), ("setting", &a.sysctls, &b.sysctls)]
    {
        let names = a.keys().chain(b.keys().filter(|name| !a.contains_key(*name)));
        let unlike = names.filter(|name| a.get(*name) != b.get(*name));
        differences.extend(unlike.map(|name| {
            format!("{what} {name}: {} against {}", word(&a.get(name).cloned()), word(&b.get(name).cloned()))
        }));
    }
    differences
}

fn word(value: &Option<String>) -> String {
    value.clone().unwrap_or_else(|| "none".to_owned())
}

fn round(record: &RoundRecord) -> RoundDetail {
    RoundDetail {
        block: record.round.block,
        position: record.round.position,
        attempt: record.round.attempt,
        arm: record.arm.clone(),
        started_unix_ms: record.started_unix_ms,
        void: record.failure.as_ref().map(|failure| failure.text.clone()),
        warmup_per_turn: record.warmup.per_turn.clone(),
        steady: record.warmup.steady,
        windows: record.windows.iter().map(window).collect(),
    }
}

fn window(window: &Window) -> WindowDetail {
    WindowDetail {
        condition: describe_condition(window.condition),
        values: Metric::ALL
            .into_iter()
            .filter_map(|metric| Some((metric, metric.value_in(window)?)))
            .collect(),
        per_s: window.load.seconds.iter().map(|second| second.requests).collect(),
        p99_ns: window.load.seconds.iter().map(|second| second.p99_ns).collect(),
    }
}

fn curve(sheet: &Sheet, arm: &str, index: usize) -> Option<LatencyCurve> {
    let windows = sheet.windows(arm, index);
    let rates: Vec<f64> = windows.iter().filter_map(|window| Metric::Rate.value_in(window)).collect();
    Some(LatencyCurve {
        arm: arm.to_owned(),
        condition: sheet.describe(index),
        closed_loop: sheet.plan().workload.conditions[index] == Condition::Capacity,
        rate_per_s: stats::descriptive::mean(&rates)?,
        requests: windows.iter().map(|window| window.load.requests).sum(),
        points: QUANTILES.iter().filter_map(|(quantile, pick)| point(&windows, *quantile, *pick)).collect(),
    })
}

type Pick = fn(&Percentiles) -> Option<u64>;

/// The percentiles that a load report keeps.
const QUANTILES: [(f64, Pick); 7] = [
    (0.5, |of| of.p50),
    (0.75, |of| of.p75),
    (0.9, |of| of.p90),
    (0.99, |of| of.p99),
    (0.999, |of| of.p99_9),
    (0.9999, |of| of.p99_99),
    (0.99999, |of| of.p99_999),
];

/// A percentile that some window had too few requests for is left out: the rest would be a choice.
fn point(windows: &[&Window], quantile: f64, pick: Pick) -> Option<LatencyPoint> {
    let values: Option<Vec<f64>> =
        windows.iter().map(|window| pick(&window.load.response_ns).map(|ns| ns as f64)).collect();
    let values = values?;
    Some(LatencyPoint {
        quantile,
        ns: stats::descriptive::median(&values)?,
        low_ns: values.iter().copied().reduce(f64::min)?,
        high_ns: values.iter().copied().reduce(f64::max)?,
        rounds: values.len() as u32,
    })
}
