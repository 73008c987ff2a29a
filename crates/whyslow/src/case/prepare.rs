//! Which arms of a case can take part: there, built, and answering as they must.

use anyhow::{Context, bail, ensure};
use launch::{Check, Launcher};
use model::plan::{Arm, CaseComparison, CaseFile, Placement, Size, Workload};

use crate::catalogue::Catalogue;
use crate::compare::{self, InTurn};
use crate::interrupt::Interrupt;
use crate::targets::{self, State};

/// What does not take part, one line each; printed at once and kept for the answer.
#[derive(Default)]
pub(super) struct LeftOut(Vec<String>);

impl LeftOut {
    pub(super) fn add(&mut self, line: String) {
        crate::say(&format!("left out: {line}"));
        self.0.push(line);
    }

    /// An arm that takes part although a check failed.
    fn let_through(&mut self, line: String) {
        crate::say(&format!("let through: {line}"));
        self.0.push(line);
    }

    /// Comparisons that were not asked for.
    pub(super) fn comparisons(&mut self, case: &CaseFile, wanted: &[&CaseComparison]) {
        for comparison in &case.comparisons {
            if !wanted.iter().any(|one| one.id == comparison.id) {
                self.add(format!("comparison '{}': not part of this run", comparison.id));
            }
        }
    }

    pub(super) fn lines(self) -> Vec<String> {
        self.0
    }
}

/// The arms of the comparisons that are run, each once.
pub(super) struct Arms(Vec<(String, Arm, State)>);

impl Arms {
    /// Finds every arm; one that no target file names is an error.
    pub(super) fn resolve(case: &CaseFile, wanted: &[&CaseComparison]) -> anyhow::Result<Self> {
        let catalogue = Catalogue::find();
        let mut arms = Vec::new();
        for name in case.arms() {
            let (mut arm, _) = catalogue.arm(name).with_context(|| format!("case '{}'", case.name))?;
            if !wanted.iter().any(|comparison| comparison.arms.iter().any(|other| other == name)) {
                continue;
            }
            let state = targets::state_of(&catalogue, name, &arm)?;
            arm.expect = case.workload.expect.clone().unwrap_or(arm.expect);
            arms.push((name.to_owned(), arm, state));
        }
        Ok(Self(arms))
    }

    /// Builds and verifies what can be; gives the names of those that take part.
    pub(super) fn prepare(
        self,
        case: &CaseFile,
        workloads: &[(&CaseComparison, Workload)],
        size: Size,
        placement: &Placement,
        left_out: &mut LeftOut,
    ) -> anyhow::Result<Vec<String>> {
        let mut ready = Vec::new();
        let interrupt = Interrupt::listen()?;
        let launcher = Launcher::this_program().until(interrupt.flag().clone());
        let mut beside = InTurn::new();
        for (name, arm, state) in self.0 {
            let of_arm = workloads.iter().find(|(comparison, _)| comparison.arms.contains(&name));
            let Some((_, workload)) = of_arm else { continue };
            let with = (&launcher, &mut beside);
            let checked = built(&launcher, &arm, &state, size)
                .and_then(|()| compare::verify::checks_of(&arm, workload, placement, with));
            ensure!(!interrupt.is_set(), "interrupted while '{name}' was checked: nothing was measured");
            match checked.and_then(|checks| judged(case, &name, &checks)) {
                Ok(tolerated) => {
                    tolerated.into_iter().for_each(|line| left_out.let_through(line));
                    ready.push(name);
                }
                Err(error) => left_out.add(format!("{name}: {}", crate::exit::told(&error))),
            }
        }
        Ok(ready)
    }
}

/// Builds `arm` where it is not built.
fn built(launcher: &Launcher, arm: &Arm, state: &State, size: Size) -> anyhow::Result<()> {
    match state {
        State::Missing { .. } | State::Recipe(_) => bail!("{}", state.hint()),
        State::Buildable if size == Size::Smoke => bail!("not built: whyslow targets build {}", arm.name),
        State::Buildable => targets::build_quietly(launcher, arm),
        State::Ready => Ok(()),
    }
}

/// What the case tolerates of the failed checks, one line each; an error where there is another.
fn judged(case: &CaseFile, name: &str, checks: &[Check]) -> anyhow::Result<Vec<String>> {
    let tolerated =
        |check: &Check| case.tolerated.iter().find(|one| one.arm == name && one.check == check.name);
    let failed = || checks.iter().filter(|check| !check.ok);
    let fatal: Vec<String> = failed()
        .filter(|check| tolerated(check).is_none())
        .map(|check| format!("{}: {}", check.name, check.text))
        .collect();
    if !fatal.is_empty() {
        bail!("it fails verify: {}", fatal.join("; "));
    }
    let line = |one: &model::plan::Tolerated| {
        format!("{name} fails verify ({}) and takes part: {}", one.check, one.reason)
    };
    Ok(failed().filter_map(tolerated).map(line).collect())
}
