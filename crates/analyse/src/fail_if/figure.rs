//! The figures of an arm that a condition may be on.

use model::record::Run;

use super::{AskedFigure, Basis, LEVEL, WhyAbsent, few, rounds};
use crate::facts::arms::{ArmFindings, CpuPerRequest, Switches};
use crate::facts::calls::{ALL_READS, FUTEX, POLLS, WRITES};
use crate::facts::metric::Metric;
use crate::findings::Findings;
use crate::verdicts::bound::Unit;

/// A figure: its name, what it is measured in, and where it stands.
#[derive(Debug)]
pub(super) struct Figure {
    pub(super) name: &'static str,
    pub(super) unit: Unit,
    /// The metric that it is; of a count none.
    pub(super) metric: Option<Metric>,
    read: Read,
}

/// Where a figure is read.
#[derive(Debug)]
enum Read {
    /// In the blocks.
    Scored(fn(&ArmFindings) -> Option<f64>),
    /// In the watched turns behind them: calls of these names.
    Watched(fn(&str) -> bool),
}

impl PartialEq for Figure {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// All of them, in the order in which they are listed.
pub(super) const FIGURES: [Figure; 24] = [
    metric("cpu_per_request", Unit::Time, Metric::CpuPerRequest, |arm| cpu(arm, |cpu| cpu.total)),
    metric("rate", Unit::Rate, Metric::Rate, |arm| arm.rate_per_s),
    metric("p50", Unit::Time, Metric::P50, |arm| arm.latency_ns.p50),
    metric("p90", Unit::Time, Metric::P90, |arm| arm.latency_ns.p90),
    metric("p99", Unit::Time, Metric::P99, |arm| arm.latency_ns.p99),
    metric("p99_9", Unit::Time, Metric::P999, |arm| arm.latency_ns.p99_9),
    metric("rss", Unit::Size, Metric::Rss, |arm| arm.rss_peak_bytes),
    scored("cpu_user", Unit::Time, |arm| cpu(arm, |cpu| cpu.user)),
    scored("cpu_system", Unit::Time, |arm| cpu(arm, |cpu| cpu.system)),
    scored("max", Unit::Time, |arm| arm.latency_ns.max),
    scored("mean", Unit::Time, |arm| arm.latency_ns.mean),
    scored("context_switches", Unit::Number, |arm| switches(arm, |one| one.voluntary + one.involuntary)),
    scored("context_switches_voluntary", Unit::Number, |arm| switches(arm, |one| one.voluntary)),
    scored("context_switches_involuntary", Unit::Number, |arm| switches(arm, |one| one.involuntary)),
    scored("segments_sent", Unit::Number, |arm| arm.segments_per_request.map(|one| one.sent)),
    scored("segments_received", Unit::Number, |arm| arm.segments_per_request.map(|one| one.received)),
    scored("bytes", Unit::Size, |arm| arm.bytes_per_request),
    scored("page_faults", Unit::Number, |arm| arm.page_faults_per_request),
    scored("run_wait", Unit::Time, |arm| arm.run_wait_ns_per_request),
    watched("syscalls", |_| true),
    watched("writes", |name| WRITES.contains(&name)),
    watched("reads", |name| ALL_READS.contains(&name)),
    watched("polls", |name| POLLS.contains(&name)),
    watched("futex", |name| FUTEX.contains(&name)),
];

const fn metric(
    name: &'static str,
    unit: Unit,
    metric: Metric,
    read: fn(&ArmFindings) -> Option<f64>,
) -> Figure {
    Figure { name, unit, metric: Some(metric), read: Read::Scored(read) }
}

const fn scored(name: &'static str, unit: Unit, read: fn(&ArmFindings) -> Option<f64>) -> Figure {
    Figure { name, unit, metric: None, read: Read::Scored(read) }
}

const fn watched(name: &'static str, counts: fn(&str) -> bool) -> Figure {
    Figure { name, unit: Unit::Number, metric: None, read: Read::Watched(counts) }
}

fn cpu(arm: &ArmFindings, of: fn(&CpuPerRequest) -> f64) -> Option<f64> {
    arm.cpu_ns_per_request.as_ref().map(of)
}

fn switches(arm: &ArmFindings, of: fn(&Switches) -> f64) -> Option<f64> {
    arm.context_switches_per_request.as_ref().map(of)
}

/// Calls per request of these names; a server that makes none at all was not counted.
fn calls(arm: &ArmFindings, counts: impl Fn(&str) -> bool) -> Option<f64> {
    let calls = &arm.syscalls_per_request;
    let counted = calls.iter().filter(|(name, _)| counts(name)).map(|(_, count)| count);
    // Not `sum`: that of nothing is −0.
    (!calls.is_empty()).then(|| counted.fold(0.0, |all, one| all + one))
}

impl Figure {
    /// The figure that is called so; a point stands for an underscore.
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        let name = name.replace('.', "_");
        let name = if name == "cpu" { "cpu_per_request" } else { &name };
        FIGURES.iter().find(|figure| figure.name == name)
    }

    /// Whether only the watched turns behind the blocks tell it.
    pub(super) fn is_watched(&self) -> bool {
        matches!(self.read, Read::Watched(_))
    }

    /// Its value of `arm`.
    pub(super) fn value(&self, arm: &ArmFindings) -> Option<f64> {
        match self.read {
            Read::Scored(read) => read(arm),
            Read::Watched(counts) => calls(arm, counts),
        }
    }

    /// How far at most that lies from the truth, at [`LEVEL`]; 0 of what is known of every request.
    pub(super) fn within(&self, arm: &ArmFindings) -> f64 {
        match (&self.read, &arm.counted) {
            (Read::Watched(counts), Some(counted)) => counted.within(LEVEL, counts),
            _ => 0.0,
        }
    }

    /// What a sentence calls it by.
    pub(super) fn asked(&self) -> AskedFigure {
        AskedFigure { name: self.name, unit: self.unit, metric: self.metric }
    }

    /// What a value of `arm` rests on.
    pub(super) fn basis(&self, run: &Run, found: &Findings, arm: &ArmFindings) -> Basis {
        if self.is_watched() {
            return Basis::Watched(arm.counted.as_ref().map_or(0, |counted| counted.requests.round() as u64));
        }
        let blocks = rounds(run, &arm.name);
        match self.metric {
            Some(metric) if metric.is_latency() => Basis::Blocks {
                blocks,
                at: found.latency_condition.as_ref().unwrap_or(&found.condition).clone(),
            },
            Some(Metric::Rss) => Basis::Resident(blocks),
            _ => Basis::Requests { requests: arm.requests, blocks, at: found.condition.clone() },
        }
    }

    /// Why `arm` has no value.
    pub(super) fn why_absent(&self, found: &Findings, arm: &str) -> WhyAbsent {
        if let Some(error) = found.arms.iter().find(|one| one.name == arm).and_then(|one| one.error.as_ref())
        {
            return WhyAbsent::Failed(error.clone());
        }
        if self.is_watched() {
            let of_arm = found.passes.iter().filter(|pass| pass.arm == arm);
            let mut missing: Vec<String> = of_arm.flat_map(|pass| pass.missing.clone()).collect();
            missing.dedup();
            return WhyAbsent::NotCounted(missing);
        }
        self.metric.map_or(WhyAbsent::NoBlock, few)
    }
}
