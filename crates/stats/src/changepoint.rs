//! Where a series changes its level or spread: divisive search with energy statistics.
//!
//! Source: D. Matteson and N. James, A nonparametric approach for multiple change point analysis of
//! multivariate data, J. Amer. Statist. Assoc. 109(505), 2014 (the search); G. Székely and M. Rizzo,
//! Testing for equal distributions in high dimension, InterStat 5, 2004 (the statistic).

use crate::error::{all_finite, inside_unit};
use crate::{Error, Rng};

/// Permutations for each test: the smallest p-value is then 0.001.
pub const PERMUTATIONS: u32 = 999;

/// Most values accepted: a search of this many takes some seconds.
pub const MAX_VALUES: usize = 2000;

/// A point before which a series differs from what follows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChangePoint {
    /// Position of the first value of the new regime.
    pub index: usize,
    /// Energy statistic of the split within its segment.
    pub statistic: f64,
    /// p-value of "this segment has no change", by permutation.
    pub p: f64,
}

/// All changes with a p-value of at most `alpha`, in ascending order, each segment at least
/// `min_segment` values long.
///
/// # Errors
/// A value that is not finite, more than [`MAX_VALUES`], or `alpha` outside (0, 1).
pub fn detect(
    values: &[f64],
    min_segment: usize,
    alpha: f64,
    rng: &mut Rng,
) -> Result<Vec<ChangePoint>, Error> {
    check(values)?;
    inside_unit("alpha", alpha)?;
    let mut found = Vec::new();
    let mut open = vec![(0, values.len())];
    while let Some((start, end)) = open.pop() {
        let change = test(&values[start..end], start, min_segment.max(1), rng);
        if let Some(change) = change.filter(|change| change.p <= alpha) {
            open.extend([(start, change.index), (change.index, end)]);
            found.push(change);
        }
    }
    found.sort_by_key(|change| change.index);
    Ok(found)
}

fn check(values: &[f64]) -> Result<(), Error> {
    if values.len() > MAX_VALUES {
        return Err(Error::TooMany { have: values.len(), most: MAX_VALUES });
    }
    all_finite(values)
}

fn test(segment: &[f64], offset: usize, min_segment: usize, rng: &mut Rng) -> Option<ChangePoint> {
    let (index, statistic) = best_split(segment, min_segment)?;
    let mut shuffled = segment.to_vec();
    let mut as_large = 1;
    for _ in 0..PERMUTATIONS {
        rng.shuffle(&mut shuffled);
        let (_, other) = best_split(&shuffled, min_segment)?;
        as_large += u32::from(other >= statistic * (1.0 - SLACK));
    }
    Some(ChangePoint {
        index: offset + index,
        statistic,
        p: f64::from(as_large) / f64::from(PERMUTATIONS + 1),
    })
}

/// Rounding allowed when the statistics of two orders of the same values are compared.
const SLACK: f64 = 1e-9;

/// The split with the largest energy statistic, both sides at least `min_segment` long.
///
/// Values move from the right to the left one by one; each move updates the three sums of distances.
fn best_split(values: &[f64], min_segment: usize) -> Option<(usize, f64)> {
    let mut sums = Distances { right: pairs_within(values), ..Distances::default() };
    let mut best = None;
    for index in 1..values.len() {
        let (left, right) = values.split_at(index);
        sums.shift(&left[..index - 1], left[index - 1], right);
        if left.len() < min_segment || right.len() < min_segment {
            continue;
        }
        let statistic = sums.energy(left.len() as f64, right.len() as f64);
        if best.is_none_or(|(_, largest)| statistic > largest) {
            best = Some((index, statistic));
        }
    }
    best
}

/// Sums of |x − y| over the pairs within the left side, within the right side, and between them.
#[derive(Default)]
struct Distances {
    left: f64,
    right: f64,
    between: f64,
}

impl Distances {
    fn shift(&mut self, left: &[f64], moved: f64, right: &[f64]) {
        let distance = |side: &[f64]| side.iter().map(|value| (value - moved).abs()).sum::<f64>();
        let (to_left, to_right) = (distance(left), distance(right));
        self.left += to_left;
        self.right -= to_right;
        self.between += to_right - to_left;
    }

    /// mn/(m + n) · (2 E|X − Y| − E|X − X′| − E|Y − Y′|).
    fn energy(&self, m: f64, n: f64) -> f64 {
        let between = 2.0 * self.between / (m * n);
        let within = 2.0 * self.left / (m * m) + 2.0 * self.right / (n * n);
        m * n / (m + n) * (between - within)
    }
}

fn pairs_within(values: &[f64]) -> f64 {
    let later = |index: usize| values[index + 1..].iter().map(move |other| (other - values[index]).abs());
    (0..values.len()).flat_map(later).sum()
}
