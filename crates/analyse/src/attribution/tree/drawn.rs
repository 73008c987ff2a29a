//! How exact a sum of leaves is. Shares of samples hang together: what one leaf has, another has not. So leaves are summed
//! first, profile by profile, and the error is that of the sum.

use super::AttributionRow;

/// Profiles from which on their spread tells how exact a share is; fewer only say how many samples there were.
const ENOUGH_PROFILES: usize = 3;

/// What the errors of a leaf, and of sums with it, are worked out from: of the baseline and of the arm.
#[derive(Debug, Clone, Default)]
pub(crate) struct Drawn(pub(super) [Option<Draws>; 2]);

/// Two rows are the same whatever their errors were worked out from: that is no part of what is put out.
impl PartialEq for Drawn {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// The samples of leaves of one side, user or kernel, in one arm.
#[derive(Debug, Clone, Default)]
pub(crate) struct Draws {
    /// Those of the leaves, and of all leaves of the side, in each profile.
    pub(super) counts: Vec<f64>,
    pub(super) wholes: Vec<f64>,
    /// The variance that chance alone gives the sum of `counts`: as large as that, unless one sample was counted for several.
    pub(super) by_chance: f64,
    /// CPU time of a request that those of the whole side divide, in nanoseconds.
    pub(super) divided_ns: f64,
    /// The part of the error that comes with the side's own: all leaves have theirs of the same.
    pub(super) with_side_ns: f64,
}

impl Draws {
    /// Adds another leaf of the same side and arm.
    pub(super) fn add(&mut self, other: &Self) {
        if self.wholes.is_empty() {
            (self.wholes, self.divided_ns) = (other.wholes.clone(), other.divided_ns);
        }
        let length = self.counts.len().max(other.counts.len());
        self.counts.resize(length, 0.0);
        self.counts.iter_mut().zip(&other.counts).for_each(|(sum, count)| *sum += count);
        self.with_side_ns += other.with_side_ns;
        self.by_chance += other.by_chance;
    }

    /// The part of it that has this share of its samples.
    pub(super) fn part(&self, share: f64) -> Self {
        Self {
            counts: self.counts.iter().map(|count| count * share).collect(),
            with_side_ns: self.with_side_ns * share,
            by_chance: self.by_chance * share,
            ..self.clone()
        }
    }

    /// The variance of one leaf.
    pub(super) fn variance(&self) -> f64 {
        let counts_a_sample = self.by_chance / self.counts.iter().sum::<f64>().max(f64::MIN_POSITIVE);
        let error = error(&self.counts, &self.wholes, counts_a_sample.max(1.0));
        (error * self.divided_ns).powi(2) + self.with_side_ns.powi(2)
    }

    /// The variance of many leaves: how they divide all of the side among them says nothing of it.
    fn variance_of_many(&self) -> f64 {
        let is_whole = self.counts.iter().sum::<f64>() > self.wholes.iter().sum::<f64>() - 0.5;
        if is_whole { self.with_side_ns.powi(2) } else { self.variance() }
    }
}

/// Standard error of a share of counts: by the spread between profiles where there are enough, and never less than by chance, where so
/// many counts are one sample.
pub(super) fn error(counts: &[f64], wholes: &[f64], counts_a_sample: f64) -> f64 {
    let (count, whole) = (counts.iter().sum::<f64>(), wholes.iter().sum::<f64>().max(1.0));
    if counts.is_empty() {
        return 0.0;
    }
    // Binomial, and one sample at least.
    let by_chance =
        (count * counts_a_sample * (1.0 - count / whole)).max(counts_a_sample.powi(2)).sqrt() / whole;
    let shares = counts.iter().zip(wholes).filter(|(_, whole)| **whole > 0.0);
    let shares: Vec<f64> = shares.map(|(count, whole)| count / whole).collect();
    if shares.len() < ENOUGH_PROFILES {
        return by_chance;
    }
    let spread = stats::descriptive::sd(&shares).unwrap_or(0.0) / (shares.len() as f64).sqrt();
    by_chance.max(spread)
}

/// Standard error of the change in these leaves together.
pub(crate) fn error_ns(rows: &[&AttributionRow]) -> f64 {
    let sides = ["user", "kernel"].map(|side| {
        let of_side: Vec<&AttributionRow> =
            rows.iter().copied().filter(|row| row.path.first().is_some_and(|first| first == side)).collect();
        variance(&of_side)
    });
    sides.iter().sum::<f64>().sqrt()
}

/// The variance of leaves of one side. Where it is not known what they were drawn from, they are taken for independent.
fn variance(rows: &[&AttributionRow]) -> f64 {
    let is_known = |row: &&AttributionRow| row.drawn.0.iter().any(Option::is_some);
    if rows.len() < 2 || !rows.iter().all(is_known) {
        return rows.iter().map(|row| row.delta_se_ns.powi(2)).sum();
    }
    let of_arm = |arm: usize| {
        let mut sum = Draws::default();
        rows.iter().filter_map(|row| row.drawn.0[arm].as_ref()).for_each(|draws| sum.add(draws));
        sum.variance_of_many()
    };
    of_arm(0) + of_arm(1)
}
