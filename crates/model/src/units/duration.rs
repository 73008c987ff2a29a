use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::units::{ParseError, serde_as_text};

/// Units in falling order: suffix and nanoseconds.
const UNITS: [(&str, u64); 6] = [
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// A length of time with its unit in the text: `30s`, `500us`, `1.5ms`, `2m`, `1h`; capitals as in wrk2 scripts (`60S`) are read too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub Duration);

impl Span {
    /// Whole seconds as a span.
    #[must_use]
    pub const fn from_secs(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// Nanoseconds, saturating at `u64::MAX` (584 years).
    #[must_use]
    pub fn as_ns(self) -> u64 {
        u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX)
    }
}

impl FromStr for Span {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let lower = text.to_ascii_lowercase();
        let split = lower.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(lower.len());
        let (digits, unit) = lower.split_at(split);
        let scale = UNITS.iter().find(|(suffix, _)| *suffix == unit).map(|(_, ns)| *ns);
        digits
            .parse::<f64>()
            .ok()
            .zip(scale)
            .map(|(value, ns)| value * ns as f64)
            .filter(|ns| ns.is_finite() && *ns >= 0.0 && *ns < u64::MAX as f64)
            .map(|ns| Self(Duration::from_nanos(ns.round() as u64)))
            .ok_or_else(|| {
                ParseError::new("a duration", text, "a number and a unit, such as 30s, 500us or 2m")
            })
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.as_ns();
        let (suffix, scale) =
            UNITS.iter().find(|(_, scale)| ns >= *scale && ns.is_multiple_of(*scale)).unwrap_or(&UNITS[2]);
        write!(f, "{}{suffix}", ns / scale)
    }
}

serde_as_text!(Span);

/// Nanoseconds for people, three significant digits: `842 ns`, `3.31 µs`, `12.4 ms`, `1.20 s`.
#[must_use]
pub fn format_ns(ns: f64) -> String {
    let (value, unit) = match ns.abs() {
        v if v >= 999_500_000.0 => (ns / 1e9, "s"),
        v if v >= 999_500.0 => (ns / 1e6, "ms"),
        v if v >= 999.5 => (ns / 1e3, "µs"),
        _ => (ns, "ns"),
    };
    let decimals = match value.abs() {
        v if unit == "ns" || v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.decimals$} {unit}")
}
