//! The exact null distribution of the signed-rank statistic, with and without ties.
//!
//! Source: F. Wilcoxon, Biometrics Bulletin 1(6), 1945; the convolution is that of R's `csignrank`.

/// Probability of each value of the sum of a random subset of `weights`, every subset equally likely.
///
/// Index `s` of the result is the sum `s`. With the weights 1 to n this is the null distribution of
/// Wilcoxon's statistic; with doubled midranks it is its exact distribution given the ties.
pub fn subset_sums(weights: &[usize]) -> Vec<f64> {
    let mut probability = vec![0.0; weights.iter().sum::<usize>() + 1];
    probability[0] = 1.0;
    let mut reach = 0;
    for &weight in weights {
        reach += weight;
        // Downwards, so that each weight is used at most once; halving is exact.
        for sum in (0..=reach).rev() {
            let without = probability[sum];
            let with = if sum >= weight { probability[sum - weight] } else { 0.0 };
            probability[sum] = (without + with) / 2.0;
        }
    }
    probability
}

/// Null distribution of Wilcoxon's signed-rank statistic for `n` pairs without ties.
pub fn distribution(n: usize) -> Vec<f64> {
    subset_sums(&(1..=n).collect::<Vec<_>>())
}

/// How many of the outermost Walsh averages lie outside the interval on each side, with its level.
///
/// The interval runs from the k-th smallest to the k-th largest average and misses the centre with
/// probability 2·P(W ≤ k − 1). This is the largest such k ≥ 1 whose level is at least `level`, or nothing
/// when even the widest interval falls short.
///
/// Source: M. Hollander, D. Wolfe and E. Chicken, Nonparametric Statistical Methods, 3rd ed., §3.3.
pub fn critical(n: usize, level: f64) -> Option<Critical> {
    let mut tail = 0.0;
    let mut best = None;
    for (below, probability) in distribution(n).into_iter().enumerate() {
        tail += probability;
        let attained = 1.0 - 2.0 * tail;
        if attained < level {
            break;
        }
        best = Some(Critical { rank: below + 1, level: attained });
    }
    best
}

/// The rank of the Walsh averages that bound an interval, counted from either end, and its level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Critical {
    /// Rank from 1, counted from the smallest and from the largest average.
    pub rank: usize,
    /// Confidence level attained, 0 to 1.
    pub level: f64,
}
