//! Gates: what must hold before a figure is believed. A gate that does not hold voids the metrics it names.

mod answers;
mod generator;
mod load;
mod moved;
mod place;

use model::record::{HostUsage, RoundRecord, VoidReason, Window};

pub use answers::difference;
pub(crate) use generator::{backlog_per_s, server_busy, set_busy};
pub(crate) use moved::is_moved;
pub use moved::{moved_between, moved_since, strayed};

use crate::findings::Gate;
use crate::sheet::Sheet;
use crate::{Metric, percent};

/// Steal above this share of the window: the hypervisor ran someone else.
const MAX_STEAL: f64 = 0.01;
/// The kernel tells of it in hundredths of a second: one or two, in a short window, are as little as it can tell.
const STEAL_RESOLUTION_NS: u64 = 20_000_000;
/// Other processes' CPU above this share of the CPUs measured on.
const MAX_OTHERS: f64 = 0.02;
/// Frequency that fell by more than this within a window.
const MAX_FREQUENCY_FALL: f64 = 0.05;
/// Void rounds above this share void the run: what disturbed them disturbs the others, only less.
pub const MAX_VOID_SHARE: f64 = 0.2;
/// Rounds of before or after a CPU was moved above this share void the run. They say nothing against the others, but half
/// a run is not the run that was planned.
pub const MAX_MOVED_SHARE: f64 = 0.5;

/// A gate: looks at the whole sheet and says what does not hold, for each arm where arms differ in it.
type Check = fn(&Sheet) -> Vec<Gate>;

/// All gates in the order in which they are printed. Adding one is adding a row.
const CHECKS: [Check; 10] = [
    answers::parity,
    answers::errors,
    generator::generator,
    load::little,
    load::stall,
    load::utilisation,
    load::wire,
    host,
    place::environment,
    place::fairness,
];

pub(crate) fn all(sheet: &Sheet) -> Vec<Gate> {
    CHECKS.iter().flat_map(|check| check(sheet)).collect()
}

/// A gate that holds for all arms.
fn holds(id: &str, text: impl Into<String>) -> Gate {
    Gate {
        id: id.to_owned(),
        ok: true,
        arm: None,
        value: None,
        limit: None,
        text: text.into(),
        voids: Vec::new(),
    }
}

/// Rows of a gate that is judged arm by arm: those that fail, or one row with the worst value when all hold.
struct PerArm {
    id: &'static str,
    limit: f64,
    /// Whether a value beyond the limit is above it (true) or below it.
    fails_above: bool,
    failed: Vec<Gate>,
    worst: Option<f64>,
}

impl PerArm {
    fn new(id: &'static str, limit: f64, fails_above: bool) -> Self {
        Self { id, limit, fails_above, failed: Vec::new(), worst: None }
    }

    fn breaks(&self, value: f64) -> bool {
        if self.fails_above { value > self.limit } else { value < self.limit }
    }

    fn add(&mut self, arm: &str, value: f64, voids: &[Metric], text: impl FnOnce() -> String) {
        let worse = |worst: f64| if self.fails_above { value > worst } else { value < worst };
        if self.worst.is_none_or(worse) {
            self.worst = Some(value);
        }
        if self.breaks(value) {
            self.failed.push(Gate {
                id: self.id.to_owned(),
                ok: false,
                arm: Some(arm.to_owned()),
                value: Some(value),
                limit: Some(self.limit),
                text: text(),
                voids: voids.to_vec(),
            });
        }
    }

    fn rows(self, text: impl FnOnce(f64) -> String) -> Vec<Gate> {
        match (self.failed.is_empty(), self.worst) {
            (false, _) => self.failed,
            (true, Some(worst)) => {
                vec![Gate { value: Some(worst), limit: Some(self.limit), ..holds(self.id, text(worst)) }]
            }
            (true, None) => vec![holds(self.id, "nothing to judge")],
        }
    }
}

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

/// `host`: too many void rounds mean that this machine was not quiet, and the rest cannot be trusted either.
fn host(sheet: &Sheet) -> Vec<Gate> {
    let all = sheet.void.len() + sheet.rounds().len();
    let share = |count: usize| if all == 0 { 0.0 } else { count as f64 / all as f64 };
    let moved = sheet.void.iter().filter(|round| round.reason.moved).count();
    let (disturbed, moved) = (share(sheet.void.len() - moved), share(moved));
    let ok = disturbed <= MAX_VOID_SHARE && moved <= MAX_MOVED_SHARE;
    let repeated = if ok { " and repeated" } else { "" };
    let text = match sheet.void.last() {
        None => "no steal, throttling, moved CPU or other load in any round".to_owned(),
        Some(last) => {
            format!("{} of {all} rounds void{repeated}; the last: {}", sheet.void.len(), last.reason.text)
        }
    };
    let voids = if ok { Vec::new() } else { Metric::ALL.to_vec() };
    let (value, limit) =
        if moved > MAX_MOVED_SHARE { (moved, MAX_MOVED_SHARE) } else { (disturbed, MAX_VOID_SHARE) };
    vec![Gate { ok, value: Some(value), limit: Some(limit), voids, ..holds("host", text) }]
}
