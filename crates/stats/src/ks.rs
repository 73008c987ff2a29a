//! Kolmogorov–Smirnov test against an exponential distribution: are arrivals Poisson?

use crate::Error;
use crate::descriptive::sorted;
use crate::error::{all_finite, at_least};

/// Fewest gaps: the p-value is then right to 0.01, and better where it is small.
pub const MIN_GAPS: usize = 100;

/// Below this the p-value is 1 to more than ten digits, and the series would converge slowly.
const SURELY_ONE: f64 = 0.2;

/// Terms of the series of the p-value; the next one is under 1e-16 above [`SURELY_ONE`].
const TERMS: i32 = 30;

/// Outcome of the test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ks {
    /// Largest distance between the observed and the expected distribution function, 0 to 1.
    pub distance: f64,
    /// p-value of "the gaps are exponential with this mean".
    pub p: f64,
}

/// Tests gaps between arrivals against the exponential distribution with a `mean` known beforehand, in the
/// same unit. A mean estimated from the same gaps would make the p-value too large.
///
/// Source: M. Stephens, EDF statistics for goodness of fit, J. Amer. Statist. Assoc. 69(347), 1974 (the
/// correction for n).
///
/// # Errors
/// [`Error::TooFew`] under [`MIN_GAPS`], a gap that is not finite, a mean that is not positive.
pub fn exponential(gaps: &[f64], mean: f64) -> Result<Ks, Error> {
    at_least(gaps.len(), MIN_GAPS)?;
    all_finite(gaps)?;
    if !(mean > 0.0 && mean.is_finite()) {
        return Err(Error::OutOfRange { name: "mean", value: mean });
    }
    let n = gaps.len() as f64;
    let distance = sorted(gaps)
        .iter()
        .enumerate()
        .map(|(index, gap)| {
            let expected = -(-gap.max(0.0) / mean).exp_m1();
            (expected - index as f64 / n).max((index + 1) as f64 / n - expected)
        })
        .fold(0.0, f64::max);
    Ok(Ks { distance, p: kolmogorov_p((n.sqrt() + 0.12 + 0.11 / n.sqrt()) * distance) })
}

/// P(K > x) of the limiting distribution: 2 Σ (−1)^(k−1) exp(−2k²x²).
fn kolmogorov_p(x: f64) -> f64 {
    if x < SURELY_ONE {
        return 1.0;
    }
    let term = |k: i32| if k % 2 == 1 { 1.0 } else { -1.0 } * (-2.0 * f64::from(k * k) * x * x).exp();
    (2.0 * (1..=TERMS).map(term).sum::<f64>()).clamp(0.0, 1.0)
}
