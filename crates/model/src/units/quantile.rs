use std::fmt;
use std::str::FromStr;

use crate::units::{ParseError, serde_as_text};

/// A share of a distribution, from 0 to 1 inside; text is the field's `p50`, `p99`, `p99_9` or `p99.9`.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Quantile(f64);

impl Quantile {
    /// The quantile at `share`, or `None` outside 0 to 1.
    #[must_use]
    pub fn new(share: f64) -> Option<Self> {
        (0.0..=1.0).contains(&share).then_some(Self(share))
    }

    /// The share, 0 to 1.
    #[must_use]
    pub fn get(self) -> f64 {
        self.0
    }
}

impl FromStr for Quantile {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        text.strip_prefix('p')
            .map(|digits| digits.replace('_', "."))
            .and_then(|digits| digits.parse::<f64>().ok())
            .and_then(|percent| Self::new(percent / 100.0))
            .ok_or_else(|| ParseError::new("a percentile", text, "p50, p99 or p99.9"))
    }
}

impl fmt::Display for Quantile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Six decimals of a percent are far below what any run resolves, and hide 0.999 × 100 = 99.89999….
        let percent = format!("{:.6}", self.0 * 100.0);
        write!(f, "p{}", percent.trim_end_matches('0').trim_end_matches('.'))
    }
}

serde_as_text!(Quantile);
