//! A run of earlier, against which counts are held. Times are not: what they are differs from session to session.

use model::plan::Plan;
use model::record::Run;

use super::figure::Figure;
use super::{Asks, FailIf, Value};
use crate::facts::arms::ArmFindings;
use crate::findings::{Findings, analyse};
use crate::verdicts::bound::Unit;

/// What is known of a run of earlier.
#[derive(Debug, Clone)]
pub struct Stored {
    name: String,
    findings: Findings,
    machine: String,
}

/// Why nothing of a run can be held against a run of earlier, in one sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("--against {name}: {reason}")]
pub struct StoredError {
    name: String,
    reason: String,
}

impl FailIf {
    /// The arm and the count of it that is held against another.
    fn relative_count(&self) -> Option<(&str, &'static Figure)> {
        match self.asks {
            Asks::Figure(figure, _, Value::Times(_) | Value::More(_)) if figure.is_count() => {
                Some((&self.arm, figure))
            }
            _ => None,
        }
    }
}

impl Figure {
    /// Whether it is counted, and no time.
    pub(super) fn is_count(&self) -> bool {
        matches!(self.unit, Unit::Number | Unit::Size)
    }
}

impl Stored {
    /// The run called `name`, for `conditions` on a run of `plan`.
    ///
    /// # Errors
    /// [`StoredError`], if none of the conditions is on a count, if an arm of theirs is not in it, or if something else was asked there.
    pub fn new(name: &str, run: &Run, plan: &Plan, conditions: &[FailIf]) -> Result<Self, StoredError> {
        let wrong = |reason: String| StoredError { name: name.to_owned(), reason };
        let arms: Vec<&str> =
            conditions.iter().filter_map(FailIf::relative_count).map(|(arm, _)| arm).collect();
        if arms.is_empty() {
            return Err(wrong(
                "no --fail-if holds a count against it: write such as 'ARM syscalls > 1.05x'; times are compared with the baseline \
                 of the same session alone"
                    .to_owned(),
            ));
        }
        let there = &run.manifest.plan;
        if let Some(missing) = arms.iter().find(|arm| there.arms.iter().all(|other| other.name != **arm)) {
            let known: Vec<&str> = there.arms.iter().map(|arm| arm.name.as_str()).collect();
            return Err(wrong(format!("it has no arm '{missing}', only {}", known.join(", "))));
        }
        let [now, then] = [asked(plan), asked(there)];
        if now != then {
            return Err(wrong(format!("it asked for something else: {then} there, {now} here")));
        }
        Ok(Self { name: name.to_owned(), findings: analyse(run), machine: run.host.machine() })
    }

    /// How its arm of this name is called in a sentence.
    pub(super) fn named(&self, arm: &str) -> String {
        format!("{arm} in {}", self.name)
    }

    pub(super) fn arm(&self, name: &str) -> Option<&ArmFindings> {
        self.findings.arms.iter().find(|arm| arm.name == name)
    }

    pub(super) fn findings(&self) -> &Findings {
        &self.findings
    }

    /// The machine of `run` and its own, where they differ.
    pub(super) fn other_machine(&self, run: &Run) -> Option<[String; 2]> {
        let here = run.host.machine();
        (here != self.machine).then(|| [here, self.machine.clone()])
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

/// What a run asks of its arms.
fn asked(plan: &Plan) -> String {
    let job = &plan.workload.job;
    format!(
        "{} over {} connections, {} in flight on each",
        plan.workload.describe(),
        job.connections,
        job.depth()
    )
}
