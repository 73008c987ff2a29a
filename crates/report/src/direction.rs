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
/// Digits behind the point of a ratio, where they are enough.
pub(crate) const DECIMALS: usize = 3;
/// The same at most.
const MOST_DECIMALS: usize = 5;

/// A ratio and its interval, such as `1.010` and `[1.0004, 1.0191]`, each if there is one.
pub(crate) fn figures(ratio: Option<f64>, low: Option<f64>, high: Option<f64>) -> [Option<String>; 2] {
    let ends = low.zip(high);
    let digits = ends.map_or(DECIMALS, |(low, high)| decimals_apart(DECIMALS, [low, high]));
    let interval = ends.map(|(low, high)| format!("[{low:.digits$}, {high:.digits$}]"));
    [ratio.map(|ratio| format!("{ratio:.digits$}")), interval]
}

/// The same of a comparison.
pub(crate) fn figures_of(row: &Comparison) -> [Option<String>; 2] {
    figures(row.ratio, row.ci_low, row.ci_high)
}

/// Digits behind the point, at least `usual`, with which an interval that leaves 1 out does not read as if it held it.
pub(crate) fn decimals_apart(usual: usize, [low, high]: [f64; 2]) -> usize {
    let nearest = match (low, high) {
        _ if low > 1.0 => low,
        _ if high < 1.0 => high,
        _ => return usual,
    };
    let reads_as_one = |digits: usize| (nearest - 1.0).abs() * 10_f64.powi(digits as i32) < 0.5;
    (usual..MOST_DECIMALS).find(|digits| !reads_as_one(*digits)).unwrap_or(MOST_DECIMALS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_that_leaves_one_out_does_not_read_as_if_it_held_it() {
        let shown = |ratio, low, high| {
            let [ratio, interval] = figures(Some(ratio), Some(low), Some(high)).map(Option::unwrap);
            format!("{ratio} {interval}")
        };
        assert_eq!(shown(1.0101, 1.0004, 1.0191), "1.0101 [1.0004, 1.0191]");
        assert_eq!(shown(0.99, 0.981, 0.99996), "0.99000 [0.98100, 0.99996]");
        assert_eq!(shown(1.0101, 0.9996, 1.0191), "1.010 [1.000, 1.019]");
        assert_eq!(figures(None, Some(1.0), None), [None, None]);
    }
}
