//! What else happened on the server's CPUs, and how far it can have moved a ratio.
//!
//! Turns are random, so that a disturbance which does not know whose turn it is meets all arms alike. What can be left is
//! the difference of its mean between two arms, and that is measured: interval and verdict are taken with it added.

use model::plan::GateId;
use model::record::{Slice, Window};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::paired::estimate;

use super::{Gate, GateSays, holds};
use crate::facts::metric::Metric;
use crate::facts::sheet::Sheet;

/// A share of the server's CPUs from which on a disturbance is reported.
const NOTABLE: f64 = 0.01;
/// How much longer a request takes its server while somebody else has as much of its CPUs as it has, by what it finds no
/// more in its caches: a share of s costs s times this. Source: `docs/benchmarks/experiment.md`, other load in bursts.
const CACHES: f64 = 0.25;

/// A share of the server's CPUs that nobody seen used, from which on somebody unseen did: below, it may be how the kernel accounts for
/// CPUs, by which of its ticks fell into whose time.
const UNSEEN: f64 = 0.05;

/// Level at which it is sure that something goes one way.
const SURE: f64 = 0.95;

/// One thing that can have moved a ratio.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BiasSource {
    /// Who or what, such as "other processes".
    pub what: String,
    /// Downwards.
    pub low: f64,
    /// Upwards.
    pub high: f64,
}

/// Something that takes the server's CPUs from it.
struct Disturbance {
    /// Who took it, in the words of the report.
    who: &'static str,
    /// Time that it took in one slice, in nanoseconds.
    of_slice: fn(&Slice) -> u64,
    /// The same in a window of before there were slices.
    of_window: fn(&Window) -> u64,
    /// Time that it took in a whole window by what the CPUs themselves account for, where that says more.
    of_cpus: fn(&Window) -> u64,
    /// What a share of 1 does to the CPU time of a request.
    on_cpu: f64,
    /// Whether it can be on CPUs of its own, and takes from these only what the server leaves and what they were busy.
    elsewhere: bool,
    /// Whether a server that it keeps from running is seen to wait for a CPU.
    is_waited_for: bool,
}

/// CPU time of the server's CPUs that is of no process that is seen: inside a container those of the host are not. Interrupts are
/// not in it, and those of the server's own requests are in its CPU time.
fn unseen_ns(window: &Window) -> u64 {
    let host = &window.server_cpus;
    let idle_arms: u64 = window.slices.iter().map(|slice| slice.idle_arms_ns).sum();
    let services: u64 = window.services.values().sum();
    let seen = window.target.cpu.total_ns + host.others_ns + idle_arms + services;
    let unseen = (host.user_ns + host.system_ns).saturating_sub(seen);
    let offered = host.wall_ns.saturating_mul(host.cpus.max(1).into());
    if unseen as f64 >= UNSEEN * offered as f64 { unseen } else { 0 }
}

const DISTURBANCES: [Disturbance; 4] = [
    Disturbance {
        who: "other processes",
        of_slice: |slice| slice.others_ns,
        of_window: |window| window.server_cpus.others_ns,
        of_cpus: unseen_ns,
        on_cpu: CACHES,
        elsewhere: true,
        is_waited_for: true,
    },
    Disturbance {
        who: "arms that nobody asked",
        of_slice: |slice| slice.idle_arms_ns,
        of_window: |_| 0,
        of_cpus: |_| 0,
        on_cpu: CACHES,
        elsewhere: false,
        is_waited_for: true,
    },
    Disturbance {
        who: "the hypervisor",
        of_slice: |slice| slice.steal_ns,
        of_window: |window| window.server_cpus.steal_ns,
        of_cpus: |_| 0,
        // What was stolen while a thread ran may be in its CPU time.
        on_cpu: 1.0,
        elsewhere: false,
        is_waited_for: false,
    },
    Disturbance {
        who: "a CPU quota",
        of_slice: |slice| slice.throttled_ns,
        of_window: |window| window.server_cpus.throttled_ns,
        of_cpus: |_| 0,
        on_cpu: CACHES,
        elsewhere: false,
        is_waited_for: false,
    },
];

