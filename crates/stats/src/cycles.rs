//! From the cycles of a block to the one value that the block counts for.
//!
//! The cycles of a block share their processes, so that they are not independent: they give the value of the block and its
//! spread, never an interval. The interval comes from the values of several blocks ([`crate::paired`]).

use crate::error::{all_finite, at_least};
use crate::paired::hodges_lehmann;
use crate::trend::mann_kendall;
use crate::{Error, descriptive};

/// Most cycles of a block: its two million means of two are sorted in some tenths of a second.
pub const MAX_CYCLES: usize = 2000;

/// Fewest cycles that can show a trend.
const MIN_TREND: usize = 3;

/// What the cycles of one block say of an arm, compared with the baseline.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BlockValue {
    /// Hodges–Lehmann estimate over the cycles, a log-ratio.
    pub value: f64,
    /// Spread of the cycles: 1.4826 times their median absolute deviation, in ln units; 0 for a single cycle.
    pub spread: f64,
    /// Cycles behind it.
    pub n: usize,
    /// Two-sided p-value of "no trend over the cycles" (Mann–Kendall); 1 for fewer than three, which cannot show one.
    pub trend: f64,
}

impl BlockValue {
    /// The value of a block from the ln ratios of its cycles, in the order in which these ran.
    ///
    /// # Errors
    /// [`Error::TooFew`] without a cycle, [`Error::TooMany`] above [`MAX_CYCLES`], a value that is not finite.
    ///
    /// ```
    /// use stats::cycles::BlockValue;
    ///
    /// // The host's speed changed within the fifth cycle: the value of the block hardly sees it.
    /// let block = BlockValue::from_cycles(&[0.030, 0.028, 0.031, 0.029, 0.400, 0.032])?;
    /// assert!((block.value - 0.0305).abs() < 1e-12 && block.spread < 0.003);
    /// assert_eq!(block.n, 6);
    /// # Ok::<(), stats::Error>(())
    /// ```
    pub fn from_cycles(cycles: &[f64]) -> Result<Self, Error> {
        let n = cycles.len();
        if n > MAX_CYCLES {
            return Err(Error::TooMany { have: n, most: MAX_CYCLES });
        }
        all_finite(cycles)?;
        at_least(n, 1)?;
        let value = hodges_lehmann(cycles).ok_or(Error::Degenerate)?;
        let spread = descriptive::mad(cycles).ok_or(Error::Degenerate)?;
        let trend = if n < MIN_TREND { 1.0 } else { mann_kendall(cycles)?.p };
        Ok(Self { value, spread, n, trend })
    }
}
