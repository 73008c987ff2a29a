//! Confidence intervals for a quantile from ranks alone, so that histograms can use them.
//!
//! The number of observations below the true quantile is binomial(n, q), whatever the distribution.
//!
//! Source: W. Conover, Practical Nonparametric Statistics, 3rd ed., §3.2. The binomial probabilities are
//! exact for every n; no normal approximation is used.

use crate::Error;
use crate::error::{at_least, inside_unit};

/// Observations wanted beyond a quantile before it is printed: its rank then has a standard error of 10 %
/// of the tail.
const BEYOND: f64 = 100.0;

/// Binomial terms below this share of the largest are left out; all of them together stay under 1e-13.
const NEGLIGIBLE: f64 = 1e-20;

/// Fewest observations that justify printing quantile `q`: 100/(1 − q).
pub fn min_observations(q: f64) -> u64 {
    // Decimal quantiles are not exact in binary: without the slack, 0.999 would ask for 100 001.
    (BEYOND / (1.0 - q) * (1.0 - 1e-12)).ceil() as u64
}

/// Rank, from 1, of the order statistic that estimates quantile `q` of `n` observations: ⌈q·n⌉.
pub fn rank(n: u64, q: f64) -> u64 {
    ((q * n as f64 * (1.0 - 1e-15)).ceil() as u64).clamp(1, n.max(1))
}

/// Ranks whose order statistics enclose a quantile.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ranks {
    /// Rank of the lower end, from 1.
    pub low: u64,
    /// Rank of the upper end, at most n.
    pub high: u64,
    /// Confidence level attained, at least the one asked for.
    pub level: f64,
}

/// Ranks of the order statistics of `n` observations that enclose quantile `q` with at least `level`.
///
/// Each side misses with probability at most (1 − level)/2.
///
/// # Errors
/// [`Error::TooFew`] when even the extremes do not enclose it, or `q` or `level` outside (0, 1).
pub fn interval_ranks(n: u64, q: f64, level: f64) -> Result<Ranks, Error> {
    inside_unit("q", q)?;
    inside_unit("level", level)?;
    let tail = (1.0 - level) / 2.0;
    let extremes = (q.powf(n as f64), (1.0 - q).powf(n as f64));
    if extremes.0 > tail || extremes.1 > tail {
        return Err(Error::TooFew { have: n as usize, need: fewest(q, tail) });
    }
    let binomial = Binomial::new(n, q);
    let (low, missed_low) = binomial.lower(tail);
    let (high, missed_high) = binomial.upper(tail);
    Ok(Ranks { low: low.max(1), high: high.min(n), level: 1.0 - missed_low - missed_high })
}

/// As [`interval_ranks`] for `n` observations worth only `effective` independent ones.
///
/// The interval is that of the effective number, its ranks scaled to all `n`
/// ([`crate::effective`] gives that number).
///
/// # Errors
/// As [`interval_ranks`], for the effective number.
pub fn thinned_ranks(n: u64, effective: u64, q: f64, level: f64) -> Result<Ranks, Error> {
    let thin = interval_ranks(effective.min(n), q, level)?;
    if effective >= n {
        return Ok(thin);
    }
    let scale = n as f64 / effective as f64;
    let low = ((thin.low as f64 * scale).floor() as u64).clamp(1, n);
    let high = ((thin.high as f64 * scale).ceil() as u64).clamp(1, n);
    Ok(Ranks { low, high, level: thin.level })
}

/// The values that enclose quantile `q` of sorted observations, with the level attained.
///
/// # Errors
/// As [`interval_ranks`].
pub fn interval(sorted: &[f64], q: f64, level: f64) -> Result<crate::Interval, Error> {
    at_least(sorted.len(), 1)?;
    let ranks = interval_ranks(sorted.len() as u64, q, level)?;
    let value = |rank: u64| sorted[rank as usize - 1];
    Ok(crate::Interval { low: value(ranks.low), high: value(ranks.high), level: ranks.level })
}

/// Fewest observations whose extremes enclose the quantile: q^n and (1 − q)^n at most `tail`.
fn fewest(q: f64, tail: f64) -> usize {
    (tail.ln() / q.max(1.0 - q).ln()).ceil() as usize
}

/// The binomial probabilities that are not negligible, from the mode outwards.
struct Binomial {
    first: u64,
    probability: Vec<f64>,
}

impl Binomial {
    /// Starts from weight 1 at the mode and walks both ways by the ratio of neighbours, so that nothing
    /// under- or overflows; the total comes last.
    fn new(n: u64, q: f64) -> Self {
        let mode = (((n + 1) as f64 * q) as u64).min(n);
        let odds = q / (1.0 - q);
        let up = |k: u64, weight: f64| weight * (n - k) as f64 * odds / (k + 1) as f64;
        let down = |k: u64, weight: f64| weight * k as f64 / ((n - k + 1) as f64 * odds);
        let above = (mode..n).scan(1.0, |weight, k| tread(weight, up(k, *weight)));
        let below = (1..=mode).rev().scan(1.0, |weight, k| tread(weight, down(k, *weight)));
        let mut probability: Vec<f64> = below.collect();
        let first = mode - probability.len() as u64;
        probability.reverse();
        probability.push(1.0);
        probability.extend(above);
        let total: f64 = probability.iter().sum();
        probability.iter_mut().for_each(|p| *p /= total);
        Self { first, probability }
    }

    /// The largest rank l with P(B ≤ l − 1) ≤ `tail`, and that probability.
    fn lower(&self, tail: f64) -> (u64, f64) {
        let (terms, missed) = terms_within(self.probability.iter(), tail);
        (self.first + terms, missed)
    }

    /// The smallest rank u with P(B ≥ u) ≤ `tail`, and that probability.
    fn upper(&self, tail: f64) -> (u64, f64) {
        let (terms, missed) = terms_within(self.probability.iter().rev(), tail);
        (self.first + self.probability.len() as u64 - terms, missed)
    }
}

/// One step of a walk that ends at the first negligible weight.
fn tread(weight: &mut f64, next: f64) -> Option<f64> {
    *weight = next;
    (next > NEGLIGIBLE).then_some(next)
}

/// How many terms sum to at most `tail`, and their sum.
fn terms_within<'a>(terms: impl Iterator<Item = &'a f64>, tail: f64) -> (u64, f64) {
    let mut sum = 0.0;
    let mut count = 0;
    for term in terms {
        if sum + term > tail {
            break;
        }
        sum += term;
        count += 1;
    }
    (count, sum)
}
