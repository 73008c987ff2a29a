/// Correlation above which responses are taken to be this much alike: at 0.98, a hundred say as much as one.
const MOST: f64 = 0.98;

/// Spearman's rank correlation of the pairs, −1 to 1; 0 where there are too few or one side never changes.
///
/// Source: Spearman, "The proof and measurement of association between two things", 1904; equal values share the mean
/// of their ranks.
pub(crate) fn spearman(pairs: &[(u64, u64)]) -> f64 {
    let first = ranks(pairs.iter().map(|pair| pair.0));
    let second = ranks(pairs.iter().map(|pair| pair.1));
    let mean = (pairs.len() as f64 + 1.0) / 2.0;
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>();
    let scale = (product(&first, &first) * product(&second, &second)).sqrt();
    if scale > 0.0 { product(&first, &second) / scale } else { 0.0 }
}

fn ranks(values: impl Iterator<Item = u64>) -> Vec<f64> {
    let mut order: Vec<(u64, usize)> = values.zip(0..).collect();
    order.sort_unstable();
    let mut ranks = vec![0.0; order.len()];
    let mut from = 0;
    for ties in order.chunk_by(|a, b| a.0 == b.0) {
        let shared = from as f64 + (ties.len() as f64 + 1.0) / 2.0;
        ties.iter().for_each(|(_, place)| ranks[*place] = shared);
        from += ties.len();
    }
    ranks
}

/// How many independent requests say as much as `count` whose neighbours correlate by `correlation`.
///
/// Source: Bayley and Hammersley, "The effective number of independent observations in an autocorrelated time series",
/// 1946, for a first-order process. A negative correlation is not taken as a gain.
pub(crate) fn effective(count: u64, correlation: f64) -> f64 {
    let correlation = correlation.clamp(0.0, MOST);
    count as f64 * (1.0 - correlation) / (1.0 + correlation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn correlations_known_by_hand() {
        let cases: [(&[(u64, u64)], f64); 5] = [
            (&[(1, 10), (2, 20), (3, 30)], 1.0),
            (&[(1, 30), (2, 20), (3, 10)], -1.0),
            // Ranks 1..5 against 2,1,4,3,5: 1 − 6·4/(5·24).
            (&[(1, 2), (2, 1), (3, 4), (4, 3), (5, 5)], 0.8),
            (&[(1, 7), (2, 7)], 0.0),
            (&[], 0.0),
        ];
        for (pairs, wanted) in cases {
            assert!((spearman(pairs) - wanted).abs() < 1e-12, "{pairs:?}");
        }
    }

    #[test]
    fn correlated_requests_say_less() {
        assert_eq!(effective(1000, -0.5), 1000.0);
        assert!((effective(1000, 0.5) - 333.333).abs() < 0.001);
        assert!(effective(1000, 1.0) > 5.0);
    }
}
