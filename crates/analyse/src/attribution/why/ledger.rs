//! What one request costs both arms, line by line.

use std::collections::BTreeSet;

use model::record::UnitCosts;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::evidence::Evidence;
use super::gap::Pair;
use crate::facts::observed::Machine;

/// Names of system calls or threads that are listed at most, those that differ most first.
const MAX_NAMES: usize = 12;
/// Counts per request that are too few to be listed in both arms.
const TOO_FEW: f64 = 0.005;

/// One line: what one request takes of something, in both arms.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LedgerLine {
    /// The arm, against the baseline.
    pub arm: String,
    /// What: `user`, `system`, `idle`, `switches`, `segments`, `faults`, `event:NAME`, `syscall:NAME`, `thread:NAME`,
    /// `machine_allocated`, …
    pub id: String,
    /// `ns`, `count` or `bytes`.
    pub unit: String,
    /// In the baseline, per request.
    pub baseline: f64,
    /// In the arm, per request.
    pub value: f64,
    /// Arm minus baseline.
    pub change: f64,
    /// What the change can carry in nanoseconds per request: itself where it is a time, else times its unit cost;
    /// absent where that is not known.
    pub carries_ns: Option<f64>,
}

/// What a line says of one arm.
type Figure = fn(&Evidence) -> f64;

/// Times, in nanoseconds.
const TIMES: [(&str, Figure); 4] = [
    ("user", |evidence| evidence.cpu.user),
    ("system", |evidence| evidence.cpu.system),
    ("softirq", |evidence| evidence.cpu.softirq),
    ("idle", |evidence| evidence.idle_ns),
];

/// All lines of a pair: times, counts, then names.
pub(super) fn lines<'a>(pair: &Pair<'a>) -> Vec<LedgerLine> {
    let (baseline, arm) = if pair.sign > 0.0 { (pair.fast, pair.slow) } else { (pair.slow, pair.fast) };
    let cost = |of: fn(&UnitCosts) -> f64| pair.costs.as_ref().map(of);
    let switch = cost(|costs| costs.context_switch_ns);
    let line = |id: &str, unit: &str, figure: &dyn Fn(&Evidence) -> f64, cost: Option<f64>| {
        let (from, to) = (figure(baseline), figure(arm));
        LedgerLine {
            arm: arm.name.clone(),
            id: id.to_owned(),
            unit: unit.to_owned(),
            baseline: from,
            value: to,
            change: to - from,
            carries_ns: cost.map(|cost| (to - from) * cost),
        }
    };
    let mut lines: Vec<LedgerLine> =
        TIMES.iter().map(|(id, figure)| line(id, "ns", figure, Some(1.0))).collect();
    // How long a client waits is no cost of the server, but what its costs lead to.
    lines.push(line("response", "ns", &|evidence| evidence.response_ns, None));
    // Nor is it how long its threads wait to be let on a CPU.
    lines.push(line("run_wait", "ns", &|evidence| evidence.run_wait_ns, None));
    lines.push(line("answer_bytes", "bytes", &|evidence| evidence.answer_bytes, None));
    if baseline.pieces.is_some() && arm.pieces.is_some() {
        let pieces = |evidence: &Evidence| evidence.pieces.unwrap_or_default();
        lines.push(line("answers_in_pieces", "count", &|evidence| pieces(evidence).0, None));
        lines.push(line("time_between_pieces", "ns", &|evidence| pieces(evidence).1, None));
    }
    let counts: [(&str, Figure, Option<f64>); 5] = [
        ("voluntary_switches", |evidence| evidence.switches[0], switch),
        ("involuntary_switches", |evidence| evidence.switches[1], switch),
        ("minor_faults", |evidence| evidence.minor_faults, cost(|costs| costs.minor_fault_ns)),
        ("segments", |evidence| evidence.segments, None),
        ("connections", |evidence| evidence.accepted, None),
    ];
    lines.extend(counts.iter().map(|(id, figure, cost)| line(id, "count", figure, *cost)));
    if baseline.asked.is_some() && arm.asked.is_some() {
        lines.push(line("asked", "count", &|evidence| evidence.asked.unwrap_or(0.0), None));
    }
    if let Some((from, to)) = baseline.machine.zip(arm.machine) {
        lines.extend(machines(&arm.name, from, to));
    }
    for name in events(baseline, arm) {
        let count =
            |evidence: &Evidence| evidence.counted.as_ref().map_or(0.0, |counted| counted.events[&name]);
        lines.push(line(&format!("event:{name}"), "count", &count, None));
    }
    // Where one arm's calls are not known, the other's have nothing to stand beside.
    let known = baseline.calls(&[]).is_some() && arm.calls(&[]).is_some();
    let calls = |evidence: &'a Evidence| evidence.counted.iter().flat_map(|counted| &counted.syscalls);
    for name in names(baseline, arm, calls).into_iter().filter(|_| known) {
        let calls = |evidence: &Evidence| evidence.calls(&[&name]).unwrap_or(0.0);
        lines.push(line(&format!("syscall:{name}"), "count", &calls, cost(|costs| costs.syscall_ns)));
    }
    for name in names(baseline, arm, |evidence| &evidence.threads_ns) {
        let time = |evidence: &Evidence| evidence.threads_ns.get(&name).copied().unwrap_or(0.0);
        lines.push(line(&format!("thread:{name}"), "ns", &time, Some(1.0)));
    }
    lines
}

