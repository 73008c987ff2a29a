//! Paired comparison of two arms: estimate, exact interval, and two tests that should agree.
//!
//! The observation is a block: one round of each arm. Its difference is d = ln(arm / baseline).

use crate::descriptive::{doubled_midranks, median_of_sorted};
use crate::error::{all_finite, all_positive, at_least, inside_unit};
use crate::signed_rank::{critical, subset_sums};
use crate::{Error, Estimate, Interval, Rng, descriptive, special};

/// Most pairs accepted: the probability 2^-n of the rarest outcome still fits a double, and the exact
/// distribution takes some milliseconds.
pub const MAX_PAIRS: usize = 500;

/// Up to this many differences all 2^n sign patterns are tried: 2^19 sums by symmetry, some milliseconds.
pub const MAX_ENUMERATED: usize = 20;

/// Sign patterns drawn above [`MAX_ENUMERATED`]: the standard error of a p-value of 0.05 is then 0.0015.
pub const DRAWS: u32 = 20_000;

/// Rounding allowed, relative to the sum of magnitudes, when two sums of the same numbers are compared.
const SUM_SLACK: f64 = 1e-12;

/// d = ln(arm / baseline) for each pair.
///
/// # Errors
/// Slices of different length, or a value that is not finite and above zero.
pub fn log_ratios(arm: &[f64], baseline: &[f64]) -> Result<Vec<f64>, Error> {
    if arm.len() != baseline.len() {
        return Err(Error::Unequal { left: arm.len(), right: baseline.len() });
    }
    all_positive(arm)?;
    all_positive(baseline)?;
    Ok(arm.iter().zip(baseline).map(|(arm, baseline)| (arm / baseline).ln()).collect())
}

/// All means of two differences (each with itself too) in ascending order: n(n + 1)/2 of them.
pub fn walsh_averages(differences: &[f64]) -> Vec<f64> {
    let mut averages = Vec::with_capacity(differences.len() * (differences.len() + 1) / 2);
    for (index, left) in differences.iter().enumerate() {
        averages.extend(differences[index..].iter().map(|right| (left + right) / 2.0));
    }
    averages.sort_unstable_by(f64::total_cmp);
    averages
}

/// Hodges–Lehmann estimate of the centre: the median of the Walsh averages; nothing for an empty slice.
///
/// Source: J. Hodges and E. Lehmann, Ann. Math. Statist. 34(2), 1963.
pub fn hodges_lehmann(differences: &[f64]) -> Option<f64> {
    median_of_sorted(&walsh_averages(differences))
}

/// Mean with Student's interval at `level` (0 to 1): what can be said of pairs that are too few for an exact interval,
/// if they are spread like a normal distribution.
///
/// # Errors
/// [`Error::TooFew`] under two pairs, [`Error::TooMany`], a value that is not finite, a level outside (0, 1).
pub fn student(differences: &[f64], level: f64) -> Result<Estimate, Error> {
    check(differences)?;
    inside_unit("level", level)?;
    let n = differences.len();
    let too_few = || Error::TooFew { have: n, need: 2 };
    let value = descriptive::mean(differences).ok_or_else(too_few)?;
    let error = descriptive::sd(differences).ok_or_else(too_few)? / (n as f64).sqrt();
    let half = special::student_within(level, n as u32 - 1) * error;
    Ok(Estimate { value, interval: Interval { low: value - half, high: value + half, level }, n })
}

/// Hodges–Lehmann estimate with the exact Wilcoxon interval at `level` (0 to 1).
///
/// The level attained is in the interval; it is at least the level asked for.
///
/// # Errors
/// [`Error::TooFew`] when no interval of so few pairs attains the level ([`min_pairs`] says how many
/// would; [`widest`] gives what there is), [`Error::TooMany`], a value that is not finite, a level
/// outside (0, 1).
pub fn estimate(differences: &[f64], level: f64) -> Result<Estimate, Error> {
    check(differences)?;
    inside_unit("level", level)?;
    let n = differences.len();
    let critical = critical(n, level).ok_or(Error::TooFew { have: n, need: min_pairs(level) })?;
    Ok(estimate_at(differences, critical.rank, critical.level))
}

/// Hodges–Lehmann estimate with the widest interval there is, smallest to largest difference, and its
/// level 1 − 2^(1−n): what can be said of too few pairs.
///
/// # Errors
/// [`Error::TooFew`] under two pairs, [`Error::TooMany`], a value that is not finite.
pub fn widest(differences: &[f64]) -> Result<Estimate, Error> {
    check(differences)?;
    at_least(differences.len(), 2)?;
    let level = 1.0 - 2.0 * 0.5_f64.powi(differences.len() as i32);
    Ok(estimate_at(differences, 1, level))
}

/// Hodges–Lehmann estimate at `level` where there are pairs enough for it, else with the widest interval there is: the level
/// attained is in the interval.
///
/// # Errors
/// Those of [`estimate`] and [`widest`]; [`Error::TooFew`] only under two pairs.
pub fn estimate_or_widest(differences: &[f64], level: f64) -> Result<Estimate, Error> {
    estimate(differences, level).or_else(|_| widest(differences))
}

