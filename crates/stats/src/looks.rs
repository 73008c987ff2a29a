//! When to look at the data, at which level, and how many blocks are needed.
//!
//! Either one look at 95 %, or two: a first at 99 % after ten blocks and, if that does not decide, a last at
//! 96 % after as many as the spread asks for. The two error rates add up to at most 5 % (Bonferroni), so
//! looking twice does not raise the false alarms.

use crate::descriptive::sd;
use crate::verdict::{Question, Verdict, decide};
use crate::{Error, Estimate, paired};

/// Blocks before the first of two looks.
pub const FIRST_BLOCKS: usize = 10;

/// Most blocks that are planned: about twenty minutes for two arms.
pub const MAX_BLOCKS: usize = 30;

/// Φ⁻¹(0.975) + Φ⁻¹(0.80), rounded as is usual: a two-sided 5 % test that finds δ four times in five.
///
/// Source: S. Chow, J. Shao and H. Wang, Sample Size Calculations in Clinical Research, 2nd ed., §3.1.
const POWER_FACTOR: f64 = 1.96 + 0.84;

/// Which look at the data this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// The first of two, after [`FIRST_BLOCKS`].
    First,
    /// The last of two.
    Last,
    /// The only one, when the number of blocks was fixed beforehand.
    Only,
}

impl Look {
    /// Confidence level of the interval at this look.
    pub fn level(self) -> f64 {
        match self {
            Self::First => 0.99,
            Self::Last => 0.96,
            Self::Only => 0.95,
        }
    }

    /// The estimate and verdict at this look, and the blocks needed when it stays open.
    ///
    /// # Errors
    /// As [`paired::estimate`]; [`Error::OutOfRange`] when δ is not above zero.
    pub fn take(self, differences: &[f64], question: &Question) -> Result<Finding, Error> {
        self.take_at(self.level(), differences, question)
    }

    /// As [`Look::take`], at this look's share for one of several comparisons.
    ///
    /// `family_level` is the level from [`crate::holm::levels`] for the rank of this comparison, for a family
    /// tested at [`Look::level`].
    ///
    /// # Errors
    /// As [`Look::take`].
    pub fn take_at(
        self,
        family_level: f64,
        differences: &[f64],
        question: &Question,
    ) -> Result<Finding, Error> {
        let estimate = paired::estimate(differences, family_level)?;
        let verdict = decide(&estimate, question);
        let spread = sd(differences).unwrap_or(0.0);
        Ok(Finding { look: self, estimate, verdict, spread, needed: blocks_needed(spread, question.delta)? })
    }
}

/// What one look found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Finding {
    /// Which look.
    pub look: Look,
    /// Estimate and interval of the log-ratio.
    pub estimate: Estimate,
    /// The verdict on it.
    pub verdict: Verdict,
    /// Standard deviation of the paired differences.
    pub spread: f64,
    /// Blocks that the spread asks for.
    pub needed: BlocksNeeded,
}

impl Finding {
    /// Blocks to reach before the last look, or nothing when this look ends the experiment.
    ///
    /// Equal to the blocks done when these already suffice: then the last look uses the same data.
    pub fn extend_to(&self) -> Option<usize> {
        let open = self.look == Look::First && self.verdict == Verdict::Inconclusive;
        open.then(|| self.needed.planned.max(self.estimate.n))
    }
}

/// Blocks needed to find a difference of δ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlocksNeeded {
    /// What the formula asks for.
    pub uncapped: u64,
    /// The same, at most [`MAX_BLOCKS`].
    pub planned: usize,
}

/// N = ⌈((1.96 + 0.84) · sd / δ)²⌉, with `sd` that of the paired differences.
///
/// # Errors
/// [`Error::OutOfRange`] when δ is not above zero or the spread is not a number ≥ 0.
pub fn blocks_needed(sd: f64, delta: f64) -> Result<BlocksNeeded, Error> {
    if !(delta > 0.0 && delta.is_finite()) {
        return Err(Error::OutOfRange { name: "delta", value: delta });
    }
    if !(sd >= 0.0 && sd.is_finite()) {
        return Err(Error::OutOfRange { name: "sd", value: sd });
    }
    let uncapped = (POWER_FACTOR * sd / delta).powi(2).ceil() as u64;
    Ok(BlocksNeeded { uncapped, planned: uncapped.min(MAX_BLOCKS as u64) as usize })
}
