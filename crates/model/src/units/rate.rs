use std::fmt;
use std::str::FromStr;

use crate::units::{ParseError, serde_as_text};

/// Events per second; finite and above zero. Text: `20k`, `1.5M`, `300`.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Rate(f64);

impl Rate {
    /// A rate of `per_s` events per second, or `None` where that is not finite and positive.
    #[must_use]
    pub fn per_s(per_s: f64) -> Option<Self> {
        (per_s.is_finite() && per_s > 0.0).then_some(Self(per_s))
    }

    /// Events per second.
    #[must_use]
    pub fn get(self) -> f64 {
        self.0
    }
}

impl FromStr for Rate {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let (digits, scale) = match text.as_bytes().last() {
            Some(b'k' | b'K') => (&text[..text.len() - 1], 1e3),
            Some(b'm' | b'M') => (&text[..text.len() - 1], 1e6),
            _ => (text, 1.0),
        };
        digits.parse::<f64>().ok().and_then(|value| Self::per_s(value * scale)).ok_or_else(|| {
            ParseError::new("a rate", text, "requests per second above 0, such as 500, 20k or 1.5M")
        })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exact = |scale: f64| self.0 >= scale && (self.0 / scale * 1e3).fract() == 0.0;
        match self.0 {
            v if exact(1e6) => write!(f, "{}M", v / 1e6),
            v if exact(1e3) => write!(f, "{}k", v / 1e3),
            v => write!(f, "{v}"),
        }
    }
}

serde_as_text!(Rate);
