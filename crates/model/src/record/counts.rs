use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What was counted for the threads of a target, or on CPUs that it has to itself, over one window: by the kernel (tier 1:
/// perf events, BPF), or by a tracer that stops each call. What this host cannot count is absent and named in `missing`, never 0.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    /// Events by name: `task_clock_ns`, `context_switches`, `cpu_migrations`, `minor_faults`, `major_faults`, `syscalls`
    /// (all of them), `wakeups`, `packets_sent`, `retransmits`, and `cycles`, `instructions`, `cache_misses`,
    /// `branch_misses` where the machine has counters. Where a target's CPUs are counted rather than its threads, and it
    /// switches often, the first two are not, for that would be paid for at every switch.
    pub events: BTreeMap<String, u64>,
    /// System calls by name: all that were made where BPF or a tracer counted them; else those that servers use, and the
    /// rest is only in `events["syscalls"]`.
    pub syscalls: BTreeMap<String, u64>,
    /// Writes by what they went to, where a tracer looked at each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writes: Option<Writes>,
    /// Share of the window in which system calls, wake-ups and packets were counted, by the bytes that went over loopback
    /// meanwhile. Below 1 what is told of them is what was counted over this share.
    #[serde(default = "whole")]
    pub counted_share: f64,
    /// What could not be counted and what would allow it, one sentence each.
    pub missing: Vec<String>,
}

impl Default for Counts {
    fn default() -> Self {
        let (events, syscalls, missing) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        Self { events, syscalls, writes: None, counted_share: whole(), missing }
    }
}

/// System calls that write, by what they write to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Writes {
    /// To sockets of the network, loopback among it.
    pub network: Written,
    /// To anything else: files, pipes, sockets between processes.
    pub other: Written,
}

/// How often was written, and how much.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Written {
    /// Calls, those that failed among them.
    pub calls: u64,
    /// Bytes that they returned as written, of all calls but `uncounted`.
    pub bytes: u64,
    /// Calls that do not tell their bytes: sendmmsg, which tells messages.
    pub uncounted: u64,
}

impl Writes {
    /// What was written since an earlier reading.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self { network: self.network.since(&earlier.network), other: self.other.since(&earlier.other) }
    }
}

impl Written {
    fn since(&self, earlier: &Self) -> Self {
        Self {
            calls: self.calls.saturating_sub(earlier.calls),
            bytes: self.bytes.saturating_sub(earlier.bytes),
            uncounted: self.uncounted.saturating_sub(earlier.uncounted),
        }
    }
}

fn whole() -> f64 {
    1.0
}

impl Counts {
    /// Adds what was counted of the same in a later stretch of time.
    pub fn add_later(&mut self, later: &Self) {
        let sum = |sums: &mut BTreeMap<String, u64>, more: &BTreeMap<String, u64>| {
            for (name, count) in more {
                *sums.entry(name.clone()).or_default() += count;
            }
        };
        // What is counted in a part of the time is weighed by how much was seen in it.
        let seen = |counts: &Self| counts.events.values().chain(counts.syscalls.values()).sum::<u64>() as f64;
        let (before, more) = (seen(self), seen(later));
        if more > 0.0 {
            self.counted_share =
                (self.counted_share * before + later.counted_share * more) / (before + more);
        }
        sum(&mut self.events, &later.events);
        sum(&mut self.syscalls, &later.syscalls);
        for sentence in &later.missing {
            if !self.missing.contains(sentence) {
                self.missing.push(sentence.clone());
            }
        }
    }

    /// The count of an event, where it was counted.
    #[must_use]
    pub fn event(&self, name: &str) -> Option<u64> {
        self.events.get(name).copied()
    }
}

/// The name of a system call as manuals and strace have it, of the one that the kernel has for its function or tracepoint.
/// Source: Linux, arch/x86/entry/syscalls/syscall_64.tbl, whose third and fourth columns differ for these.
#[must_use]
pub fn call_name(of_kernel: &str) -> &str {
    match of_kernel {
        "newstat" => "stat",
        "newlstat" => "lstat",
        "newfstat" => "fstat",
        "newuname" => "uname",
        "sendfile64" => "sendfile",
        "umount" => "umount2",
        same => same,
    }
}
