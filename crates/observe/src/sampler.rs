use model::record::{HostUsage, Resources, Usage};
use model::units::CpuSet;
use rustix::time::{ClockId, clock_gettime};

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

impl Observed {
    /// The same without the time that the generator polled in vain, all its threads together: that is not work, and its
    /// CPUs were free for more. `busiest` is the share of the window for which its busiest thread worked.
    #[must_use]
    pub fn without_polling(mut self, polled_ns: u64, busiest: f64) -> Self {
        if polled_ns == 0 {
            return self;
        }
        let Self { generator, load_cpus, .. } = &mut self;
        // To poll is a call into the kernel and little else.
        take(&mut generator.cpu.system_ns, &mut generator.cpu.user_ns, polled_ns);
        generator.cpu.total_ns = generator.cpu.total_ns.saturating_sub(polled_ns);
        generator.busiest_thread_ns = (busiest * generator.wall_ns as f64) as u64;
        load_cpus.idle_ns += take(&mut load_cpus.system_ns, &mut load_cpus.user_ns, polled_ns);
        self
    }
}

/// Takes `amount` from `first`, and what that lacks from `then`; returns what was taken.
fn take(first: &mut u64, then: &mut u64, amount: u64) -> u64 {
    let from_first = amount.min(*first);
    let from_then = (amount - from_first).min(*then);
    *first -= from_first;
    *then -= from_then;
    from_first + from_then
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

#[cfg(test)]
mod tests {
    use super::*;
    use model::record::CpuTimes;

    #[test]
    fn what_was_polled_in_vain_is_neither_work_of_the_generator_nor_of_its_cpus() {
        let generator = Usage {
            wall_ns: 1_000,
            cpu: CpuTimes { total_ns: 1_000, user_ns: 300, system_ns: 700 },
            busiest_thread_ns: 1_000,
            ..Usage::default()
        };
        let load_cpus = HostUsage {
            wall_ns: 1_000,
            user_ns: 300,
            system_ns: 600,
            softirq_ns: 100,
            ..HostUsage::default()
        };
        let observed = Observed {
            target: Usage::default(),
            generator,
            server_cpus: HostUsage::default(),
            load_cpus,
            resources: Resources::default(),
            observer_cpu_ns: 0,
        };
        assert_eq!(observed.clone().without_polling(0, 0.5), observed, "it slept");
        let Observed { generator, load_cpus, .. } = observed.without_polling(650, 0.35);
        assert_eq!(generator.cpu, CpuTimes { total_ns: 350, user_ns: 300, system_ns: 50 });
        assert_eq!(generator.busiest_thread_ns, 350);
        assert_eq!((load_cpus.user_ns, load_cpus.system_ns, load_cpus.idle_ns), (250, 0, 650));
    }
}
