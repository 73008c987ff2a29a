//! The gap to be explained: CPU time per request, and time in which the slower server did nothing although it was asked.

use model::plan::GateId;
use model::record::UnitCosts;

use super::Material;
use super::evidence::Evidence;
use crate::attribution::tree::AttributionRow;
use crate::attribution::tree::drawn::error_ns;
use crate::attribution::tree::gap_function::GapFunction;
use crate::attribution::tree::place::Leaf;
use crate::facts::beside::ServiceGap;
use crate::facts::metric::Metric;
use crate::facts::observed::SURE;
use crate::verdicts::{Comparison, Verdict};

/// Two arms, the slower one, and what it takes more.
pub(crate) struct Pair<'a> {
    pub(crate) baseline: &'a str,
    pub(crate) arm: &'a str,
    pub(crate) fast: &'a Evidence,
    pub(crate) slow: &'a Evidence,
    /// 1 where the arm is the slower one, −1 where the baseline is.
    pub(crate) sign: f64,
    /// CPU time per request, slow minus fast, in nanoseconds; may be negative beside a wait.
    pub(crate) cpu_ns: f64,
    /// Idle time of the server's CPUs per request, slow minus fast; 0 where the slow server is full.
    pub(crate) idle_ns: f64,
    /// The least that the gap may be by the interval of the verdict, as a share of what it is found to be.
    pub(crate) at_least: f64,
    /// CPU time leaf by leaf, arm minus baseline.
    pub(crate) tree: Vec<&'a (Leaf, AttributionRow)>,
    /// The function seen in one arm alone under which much of the gap is.
    pub(crate) new_function: Option<&'a GapFunction>,
    /// What services beside use for the two.
    pub(crate) services: Vec<&'a ServiceGap>,
    /// What one of each costs here; where that is not known, what a count can carry is not either.
    pub(crate) costs: Option<UnitCosts>,
}

impl<'a> Pair<'a> {
    /// The pair, where a difference between the two was shown.
    pub(crate) fn new(baseline: &'a Evidence, arm: &'a Evidence, material: &Material<'a>) -> Option<Self> {
        let row =
            |metric| material.comparisons.iter().find(|row| row.arm == arm.name && row.metric == metric);
        let of_rate = row(Metric::Rate);
        let of_cpu = row(Metric::CpuPerRequest);
        let rate = of_rate.and_then(|row| slower_in_rate(row, baseline, arm));
        let cpu = of_cpu.and_then(decided);
        // A server that waits is explained by its rate; one that is full, or at an equal rate, by its CPU time, and so is one to which
        // others leave no more. One whose only thread is full lets CPUs idle that another one uses.
        let waits = rate.filter(|arm_slower| {
            let (slow, fast) = if *arm_slower { (arm, baseline) } else { (baseline, arm) };
            let has_no_more = slow.full || slow.crowded && cpu == Some(*arm_slower);
            !has_no_more || (slow.one_thread_full && !fast.one_thread_full)
        });
        // A full server that answers less uses more for each request, also where the interval of that leaves it open.
        let uses_more = |arm_slower: &bool| (arm.cpu.total > baseline.cpu.total) == *arm_slower;
        let arm_slower = waits.or(cpu).or(rate.filter(uses_more))?;
        let decides = if waits.is_none() && cpu.is_some() { of_cpu } else { of_rate };
        let (fast, slow) = if arm_slower { (baseline, arm) } else { (arm, baseline) };
        let idle_ns = if waits.is_some() { (slow.idle_ns - fast.idle_ns).max(0.0) } else { 0.0 };
        Some(Self {
            baseline: &baseline.name,
            arm: &arm.name,
            fast,
            slow,
            sign: if arm_slower { 1.0 } else { -1.0 },
            cpu_ns: slow.cpu.total - fast.cpu.total,
            idle_ns,
            at_least: decides.map_or(1.0, least_share),
            tree: material.tree.iter().filter(|(_, row)| row.arm == arm.name).collect(),
            new_function: {
                let mut found = material.gap_functions.iter().filter(|function| function.grown_ns.is_none());
                found.find(|function| function.arm == arm.name)
            },
            services: material.facts.services.iter().filter(|gap| gap.arm == arm.name).collect(),
            costs: material.facts.sheet.run.host.unit_costs,
        })
    }

