//! Facts: what a run says, arranged, before anything is concluded from it. Words that every stage uses of an arm or a window
//! (full, busy, refused, used) are defined here, each once.

mod alone;
pub(crate) mod arms;
mod asker;
pub(crate) mod beside;
pub(crate) mod busy;
pub(crate) mod calls;
pub(crate) mod changes;
pub(crate) mod detail;
pub(crate) mod functions;
pub(crate) mod metric;
pub(crate) mod observed;
pub(crate) mod parked;
pub(crate) mod passes;
mod peaks;
pub(crate) mod resources;
pub(crate) mod shape;
pub(crate) mod sheet;
pub(crate) mod stalls;
pub(crate) mod waits;
pub(crate) mod words;

use model::record::Run;

pub(crate) use alone::{Alone, Wait};
use arms::ArmFindings;
use beside::ServiceGap;
use passes::PassFindings;
pub(crate) use sheet::Sheet;

/// What a run says.
pub(crate) struct Facts<'a> {
    /// Its rounds, those that count apart from those that do not.
    pub(crate) sheet: Sheet<'a>,
    /// How much each kind of watching disturbed each arm.
    pub(crate) passes: Vec<PassFindings>,
    /// What each arm waits for, in the order of the plan.
    alone: Vec<Alone>,
    /// What was measured of each arm, in the order of the plan; what limits it is not a fact, and left open.
    pub(crate) arms: Vec<ArmFindings>,
    /// What services beside use for each arm but the baseline.
    pub(crate) services: Vec<ServiceGap>,
}

impl<'a> Facts<'a> {
    /// Everything that `run` says.
    pub(crate) fn from_run(run: &'a Run) -> Self {
        let sheet = Sheet::new(run);
        let passes = passes::all(&sheet);
        let plan = sheet.plan();
        let alone: Vec<Alone> =
            plan.arms.iter().map(|arm| alone::alone(&sheet, &arm.name, &passes)).collect();
        let arms = plan.arms.iter().zip(&alone);
        let arms = arms.map(|(arm, alone)| arms::row(&sheet, arm, alone, &passes)).collect();
        let services = beside::all(&sheet);
        Self { sheet, passes, alone, arms, services }
    }

    /// What was measured of an arm.
    pub(crate) fn arm(&self, name: &str) -> Option<&ArmFindings> {
        self.arms.iter().find(|arm| arm.name == name)
    }

    /// Every arm with what it waits for.
    pub(crate) fn each_alone(&self) -> impl Iterator<Item = (&str, &Alone)> {
        self.arms.iter().map(|arm| arm.name.as_str()).zip(&self.alone)
    }
}
