//! Which way an arm differs from its baseline, and by how much: decided here for every output.

use analyse::{Comparison, Metric, Verdict};

/// The word for how an arm differs from its baseline in one metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// A request costs the arm less.
    Cheaper,
    /// A request costs the arm more.
    Dearer,
    /// The arm has the higher rate or the lower latency.
    Faster,
    /// The arm has the lower rate or the higher latency.
    Slower,
    /// Any difference is smaller than the one that matters.
    Same,
    /// Neither a difference nor its absence was shown.
    Open,
    /// A gate voids it.
    Void,
}

impl Direction {
    /// The direction of one comparison.
    #[must_use]
    pub fn from_comparison(row: &Comparison) -> Self {
        match (row.verdict, is_cost(row.metric)) {
            (Verdict::Faster, true) => Self::Cheaper,
            (Verdict::Slower, true) => Self::Dearer,
            (Verdict::Faster, false) => Self::Faster,
            (Verdict::Slower, false) => Self::Slower,
            (Verdict::Equal, _) => Self::Same,
            (Verdict::Inconclusive, _) => Self::Open,
            (Verdict::Invalid, _) => Self::Void,
        }
    }

    /// Whether the arm was shown to differ.
    #[must_use]
    pub fn differs(self) -> bool {
        matches!(self, Self::Cheaper | Self::Dearer | Self::Faster | Self::Slower)
    }

    /// The word for people.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Cheaper => "cheaper",
            Self::Dearer => "dearer",
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::Same => "no difference",
            Self::Open => "not decided",
            Self::Void => "no verdict",
        }
    }
}

/// Whether a metric is something that a request or a server costs, rather than how fast it answers.
fn is_cost(metric: Metric) -> bool {
    matches!(metric, Metric::CpuPerRequest | Metric::Rss)
}

/// The word for a ratio above 1 and for one below it, of a metric.
pub(crate) fn words_of_sides(metric: Metric) -> [&'static str; 2] {
    match (is_cost(metric), metric) {
        (true, _) => ["dearer", "cheaper"],
        (false, Metric::Rate) => ["faster", "slower"],
        (false, _) => ["slower", "faster"],
    }
}

/// How many times one arm differs from the other, above 1 whichever way the ratio points.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Times {
    pub(crate) ratio: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Times {
    /// Nothing where there are no pairs.
    pub(crate) fn from_comparison(row: &Comparison) -> Option<Self> {
        let (ratio, low, high) = (row.ratio?, row.ci_low?, row.ci_high?);
        Some(if ratio >= 1.0 {
            Self { ratio, low, high }
        } else {
            Self { ratio: 1.0 / ratio, low: 1.0 / high, high: 1.0 / low }
        })
    }
}
