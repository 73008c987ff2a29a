//! Several comparisons at once: Holm's step-down procedure.
//!
//! Source: S. Holm, A simple sequentially rejective multiple test procedure, Scand. J. Statist. 6(2), 1979.

use crate::Error;
use crate::error::inside_unit;

/// Outcome for one member of a family of tests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Decision {
    /// Position among the p-values in ascending order, from 1.
    pub rank: usize,
    /// Adjusted p-value: at most 1, and not below that of a smaller p-value.
    pub adjusted_p: f64,
    /// Confidence level at which an interval for this member agrees with its test: that of its step, and from the first step
    /// that does not reject on that of this step.
    pub level: f64,
    /// Whether the hypothesis of no difference is rejected for the family at the level asked for.
    pub rejected: bool,
}

/// Decisions for a family of p-values, in their order, such that the chance of any false rejection is at
/// most 1 − `level`.
///
/// # Errors
/// A p-value outside [0, 1], or a level outside (0, 1).
pub fn decide(p_values: &[f64], level: f64) -> Result<Vec<Decision>, Error> {
    inside_unit("level", level)?;
    let adjusted = adjusted(p_values)?;
    let levels = levels(level, p_values.len());
    // Adjusted values rise with the rank, so that those rejected are the first.
    let rejected = adjusted.iter().filter(|p| **p <= 1.0 - level).count();
    let decision = |(rank, adjusted_p): (usize, f64)| Decision {
        rank,
        adjusted_p,
        level: levels[(rank - 1).min(rejected)],
        rejected: adjusted_p <= 1.0 - level,
    };
    Ok(ranks(p_values).into_iter().zip(adjusted).map(decision).collect())
}

/// Holm's adjusted p-values, in the order of `p_values`.
///
/// # Errors
/// A p-value outside [0, 1].
pub fn adjusted(p_values: &[f64]) -> Result<Vec<f64>, Error> {
    if let Some(index) = p_values.iter().position(|p| !(0.0..=1.0).contains(p)) {
        return Err(Error::BadValue { index, value: p_values[index] });
    }
    let mut adjusted = vec![0.0; p_values.len()];
    let mut running = 0.0_f64;
    for (step, index) in ascending(p_values).into_iter().enumerate() {
        let left = (p_values.len() - step) as f64;
        running = running.max(left * p_values[index]).min(1.0);
        adjusted[index] = running;
    }
    Ok(adjusted)
}

/// Confidence levels for a family of `members`, for the smallest p-value first: 1 − (1 − level)/(m − i).
pub fn levels(level: f64, members: usize) -> Vec<f64> {
    (1..=members).rev().map(|left| 1.0 - (1.0 - level) / left as f64).collect()
}

fn ascending(p_values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|&a, &b| p_values[a].total_cmp(&p_values[b]));
    order
}

fn ranks(p_values: &[f64]) -> Vec<usize> {
    let mut ranks = vec![0; p_values.len()];
    for (step, index) in ascending(p_values).into_iter().enumerate() {
        ranks[index] = step + 1;
    }
    ranks
}