/// Events that were counted of both arms, without those that have a line of another name.
fn events(baseline: &Evidence, arm: &Evidence) -> Vec<String> {
    const ELSEWHERE: [&str; 3] = ["task_clock_ns", "context_switches", "minor_faults"];
    let Some((from, to)) = baseline.counted.as_ref().zip(arm.counted.as_ref()) else { return Vec::new() };
    let both = from.events.keys().filter(|name| to.events.contains_key(*name));
    both.filter(|name| !ELSEWHERE.contains(&name.as_str())).cloned().collect()
}

/// What virtual machines did in both arms.
fn machines(arm: &str, from: Machine, to: Machine) -> Vec<LedgerLine> {
    let line = |id: &str, unit: &str, from: f64, to: f64, carries_ns: Option<f64>| LedgerLine {
        arm: arm.to_owned(),
        id: id.to_owned(),
        unit: unit.to_owned(),
        baseline: from,
        value: to,
        change: to - from,
        carries_ns,
    };
    // A pause holds up every request that is under way: how much of a request's time it takes is not this.
    let mut lines = vec![
        line("machine_paused", "ns", from.paused_ns, to.paused_ns, None),
        line("machine_collecting", "ns", from.collecting_ns, to.collecting_ns, None),
    ];
    if let Some((from, to)) = from.allocated_bytes.zip(to.allocated_bytes) {
        lines.push(line("machine_allocated", "bytes", from, to, None));
    }
    lines
}

/// The names that differ most between two arms.
fn names<'a, I: IntoIterator<Item = (&'a String, &'a f64)>>(
    baseline: &'a Evidence,
    arm: &'a Evidence,
    figures: impl Fn(&'a Evidence) -> I,
) -> Vec<String> {
    let of = |evidence: &'a Evidence, name: &str| {
        figures(evidence).into_iter().find(|(other, _)| *other == name).map_or(0.0, |(_, figure)| *figure)
    };
    let all: BTreeSet<&String> =
        [baseline, arm].into_iter().flat_map(&figures).map(|(name, _)| name).collect();
    let mut changes: Vec<(f64, &String)> = all
        .into_iter()
        .filter(|name| of(baseline, name).max(of(arm, name)) >= TOO_FEW)
        .map(|name| ((of(arm, name) - of(baseline, name)).abs(), name))
        .collect();
    changes.sort_by(|a, b| b.0.total_cmp(&a.0));
    changes.into_iter().take(MAX_NAMES).map(|(_, name)| name.clone()).collect()
}
