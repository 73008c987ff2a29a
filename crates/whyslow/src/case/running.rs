//! One comparison of a case: run, taken up again where it was left, or taken as it is.

use std::path::Path;

use analyse::CaseRun;
use model::plan::{HostLimits, Placement};

use super::Task;
use crate::compare;
use crate::exit::Stop;

/// What of this machine limits a case.
pub(super) fn limits(placement: &Placement) -> HostLimits {
    HostLimits {
        server_cpus: placement.server.len() as u32,
        load_cpus: placement.load.len() as u32,
        descriptors: compare::preflight::descriptor_limit(),
        ports: compare::preflight::local_ports(),
    }
}

/// Runs `task` into `dir`. A directory that holds the same plan is gone on with; what it has is not measured again.
pub(super) fn run(task: &Task, dir: &Path) -> Result<CaseRun, Stop> {
    let plan = &task.plan;
    compare::preflight::check(plan).map_err(Stop::Failed)?;
    crate::say(&format!("{}: {} arms, about {:.0} min", task.comparison.id, plan.arms.len(), task.minutes()));
    let dir = compare::measure_into(plan, dir)?;
    Ok(CaseRun {
        id: task.comparison.id.clone(),
        question: task.comparison.question.clone(),
        changes: task.changes.clone(),
        allow_difference: task.allow_difference.clone(),
        findings: analyse::analyse(&dir.read()?),
    })
}
