use std::time::{Duration, Instant};

use model::record::{HostUsage, TcpCounters};
use model::units::CpuSet;

use crate::ObserveError;
use crate::file::{Reader, cannot_read, optional};
use crate::parse::{self, CpuTicks, Hierarchy};

const SECOND_NS: u64 = 1_000_000_000;

/// A set of CPUs, and what the host does beside.
#[derive(Debug, Clone)]
pub struct HostWatch {
    cpus: CpuSet,
    /// The `cpu.stat` files of the cgroup and those above it.
    throttling: Vec<String>,
    /// Whether the cgroup that holds back is seen from here.
    sees_limits: bool,
    /// The folder of the TCP counters, which are those of one network namespace.
    network: String,
    /// The files that hold each CPU's frequency now.
    frequencies: Vec<String>,
}

/// A set of CPUs at one moment.
#[derive(Debug, Clone)]
pub struct HostSnapshot {
    at: Instant,
    cpus: u32,
    ticks: CpuTicks,
    throttled_ns: u64,
    frequency_khz: Option<[u64; 2]>,
    tcp: TcpCounters,
}

impl HostWatch {
    /// Prepares to watch `cpus`; finds out what this host offers. Throttling and TCP are those of this process: what it
    /// starts is in its cgroup and its network namespace.
    #[must_use]
    pub fn new(cpus: CpuSet) -> Self {
        Self::with(cpus, &Cgroups::own(), "/proc/net".to_owned())
    }

    /// The same, but throttling and TCP are those of process `pid`, whose cgroup and network namespace may be others.
    #[must_use]
    pub fn for_process(pid: u32, cpus: CpuSet) -> Self {
        Self::with(cpus, &Cgroups::for_process(pid), format!("/proc/{pid}/net"))
    }

    fn with(cpus: CpuSet, cgroups: &Cgroups, network: String) -> Self {
        let frequency = |cpu| format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq");
        let frequencies = cpus.iter().map(frequency).filter(|path| optional(path).is_some()).collect();
        let throttling = cgroups.folders("cpu").map(|folder| format!("{folder}/cpu.stat")).collect();
        let sees_limits = cgroups.sees("cpu");
        Self { cpus, throttling, sees_limits, network, frequencies }
    }

    /// Whether the cgroup that holds back is seen from here: where it is not, a throttled time of 0 says nothing.
    #[must_use]
    pub fn sees_limits(&self) -> bool {
        self.sees_limits
    }

    /// Reads all counters.
    ///
    /// # Errors
    /// [`ObserveError::File`] or [`ObserveError::Damaged`] for `/proc/stat`; what else is missing is left out.
    pub fn snapshot(&self) -> Result<HostSnapshot, ObserveError> {
        let mut reader = Reader::new();
        let at = Instant::now();
        let (cpus, ticks) = self.ticks(&mut reader)?;
        let text = |name| optional(format!("{}/{name}", self.network)).unwrap_or_default();
        Ok(HostSnapshot {
            at,
            cpus,
            ticks,
            throttled_ns: self.throttled_ns(&mut reader),
            frequency_khz: self.frequency_khz(&mut reader),
            tcp: parse::tcp_counters(&text("snmp"), &text("netstat")),
        })
    }

    fn ticks(&self, reader: &mut Reader) -> Result<(u32, CpuTicks), ObserveError> {
        let text = reader.read("/proc/stat").map_err(cannot_read("/proc/stat"))?;
        let (mut cpus, mut sum) = (0, CpuTicks::default());
        for (_, ticks) in parse::cpu_lines(text).filter(|(cpu, _)| self.cpus.contains(*cpu)) {
            cpus += 1;
            sum += ticks;
        }
        if cpus == 0 { Err(ObserveError::Damaged("/proc/stat".into())) } else { Ok((cpus, sum)) }
    }

    /// Time for which the cgroup, or one above it, was held back. Version 1 counts nanoseconds, version 2 microseconds.
    fn throttled_ns(&self, reader: &mut Reader) -> u64 {
        let mut sum = 0;
        for path in &self.throttling {
            let Ok(text) = reader.read(path) else { continue };
            let v2 = parse::keyed(text, "throttled_usec").map(|us| us * 1000);
            sum += v2.or_else(|| parse::keyed(text, "throttled_time")).unwrap_or(0);
        }
        sum
    }

    fn frequency_khz(&self, reader: &mut Reader) -> Option<[u64; 2]> {
        let mut range: Option<[u64; 2]> = None;
        for path in &self.frequencies {
            let Some(khz) = reader.read(path).ok().and_then(|text| text.trim().parse().ok()) else {
                continue;
            };
            let [low, high] = range.unwrap_or([khz, khz]);
            range = Some([low.min(khz), high.max(khz)]);
        }
        range
    }
}

