use crate::units::CpuSet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::PlanError;

/// Which CPUs the server and the generator have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Placement {
    /// CPUs of the server under test.
    #[schemars(with = "String")]
    pub server: CpuSet,
    /// CPUs of the generator and of the orchestrator.
    #[schemars(with = "String")]
    pub load: CpuSet,
    /// Whether a CPU is in both sets, which every verdict then says.
    pub shared: bool,
    /// Whether a generator that always has something to do polls rather than sleeps: its CPUs are its own, and never idle.
    /// Nobody is then charged for waking it.
    #[serde(default)]
    pub polls: bool,
}

impl Placement {
    /// Places server and generator on the CPUs that this process may use: by default the first half and the rest;
    /// where one set is given, the other takes what is left.
    ///
    /// # Errors
    /// [`PlanError::Cpus`] where a set names a CPU that is not in `allowed`.
    pub fn choose(
        allowed: &CpuSet,
        server: Option<&CpuSet>,
        load: Option<&CpuSet>,
    ) -> Result<Self, PlanError> {
        check("--server-cpus", server, allowed)?;
        check("--load-cpus", load, allowed)?;
        let rest = |taken: &CpuSet| {
            let left = allowed.difference(taken);
            if left.is_empty() { allowed.clone() } else { left }
        };
        let (server, load) = match (server, load) {
            (Some(server), Some(load)) => (server.clone(), load.clone()),
            (Some(server), None) => (server.clone(), rest(server)),
            (None, Some(load)) => (rest(load), load.clone()),
            (None, None) => allowed.halves(),
        };
        let shared = !server.intersection(&load).is_empty();
        Ok(Self { server, load, shared, polls: !shared })
    }

    /// The server's CPUs where it shares none of them, else none.
    #[must_use]
    pub fn server_only(&self) -> CpuSet {
        if self.shared { CpuSet::default() } else { self.server.clone() }
    }
}

fn check(flag: &'static str, set: Option<&CpuSet>, allowed: &CpuSet) -> Result<(), PlanError> {
    let missing = set.map(|set| set.difference(allowed)).unwrap_or_default();
    if missing.is_empty() {
        return Ok(());
    }
    Err(PlanError::Cpus { flag, missing: missing.to_string(), allowed: allowed.to_string() })
}
