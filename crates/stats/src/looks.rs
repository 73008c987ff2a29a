//! When to look at the data, at which level, and how many blocks are needed.
//!
//! Either one look at 95 %, after a number of blocks that was fixed before the first, or up to three: after 8, 14 and 24 blocks, and
//! the first that decides ends the run. The levels are chosen so that all looks together raise a false alarm about one metric in 5 %
//! of runs at most.
//!
//! # Several comparisons
//!
//! The primary metrics of all arms are judged by rank ([`crate::holm`]): of two the stronger needs half the error, of four a
//! quarter. Six blocks cannot give it: their widest interval attains 96.9 %, where two metrics need 97.5 % and four (three
//! arms) 98.8 %. Eight attain 99.2 %. The chance that anything is named without cause, in per cent, by the number of
//! comparisons and by how strongly their blocks are correlated (CPU per request and rate are strongly correlated while the
//! server is the limit):
//!
//! | | 2 at 0.5 | 2 at 0.9 | 2 at 0.99 | 4 at 0.5 | 4 at 0.9 | 4 at 0.99 |
//! |---|--:|--:|--:|--:|--:|--:|
//! | one look after 6 blocks | 5.9 | 5.0 | 3.8 | 11.4 | 8.1 | 4.9 |
//! | one look after 8 blocks | 4.4 | 3.6 | 2.8 | 3.0 | 2.3 | 1.4 |
//! | one look after 16 blocks | 4.7 | 3.8 | 2.9 | 4.1 | 2.7 | 1.7 |
//! | one look after 32 blocks | 4.6 | 3.7 | 2.9 | 4.6 | 3.1 | 1.8 |
//! | three looks, after 8, 14 and 24 | 4.2 | 3.4 | 2.7 | 5.4 | 4.0 | 2.2 |
//!
//! `tests/it/simulation.rs` repeats these figures.

use crate::paired::min_pairs;
use crate::verdict::{Question, Verdict};
use crate::{Error, Interval};

/// Blocks after which a run is looked at. Eight are the fewest that can name one of four comparisons at 95 % for all of them.
pub const LOOKS: [usize; 3] = [8, 14, 24];

/// Level of the interval at each look.
///
/// The signs and the ranks of paired differences without a true one do not depend on how these are distributed, so that the
/// chance of a false alarm at any look can be simulated once for all: 4.8 % for these levels.
/// `tests/it/simulation.rs` repeats the simulation.
///
/// Source: S. Pocock, "Group sequential methods in the design and analysis of clinical trials", Biometrika 64(2), 1977, for
/// the idea; the levels are ours.
pub const LEVELS: [f64; 3] = [0.97, 0.98, 0.98];

/// Most blocks of a run with one look whose blocks are short: more starts narrow the interval more than longer blocks do.
pub const MOST_QUICK: usize = 32;

/// Level where the number of blocks was fixed beforehand.
pub const ONLY_LEVEL: f64 = 0.95;

/// Φ⁻¹(0.975) + Φ⁻¹(0.80), rounded as is usual: a two-sided 5 % test that finds δ four times in five.
///
/// Source: S. Chow, J. Shao and H. Wang, Sample Size Calculations in Clinical Research, 2nd ed., §3.1.
const POWER_FACTOR: f64 = 1.96 + 0.84;

/// Level of the interval of a run that may be looked at again, after so many blocks.
#[must_use]
pub fn level(blocks: usize) -> f64 {
    let passed = LOOKS.iter().filter(|look| **look <= blocks).count();
    LEVELS[passed.saturating_sub(1)]
}

/// Blocks before the next look of a run that has so many, `most` at most; nothing where there is none.
#[must_use]
pub fn next(blocks: usize, most: usize) -> Option<usize> {
    LOOKS.into_iter().find(|look| *look > blocks).filter(|look| *look <= most)
}

/// Whether a verdict ends a run that could be looked at again; `ratio` is the interval of the ratio, not of its logarithm.
///
/// "Equal" does only where the interval excludes differences of twice the smallest that is named: else what is smaller than
/// δ would go unseen although the next look could show it.
#[must_use]
pub fn ends(verdict: Verdict, ratio: &Interval, question: &Question) -> bool {
    let fine = 2.0 * question.least;
    match verdict {
        Verdict::Faster | Verdict::Slower => true,
        Verdict::Equal => 1.0 - fine < ratio.low && ratio.high < 1.0 + fine,
        Verdict::Inconclusive => false,
    }
}

/// N = ⌈((1.96 + 0.84) · sd / δ)²⌉ blocks to find a difference of δ, with `sd` that of the paired differences; at least as
/// many as an exact interval of 95 % takes.
///
/// # Errors
/// [`Error::OutOfRange`] when δ is not above zero or the spread is not a number ≥ 0.
pub fn blocks_needed(sd: f64, delta: f64) -> Result<u64, Error> {
    if !(delta > 0.0 && delta.is_finite()) {
        return Err(Error::OutOfRange { name: "delta", value: delta });
    }
    if !(sd >= 0.0 && sd.is_finite()) {
        return Err(Error::OutOfRange { name: "sd", value: sd });
    }
    let fewest = min_pairs(ONLY_LEVEL) as u64;
    Ok(fewest.max((POWER_FACTOR * sd / delta).powi(2).ceil() as u64))
}