impl HostSnapshot {
    /// What happened since `earlier`, a snapshot of the same CPUs. CPU times are the kernel's tick samples; those of
    /// other processes are not known here and 0 (see [`crate::Sampler`]).
    #[must_use]
    pub fn since(&self, earlier: &Self) -> HostUsage {
        let tick_ns = SECOND_NS / rustix::param::clock_ticks_per_second().max(1);
        let (now, then) = (&self.ticks, &earlier.ticks);
        let ns = |now: u64, then: u64| now.saturating_sub(then) * tick_ns;
        HostUsage {
            wall_ns: u64::try_from(self.at.saturating_duration_since(earlier.at).as_nanos())
                .unwrap_or(u64::MAX),
            cpus: self.cpus,
            user_ns: ns(now.user, then.user) + ns(now.nice, then.nice),
            system_ns: ns(now.system, then.system),
            irq_ns: ns(now.irq, then.irq),
            softirq_ns: ns(now.softirq, then.softirq),
            idle_ns: ns(now.idle, then.idle) + ns(now.iowait, then.iowait),
            steal_ns: ns(now.steal, then.steal),
            others_ns: 0,
            throttled_ns: self.throttled_ns.saturating_sub(earlier.throttled_ns),
            frequency_khz: widest(self.frequency_khz, earlier.frequency_khz),
            tcp: tcp_since(&self.tcp, &earlier.tcp),
        }
    }
}

fn widest(one: Option<[u64; 2]>, other: Option<[u64; 2]>) -> Option<[u64; 2]> {
    let ([low, high], [also_low, also_high]) = (one?, other?);
    Some([low.min(also_low), high.max(also_high)])
}

fn tcp_since(now: &TcpCounters, then: &TcpCounters) -> TcpCounters {
    TcpCounters {
        segments_in: now.segments_in.saturating_sub(then.segments_in),
        segments_out: now.segments_out.saturating_sub(then.segments_out),
        retransmits: now.retransmits.saturating_sub(then.retransmits),
        active_opens: now.active_opens.saturating_sub(then.active_opens),
        passive_opens: now.passive_opens.saturating_sub(then.passive_opens),
        listen_overflows: now.listen_overflows.saturating_sub(then.listen_overflows),
        listen_drops: now.listen_drops.saturating_sub(then.listen_drops),
        delayed_acks: now.delayed_acks.saturating_sub(then.delayed_acks),
    }
}

/// How busy these CPUs are with whatever runs now, from 0 to 1, looked at for `duration`, in which the caller sleeps.
///
/// The kernel counts in ticks of 10 ms: of one CPU in half a second, one tick is 0.02.
///
/// # Errors
/// As [`HostWatch::snapshot`].
pub fn busy_share(cpus: &CpuSet, duration: Duration) -> Result<f64, ObserveError> {
    let watch = HostWatch::new(cpus.clone());
    let begin = watch.snapshot()?;
    std::thread::sleep(duration);
    let used = watch.snapshot()?.since(&begin);
    let busy_ns = used.user_ns + used.system_ns + used.irq_ns + used.softirq_ns + used.steal_ns;
    Ok(busy_ns as f64 / (busy_ns + used.idle_ns).max(1) as f64)
}

/// The cgroups of this process; targets that it starts are in the same.
pub(crate) fn own_hierarchies() -> Vec<Hierarchy> {
    Cgroups::own().hierarchies
}

/// The cgroups of a process, as far as they are seen from here.
#[derive(Debug)]
pub(crate) struct Cgroups {
    /// Its `/proc/PID/cgroup`, which names them as this process would.
    names: String,
    pub(crate) hierarchies: Vec<Hierarchy>,
}

impl Cgroups {
    /// Those of this process.
    pub(crate) fn own() -> Self {
        let names = optional("/proc/self/cgroup").unwrap_or_default();
        let hierarchies = parse::hierarchies(&names, &optional("/proc/self/mountinfo").unwrap_or_default());
        Self { names, hierarchies }
    }

    /// Those of the process `pid`.
    pub(crate) fn for_process(pid: u32) -> Self {
        let own = Self::own();
        let names = optional(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        if names == own.names {
            return own;
        }
        let mounts = optional("/proc/self/mountinfo").unwrap_or_default();
        let mut hierarchies = parse::hierarchies(&names, &mounts);
        // What lies outside of what is mounted here would be taken for the root of the mount: the folder must know it.
        hierarchies.retain(|hierarchy| holds(hierarchy, pid));
        Self { names, hierarchies }
    }

    /// The folders in which limits of `controller` may stand, from the innermost out.
    pub(crate) fn folders(&self, controller: &str) -> impl Iterator<Item = String> {
        self.hierarchies.iter().filter(move |found| found.has(controller)).flat_map(Hierarchy::folders)
    }

    /// Whether the limits of `controller` are seen. They stand in the hierarchy of version 1 that names it, and where
    /// there is none, in that of version 2; a kernel without either has none to see.
    pub(crate) fn sees(&self, controller: &str) -> bool {
        let lines = || self.names.lines().filter_map(|line| line.split(':').nth(1));
        if lines().any(|names| names.split(',').any(|name| name == controller)) {
            return self
                .hierarchies
                .iter()
                .any(|found| found.controllers.iter().any(|own| own == controller));
        }
        let has_v2 = lines().any(str::is_empty);
        !has_v2 || self.hierarchies.iter().any(|found| found.controllers.is_empty())
    }
}

/// Whether the folder of a hierarchy lists the process, by its processes or, where it is threaded, by its threads.
fn holds(hierarchy: &Hierarchy, pid: u32) -> bool {
    let folder = hierarchy.folders().swap_remove(0);
    let pid = pid.to_string();
    let lists = |name: &str| {
        optional(format!("{folder}/{name}")).is_some_and(|list| list.lines().any(|line| line == pid))
    };
    lists("cgroup.procs") || lists("cgroup.threads")
}

#[cfg(test)]
mod tests;
