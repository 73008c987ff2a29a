//! Mean, spread, median and ranks: what the other modules are built from.

use std::cmp::Ordering;

/// Makes the median absolute deviation of normal data equal its standard deviation: 1 / Φ⁻¹(3/4).
///
/// Source: P. Rousseeuw and C. Croux, J. Amer. Statist. Assoc. 88(424), 1993.
const MAD_TO_SD: f64 = 1.482_602_218_505_602;

/// Arithmetic mean, or nothing for an empty slice.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Standard deviation of a sample (divisor n − 1), or nothing for fewer than two values.
pub fn sd(values: &[f64]) -> Option<f64> {
    let centre = mean(values)?;
    let squares: f64 = values.iter().map(|value| (value - centre).powi(2)).sum();
    (values.len() > 1).then(|| (squares / (values.len() - 1) as f64).sqrt())
}

/// The values in ascending order.
pub fn sorted(values: &[f64]) -> Vec<f64> {
    let mut values = values.to_vec();
    values.sort_unstable_by(f64::total_cmp);
    values
}

/// Middle value, or the mean of the two middle values; nothing for an empty slice.
pub fn median(values: &[f64]) -> Option<f64> {
    median_of_sorted(&sorted(values))
}

pub(crate) fn median_of_sorted(sorted: &[f64]) -> Option<f64> {
    let upper = sorted.get(sorted.len() / 2)?;
    if sorted.len() % 2 == 1 { Some(*upper) } else { Some((sorted[sorted.len() / 2 - 1] + upper) / 2.0) }
}

/// Quantile by linear interpolation between order statistics ("type 7"), `q` from 0 to 1.
///
/// Source: R. Hyndman and Y. Fan, Sample quantiles in statistical packages, Amer. Statist. 50(4), 1996;
/// the default of R and NumPy.
pub fn quantile(values: &[f64], q: f64) -> Option<f64> {
    quantile_of_sorted(&sorted(values), q)
}

pub(crate) fn quantile_of_sorted(sorted: &[f64], q: f64) -> Option<f64> {
    let position = q.clamp(0.0, 1.0) * sorted.len().checked_sub(1)? as f64;
    let below = sorted[position.floor() as usize];
    let above = sorted[position.ceil() as usize];
    Some(below + (above - below) * position.fract())
}

/// Median absolute deviation, scaled so that it estimates the standard deviation of normal data.
pub fn mad(values: &[f64]) -> Option<f64> {
    let centre = median(values)?;
    let deviations: Vec<f64> = values.iter().map(|value| (value - centre).abs()).collect();
    median(&deviations).map(|deviation| deviation * MAD_TO_SD)
}

/// Twice the ranks from 1, ties sharing the mean of theirs, in the order of `values`: whole numbers, so that sums of ranks
/// stay exact.
pub(crate) fn doubled_midranks(values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_unstable_by(|&a, &b| values[a].partial_cmp(&values[b]).unwrap_or(Ordering::Equal));
    let mut ranks = vec![0; values.len()];
    let mut done = 0;
    for group in order.chunk_by(|&a, &b| values[a] == values[b]) {
        let doubled = 2 * done + group.len() + 1;
        group.iter().for_each(|&index| ranks[index] = doubled);
        done += group.len();
    }
    ranks
}
