use model::record::Percentiles;

use crate::Latencies;

/// Requests beyond a quantile that make it worth printing: a quantile q needs 100/(1−q) requests in all.
const BEYOND: f64 = 100.0;
/// Half width of a normal 95 % interval in standard deviations.
const Z95: f64 = 1.959_964;

/// The percentiles of `latencies` that it has enough requests for, each with its interval; `effective` is how many
/// independent requests it is worth.
pub(crate) fn percentiles(latencies: &Latencies, effective: f64) -> Percentiles {
    let mut result = Percentiles {
        count: latencies.len(),
        max: if latencies.is_empty() { 0 } else { latencies.max() },
        mean: latencies.mean(),
        stdev: latencies.stdev(),
        ..Percentiles::default()
    };
    let wanted = [
        ("p50", 0.5, &mut result.p50),
        ("p75", 0.75, &mut result.p75),
        ("p90", 0.9, &mut result.p90),
        ("p99", 0.99, &mut result.p99),
        ("p99_9", 0.999, &mut result.p99_9),
        ("p99_99", 0.9999, &mut result.p99_99),
        ("p99_999", 0.99999, &mut result.p99_999),
    ];
    for (name, quantile, place) in wanted {
        if supports(latencies.len(), quantile) {
            *place = Some(latencies.value_at_quantile(quantile));
            result.ci.insert(name.to_owned(), interval(latencies, quantile, effective));
        }
    }
    result
}

/// Whether `count` values say anything of a quantile.
pub(crate) fn supports(count: u64, quantile: f64) -> bool {
    // The tolerance keeps 1 − 0.99 from asking for one request more than 10 000.
    count as f64 * (1.0 - quantile) >= BEYOND * (1.0 - 1e-9)
}

/// The 95 % order-statistic interval of a quantile: the values at the ranks between which the true one lies.
///
/// Source: Conover, "Practical Nonparametric Statistics", 3rd edition, section 3.2: the number of values below the
/// quantile is binomial; with 100 values beyond it, its normal approximation is good to a rank.
fn interval(latencies: &Latencies, quantile: f64, effective: f64) -> [u64; 2] {
    let half = Z95 * (quantile * (1.0 - quantile) / effective).sqrt();
    let at = |share: f64| latencies.value_at_quantile(share.clamp(0.0, 1.0));
    [at(quantile - half), at(quantile + half)]
}

#[cfg(test)]
mod tests {
    use std::f64::consts::TAU;

    use model::plan::SplitMix64;

    use super::*;
    use crate::latencies;
    use crate::session::Pairs;
    use crate::summary::correlation::{effective, spearman};

    #[test]
    fn a_percentile_needs_its_hundred_beyond() {
        for (count, quantile, wanted) in [
            (199, 0.5, false),
            (200, 0.5, true),
            (9_999, 0.99, false),
            (10_000, 0.99, true),
            (99_999, 0.999, false),
        ] {
            assert_eq!(supports(count, quantile), wanted, "{count} at {quantile}");
        }
    }

    #[test]
    fn the_interval_of_the_median_of_a_thousand_is_31_ranks_wide_on_either_side() {
        let mut uniform = latencies();
        (1..=1000).for_each(|value| uniform.record(value).unwrap());
        // 1.96 · sqrt(1000 · 0.25) = 31 ranks.
        assert_eq!(percentiles(&uniform, 1000.0).ci["p50"], [470, 531]);
        // Worth a quarter as many, it is twice as wide.
        assert_eq!(percentiles(&uniform, 250.0).ci["p50"], [439, 562]);
    }

    /// Requests of one simulated window: enough for a p99.
    const REQUESTS: usize = 10_000;
    /// Windows: a coverage of 95 % is then known to 1.1 %.
    const WINDOWS: u64 = 400;
    /// The true median.
    const MEDIAN_NS: f64 = 1e6;

    /// A standard normal number. Source: Box and Muller, "A note on the generation of random normal deviates", 1958.
    fn normal(random: &mut SplitMix64) -> f64 {
        (-2.0 * (1.0 - random.unit()).ln()).sqrt() * (TAU * random.unit()).cos()
    }

    /// A window of log-normal latencies of which each correlates with the one before by `correlation`, and how many
    /// independent ones the report would take them for.
    fn window(correlation: f64, random: &mut SplitMix64) -> (Latencies, f64) {
        let (mut all, mut pairs) = (latencies(), Pairs::default());
        let mut state = normal(random);
        for _ in 0..REQUESTS {
            state = correlation * state + (1.0 - correlation * correlation).sqrt() * normal(random);
            let latency_ns = (MEDIAN_NS * state.exp()) as u64;
            all.record(latency_ns).unwrap();
            pairs.note(latency_ns);
        }
        (all, effective(REQUESTS as u64, spearman(&pairs.kept)))
    }

    /// A quantile by its name, and how many standard deviations of a normal number it is.
    const QUANTILES: [(&str, f64); 3] = [("p50", 0.0), ("p90", 1.281_551_6), ("p99", 2.326_347_9)];

    /// The share of windows whose interval holds the true quantile, for each of [`QUANTILES`]; of those that take
    /// neighbours for independent too.
    fn coverage(correlation: f64, seed: u64) -> [[f64; 2]; 3] {
        let (mut random, mut held) = (SplitMix64::fork(seed, "coverage", 0), [[0.0; 2]; 3]);
        for _ in 0..WINDOWS {
            let (all, effective) = window(correlation, &mut random);
            for (way, worth) in [effective, REQUESTS as f64].into_iter().enumerate() {
                let ci = percentiles(&all, worth).ci;
                for ((name, deviations), held) in QUANTILES.iter().zip(&mut held) {
                    let (truth, [low, high]) = (MEDIAN_NS * f64::exp(*deviations), ci[*name]);
                    // A histogram tells the upper end of a bucket.
                    let inside = (low..=high).contains(&all.highest_equivalent(truth as u64));
                    held[way] += f64::from(u8::from(inside)) / WINDOWS as f64;
                }
            }
        }
        held
    }

    #[test]
    fn intervals_hold_the_true_percentile_95_times_in_100_however_alike_neighbours_are() {
        const SEED: u64 = 1;
        for correlation in [0.0, 0.4] {
            let [p50, p90, p99] = coverage(correlation, SEED);
            assert!((0.92..=0.98).contains(&p50[0]), "{correlation}, seed {SEED}: {p50:?}");
            // Neighbours are less alike in the tail than in the middle, by which all are judged: there the intervals
            // are too wide rather than too narrow.
            for tail in [p90, p99] {
                assert!(tail[0] >= 0.92, "{correlation}, seed {SEED}: {tail:?}");
            }
            let naive_would_do = (0.92..=0.98).contains(&p50[1]);
            assert_eq!(naive_would_do, correlation == 0.0, "{correlation}, seed {SEED}: {p50:?}");
        }
    }
}
