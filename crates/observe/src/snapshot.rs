use std::collections::BTreeMap;
use std::ops::{Add, AddAssign};
use std::time::Instant;

use model::record::{CpuTimes, Usage};

use crate::parse::{Schedstat, Stat, Status};

/// Nanoseconds of one second.
const SECOND_NS: u64 = 1_000_000_000;

/// Counters of a process that only rise.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    pub(crate) cpu_ns: u64,
    pub(crate) user_ticks: u64,
    pub(crate) system_ticks: u64,
    pub(crate) minor_faults: u64,
    pub(crate) major_faults: u64,
}

impl Counters {
    /// Applies `combine` field by field.
    fn with(self, other: Self, combine: fn(u64, u64) -> u64) -> Self {
        Self {
            cpu_ns: combine(self.cpu_ns, other.cpu_ns),
            user_ticks: combine(self.user_ticks, other.user_ticks),
            system_ticks: combine(self.system_ticks, other.system_ticks),
            minor_faults: combine(self.minor_faults, other.minor_faults),
            major_faults: combine(self.major_faults, other.major_faults),
        }
    }

    fn minus(self, other: Self) -> Self {
        self.with(other, u64::saturating_sub)
    }
}

impl Add for Counters {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.with(other, u64::saturating_add)
    }
}

impl AddAssign for Counters {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// One process at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ProcessSample {
    pub(crate) parent: u32,
    /// With the pid, names a process for ever.
    pub(crate) start: u64,
    /// What it used itself.
    pub(crate) own: Counters,
    /// What its children used that ended and that it waited for.
    pub(crate) children: Counters,
    pub(crate) rss_bytes: u64,
    pub(crate) rss_peak_bytes: u64,
}

impl ProcessSample {
    /// `cpu_ns` is the process clock, which is finer than the ticks in `stat`.
    pub(crate) fn new(stat: &Stat, cpu_ns: u64, status: &Status) -> Self {
        Self {
            parent: stat.parent,
            start: stat.start,
            own: Counters {
                cpu_ns,
                user_ticks: stat.user,
                system_ticks: stat.system,
                minor_faults: stat.minor_faults,
                major_faults: stat.major_faults,
            },
            children: children(stat),
            rss_bytes: status.rss_bytes,
            rss_peak_bytes: status.rss_peak_bytes,
        }
    }
}

/// What the ended children of a process used, in the ticks that the kernel gives for them.
pub(crate) fn children(stat: &Stat) -> Counters {
    let tick_ns = SECOND_NS / rustix::param::clock_ticks_per_second().max(1);
    Counters {
        cpu_ns: (stat.child_user + stat.child_system) * tick_ns,
        user_ticks: stat.child_user,
        system_ticks: stat.child_system,
        minor_faults: stat.child_minor_faults,
        major_faults: stat.child_major_faults,
    }
}

/// One thread at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ThreadSample {
    pub(crate) sched: Schedstat,
    pub(crate) voluntary_switches: u64,
    pub(crate) involuntary_switches: u64,
}

/// A process group with all its descendants at one moment.
#[derive(Debug, Clone)]
pub struct Snapshot {
    pub(crate) at: Instant,
    pub(crate) processes: BTreeMap<u32, ProcessSample>,
    pub(crate) threads: BTreeMap<u32, ThreadSample>,
    /// What the threads call themselves.
    pub(crate) names: BTreeMap<u32, String>,
    /// What was used by children of a supervisor that is itself not watched.
    pub(crate) supervised: Counters,
}

impl Snapshot {
    pub(crate) fn empty(at: Instant) -> Self {
        Self {
            at,
            processes: BTreeMap::new(),
            threads: BTreeMap::new(),
            names: BTreeMap::new(),
            supervised: Counters::default(),
        }
    }

