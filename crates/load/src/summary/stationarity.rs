use model::record::SMALL_SEND_LAG_NS;

use crate::session::{SLICES, Slice};

/// Pairs of tenths that must agree more often than disagree for a trend: p = 0.005, two-sided, for ten values.
///
/// Source: Mann, "Nonparametric tests against trend", 1945; the exact distribution by counting inversions.
const TREND: i32 = 31;
/// Change from the first three tenths to the last three below which a trend does not matter.
const CHANGE: f64 = 0.1;
/// Requests in each tenth below which its typical response is chance.
const REQUESTS: u64 = 30;
/// Gap between two levels over the wider of their ranges, from which on it is a step: of windows whose level stays, one in
/// sixty at most has one by chance (simulated; lognormal noise of 2 to 50 % between tenths).
const WIDER: f64 = 1.0;
/// A fall by less than this in nanoseconds is that of a cache or a clock frequency, and no percentile of a network server shows it.
const SMALL_FALL_NS: f64 = SMALL_SEND_LAG_NS;
/// Tenths at either end that are compared.
const ENDS: usize = 3;

/// A window that did not stay the same.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Trend {
    /// Typical response in its first part, in nanoseconds.
    pub(crate) from_ns: f64,
    /// Typical response in its last part.
    pub(crate) to_ns: f64,
}

impl Trend {
    fn matters(&self) -> bool {
        let enough = self.rises() || self.from_ns - self.to_ns > SMALL_FALL_NS;
        enough && (self.to_ns / self.from_ns - 1.0).abs() > CHANGE
    }

    /// Whether responses took longer at the end: then it was no warm-up.
    pub(crate) fn rises(&self) -> bool {
        self.to_ns > self.from_ns
    }
}

/// How the typical response moved over the tenths of a window, if it did so in a way that matters: step by step, at once,
/// or from a beginning that was unlike all that followed.
pub(crate) fn trend(slices: &[Slice; SLICES]) -> Option<Trend> {
    if slices.iter().any(|slice| slice.requests < REQUESTS) {
        return None;
    }
    let typical: Vec<f64> = slices.iter().filter_map(Slice::typical_ns).collect();
    let between =
        |first: usize, last: usize| Trend { from_ns: mean(&typical[..first]), to_ns: mean(&typical[last..]) };
    let steadily = (score(&typical).abs() >= TREND).then(|| between(ENDS, SLICES - ENDS));
    steadily.into_iter().chain(stepped(&typical)).find(Trend::matters)
}

/// A step from one level to another, where it is wider than all that either level moves by.
fn stepped(typical: &[f64]) -> Option<Trend> {
    let step = |at: usize| {
        let (before, after) = typical.split_at(at);
        let ([low, high], [least, most]) = (range(before), range(after));
        let gap = (least - high).max(low - most);
        let spread = (high - low).max(most - least);
        (gap > WIDER * spread).then(|| Trend { from_ns: mean(before), to_ns: mean(after) })
    };
    // What is unlike the rest at the end only may be anything; at the beginning it is a warm-up.
    (1..=SLICES / 2 + 1).find_map(step)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn range(values: &[f64]) -> [f64; 2] {
    values.iter().fold([f64::MAX, f64::MIN], |[low, high], value| [low.min(*value), high.max(*value)])
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
        let step = trend(&slices([100, 102, 99, 101, 100, 200, 203, 199, 201, 200]));
        assert!(step.is_some_and(|step| (step.to_ns / step.from_ns - 2.0).abs() < 0.02), "{step:?}");
        let cold = trend(&slices([500, 101, 99, 100, 102, 98, 100, 101, 99, 100]));
        assert!(cold.is_some_and(|cold| cold.from_ns > 4.0 * cold.to_ns), "{cold:?}");
        assert!(trend(&slices([500, 200, 99, 100, 102, 98, 100, 101, 99, 100])).is_some());
        // A short run whose first requests were slower by some microseconds is healthy; one that gets slower by as much is not.
        let few = [46, 40, 35, 33, 31, 30, 29, 28, 28, 28];
        assert_eq!(trend(&slices(few)), None);
        let mut more = few;
        more.reverse();
        assert!(trend(&slices(more)).is_some_and(|trend| trend.rises()));
        // A trend of 5 % is real and does not matter.
        assert_eq!(trend(&slices([1000, 1005, 1010, 1015, 1020, 1025, 1030, 1035, 1040, 1045])), None);
    }
}
