//! The normal distribution.

use std::f64::consts::{PI, SQRT_2};

/// Beyond this many standard deviations the series loses its digits to cancellation.
const SERIES_LIMIT: f64 = 5.0;

/// Terms of the continued fraction; enough for full precision beyond [`SERIES_LIMIT`].
const FRACTION_TERMS: u32 = 60;

/// Halley steps from a start that is right to three digits: each triples the digits.
const HALLEY_STEPS: u32 = 3;

/// Density of the standard normal distribution.
pub fn normal_density(x: f64) -> f64 {
    (-x * x / 2.0).exp() / (PI.sqrt() * SQRT_2)
}

/// Probability that a standard normal number is at most `x`.
///
/// Source: G. Marsaglia, Evaluating the normal distribution, J. Stat. Softw. 11(4), 2004 (series);
/// M. Abramowitz and I. Stegun, Handbook of Mathematical Functions, 26.2.14 (continued fraction).
pub fn normal_cdf(x: f64) -> f64 {
    if x.abs() < SERIES_LIMIT {
        return 0.5 + normal_density(x) * odd_series(x);
    }
    let denominator = (1..=FRACTION_TERMS).rev().fold(x.abs(), |rest, k| x.abs() + f64::from(k) / rest);
    let tail = normal_density(x) / denominator;
    if x < 0.0 { tail } else { 1.0 - tail }
}

/// x + x³/3 + x⁵/(3·5) + …, until a term no longer counts.
fn odd_series(x: f64) -> f64 {
    let (mut sum, mut term, mut odd) = (x, x, 1.0);
    while term.abs() > f64::EPSILON * sum.abs() {
        odd += 2.0;
        term *= x * x / odd;
        sum += term;
    }
    sum
}

/// The number that a standard normal number does not exceed with probability `p`; infinite at 0 and 1.
///
/// Source: M. Abramowitz and I. Stegun, Handbook of Mathematical Functions, 26.2.23, refined by Halley's
/// method on [`normal_cdf`].
pub fn normal_quantile(p: f64) -> f64 {
    if p > 0.5 {
        return -normal_quantile(1.0 - p);
    }
    if p <= 0.0 {
        return f64::NEG_INFINITY;
    }
    let t = (-2.0 * p.ln()).sqrt();
    let above = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    let below = 1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308));
    (0..HALLEY_STEPS).fold(above / below - t, |x, _| {
        let newton = (normal_cdf(x) - p) / normal_density(x);
        x - newton / (1.0 + x * newton / 2.0)
    })
}

/// Two-sided p-value of a standard normal statistic.
pub fn two_sided_p(z: f64) -> f64 {
    (2.0 * normal_cdf(-z.abs())).min(1.0)
}
