use std::collections::BTreeMap;
use std::time::Instant;

use model::record::{HostUsage, Usage};
use model::units::CpuSet;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::file::Reader;
use crate::group::Table;
use crate::{Group, HostSnapshot, HostWatch, ObserveError, ResourceSnapshot, Snapshot};

/// Everything that is watched in the turns of several targets: each of them, the generator, and the CPUs of both. Where they
/// are on two machines, each has a sampler for what is there.
#[derive(Debug, Clone)]
pub struct Sampler {
    targets: Vec<Group>,
    generator: Option<Group>,
    /// What runs beside the targets, by name.
    services: Vec<(String, Group)>,
    server_cpus: Option<HostWatch>,
    load_cpus: Option<HostWatch>,
}

/// All of it at one moment, closely of one target.
#[derive(Debug, Clone)]
pub struct Reading {
    target: Option<Snapshot>,
    /// The other targets, without their threads.
    idle: Vec<Snapshot>,
    generator: Option<Snapshot>,
    services: Vec<(String, Snapshot)>,
    server_cpus: Option<HostSnapshot>,
    load_cpus: Option<HostSnapshot>,
    others: Snapshot,
    /// CPU time that this reading took.
    cost_ns: u64,
}

/// What happened between two readings; nothing of what is on another machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Observed {
    /// The target's group.
    pub target: Usage,
    /// CPU time of each of the other targets, in their order.
    pub idle_ns: Vec<u64>,
    /// The generator's group.
    pub generator: Usage,
    /// The server's CPUs.
    pub server_cpus: HostUsage,
    /// The generator's CPUs.
    pub load_cpus: HostUsage,
    /// CPU time of each service beside, by name.
    pub services_ns: BTreeMap<String, u64>,
    /// CPU time of the two readings themselves.
    pub observer_cpu_ns: u64,
}

impl Observed {
    /// The servers' half of it, with the generator's half as `load` has it, which was read on another machine.
    #[must_use]
    pub fn with_load(self, load: Self) -> Self {
        let observer_cpu_ns = self.observer_cpu_ns + load.observer_cpu_ns;
        Self { generator: load.generator, load_cpus: load.load_cpus, observer_cpu_ns, ..self }
    }

    /// What generators on two machines did at the same time, as one.
    #[must_use]
    pub fn and_load(mut self, other: Self) -> Self {
        self.generator.add_beside(&other.generator);
        self.load_cpus.add_beside(&other.load_cpus);
        self.observer_cpu_ns += other.observer_cpu_ns;
        self
    }

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
    /// Prepares to watch `targets` on `server_cpus` and `generator` on `load_cpus`.
    #[must_use]
    pub fn new(targets: Vec<Group>, generator: Group, server_cpus: CpuSet, load_cpus: CpuSet) -> Self {
        let load_cpus = Some(HostWatch::new(load_cpus));
        Self { generator: Some(generator), load_cpus, ..Self::of_targets(targets, server_cpus) }
    }

    /// Prepares to watch `targets` on `server_cpus`, where the generator is on another machine.
    #[must_use]
    pub fn of_targets(targets: Vec<Group>, server_cpus: CpuSet) -> Self {
        let server_cpus = Some(HostWatch::new(server_cpus));
        Self { targets, generator: None, services: Vec::new(), server_cpus, load_cpus: None }
    }

    /// Prepares to watch `generator` on `load_cpus`, where the targets are on another machine.
    #[must_use]
    pub fn of_generator(generator: Group, load_cpus: CpuSet) -> Self {
        let load_cpus = Some(HostWatch::new(load_cpus));
        let (targets, services) = (Vec::new(), Vec::new());
        Self { targets, generator: Some(generator), services, server_cpus: None, load_cpus }
    }

    /// The same, with services beside the targets, each name told apart. They are none of the others.
    #[must_use]
    pub fn beside(self, services: Vec<(String, Group)>) -> Self {
        Self { services, ..self }
    }

