//! How the interval of a comparison narrows from pair to pair: what a reader of a run in progress watches.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::paired;

use super::Comparison;

/// Level of every interval, so that one can be held against the next.
const LEVEL: f64 = 0.95;
/// Fewest pairs that tell a spread worth drawing: Student's interval of two is six times that of four.
const FEWEST: usize = 3;
/// More points cannot be told apart in a drawing, and each costs the square of its pairs.
const MOST_POINTS: usize = 60;

/// The result from the first pairs of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CoursePoint {
    /// Pairs behind it.
    pub pairs: u32,
    /// Arm over baseline.
    pub ratio: f64,
    /// Low end of the interval of the ratio.
    pub ci_low: f64,
    /// High end.
    pub ci_high: f64,
    /// Level of the interval, 0 to 1.
    pub level: f64,
    /// Whether the interval is exact, like that of a verdict; with fewer pairs it is Student's.
    pub exact: bool,
}

/// The results from the first three pairs, the first four, and so on up to all of them; in even steps if there are very many.
///
/// No conclusion is drawn on the way: verdicts are given only at the planned looks, each at its own level.
#[must_use]
pub fn course(row: &Comparison) -> Vec<CoursePoint> {
    let differences: Vec<f64> = row.pairs.iter().map(|(_, difference)| *difference).collect();
    let all = differences.len();
    let step = all.div_ceil(MOST_POINTS).max(1);
    let shown = (FEWEST..=all).filter(|pairs| (all - pairs).is_multiple_of(step));
    shown.filter_map(|pairs| point(&differences[..pairs])).collect()
}

fn point(differences: &[f64]) -> Option<CoursePoint> {
    let exact = paired::estimate(differences, LEVEL);
    let is_exact = exact.is_ok();
    let estimate = exact.or_else(|_| paired::student(differences, LEVEL)).ok()?;
    let interval = estimate.ratio_interval();
    Some(CoursePoint {
        pairs: estimate.n as u32,
        ratio: estimate.ratio(),
        ci_low: interval.low,
        ci_high: interval.high,
        level: interval.level,
        exact: is_exact,
    })
}
