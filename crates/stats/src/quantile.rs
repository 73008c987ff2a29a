//! How many observations a quantile needs.

/// Observations wanted beyond a quantile before it is printed: its rank then has a standard error of 10 %
/// of the tail.
const BEYOND: f64 = 100.0;

/// Fewest observations that justify printing quantile `q`: 100/(1 − q).
pub fn min_observations(q: f64) -> u64 {
    // Decimal quantiles are not exact in binary: without the slack, 0.999 would ask for 100 001.
    (BEYOND / (1.0 - q) * (1.0 - 1e-12)).ceil() as u64
}