    /// Reads everything once, target number `loaded` first and most closely, if the targets are here.
    ///
    /// # Errors
    /// [`ObserveError::Ended`] where a target or the generator is gone.
    pub fn read(&self, loaded: usize) -> Result<Reading, ObserveError> {
        let begin = own_cpu_ns();
        let mut reader = Reader::new();
        let table = Table::read(&mut reader)?;
        let whole = |group: &Group, reader: &mut Reader| group.snapshot_of(&table, reader);
        let target = self.targets.get(loaded).map(|group| whole(group, &mut reader)).transpose()?;
        let others = self.targets.iter().enumerate().filter(|(index, _)| *index != loaded);
        // One that has ended since is found when it is its turn.
        let mut idle_one = |group: &Group| match group.processes_of(&table, &mut reader) {
            Err(ObserveError::Ended(_)) => Ok(Snapshot::empty(Instant::now())),
            read => read,
        };
        let idle: Result<Vec<Snapshot>, ObserveError> = others.map(|(_, group)| idle_one(group)).collect();
        let idle = idle?;
        let generator = self.generator.as_ref().map(|group| whole(group, &mut reader)).transpose()?;
        let mut services = Vec::new();
        for (name, group) in &self.services {
            services.push((name.clone(), group.processes_of(&table, &mut reader)?));
        }
        let beside = services.iter().map(|(_, snapshot)| snapshot);
        let known: Vec<&Snapshot> = idle.iter().chain(&target).chain(&generator).chain(beside).collect();
        let counters = |watch: &Option<HostWatch>| watch.as_ref().map(HostWatch::snapshot).transpose();
        Ok(Reading {
            others: table.others(&known),
            target,
            idle,
            generator,
            services,
            server_cpus: counters(&self.server_cpus)?,
            load_cpus: counters(&self.load_cpus)?,
            cost_ns: own_cpu_ns().saturating_sub(begin),
        })
    }

    /// Memory, descriptors, sockets and links of target number `loaded`, and those of the host. It takes milliseconds.
    ///
    /// # Errors
    /// As [`Group::pids`].
    ///
    /// # Panics
    /// Where there is no such target.
    pub fn resources(&self, loaded: usize) -> Result<ResourceSnapshot, ObserveError> {
        Ok(ResourceSnapshot::read_of(&self.targets[loaded].pids()?))
    }
}

impl Reading {
    /// What happened since `earlier`, a reading of the same sampler and the same target.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Observed {
        let others_ns = self.others.since(&earlier.others).cpu.total_ns;
        let used_by = |now: &Option<Snapshot>, before: &Option<Snapshot>| {
            now.as_ref().zip(before.as_ref()).map(|(now, before)| now.since(before)).unwrap_or_default()
        };
        let used_on = |now: &Option<HostSnapshot>, before: &Option<HostSnapshot>| {
            let used = now.as_ref().zip(before.as_ref()).map(|(now, before)| now.since(before));
            used.map(|usage| HostUsage { others_ns, ..usage }).unwrap_or_default()
        };
        let idle = self.idle.iter().zip(&earlier.idle);
        let services = self.services.iter().zip(&earlier.services);
        let mut services_ns = BTreeMap::new();
        for ((name, now), (_, before)) in services {
            // Two arms may have a service of the same name each.
            *services_ns.entry(name.clone()).or_default() += now.since(before).cpu.total_ns;
        }
        Observed {
            target: used_by(&self.target, &earlier.target),
            idle_ns: idle.map(|(now, before)| now.since(before).cpu.total_ns).collect(),
            services_ns,
            generator: used_by(&self.generator, &earlier.generator),
            server_cpus: used_on(&self.server_cpus, &earlier.server_cpus),
            load_cpus: used_on(&self.load_cpus, &earlier.load_cpus),
            observer_cpu_ns: earlier.cost_ns + self.cost_ns,
        }
    }
}

/// CPU time of this thread.
pub(crate) fn own_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// The monotonic clock, in nanoseconds.
pub(crate) fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
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
            idle_ns: Vec::new(),
            services_ns: BTreeMap::new(),
            observer_cpu_ns: 0,
        };
        assert_eq!(observed.clone().without_polling(0, 0.5), observed, "it slept");
        let Observed { generator, load_cpus, .. } = observed.without_polling(650, 0.35);
        assert_eq!(generator.cpu, CpuTimes { total_ns: 350, user_ns: 300, system_ns: 50 });
        assert_eq!(generator.busiest_thread_ns, 350);
        assert_eq!((load_cpus.user_ns, load_cpus.system_ns, load_cpus.idle_ns), (250, 0, 650));
    }
}
