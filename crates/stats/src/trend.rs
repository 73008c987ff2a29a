//! Whether values that follow each other rise or fall.

use crate::error::{all_finite, at_least};
use crate::paired::student;
use crate::special::two_sided_p;
use crate::{Error, Estimate, changepoint};

/// Mann–Kendall test of a trend.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trend {
    /// Kendall's tau between value and time, −1 to 1, pairs with equal values counted as neither.
    pub tau: f64,
    /// Two-sided p-value: exact without ties, otherwise normal with correction for ties and continuity.
    pub p: f64,
}

/// Tests "the values have no trend".
///
/// Source: H. Mann, Econometrica 13(3), 1945; M. Kendall, Rank Correlation Methods, 4th ed., ch. 4 and 5.
///
/// # Errors
/// [`Error::TooFew`] under three values, [`Error::TooMany`] above [`changepoint::MAX_VALUES`], a value that
/// is not finite.
pub fn mann_kendall(values: &[f64]) -> Result<Trend, Error> {
    at_least(values.len(), 3)?;
    all_finite(values)?;
    if values.len() > changepoint::MAX_VALUES {
        return Err(Error::TooMany { have: values.len(), most: changepoint::MAX_VALUES });
    }
    let score = kendall_score(values);
    let ties = tie_sizes(values);
    let exact = ties.is_empty() && values.len() <= MAX_EXACT;
    let p = if exact { inversions_p(values.len(), score) } else { normal_p(values.len(), score, &ties) };
    let pairs = values.len() * (values.len() - 1) / 2;
    Ok(Trend { tau: score as f64 / pairs as f64, p })
}

/// Parts of a series whose means a growth is told from: enough for an interval, and each long enough to be rid of noise.
const PARTS: usize = 12;

/// How much a value grows in each unit of time, with Student's interval at `level`, of `(time, value)` pairs in their order. Values
/// are read in steps of `step`: each is known to within one.
///
/// The series is cut into twelve parts, and what lies between the means of neighbours is taken as independent. Neighbours of
/// a series that wanders are close, and its increments are independent; those of noise around a level cancel, which makes the
/// interval too wide and never too narrow. A step at the beginning is one increment of eleven: it widens the interval. What the
/// readings hide is added at both ends: the rise from the first part to the last is known to within one `step`.
///
/// # Errors
/// [`Error::TooFew`] under two pairs for each part, a value that is not finite, a level outside (0, 1).
pub fn growth(series: &[(f64, f64)], level: f64, step: f64) -> Result<Estimate, Error> {
    at_least(series.len(), 2 * PARTS)?;
    let part = |number: usize| &series[number * series.len() / PARTS..(number + 1) * series.len() / PARTS];
    let mean = |part: &[(f64, f64)]| {
        let sum = part.iter().fold((0.0, 0.0), |sum, point| (sum.0 + point.0, sum.1 + point.1));
        (sum.0 / part.len() as f64, sum.1 / part.len() as f64)
    };
    let means: Vec<(f64, f64)> = (0..PARTS).map(|number| mean(part(number))).collect();
    let rates: Vec<f64> = means.windows(2).map(|two| (two[1].1 - two[0].1) / (two[1].0 - two[0].0)).collect();
    let mut estimate = student(&rates, level)?;
    let hidden = step / (means[PARTS - 1].0 - means[0].0);
    estimate.interval.low -= hidden;
    estimate.interval.high += hidden;
    Ok(estimate)
}

/// Up to this many values the null distribution is computed exactly, in about a millisecond.
const MAX_EXACT: usize = 100;

/// Pairs that rise minus pairs that fall.
fn kendall_score(values: &[f64]) -> i64 {
    let later = |index: usize| values[index + 1..].iter().map(move |other| (values[index], *other));
    (0..values.len()).flat_map(later).map(|(a, b)| i64::from(b > a) - i64::from(b < a)).sum()
}

/// Sizes of the groups of equal values, groups of one left out.
fn tie_sizes(values: &[f64]) -> Vec<f64> {
    let sorted = crate::descriptive::sorted(values);
    let groups = sorted.chunk_by(|a, b| a == b);
    groups.filter(|group| group.len() > 1).map(|group| group.len() as f64).collect()
}

/// Two-sided p-value from the number of inversions of a random permutation.
fn inversions_p(n: usize, score: i64) -> f64 {
    let pairs = n * (n - 1) / 2;
    let fewer = (pairs - score.unsigned_abs() as usize) / 2;
    let mut probability = vec![1.0];
    for size in 2..=n {
        // The value inserted last adds 0 to size − 1 inversions, each equally likely.
        let mut next = vec![0.0; probability.len() + size - 1];
        for (inversions, p) in probability.iter().enumerate() {
            next[inversions..inversions + size].iter_mut().for_each(|cell| *cell += p / size as f64);
        }
        probability = next;
    }
    (2.0 * probability[..=fewer].iter().sum::<f64>()).min(1.0)
}

fn normal_p(n: usize, score: i64, ties: &[f64]) -> f64 {
    let spread = |size: f64| size * (size - 1.0) * (2.0 * size + 5.0);
    let variance = (spread(n as f64) - ties.iter().copied().map(spread).sum::<f64>()) / 18.0;
    if variance <= 0.0 {
        return 1.0;
    }
    two_sided_p((score.abs() - 1).max(0) as f64 / variance.sqrt())
}
