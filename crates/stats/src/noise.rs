//! How small a difference a host can show, from comparing an arm with itself.

use crate::{Error, Estimate, paired};

/// What an A/A comparison says about the host.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Noise {
    /// Noise floor: half the width of the A/A interval, as a relative difference (0.01 is 1 %).
    pub floor: f64,
    /// Estimate and interval of the A/A log-ratio.
    pub estimate: Estimate,
}

impl Noise {
    /// Noise from the log-ratios of A/A pairs, with the exact interval at `level`.
    ///
    /// # Errors
    /// As [`paired::estimate`].
    pub fn of_pairs(differences: &[f64], level: f64) -> Result<Self, Error> {
        let estimate = paired::estimate(differences, level)?;
        Ok(Self { floor: estimate.interval.half_width().exp_m1(), estimate })
    }

    /// Whether the interval excludes zero: the position in a block made a difference, and what was
    /// measured is invalid.
    pub fn position_effect(&self) -> bool {
        !self.estimate.interval.contains(0.0)
    }
}