impl Disturbance {
    /// Shares of the server's CPUs that it took of the baseline's and of the arm's turns, on average.
    fn shares(&self, sheet: &Sheet, arm: &str, index: usize) -> Option<[f64; 2]> {
        Some([self.share(sheet, sheet.baseline(), index)?, self.share(sheet, arm, index)?])
    }

    fn share(&self, sheet: &Sheet, arm: &str, index: usize) -> Option<f64> {
        // A server whose processes are not known is itself one of the others.
        if !sheet.is_observed(arm) {
            return None;
        }
        let (mut taken_ns, mut all_ns) = (0, 0);
        for window in sheet.windows(arm, index) {
            // The generator's own CPUs are others: with shared ones it is one of the seen.
            let unseen_ns = if sheet.plan().placement.shared { 0 } else { (self.of_cpus)(window) };
            let offered_ns = offered_ns(window);
            // A server that runs already may be on any CPUs of the machine.
            let runs = sheet.plan().arms.iter().any(|one| one.name == arm && one.source.running().is_some());
            taken_ns += (self.taken_ns(window, !runs) + unseen_ns).min(offered_ns);
            all_ns += offered_ns;
        }
        (all_ns > 0).then(|| taken_ns as f64 / all_ns as f64)
    }

    /// Time that it took of the server's CPUs in a window: no more than was left of them where the server is known to be `there`.
    fn taken_ns(&self, window: &Window, there: bool) -> u64 {
        let cpus = u64::from(window.server_cpus.cpus.max(1));
        let left_ns = |all_ns: u64, own_ns: u64| match self.elsewhere && there {
            true => (all_ns * cpus).saturating_sub(own_ns),
            false => all_ns * cpus,
        };
        let of_slice = |slice: &Slice| (self.of_slice)(slice).min(left_ns(slice.wall_ns, slice.cpu_ns));
        let taken_ns = match window.slices.as_slice() {
            [] => {
                let left_ns = left_ns(window.server_cpus.wall_ns, window.target.cpu.total_ns);
                (self.of_window)(window).min(left_ns)
            }
            slices => slices.iter().map(of_slice).sum(),
        };
        if self.elsewhere { taken_ns.min(busy_with_others_ns(window)) } else { taken_ns }
    }

    /// How far it can have moved the ratio of a metric, as a relative difference, either way; `on_cpu` is the share of its time in
    /// which the server ran or waited for a CPU.
    fn bias(&self, metric: Metric, [below, above]: [f64; 2], on_cpu: f64) -> f64 {
        let weight = match metric {
            Metric::CpuPerRequest => self.on_cpu,
            Metric::Rss => 0.0,
            // Who sleeps, or waits for somebody else, does so no longer for it.
            Metric::Rate if self.is_waited_for => on_cpu,
            // A share of the CPUs that is gone is gone from the rate, and every answer waits for as much longer.
            Metric::Rate | Metric::P50 | Metric::P90 | Metric::P99 | Metric::P999 => 1.0,
        };
        (above - below).abs() * weight
    }
}

/// CPU time that the server's CPUs had for it in a window.
fn offered_ns(window: &Window) -> u64 {
    let wall_ns = match window.slices.as_slice() {
        [] => window.server_cpus.wall_ns,
        slices => slices.iter().map(|slice| slice.wall_ns).sum(),
    };
    wall_ns * u64::from(window.server_cpus.cpus.max(1))
}

/// Most CPU time that the server's CPUs can have spent on others in a window, by what these CPUs themselves account for: those that are
/// seen may have been on other CPUs. The kernel accounts in ticks, so that some more may be theirs.
fn busy_with_others_ns(window: &Window) -> u64 {
    let host = &window.server_cpus;
    let busy_ns = host.user_ns + host.system_ns + host.irq_ns + host.softirq_ns;
    if busy_ns == 0 {
        return u64::MAX;
    }
    let offered_ns = host.wall_ns.saturating_mul(host.cpus.max(1).into());
    busy_ns.saturating_sub(window.target.cpu.total_ns) + (UNSEEN * offered_ns as f64) as u64
}