    /// All that is to be explained, in nanoseconds per request.
    pub(crate) fn total_ns(&self) -> f64 {
        self.cpu_ns + self.idle_ns
    }

    /// Whether the slower arm is slow because it waits, rather than because it works more.
    pub(crate) fn waits(&self) -> bool {
        self.idle_ns > self.cpu_ns.max(0.0)
    }

    /// Whether idle time is part of the gap.
    pub(crate) fn counts_idle(&self) -> bool {
        self.idle_ns > 0.0
    }

    /// What a request costs the slow arm, in the terms in which the gap is told.
    pub(crate) fn slow_ns(&self) -> f64 {
        self.slow.cpu.total + if self.counts_idle() { self.slow.idle_ns } else { 0.0 }
    }

    /// Share of the gap, 1 for all of it.
    pub(crate) fn share(&self, ns: f64) -> f64 {
        let total = self.total_ns();
        if total > 0.0 { ns / total } else { 0.0 }
    }

    /// Share of the gap where the gap is as small as its interval allows: what is small even then is ruled out.
    pub(crate) fn share_at_most(&self, ns: f64) -> f64 {
        self.share(ns) / self.at_least
    }

    /// Slow minus fast of a figure.
    pub(crate) fn more(&self, figure: impl Fn(&Evidence) -> f64) -> f64 {
        figure(self.slow) - figure(self.fast)
    }

    /// CPU time that the slow arm spends more in these leaves; 0 where that is not sure.
    pub(crate) fn more_time_in(&self, fits: impl Fn(&Leaf) -> bool) -> f64 {
        let these = self.tree.iter().filter(|(leaf, _)| fits(leaf));
        let these: Vec<&AttributionRow> = these.map(|(_, row)| row).collect();
        let ns = self.sign * these.iter().map(|row| row.delta_ns).sum::<f64>();
        if ns > SURE * error_ns(&these) { ns } else { 0.0 }
    }

    /// Whether both arms were sampled, in the program or in the kernel.
    pub(crate) fn is_sampled(&self, user: bool) -> bool {
        let mut leaves = self.tree.iter().map(|(leaf, _)| leaf);
        leaves.any(|leaf| leaf.is_user() == user && !matches!(leaf, Leaf::NotSampled { .. }))
    }

    /// How many more of these system calls the slow arm makes, 0 where that is not sure, and both counts: slow, then fast.
    pub(crate) fn more_calls(&self, names: &[&str]) -> Option<(f64, [f64; 2])> {
        let [slow, fast] = [self.slow.counted.as_ref()?, self.fast.counted.as_ref()?];
        Some((slow.more_calls(fast, names), [self.slow.calls(names)?, self.fast.calls(names)?]))
    }
}

/// What is left of a difference that was shown at the end of its interval that is nearer to none.
fn least_share(row: &Comparison) -> f64 {
    let away = |ratio: f64| (ratio.ln()).abs().exp() - 1.0;
    let nearer = row.ci_low.zip(row.ci_high).map(|(low, high)| away(low).min(away(high)));
    let found = row.ratio.map(away).filter(|found| *found > 0.0);
    found.zip(nearer).map_or(1.0, |(found, nearer)| (nearer / found).min(1.0))
}

/// Whether the arm is the one with more CPU time; nothing where no difference was shown.
fn decided(row: &Comparison) -> Option<bool> {
    match row.verdict {
        Verdict::Slower => Some(true),
        Verdict::Faster => Some(false),
        _ => None,
    }
}

/// Whether the arm is the slower one in rate. A rate that is void only because the generator was the limit of the faster
/// arm, or because the slower one starved connections, still shows the slower one.
fn slower_in_rate(row: &Comparison, baseline: &Evidence, arm: &Evidence) -> Option<bool> {
    if let Some(arm_slower) = decided(row) {
        return Some(arm_slower);
    }
    let harmless = [GateId::Generator, GateId::Stall];
    let only = !row.void_by.is_empty() && row.void_by.iter().all(|gate| harmless.contains(gate));
    let (low, high) = (row.ci_low?, row.ci_high?);
    let delta = row.delta;
    let arm_slower = match () {
        () if high < 1.0 - delta => true,
        () if low > 1.0 + delta => false,
        () => return None,
    };
    let (slow, fast) = if arm_slower { (arm, baseline) } else { (baseline, arm) };
    (only && !slow.generator_limits && !fast.stalls).then_some(arm_slower)
}
