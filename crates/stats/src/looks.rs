//! When to look at the data, at which level, and how many blocks are needed.
//!
//! Either one look at 95 %, or up to three: after 6, 12 and 24 blocks, and the first that decides ends the run. The levels
//! are chosen so that all looks together raise a false alarm in 5 % of runs at most.

use crate::verdict::{Question, Verdict};
use crate::{Error, Interval};

/// Blocks after which a run is looked at. Six are the fewest whose exact interval attains 95 %.
pub const LOOKS: [usize; 3] = [6, 12, 24];

/// Level of the interval at each look.
///
/// The signs and the ranks of paired differences without a true one do not depend on how these are distributed, so that the
/// chance of a false alarm at any look can be simulated once for all: 5.0 % for these levels. The first is the one that six
/// pairs attain. `tests/it/simulation.rs` repeats the simulation.
///
/// Source: S. Pocock, "Group sequential methods in the design and analysis of clinical trials", Biometrika 64(2), 1977, for
/// the idea; the levels are ours.
pub const LEVELS: [f64; 3] = [0.968, 0.984, 0.985];

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

/// Whether a verdict ends a run that could be looked at again. "Equal" does only where differences of twice the smallest
/// that is named are excluded: what is half as large would else go unseen though the next look could show it.
#[must_use]
pub fn ends(verdict: Verdict, ratio: &Interval, question: &Question) -> bool {
    let fine = 2.0 * question.least;
    match verdict {
        Verdict::Faster | Verdict::Slower => true,
        Verdict::Equal => 1.0 - fine < ratio.low && ratio.high < 1.0 + fine,
        Verdict::Inconclusive => false,
    }
}

/// N = ⌈((1.96 + 0.84) · sd / δ)²⌉ blocks to find a difference of δ, with `sd` that of the paired differences.
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
    Ok((POWER_FACTOR * sd / delta).powi(2).ceil() as u64)
}
