//! What came of a condition, as data: `report` makes sentences of it.

use model::plan::GateId;

use crate::facts::metric::Metric;
use crate::verdicts::Comparison;
use crate::verdicts::bound::Unit;

/// What the sentence on a condition is made from.
#[derive(Debug, Clone, PartialEq)]
pub enum FailIfSays {
    /// The comparisons that decide it.
    Rows(Vec<Comparison>),
    /// A gate voids the figure.
    Void {
        /// The figure.
        figure: AskedFigure,
        /// The gate.
        gate: GateId,
    },
    /// The run that it was to be held against is of another machine.
    OtherMachine {
        /// The figure.
        figure: AskedFigure,
        /// The run of earlier.
        run: String,
        /// The machine of this run, and of that.
        machines: [String; 2],
    },
    /// The metric has no ratio to the baseline.
    NoRatio {
        /// The metric.
        metric: Metric,
        /// Why not.
        why: WhyAbsent,
    },
    /// The figure, and what it was held against.
    Measured {
        /// The figure.
        figure: AskedFigure,
        /// The arm's value, in the figure's unit.
        own: f64,
        /// What it was held against.
        against: Against,
        /// How far at most what is held against the limit lies from the truth, at 95 %; 0 of what is known of every request.
        within: f64,
        /// What the arm's value rests on.
        basis: Basis,
    },
    /// The figure of this arm was not measured.
    NotMeasured {
        /// The figure.
        figure: AskedFigure,
        /// The arm: that of the condition, or the baseline.
        arm: String,
        /// Why not.
        why: WhyAbsent,
    },
}

/// The figure that a condition is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AskedFigure {
    /// Its name in a condition.
    pub name: &'static str,
    /// What it is measured in.
    pub unit: Unit,
    /// The metric that it is; of a count none.
    pub metric: Option<Metric>,
}

/// What a figure was held against.
#[derive(Debug, Clone, PartialEq)]
pub enum Against {
    /// A value of its own.
    Itself,
    /// The baseline's value, as a ratio to it; infinite if the baseline's value is 0.
    Times {
        /// The baseline.
        baseline: String,
        /// The baseline's value.
        base: f64,
        /// The arm's value over it.
        times: f64,
    },
    /// The baseline's value, as a difference from it.
    More {
        /// The baseline.
        baseline: String,
        /// The baseline's value.
        base: f64,
        /// The arm's value less it.
        more: f64,
    },
}

/// What a value rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Basis {
    /// System calls counted over so many requests in the watched turns.
    Watched(u64),
    /// The median of the blocks.
    Blocks {
        /// How many.
        blocks: usize,
        /// The condition of the load.
        at: String,
    },
    /// The median of the largest resident sets of so many blocks.
    Resident(usize),
    /// All requests of the blocks.
    Requests {
        /// How many requests.
        requests: u64,
        /// Blocks that they are of.
        blocks: usize,
        /// The condition of the load.
        at: String,
    },
}

/// Why there is no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WhyAbsent {
    /// The arm failed: its error.
    Failed(String),
    /// System calls were not counted by name. This is what was missing for it, if that is known.
    NotCounted(Vec<String>),
    /// No block has enough answers for the percentile.
    FewAnswers,
    /// No block has both arms.
    NoPair,
    /// No block has the figure.
    NoBlock,
}
