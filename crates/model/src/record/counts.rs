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
    /// The system calls of each turn, in the order of the window's slices, where there are several: how much they differ is how exact the
    /// sums are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<TurnCalls>,
    /// What could not be counted and what would allow it, one sentence each.
    pub missing: Vec<String>,
}

/// System calls of one turn.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TurnCalls {
    /// Share of the turn in which they were counted.
    pub counted_share: f64,
    /// By name, in the whole turn.
    pub syscalls: BTreeMap<String, u64>,
}

impl Default for Counts {
    fn default() -> Self {
        let (events, syscalls, missing) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        Self { events, syscalls, writes: None, counted_share: whole(), turns: Vec::new(), missing }
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
    /// With what another turn has.
    fn and(&self, other: &Self) -> Self {
        Self { network: self.network.and(&other.network), other: self.other.and(&other.other) }
    }

    /// What was written since an earlier reading.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self { network: self.network.since(&earlier.network), other: self.other.since(&earlier.other) }
    }
}

impl Written {
    /// With what else was written.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self {
            calls: self.calls + other.calls,
            bytes: self.bytes + other.bytes,
            uncounted: self.uncounted + other.uncounted,
        }
    }

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

/// Events that are counted in the same slices of the time as system calls.
const IN_SLICES: [&str; 3] = ["syscalls", "wakeups", "packets_sent"];

impl Counts {
    /// What was counted of the same server in turns of one length, together. What is counted in slices is weighed by how much of a turn
    /// they are: a turn of which little was counted says little, and one in which no slice fell says nothing of system calls.
    #[must_use]
    pub fn of_turns(turns: &[Self]) -> Self {
        let seen: f64 = turns.iter().map(|turn| turn.counted_share).sum();
        let mut all = Self { counted_share: seen / turns.len().max(1) as f64, ..Self::default() };
        let (mut events, mut calls) = (BTreeMap::<&str, f64>::new(), BTreeMap::<&str, f64>::new());
        for turn in turns {
            // Whoever looks at each write counts all of the time.
            let more = turn.writes.map(|writes| all.writes.unwrap_or_default().and(&writes));
            all.writes = more.or(all.writes);
            let weight = if seen > 0.0 { turn.counted_share * turns.len() as f64 / seen } else { 1.0 };
            for (name, count) in &turn.events {
                let weight = if IN_SLICES.contains(&name.as_str()) { weight } else { 1.0 };
                *events.entry(name).or_default() += weight * *count as f64;
            }
            for (name, count) in &turn.syscalls {
                *calls.entry(name).or_default() += weight * *count as f64;
            }
            let says = turn.counted_share > 0.0 || seen <= 0.0;
            for sentence in turn.missing.iter().filter(|_| says) {
                if !all.missing.contains(sentence) {
                    all.missing.push(sentence.clone());
                }
            }
        }
        let whole = |sums: BTreeMap<&str, f64>| {
            sums.into_iter().map(|(name, sum)| (name.to_owned(), sum.round() as u64)).collect()
        };
        (all.events, all.syscalls) = (whole(events), whole(calls));
        let calls =
            |turn: &Self| TurnCalls { counted_share: turn.counted_share, syscalls: turn.syscalls.clone() };
        if turns.len() > 1 {
            all.turns = turns.iter().map(calls).collect();
        }
        all
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

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(calls: u64, faults: u64, counted_share: f64, missing: &[&str]) -> Counts {
        let mut events = BTreeMap::from([("minor_faults".to_owned(), faults)]);
        let mut syscalls = BTreeMap::new();
        if counted_share > 0.0 {
            events.insert("syscalls".to_owned(), calls);
            syscalls.insert("read".to_owned(), calls);
        }
        let missing = missing.iter().map(|one| (*one).to_owned()).collect();
        Counts { events, syscalls, counted_share, missing, ..Counts::default() }
    }

    #[test]
    fn a_turn_without_a_slice_says_nothing_of_calls() {
        let counts = Counts::of_turns(&[
            turn(0, 10, 0.0, &["nothing was counted"]),
            turn(600, 20, 0.1, &["no cycles"]),
            turn(0, 30, 0.0, &["nothing was counted"]),
        ]);
        // 600 in each of three turns.
        assert_eq!((counts.syscalls["read"], counts.event("syscalls")), (1800, Some(1800)));
        assert_eq!((counts.event("minor_faults"), counts.missing), (Some(60), vec!["no cycles".to_owned()]));
        assert!((counts.counted_share - 0.1 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn a_turn_of_which_little_was_counted_says_little() {
        // A slice of a hundredth of the turn that met nothing but reads stands for no whole turn.
        let counts = Counts::of_turns(&[turn(100, 0, 0.1, &[]), turn(1000, 0, 0.01, &[])]);
        assert_eq!(counts.syscalls["read"], 364);
        let whole = Counts::of_turns(&[turn(7, 0, 1.0, &[]), turn(8, 0, 1.0, &[])]);
        assert_eq!((whole.syscalls["read"], whole.counted_share), (15, 1.0));
        let none = Counts::of_turns(&[turn(0, 5, 0.0, &["why"])]);
        assert_eq!(
            (none.event("minor_faults"), none.missing, none.counted_share),
            (Some(5), vec!["why".to_owned()], 0.0)
        );
    }
}