    /// What was used since `earlier`, a snapshot of the same group.
    ///
    /// Included is the CPU time and are the faults of threads and processes that began or ended in between, the latter
    /// where a process of the group waited for them; of such a process, the time is known in clock ticks (10 ms). Missing
    /// are: of threads that ended in between, switches and run-queue wait since `earlier`; of processes that ended
    /// and nobody in the group waited for, everything since `earlier`; of threads running at this moment, the time since
    /// the last scheduler tick, which the other end of the window gives back on average.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Usage {
        let Used { own, ended } = self.used_since(earlier);
        let used = own + ended;
        let threads = self.threads_since(earlier);
        let threads_ns = self.time_by_name(earlier);
        let processes = self.processes.values();
        Usage {
            wall_ns: u64::try_from(self.at.saturating_duration_since(earlier.at).as_nanos())
                .unwrap_or(u64::MAX),
            cpu: split(used, self.totals()),
            run_wait_ns: threads.sum.sched.wait_ns,
            voluntary_switches: threads.sum.voluntary_switches,
            involuntary_switches: threads.sum.involuntary_switches,
            minor_faults: used.minor_faults,
            major_faults: used.major_faults,
            rss_peak_bytes: processes.clone().map(|process| process.rss_peak_bytes).sum(),
            rss_bytes: processes.map(|process| process.rss_bytes).sum(),
            threads: count(self.threads.len()),
            processes: count(self.processes.len()),
            busiest_thread_ns: threads.busiest_ns,
            threads_changed: threads.changed,
            ended_processes_ns: ended.cpu_ns,
            ended_threads_ns: own.cpu_ns.saturating_sub(threads_ns.values().sum()),
            threads_ns,
        }
    }

    /// Clock ticks since `earlier` by which its CPU time was divided into user and kernel: where they are few, how it is
    /// divided is chance.
    #[must_use]
    pub fn ticks_since(&self, earlier: &Self) -> u64 {
        let Used { own, ended } = self.used_since(earlier);
        let used = own + ended;
        used.user_ticks + used.system_ticks
    }

    /// Everything used by the processes that are there now, since they began.
    fn totals(&self) -> Counters {
        self.processes.values().fold(Counters::default(), |sum, process| sum + process.own)
    }

    /// A process that ends moves what it used into its parent's children; what it had used before `earlier` is then
    /// taken off again.
    fn used_since(&self, earlier: &Self) -> Used {
        let mut own = Counters::default();
        let mut inherited = self.supervised.minus(earlier.supervised);
        for (pid, now) in &self.processes {
            let before = earlier.same(*pid, now).copied().unwrap_or_default();
            own += now.own.minus(before.own);
            inherited += now.children.minus(before.children);
        }
        let mut known = Counters::default();
        for (pid, before) in &earlier.processes {
            if self.same(*pid, before).is_none() && self.inherits(earlier, before.parent) {
                known += before.own + before.children;
            }
        }
        Used { own, ended: inherited.minus(known) }
    }

    /// The sample of this very process, and not of another one with its number.
    fn same(&self, pid: u32, sample: &ProcessSample) -> Option<&ProcessSample> {
        self.processes.get(&pid).filter(|own| own.start == sample.start)
    }

    /// Whether the process `parent` of `earlier`, or one above it, is still there to have waited.
    fn inherits(&self, earlier: &Self, mut parent: u32) -> bool {
        // Each step goes one generation up, and there are no more generations than processes.
        for _ in 0..=earlier.processes.len() {
            if self.processes.contains_key(&parent) {
                return true;
            }
            match earlier.processes.get(&parent) {
                Some(above) => parent = above.parent,
                // Above the group is the supervisor, if there is one, and it waits for all.
                None => return self.supervised != Counters::default(),
            }
        }
        false
    }

    /// CPU time by the name of the thread: those that differ by a number at the end are one.
    fn time_by_name(&self, earlier: &Self) -> BTreeMap<String, u64> {
        let mut times: BTreeMap<String, u64> = BTreeMap::new();
        for (tid, now) in &self.threads {
            let before = earlier.threads.get(tid).map_or(0, |thread| thread.sched.run_ns);
            let name = self.names.get(tid).map_or("", String::as_str);
            let name = name.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches(['#', '-', '_']);
            *times.entry(name.to_owned()).or_default() += now.sched.run_ns.saturating_sub(before);
        }
        times
    }

    fn threads_since(&self, earlier: &Self) -> Threads {
        let mut found = Threads::default();
        for (tid, now) in &self.threads {
            let before = earlier.threads.get(tid);
            found.changed += u32::from(before.is_none());
            found.add(now, before.unwrap_or(&ThreadSample::default()));
        }
        found.changed += count(earlier.threads.keys().filter(|tid| !self.threads.contains_key(tid)).count());
        found
    }
}

/// What a group used between two snapshots.
struct Used {
    /// By processes that are still there.
    own: Counters,
    /// By those that ended and were waited for.
    ended: Counters,
}

#[derive(Default)]
struct Threads {
    sum: ThreadSample,
    busiest_ns: u64,
    changed: u32,
}

impl Threads {
    fn add(&mut self, now: &ThreadSample, before: &ThreadSample) {
        let run_ns = now.sched.run_ns.saturating_sub(before.sched.run_ns);
        self.busiest_ns = self.busiest_ns.max(run_ns);
        self.sum.sched.wait_ns += now.sched.wait_ns.saturating_sub(before.sched.wait_ns);
        self.sum.voluntary_switches += now.voluntary_switches.saturating_sub(before.voluntary_switches);
        self.sum.involuntary_switches += now.involuntary_switches.saturating_sub(before.involuntary_switches);
    }
}

/// Splits exact CPU time by the kernel's tick samples; a window without a tick is split as the life so far.
fn split(used: Counters, life: Counters) -> CpuTimes {
    let ticks = if used.user_ticks + used.system_ticks > 0 { used } else { life };
    let all = u128::from(ticks.user_ticks + ticks.system_ticks).max(1);
    let system = u128::from(used.cpu_ns) * u128::from(ticks.system_ticks) / all;
    let system_ns = u64::try_from(system).expect("a share is no more than the whole");
    CpuTimes { total_ns: used.cpu_ns, user_ns: used.cpu_ns - system_ns, system_ns }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
