//! The figures of one run as its history keeps them.

use model::record::Run;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::facts::metric::Metric;
use crate::facts::sheet::Sheet;
use crate::facts::words::describe_condition;
use crate::gates;

/// One figure of one arm over the valid rounds of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figure {
    /// Arm.
    pub arm: String,
    /// What.
    pub metric: Metric,
    /// The condition as it was planned: a share of the slowest arm's rate stays a share, whatever rate the pilot made of it.
    pub condition: String,
    /// Median of the rounds: nanoseconds, bytes or per second.
    pub value: f64,
    /// Lowest round.
    pub low: f64,
    /// Highest round.
    pub high: f64,
    /// Rounds.
    pub rounds: u32,
}

/// Every figure that the run has, except those that a gate voids in comparisons.
#[must_use]
pub fn figures(run: &Run) -> Vec<Figure> {
    let sheet = Sheet::new(run);
    let gates = gates::all(&sheet);
    let arms = run.manifest.plan.arms.iter().map(|arm| arm.name.as_str());
    arms.flat_map(|arm| Metric::ALL.into_iter().map(move |metric| (arm, metric)))
        .filter(|(arm, metric)| !gates::is_void(&gates, arm, *metric))
        .filter_map(|(arm, metric)| figure(&sheet, arm, metric))
        .collect()
}

fn figure(sheet: &Sheet, arm: &str, metric: Metric) -> Option<Figure> {
    let condition = sheet.plan().workload.conditions[sheet.condition_of(metric)?];
    let values: Vec<f64> = sheet.values(arm, metric).into_iter().map(|(_, value)| value).collect();
    Some(Figure {
        arm: arm.to_owned(),
        metric,
        condition: describe_condition(condition),
        value: stats::descriptive::median(&values)?,
        low: values.iter().copied().reduce(f64::min)?,
        high: values.iter().copied().reduce(f64::max)?,
        rounds: values.len() as u32,
    })
}
