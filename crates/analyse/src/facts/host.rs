//! What the host did to a round that makes it count for nothing.

use model::record::{HostUsage, RoundRecord, VoidReason, Window};

use super::moved;
use super::words::percent;

/// Steal above this share of the window: the hypervisor ran someone else.
const MAX_STEAL: f64 = 0.01;
/// The kernel tells of it in hundredths of a second: one or two, in a short window, are as little as it can tell.
const STEAL_RESOLUTION_NS: u64 = 20_000_000;
/// Other processes' CPU above this share of the CPUs measured on.
const MAX_OTHERS: f64 = 0.02;
/// Frequency that fell by more than this within a window.
const MAX_FREQUENCY_FALL: f64 = 0.05;

/// What the host did to a round that makes it count for nothing; the orchestrator repeats such a round.
#[must_use]
pub fn host_fault(record: &RoundRecord) -> Option<VoidReason> {
    let disturbed = record.windows.iter().find_map(window_fault);
    let disturbed = disturbed.map(|text| VoidReason { gate: "host".to_owned(), text, moved: false });
    disturbed.or_else(|| record.windows.iter().find_map(moved::within))
}

fn window_fault(window: &Window) -> Option<String> {
    let sets = [(&window.server_cpus, "server"), (&window.load_cpus, "load")];
    // Where the other processes ran is not known, so their time is weighed against all CPUs measured on.
    let all_ns: u64 = sets.iter().map(|(usage, _)| usage.wall_ns * u64::from(usage.cpus)).sum();
    let others = window.server_cpus.others_ns as f64 / all_ns.max(1) as f64;
    if others > MAX_OTHERS {
        return Some(format!("other processes used {} of the CPUs measured on: stop them", percent(others)));
    }
    sets.iter().find_map(|(usage, set)| set_fault(usage, set))
}

fn set_fault(usage: &HostUsage, set: &str) -> Option<String> {
    let steal = usage.steal_ns as f64 / (usage.wall_ns * u64::from(usage.cpus)).max(1) as f64;
    if steal > MAX_STEAL && usage.steal_ns > STEAL_RESOLUTION_NS {
        return Some(format!("the hypervisor took {} of the {set} CPUs", percent(steal)));
    }
    if usage.throttled_ns > 0 {
        return Some("the cgroup was throttled: raise its CPU quota".to_owned());
    }
    match usage.frequency_khz {
        Some([low, high]) if (low as f64) < high as f64 * (1.0 - MAX_FREQUENCY_FALL) => {
            Some(format!("the CPU frequency moved between {low} and {high} kHz: fix the governor"))
        }
        _ => None,
    }
}
