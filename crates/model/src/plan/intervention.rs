use super::CauseId;
use crate::units::CpuSet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A change made to both arms of a pair, to see whether the gap between them goes with it. The run that tries it has
/// four arms: the two as they are, and the two changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Intervention {
    /// Stable name; the changed arms are called `ARM+ID`.
    pub id: String,
    /// What is different with it, to follow "with": "jemalloc", "TCP_NODELAY forced".
    pub with: String,
    /// The causes that it takes away.
    pub causes: Vec<CauseId>,
    /// Whether no effect rules the causes out. Not where the program may ignore the change: a flag that its own command
    /// line overrides, an allocator beside one that is linked in.
    pub rules_out: bool,
}

impl Intervention {
    /// The name of `arm` with the change made.
    #[must_use]
    pub fn arm(&self, arm: &str) -> String {
        format!("{arm}+{}", self.id)
    }
}

/// What holds for one arm alone because an intervention changes it; all else is the plan's.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Circumstances {
    /// Requests in flight on each connection.
    pub pipeline: Option<u32>,
    /// Whether connections stay open between requests.
    pub keep_alive: Option<bool>,
    /// Whether the requests are HEAD, so that answers have no bodies.
    pub head: Option<bool>,
    /// Value of `{workers}`.
    pub workers: Option<u32>,
    /// CPUs that the server may use.
    #[schemars(with = "Option<String>")]
    pub cpus: Option<CpuSet>,
    /// Library that must be loaded in the server, or its figures would not be those of the change.
    pub preload: Option<String>,
}
