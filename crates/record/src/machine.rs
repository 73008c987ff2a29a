use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the virtual machines (JVM) of a target did in one window, as their own logs tell.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MachineLog {
    /// Pauses in which no thread of the program ran (safepoints), by the operation that asked for them.
    pub pauses: BTreeMap<String, Pauses>,
    /// Bytes allocated on the heap in a second, between the first and the last collection of the window: the log is exact
    /// to 1 MiB for each collection. Absent where there were fewer than two.
    pub allocated_bytes_per_s: Option<f64>,
}

/// Pauses of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pauses {
    /// How many began and ended in the window.
    pub count: u64,
    /// How long all of them took in nanoseconds, the way to the pause included.
    pub total_ns: u64,
    /// How long the longest took in nanoseconds.
    pub longest_ns: u64,
}

impl MachineLog {
    /// All pauses, or those alone in which memory is collected.
    ///
    /// Source: HotSpot, `src/hotspot/share/runtime/vmOperation.hpp`.
    #[must_use]
    pub fn sum(&self, collections_only: bool) -> Pauses {
        let is_collection = |operation: &str| {
            ["Collect", "GC", "CMS"].iter().any(|part| operation.contains(part))
                || ["G1", "ZMark", "ZRelocate", "XMark", "XRelocate", "Shenandoah"]
                    .iter()
                    .any(|begin| operation.starts_with(begin))
        };
        let counted =
            self.pauses.iter().filter(|(operation, _)| !collections_only || is_collection(operation));
        counted.fold(Pauses::default(), |sum, (_, one)| sum.and(*one))
    }
}

impl Pauses {
    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            count: self.count + other.count,
            total_ns: self.total_ns + other.total_ns,
            longest_ns: self.longest_ns.max(other.longest_ns),
        }
    }
}
