use crate::units::CpuSet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::{Machine, Machines, PlanError};

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
    /// The machines that the sets are of.
    #[serde(default)]
    pub machines: Machines,
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
        Ok(Self { server, load, shared, polls: !shared, machines: Machines::default() })
    }

    /// Places server and generator on two machines, each with the CPUs that may be used there: by default on all of them.
    ///
    /// # Errors
    /// As [`Placement::choose`].
    pub fn apart(
        [on_servers, on_generators]: [&CpuSet; 2],
        server: Option<&CpuSet>,
        load: Option<&CpuSet>,
        machines: Machines,
    ) -> Result<Self, PlanError> {
        check("--server-cpus", server, on_servers)?;
        check("--load-cpus", load, on_generators)?;
        let (server, load) = (server.unwrap_or(on_servers).clone(), load.unwrap_or(on_generators).clone());
        Ok(Self { server, load, shared: false, polls: true, machines })
    }

    /// Who runs where, in words.
    #[must_use]
    pub fn describe(&self) -> String {
        let Machines { server, load, more_load } = &self.machines;
        let of = |machine: &Option<Machine>| match machine {
            Some(machine) => format!(" of {machine}"),
            None if self.machines == Machines::default() => String::new(),
            None => " of this machine".to_owned(),
        };
        let more: String = more_load.iter().map(|machine| format!(" and on {machine}")).collect();
        format!(
            "server on CPU {}{}, generator on CPU {}{}{more}",
            self.server,
            of(server),
            self.load,
            of(load)
        )
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
