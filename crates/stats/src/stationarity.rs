//! Whether a window was steady: no trend and no change over its parts.

use crate::changepoint::{self, ChangePoint};
use crate::descriptive::mean;
use crate::error::{all_finite, at_least};
use crate::special::two_sided_p;
use crate::{Error, Rng};

/// Parts into which a window is cut for the test.
pub const SUB_WINDOWS: usize = 10;

/// p-value under which a trend or a change is believed.
pub const ALPHA: f64 = 0.05;

/// One-second rates that must agree before a warm-up ends.
pub const STEADY_SECONDS: usize = 5;

/// Slope of those rates, per second and relative to their mean, that still counts as steady.
pub const STEADY_SLOPE: f64 = 0.01;

/// One-second rates in which a recent change is looked for: five against five is the least that can
/// reach [`ALPHA`] by permutation with room to spare.
const CHANGE_SPAN: usize = 2 * STEADY_SECONDS;

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

/// What the parts of a window say about it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stationarity {
    /// Trend over the parts.
    pub trend: Trend,
    /// The most likely change, with its p-value; nothing when there are too few parts to split.
    pub change: Option<ChangePoint>,
}

impl Stationarity {
    /// Whether neither a trend nor a change was shown at [`ALPHA`].
    ///
    /// The level is shared between the two tests, so that a steady window fails in at most 5 %.
    pub fn holds(&self) -> bool {
        let bar = ALPHA / 2.0;
        self.trend.p > bar && self.change.is_none_or(|change| change.p > bar)
    }
}

/// Tests the parts of a window (rates or latencies of [`SUB_WINDOWS`] equal parts) for trend and change.
///
/// # Errors
/// As [`mann_kendall`].
pub fn stationarity(parts: &[f64], rng: &mut Rng) -> Result<Stationarity, Error> {
    Ok(Stationarity { trend: mann_kendall(parts)?, change: changepoint::strongest(parts, rng)? })
}

/// Least-squares slope per step, relative to the mean; nothing under two values or when the mean is zero.
pub fn relative_slope(values: &[f64]) -> Option<f64> {
    let centre = mean(values).filter(|centre| *centre != 0.0)?;
    let middle = (values.len() - 1) as f64 / 2.0;
    let (mut product, mut square) = (0.0, 0.0);
    for (index, value) in values.iter().enumerate() {
        let offset = index as f64 - middle;
        product += offset * (value - centre);
        square += offset * offset;
    }
    (square > 0.0).then(|| product / square / centre)
}

/// Whether a warm-up may end: the last [`STEADY_SECONDS`] one-second rates have a slope within
/// ±[`STEADY_SLOPE`], and no change point lies within them.
///
/// The change is looked for in up to twice as many seconds; with five seconds alone no permutation test
/// can show one, and the slope decides. A step of 3.4 % within the five seconds already breaks the slope.
pub fn steady(rates_per_s: &[f64], rng: &mut Rng) -> bool {
    let Some(recent_start) = rates_per_s.len().checked_sub(STEADY_SECONDS) else { return false };
    let flat = relative_slope(&rates_per_s[recent_start..]).is_some_and(|slope| slope.abs() < STEADY_SLOPE);
    let span = &rates_per_s[rates_per_s.len().saturating_sub(CHANGE_SPAN)..];
    let recent = span.len() - STEADY_SECONDS;
    let changed = |change: Option<ChangePoint>| change.is_some_and(|c| c.p <= ALPHA && c.index > recent);
    flat && changepoint::strongest(span, rng).is_ok_and(|change| !changed(change))
}
