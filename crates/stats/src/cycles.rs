//! The cycles of one block: what they say of it together.

use crate::paired::hodges_lehmann;
use crate::{Error, descriptive};

/// What the cycles of a block say of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BlockValue {
    /// Hodges–Lehmann median of the log-ratios.
    pub value: f64,
    /// Their spread.
    pub spread: f64,
    /// How many.
    pub n: usize,
}

impl BlockValue {
    /// # Errors
    /// [`Error::TooFew`] without a cycle.
    pub fn of(ratios: &[f64]) -> Result<Self, Error> {
        let value = hodges_lehmann(ratios).ok_or(Error::TooFew { have: 0, need: 1 })?;
        let distances: Vec<f64> = ratios.iter().map(|ratio| (ratio - value).abs()).collect();
        let spread = 1.4826 * descriptive::median(&distances).unwrap_or(0.0);
        Ok(Self { value, spread, n: ratios.len() })
    }
}
