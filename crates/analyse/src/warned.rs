//! What the reader of a comparison must know beside its verdicts.

use model::record::{MANY_RESENT, Run};

use crate::facts::arms::{ArmFindings, Overload};
use crate::facts::metric::Metric;
use crate::findings::Findings;

/// Share of a gap in CPU time from which on it is said that it lies in a service.
const IN_SERVICE: f64 = 0.5;

/// What a warning is made from.
#[derive(Debug, Clone, PartialEq)]
pub enum Warned {
    /// A file of the run cannot be read; this sentence comes from the reader.
    Damaged(String),
    /// An arm was asked for more than it can answer.
    Overloaded {
        /// The arm.
        arm: String,
        /// By how much.
        overload: Overload,
    },
    /// An arm was still warming up when some of its blocks began.
    NotSteady {
        /// The arm.
        arm: String,
        /// Blocks in which it was.
        unsteady: u32,
        /// All its blocks.
        blocks: u32,
    },
    /// An arm closed many connections while requests were on their way.
    Resent {
        /// The arm.
        arm: String,
        /// Requests that were sent again.
        requests: u64,
        /// Their share of all, 0 to 1.
        share: f64,
    },
    /// A gap in CPU time, services included, lies in a service for the most part.
    InService {
        /// The arm.
        arm: String,
        /// What it is compared with.
        baseline: String,
        /// The service.
        service: String,
        /// Share of the gap, 0 to 1.
        share: f64,
        /// CPU time of the service for a request of the arm and of the baseline, in nanoseconds.
        ns: [f64; 2],
    },
}

/// Every warning, in the order in which they are printed.
pub(crate) fn warned(findings: &Findings, run: &Run) -> Vec<Warned> {
    let arms = || findings.arms.iter();
    let overloaded =
        |arm: &ArmFindings| Some(Warned::Overloaded { arm: arm.name.clone(), overload: arm.overload? });
    let not_steady = |arm: &ArmFindings| Warned::NotSteady {
        arm: arm.name.clone(),
        unsteady: arm.unsteady_rounds,
        blocks: arm.rounds,
    };
    let damaged = run.damaged.iter().cloned().map(Warned::Damaged);
    damaged
        .chain(arms().filter_map(overloaded))
        .chain(arms().filter(|arm| arm.unsteady_rounds > 0).map(not_steady))
        .chain(arms().filter_map(resent))
        .chain(in_services(findings))
        .collect()
}

/// An arm that closed many connections while requests were on their way.
fn resent(arm: &ArmFindings) -> Option<Warned> {
    let share = arm.resent as f64 / arm.requests.max(1) as f64;
    (share > MANY_RESENT).then(|| Warned::Resent { arm: arm.name.clone(), requests: arm.resent, share })
}

/// Gaps in CPU time, services included, that lie in a service for the most part.
fn in_services(findings: &Findings) -> Vec<Warned> {
    let all = |arm: &ArmFindings| Some(arm.cpu_ns_per_request?.total + arm.services.values().sum::<f64>());
    let base = findings.arms.iter().find(|arm| arm.name == findings.baseline);
    let Some((base, of_base)) = base.and_then(|base| Some((base, all(base)?))) else { return Vec::new() };
    let mut found = Vec::new();
    for arm in findings.arms.iter().filter(|arm| arm.name != base.name) {
        let Some(gap) = all(arm).map(|of_arm| of_arm - of_base) else { continue };
        if gap.abs() < Metric::CpuPerRequest.delta() * of_base {
            continue;
        }
        for (service, ns) in &arm.services {
            let from = base.services.get(service).copied().unwrap_or(0.0);
            let share = (ns - from) / gap;
            if share >= IN_SERVICE {
                found.push(Warned::InService {
                    arm: arm.name.clone(),
                    baseline: base.name.clone(),
                    service: service.clone(),
                    share,
                    ns: [*ns, from],
                });
            }
        }
    }
    found
}
