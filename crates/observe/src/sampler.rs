use record::{HostUsage, Resources, Usage};
use rustix::time::{ClockId, clock_gettime};
use units::CpuSet;

use crate::file::Reader;
use crate::group::Table;
use crate::{Group, HostSnapshot, HostWatch, ObserveError, ResourceSnapshot, Snapshot};

/// Everything that is watched in one window: target, generator, and the CPUs of each.
#[derive(Debug, Clone)]
pub struct Sampler {
    target: Group,
    generator: Group,
    server_cpus: HostWatch,
    load_cpus: HostWatch,
}

/// All of it at one moment.
#[derive(Debug, Clone)]
pub struct Reading {
    target: Snapshot,
    generator: Snapshot,
    server_cpus: HostSnapshot,
    load_cpus: HostSnapshot,
    others: Snapshot,
    resources: ResourceSnapshot,
    /// CPU time that this reading took.
    cost_ns: u64,
}

/// What happened between two readings.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    /// The target's group.
    pub target: Usage,
    /// The generator's group.
    pub generator: Usage,
    /// The server's CPUs.
    pub server_cpus: HostUsage,
    /// The generator's CPUs.
    pub load_cpus: HostUsage,
    /// Resources of the target and the host.
    pub resources: Resources,
    /// CPU time of the two readings themselves.
    pub observer_cpu_ns: u64,
}

impl Sampler {
    /// Prepares to watch `target` on `server_cpus` and `generator` on `load_cpus`.
    #[must_use]
    pub fn new(target: Group, generator: Group, server_cpus: CpuSet, load_cpus: CpuSet) -> Self {
        let (server_cpus, load_cpus) = (HostWatch::new(server_cpus), HostWatch::new(load_cpus));
        Self { target, generator, server_cpus, load_cpus }
    }

    /// The same while [`Awake`](crate::Awake) keeps both sets of CPUs from going idle.
    #[must_use]
    pub fn kept_awake(self, awake: bool) -> Self {
        let (server_cpus, load_cpus) = (self.server_cpus.kept_awake(awake), self.load_cpus.kept_awake(awake));
        Self { server_cpus, load_cpus, ..self }
    }

    /// Reads everything once, the target first.
    ///
    /// # Errors
    /// [`ObserveError::Ended`] where the target or the generator is gone.
    pub fn read(&self) -> Result<Reading, ObserveError> {
        let begin = own_cpu_ns();
        let mut reader = Reader::new();
        let table = Table::read(&mut reader)?;
        let target = self.target.snapshot_of(&table, &mut reader)?;
        let generator = self.generator.snapshot_of(&table, &mut reader)?;
        let resources = ResourceSnapshot::read_of(&target.pids());
        Ok(Reading {
            others: table.others(&[&target, &generator]),
            resources,
            target,
            generator,
            server_cpus: self.server_cpus.snapshot()?,
            load_cpus: self.load_cpus.snapshot()?,
            cost_ns: own_cpu_ns().saturating_sub(begin),
        })
    }
}

impl Reading {
    /// What happened since `earlier`, a reading of the same sampler.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Observed {
        let others_ns = self.others.since(&earlier.others).cpu.total_ns;
        let with_others = |usage: HostUsage| HostUsage { others_ns, ..usage };
        Observed {
            target: self.target.since(&earlier.target),
            generator: self.generator.since(&earlier.generator),
            server_cpus: with_others(self.server_cpus.since(&earlier.server_cpus)),
            load_cpus: with_others(self.load_cpus.since(&earlier.load_cpus)),
            resources: self.resources.since(&earlier.resources),
            observer_cpu_ns: earlier.cost_ns + self.cost_ns,
        }
    }
}

/// CPU time of this thread.
pub(crate) fn own_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}
