use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the kernel counted for exactly the threads of a target over one window (perf events, tier 1). What this host
/// cannot count is absent and named in `missing`, never 0.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    /// Events by name: `task_clock_ns`, `context_switches`, `cpu_migrations`, `minor_faults`, `major_faults`, `syscalls`
    /// (all of them), `wakeups`, `packets_sent`, `retransmits`, and `cycles`, `instructions`, `cache_misses`,
    /// `branch_misses` where the machine has counters. Where a target's CPUs are counted rather than its threads, the
    /// first two are not, for the idle threads of these CPUs have them, too.
    pub events: BTreeMap<String, u64>,
    /// System calls by name: those that servers use; the rest is only in `events["syscalls"]`.
    pub syscalls: BTreeMap<String, u64>,
    /// What could not be counted and what would allow it, one sentence each.
    pub missing: Vec<String>,
}

impl Counts {
    /// The count of an event, where it was counted.
    #[must_use]
    pub fn event(&self, name: &str) -> Option<u64> {
        self.events.get(name).copied()
    }
}
