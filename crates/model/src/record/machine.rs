use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the virtual machines (JVM) of a target did in one window, as their own logs tell.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MachineLog {
    /// Pauses in which no thread of the program ran (safepoints), by the operation that asked for them.
    pub pauses: BTreeMap<String, Pauses>,
    /// How long each of those took in which memory was collected, in nanoseconds.
    pub collections_ns: Vec<u64>,
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
    /// Counts one pause of `ns` for `operation`.
    pub fn add(&mut self, operation: &str, ns: u64) {
        let sum = self.pauses.entry(operation.to_owned()).or_default();
        *sum = sum.and(Pauses { count: 1, total_ns: ns, longest_ns: ns });
        if is_collection(operation) {
            self.collections_ns.push(ns);
        }
    }

    /// All pauses together.
    #[must_use]
    pub fn paused(&self) -> Pauses {
        self.pauses.values().fold(Pauses::default(), |sum, one| sum.and(*one))
    }
}

/// Whether memory is collected in pauses for `operation`.
///
/// Source: HotSpot, `src/hotspot/share/runtime/vmOperation.hpp`.
fn is_collection(operation: &str) -> bool {
    /// What names have in them, and what others begin with.
    const PARTS: [&str; 3] = ["Collect", "GC", "CMS"];
    const BEGINNINGS: [&str; 6] = ["G1", "ZMark", "ZRelocate", "XMark", "XRelocate", "Shenandoah"];
    PARTS.iter().any(|part| operation.contains(part))
        || BEGINNINGS.iter().any(|begin| operation.starts_with(begin))
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