fn estimate_at(differences: &[f64], rank: usize, level: f64) -> Estimate {
    let averages = walsh_averages(differences);
    let value = median_of_sorted(&averages).expect("an interval exists, so there are averages");
    let interval = Interval { low: averages[rank - 1], high: averages[averages.len() - rank], level };
    Estimate { value, interval, n: differences.len() }
}

fn check(differences: &[f64]) -> Result<(), Error> {
    if differences.len() > MAX_PAIRS {
        return Err(Error::TooMany { have: differences.len(), most: MAX_PAIRS });
    }
    all_finite(differences)
}

/// Fewest pairs whose exact interval attains `level`: 6 for 95 %, 8 for 99 %.
///
/// The widest interval misses with probability 2^(1−n).
pub fn min_pairs(level: f64) -> usize {
    (1.0 - (1.0 - level).log2()).ceil().max(1.0) as usize
}

/// Outcome of the signed-rank test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SignedRank {
    /// Two-sided p-value, exact given the ties.
    pub p: f64,
    /// Sum of the ranks of the positive differences.
    pub positive_ranks: f64,
    /// Differences that are exactly zero; they carry no sign and are left out.
    pub zeros: usize,
    /// Differences that were ranked.
    pub ranked: usize,
}

/// Wilcoxon's signed-rank test of "the centre is zero", two-sided and exact.
///
/// Zeros are left out and counted; ties share the mean of their ranks, and the p-value is taken from the
/// distribution over all sign patterns of exactly these ranks, so that it stays exact.
///
/// # Errors
/// [`Error::TooFew`] for an empty slice, [`Error::TooMany`], a value that is not finite.
pub fn wilcoxon(differences: &[f64]) -> Result<SignedRank, Error> {
    check(differences)?;
    at_least(differences.len(), 1)?;
    let signed: Vec<f64> = differences.iter().copied().filter(|d| *d != 0.0).collect();
    let ranks = doubled_midranks(&signed.iter().map(|d| d.abs()).collect::<Vec<_>>());
    let positive: usize = signed.iter().zip(&ranks).filter(|(d, _)| **d > 0.0).map(|(_, rank)| rank).sum();
    let smaller = positive.min(ranks.iter().sum::<usize>() - positive);
    let tail: f64 = subset_sums(&ranks)[..=smaller].iter().sum();
    Ok(SignedRank {
        p: (2.0 * tail).min(1.0),
        positive_ranks: positive as f64 / 2.0,
        zeros: differences.len() - signed.len(),
        ranked: signed.len(),
    })
}

/// Outcome of the sign-flip test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SignFlip {
    /// Two-sided p-value.
    pub p: f64,
    /// Whether every sign pattern was tried; otherwise [`DRAWS`] of them were drawn.
    pub exact: bool,
}

/// Sign-flip permutation test of "the mean is zero", two-sided.
///
/// Exact up to [`MAX_ENUMERATED`] differences, by random patterns from `rng` above.
///
/// Source: R. Fisher, The Design of Experiments, 1935, §21; the "+1" of the drawn p-value is from
/// B. Phipson and G. Smyth, Stat. Appl. Genet. Mol. Biol. 9(1), 2010.
///
/// # Errors
/// [`Error::TooFew`] for an empty slice, or a value that is not finite.
pub fn sign_flip(differences: &[f64], rng: &mut Rng) -> Result<SignFlip, Error> {
    all_finite(differences)?;
    at_least(differences.len(), 1)?;
    let exact = differences.len() <= MAX_ENUMERATED;
    let p = if exact { enumerated_p(differences) } else { drawn_p(differences, rng) };
    Ok(SignFlip { p, exact })
}

/// The magnitude that a flipped sum must reach to count as at least as extreme.
fn bar(differences: &[f64]) -> f64 {
    let magnitudes: f64 = differences.iter().map(|d| d.abs()).sum();
    differences.iter().sum::<f64>().abs() - SUM_SLACK * magnitudes
}

/// Walks all sign patterns by Gray code, one flip a step; the last sign stays, for the rest is mirrored.
fn enumerated_p(differences: &[f64]) -> f64 {
    let bar = bar(differences);
    let mut signed = differences.to_vec();
    let mut sum: f64 = signed.iter().sum();
    let patterns = 1_u32 << (differences.len() - 1);
    let mut extreme = 1;
    for pattern in 1..patterns {
        let flip = pattern.trailing_zeros() as usize;
        sum -= 2.0 * signed[flip];
        signed[flip] = -signed[flip];
        extreme += u32::from(sum.abs() >= bar);
    }
    f64::from(extreme) / f64::from(patterns)
}

fn drawn_p(differences: &[f64], rng: &mut Rng) -> f64 {
    let bar = bar(differences);
    let mut flipped = || differences.iter().map(|d| if rng.coin() { *d } else { -d }).sum::<f64>();
    let extreme: u32 = (0..DRAWS).map(|_| u32::from(flipped().abs() >= bar)).sum();
    f64::from(extreme + 1) / f64::from(DRAWS + 1)
}
