//! What explains a part of a difference, and how well that is supported.

use model::plan::CauseId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::seen::{Both, Seen};

/// How well a cause is supported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Grade {
    /// An identity on measured counters.
    AccountsFor,
    /// A count times a calibrated cost.
    BoundedBy,
    /// An association in a profile or trace.
    ConsistentWith,
    /// An intervention removed it.
    ConfirmedBy,
    /// It cannot carry enough to matter.
    RuledOut,
}

/// Something that explains a part of the difference, or was ruled out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cause {
    /// Stable name.
    pub id: CauseId,
    /// How well it is supported.
    pub grade: Grade,
    /// The baseline.
    pub baseline: String,
    /// The arm.
    pub arm: String,
    /// What it carries, in nanoseconds per request; positive where the arm costs more.
    pub ns_per_request: f64,
    /// Its share of the gap, −1 to 1 and beyond where causes cancel.
    pub share: Option<f64>,
    /// One sentence.
    pub text: String,
    /// What that sentence is made from.
    #[serde(skip)]
    pub says: Option<CauseSays>,
}

/// What is said of a cause.
#[derive(Debug, Clone, PartialEq)]
pub struct CauseSays {
    /// What came of putting it to the test, the last time first.
    pub tests: Vec<Tested>,
    /// The slower server, where that is the baseline: what was seen is of it.
    pub of: Option<String>,
    /// What was seen.
    pub seen: Vec<Seen>,
    /// How much that makes.
    pub carries: Carries,
}

/// How much of a gap a cause carries; times in nanoseconds per request, shares 0 to 1.
#[derive(Debug, Clone, PartialEq)]
pub enum Carries {
    /// User or system time, by an identity.
    Split {
        /// Which of the two.
        part: CauseId,
        /// Its share of the gap in CPU time.
        share: f64,
        /// Ends of the interval of that.
        between: Option<[f64; 2]>,
        /// In the arm and in the baseline.
        ns: [f64; 2],
    },
    /// What no other cause carries of user or system time.
    Rest {
        /// Which of the two.
        part: CauseId,
        /// Its share of the gap in CPU time.
        share: f64,
    },
    /// At most this share of the gap.
    AtMost(f64),
    /// It makes the gap smaller by so much.
    Against(f64),
    /// A part of the gap.
    Part {
        /// By what kind of evidence.
        grade: Grade,
        /// How much.
        ns: f64,
        /// Its share of the gap.
        share: f64,
    },
    /// More than the gap, as other parts make that smaller.
    MoreThanGap {
        /// By what kind of evidence.
        grade: Grade,
        /// How much.
        ns: f64,
        /// The gap.
        gap_ns: f64,
    },
    /// So much that shows in neither rate nor CPU time.
    Unshown(f64),
}

/// What came of taking a cause away from both arms.
#[derive(Debug, Clone, PartialEq)]
pub struct Tested {
    /// What that says of the cause.
    pub outcome: TestOutcome,
    /// How it was taken away.
    pub with: String,
    /// The median gap as they are, and changed, in nanoseconds per request.
    pub gap_ns: Both,
    /// Ends of the interval of how much it fell.
    pub fell_ns: [f64; 2],
    /// Level of that interval, 0 to 1.
    pub level: f64,
    /// Blocks behind it.
    pub blocks: usize,
}

/// What a test says of a cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestOutcome {
    /// It went with the gap.
    Confirmed,
    /// The gap fell, and other suspects went with it.
    NotAlone,
    /// The gap stayed.
    RuledOut,
    /// Neither.
    NotConfirmed,
}
