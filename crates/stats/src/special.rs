//! The normal distribution and Student's t.

use std::f64::consts::{FRAC_PI_2, PI, SQRT_2};

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

/// The number that Student's t with `degrees` (1 or more) stays within, either side of zero, with probability `level`;
/// to five digits.
///
/// Source: G. Hill, "Algorithm 396: Student's t-quantiles", Comm. ACM 13(10), 1970.
pub fn student_within(level: f64, degrees: u32) -> f64 {
    let (p, n) = (1.0 - level, f64::from(degrees));
    match degrees {
        0 | 1 => (p * FRAC_PI_2).tan().recip(),
        2 => (2.0 / (p * (2.0 - p)) - 2.0).sqrt(),
        _ => (n * hill(p, n)).sqrt(),
    }
}

/// The square of the quantile over `n`, for three degrees and more: a series at the centre, another in the tails.
fn hill(p: f64, n: f64) -> f64 {
    let a = 1.0 / (n - 0.5);
    let b = 48.0 / (a * a);
    let c = ((20_700.0 * a / b - 98.0) * a - 16.0) * a + 96.36;
    let d = ((94.5 / (b + c) - 3.0) / b + 1.0) * (a * FRAC_PI_2).sqrt() * n;
    let y = (d * p).powf(2.0 / n);
    if y <= 0.05 + a {
        let inner = ((n + 6.0) / (n * y) - 0.089 * d - 0.822) * (n + 2.0) * 3.0;
        return ((1.0 / inner + 0.5 / (n + 4.0)) * y - 1.0) * (n + 1.0) / (n + 2.0) + 1.0 / y;
    }
    let x = normal_quantile(p / 2.0);
    let y = x * x;
    let few = if n < 5.0 { 0.3 * (n - 4.5) * (x + 0.6) } else { 0.0 };
    let c = (((0.05 * d * x - 5.0) * x - 7.0) * x - 2.0) * x + b + c + few;
    let y = (((((0.4 * y + 6.3) * y + 36.0) * y + 94.5) / c - y - 3.0) / b + 1.0) * x;
    (a * y * y).exp_m1()
}

/// Two-sided p-value of a standard normal statistic.
pub fn two_sided_p(z: f64) -> f64 {
    (2.0 * normal_cdf(-z.abs())).min(1.0)
}
