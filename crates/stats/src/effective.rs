//! How many independent observations a run of neighbours is worth.

use crate::Error;
use crate::descriptive::{mean, midranks};
use crate::error::{all_finite, at_least};

/// Spearman correlation of each value with its successor, −1 to 1.
///
/// Source: C. Spearman, Amer. J. Psychol. 15(1), 1904; ties share the mean of their ranks.
///
/// # Errors
/// [`Error::TooFew`] under three values, [`Error::Degenerate`] when all are alike, a value that is not
/// finite.
pub fn lag1_spearman(values: &[f64]) -> Result<f64, Error> {
    at_least(values.len(), 3)?;
    all_finite(values)?;
    pearson(&midranks(&values[..values.len() - 1]), &midranks(&values[1..])).ok_or(Error::Degenerate)
}

fn pearson(left: &[f64], right: &[f64]) -> Option<f64> {
    let (left_mean, right_mean) = (mean(left)?, mean(right)?);
    let (mut product, mut left_square, mut right_square) = (0.0, 0.0, 0.0);
    for (a, b) in left.iter().zip(right) {
        let (a, b) = (a - left_mean, b - right_mean);
        product += a * b;
        left_square += a * a;
        right_square += b * b;
    }
    let scale = (left_square * right_square).sqrt();
    (scale > 0.0).then(|| product / scale)
}

/// Independent observations that `n` neighbours with this lag-1 correlation are worth: n(1 − r)/(1 + r).
///
/// Between 1 and `n`: a negative correlation is not allowed to make more of the data than there is.
///
/// Source: G. Bayley and J. Hammersley, The effective number of independent observations in an
/// autocorrelated time series, J. R. Statist. Soc. Suppl. 8(2), 1946, for a first-order process.
pub fn effective_count(n: u64, lag1: f64) -> u64 {
    let r = lag1.clamp(0.0, 1.0);
    ((n as f64 * (1.0 - r) / (1.0 + r)) as u64).clamp(1, n.max(1))
}
