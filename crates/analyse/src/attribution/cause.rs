//! What explains a part of a difference, and how well that is supported.

use model::plan::CauseId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
}
