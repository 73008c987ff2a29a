//! From an estimate and its interval to one word.

use crate::Estimate;
pub use crate::interval::Bias;

/// What a larger value of the metric means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HigherIs {
    /// A cost, a latency, a size: higher is slower.
    Worse,
    /// A rate: lower is slower.
    Better,
}

/// What is asked of an estimate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Question {
    /// δ, the relative difference that matters: 0.02 is 2 %. *Equal* says that any difference is smaller.
    pub delta: f64,
    /// The smallest relative difference that is called slower or faster once it is certain: 0.002 is 0.2 %.
    pub least: f64,
    /// What a larger value means.
    pub higher_is: HigherIs,
}

/// What can be said of the arm, compared with the baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The arm is better than the baseline.
    Faster,
    /// The arm is worse than the baseline.
    Slower,
    /// Any difference is smaller than the one that matters.
    Equal,
    /// Neither a difference nor its absence was shown.
    Inconclusive,
}

impl Verdict {
    /// The word for it, in lower case.
    pub fn word(self) -> &'static str {
        match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::Equal => "equal",
            Self::Inconclusive => "inconclusive",
        }
    }
}

/// The verdict on a log-ratio.
///
/// In this order: *slower* or *faster* when the interval excludes a ratio of 1 and the estimate differs from 1 by at least
/// [`Question::least`]; *equal* when the interval lies inside (1 − δ, 1 + δ); otherwise *inconclusive*. A small difference
/// that was clearly seen, of 0.7 δ say, is thus named even though its interval also lies inside ±δ: the reader is told what
/// was found, and the figure beside it says how little it is.
///
/// Where something disturbed the measurement, pass the estimate [widened](Estimate::widened) by what that may have moved.
pub fn decide(estimate: &Estimate, question: &Question) -> Verdict {
    let interval = estimate.ratio_interval();
    let difference = estimate.value.exp_m1();
    // The ends are compared as logarithms, where "equal" is exactly zero.
    if !estimate.interval.contains(0.0) && difference.abs() >= question.least {
        return direction(difference, question.higher_is);
    }
    let inside = 1.0 - question.delta < interval.low && interval.high < 1.0 + question.delta;
    if inside { Verdict::Equal } else { Verdict::Inconclusive }
}

fn direction(difference: f64, higher_is: HigherIs) -> Verdict {
    match (difference > 0.0, higher_is) {
        (true, HigherIs::Worse) | (false, HigherIs::Better) => Verdict::Slower,
        (true, HigherIs::Better) | (false, HigherIs::Worse) => Verdict::Faster,
    }
}