/// Share of its time in which `arm` ran or waited for a CPU, 0 to 1: all of it where the kernel does not say how long it waited.
fn on_cpu(sheet: &Sheet, arm: &str, index: usize) -> f64 {
    let (mut used_ns, mut waited_ns, mut offered) = (0, 0, 0);
    for window in sheet.windows(arm, index) {
        used_ns += window.target.cpu.total_ns;
        waited_ns += window.target.run_wait_ns;
        offered += offered_ns(window);
    }
    if waited_ns == 0 { 1.0 } else { ((used_ns + waited_ns) as f64 / offered.max(1) as f64).min(1.0) }
}

/// How far each disturbance can have moved the ratio of `metric` between the baseline and `arm`.
pub(crate) fn biases(sheet: &Sheet, arm: &str, metric: Metric) -> Vec<BiasSource> {
    let Some(index) = sheet.condition_of(metric) else { return Vec::new() };
    let on_cpu = on_cpu(sheet, sheet.baseline(), index).max(on_cpu(sheet, arm, index));
    let source = |disturbance: &Disturbance| {
        let moved = disturbance.bias(metric, disturbance.shares(sheet, arm, index)?, on_cpu);
        (moved > 0.0).then(|| BiasSource { what: disturbance.who.to_owned(), low: moved, high: moved })
    };
    DISTURBANCES.iter().filter_map(source).chain(few_slices(sheet, arm, index, metric)).collect()
}

/// What the median over cycles passes over because it is in few of them, such as a collector that comes by every other
/// second: block for block the ratio of all slices together over that of the median. What meets either arm by chance, as the
/// move of a CPU does, goes both ways; only what goes one way surely counts, and it moves the interval that way.
fn few_slices(sheet: &Sheet, arm: &str, index: usize, metric: Metric) -> Option<BiasSource> {
    let passed_over: Vec<f64> = sheet
        .pairs(arm, metric)
        .into_iter()
        .filter_map(|(block, median)| Some(sheet.all_slices(block, arm, index, metric)? - median))
        .collect();
    let found = estimate(&passed_over, SURE).ok()?;
    let sure = found.interval.low > 0.0 || found.interval.high < 0.0;
    sure.then(|| BiasSource {
        what: "work that comes in few turns".to_owned(),
        low: (-found.value).max(0.0),
        high: found.value.max(0.0),
    })
}

/// Share of the server's CPUs that others took in a window.
pub(super) fn others_share(window: &Window) -> f64 {
    DISTURBANCES[0].taken_ns(window, true) as f64 / offered_ns(window).max(1) as f64
}

/// `host`: what took the server's CPUs from it. It voids nothing: what it can have done is inside the intervals.
pub(super) fn host(sheet: &Sheet) -> Vec<Gate> {
    let mut rows = Vec::new();
    for disturbance in &DISTURBANCES {
        let shares =
            sheet.others().filter_map(|arm| Some((arm, disturbance.shares(sheet, arm, sheet.main)?)));
        let worst = shares.max_by(|a, b| largest(a.1).total_cmp(&largest(b.1)));
        let Some((arm, [below, above])) = worst.filter(|(_, shares)| largest(*shares) >= NOTABLE) else {
            continue;
        };
        let turns = [(sheet.baseline().to_owned(), below), (arm.to_owned(), above)];
        rows.push(Gate {
            ok: false,
            value: Some(below.max(above)),
            limit: Some(NOTABLE),
            ..holds(GateId::Host, GateSays::Disturbed { who: disturbance.who, turns })
        });
    }
    if rows.is_empty() {
        rows.push(holds(GateId::Host, GateSays::Undisturbed(NOTABLE)));
    }
    rows
}

fn largest([below, above]: [f64; 2]) -> f64 {
    below.max(above)
}
