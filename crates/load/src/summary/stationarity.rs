use crate::session::{SLICES, Slice};

/// Pairs of tenths that must agree more often than disagree for a trend: p = 0.005, two-sided, for ten values.
///
/// Source: Mann, "Nonparametric tests against trend", 1945; the exact distribution by counting inversions.
const TREND: i32 = 31;
/// Change from the first three tenths to the last three below which a trend does not matter.
const CHANGE: f64 = 0.1;
/// Requests in each tenth below which its typical response is chance.
const REQUESTS: u64 = 30;
/// Tenths at either end that are compared.
const ENDS: usize = 3;

/// A window that did not stay the same.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Trend {
    /// Typical response in the first three tenths, in nanoseconds.
    pub(crate) from_ns: f64,
    /// Typical response in the last three.
    pub(crate) to_ns: f64,
}

/// The trend of the typical response over the tenths of a window, if it has one that matters.
pub(crate) fn trend(slices: &[Slice; SLICES]) -> Option<Trend> {
    if slices.iter().any(|slice| slice.requests < REQUESTS) {
        return None;
    }
    let typical: Vec<f64> = slices.iter().filter_map(Slice::typical_ns).collect();
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let trend = Trend { from_ns: mean(&typical[..ENDS]), to_ns: mean(&typical[SLICES - ENDS..]) };
    let matters = (trend.to_ns / trend.from_ns - 1.0).abs() > CHANGE;
    (matters && score(&typical).abs() >= TREND).then_some(trend)
}

/// Pairs that rise less pairs that fall.
fn score(values: &[f64]) -> i32 {
    let sign = |earlier: &f64, later: &f64| i32::from(later > earlier) - i32::from(later < earlier);
    let against = |(index, earlier): (usize, &f64)| {
        values[index + 1..].iter().map(|later| sign(earlier, later)).sum::<i32>()
    };
    values.iter().enumerate().map(against).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slices(typical_us: [u64; SLICES]) -> [Slice; SLICES] {
        // Whole powers of two would be coarse: a logarithm is given directly.
        typical_us
            .map(|us| Slice { requests: 100, log_sum: ((us as f64 * 1e3).log2() * 65536.0 * 100.0) as u64 })
    }

    #[test]
    fn a_trend_is_seen_and_noise_is_not() {
        let rising = trend(&slices([100, 105, 110, 114, 119, 121, 127, 133, 140, 145]));
        assert!(rising.is_some_and(|trend| (trend.to_ns / trend.from_ns - 1.327).abs() < 0.01), "{rising:?}");
        let warming = trend(&slices([300, 200, 150, 120, 110, 105, 104, 103, 102, 101]));
        assert!(warming.is_some_and(|trend| trend.to_ns < trend.from_ns));
        assert_eq!(trend(&slices([100, 130, 90, 110, 140, 95, 105, 125, 99, 118])), None);
        // A trend of 5 % is real and does not matter.
        assert_eq!(trend(&slices([1000, 1005, 1010, 1015, 1020, 1025, 1030, 1035, 1040, 1045])), None);
    }
}
