//! What a published claim and ours come to, as data.

use model::plan::{Bound, GateId, Part};

use crate::facts::arms::Overload;
use crate::facts::metric::Metric;
use crate::gates::Gate;

/// What the sentences on a claim are made from.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimSays {
    /// What was published.
    pub published: Published,
    /// What was measured here.
    pub ours: Ours,
    /// Why the claim counts as reproduced or not.
    pub why: Why,
}

/// What was published.
#[derive(Debug, Clone, PartialEq)]
pub enum Published {
    /// There is no such row.
    Nothing,
    /// A row of figures.
    Row {
        /// Requests per second.
        rate_per_s: Option<f64>,
        /// Mean response in nanoseconds.
        mean_ns: Option<f64>,
        /// Latency as it was written.
        latency: Option<String>,
    },
    /// A ratio of rates.
    Ratio(f64),
    /// A share of instructions, in percent.
    Percent(f64),
}

/// What was measured here.
#[derive(Debug, Clone, PartialEq)]
pub enum Ours {
    /// Nothing.
    Nothing,
    /// A ratio.
    Ratio {
        /// The ratio.
        ratio: f64,
        /// Its interval.
        interval: [f64; 2],
        /// Of rates, or of CPU time per request.
        metric: Metric,
        /// Blocks behind it.
        blocks: usize,
    },
    /// A gate that failed.
    Gate(Box<Gate>),
    /// A gate that holds.
    GateHolds(GateId),
    /// The server was overloaded.
    Overload(Overload),
    /// It served what was asked for.
    Served,
    /// A share of instructions, in percent.
    Instructions(f64),
}

/// Why a claim counts as reproduced or not.
#[derive(Debug, Clone, PartialEq)]
pub enum Why {
    /// It was not run.
    NotRun,
    /// The arm gave no figures.
    NoFigures(String),
    /// Gates void both metrics.
    Void,
    /// There is only one block.
    OneBlock,
    /// There are only this many blocks, too few.
    FewBlocks(usize),
    /// The order is reversed.
    OtherWay,
    /// The same side, with this share of the published size.
    SameSize(f64),
    /// The same side, but only this share of the published size.
    SameSide(f64),
    /// The interval lies within this distance of no effect.
    NoEffect(f64),
    /// The interval ends below the published size.
    Smaller,
    /// The interval contains both no effect and the published one.
    Open,
    /// No difference was published and there is none: the interval lies within this distance of none.
    NoDifference(f64),
    /// None was published and there is one.
    Differ,
    /// The interval is wider than so much.
    Wide(f64),
    /// A part of CPU time carries the difference, or not.
    Reason {
        /// What its size is.
        size: Box<Self>,
        /// The part.
        part: Part,
        /// Share of the gap that it carries.
        share: f64,
        /// Share that it would have to carry, where that is more.
        needed: Option<f64>,
    },
    /// The gate fails here too.
    GateFails(GateId),
    /// It does not.
    GateHolds(GateId),
    /// Less was answered than was asked for.
    Overloaded,
    /// It was not.
    NotOverloaded,
    /// There is no such line.
    NoLine,
    /// Instructions were not counted.
    NoCallgrind,
    /// So many times the published share.
    Factor {
        /// How many times.
        factor: f64,
        /// The factor that counts as the same.
        within: f64,
        /// To which side.
        bound: Bound,
    },
}
