use record::Percentiles;

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
    use super::*;
    use crate::latencies;

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
}
