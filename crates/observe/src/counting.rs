//! Tier 1: what the kernel counts for the threads of a group, or on CPUs that it has to itself.

mod sparing;
mod stopwatch;

use std::collections::BTreeMap;
use std::io;
use std::thread::JoinHandle;

use model::record::{Counts, call_name};
use model::units::CpuSet;
use perf_event_open::config::{Cpu, Inherit, Opts, Proc, StatFormat};
use perf_event_open::count::Counter;
use perf_event_open::event::hw::Hardware;
use perf_event_open::event::sw::Software;
use perf_event_open::event::tp::Tracepoint;

use self::sparing::Sparing;
use self::stopwatch::Stopwatch;
use crate::error::{PERF, likely_reason};
use crate::file::numbered;
use crate::tracefs::Tracefs;
use crate::{Group, ObserveError};

/// How often attaching begins anew because a thread began meanwhile; a group that starts threads all the time is
/// then counted without those.
const ATTEMPTS: u32 = 5;
/// Descriptors that stay free for whoever uses this process beside us.
const SPARE_DESCRIPTORS: u64 = 256;

/// Most events that are opened for one group: the kernel takes about a millisecond for each of the first ten thousand, and
/// longer for more, in which the server is not the one that was measured.
const MAX_EVENTS: usize = 8192;

/// What would allow counting where perf events are refused altogether.
pub(crate) const ADVICE: &str = "set kernel.perf_event_paranoid to 1 or lower, or give CAP_PERFMON";
/// What is said where the tracepoints cannot be found.
const NO_TRACEPOINTS: &str =
    "system calls are not counted by name: mount tracefs at /sys/kernel/tracing and let this user read it";
/// What is said where the machine has no counter unit that we may use.
const NO_HARDWARE: &str = "no cycles or instructions: this CPU, or its hypervisor, offers no counters";

/// CPUs on which one group runs and no other; none where there are no such CPUs.
#[derive(Debug, Clone, Default)]
pub struct OwnCpus {
    /// The CPUs.
    pub cpus: CpuSet,
    /// Whether the group's threads take turns so often that what is done at each switch would be felt.
    pub switched_often: bool,
}

impl OwnCpus {
    /// Whether there are any, and these threads run nowhere else.
    pub(crate) fn are_of(&self, threads: &[u32]) -> bool {
        !self.cpus.is_empty() && threads.iter().all(|thread| stays_on(*thread, &self.cpus))
    }
}

/// Counters attached to all threads of a group, and to those that they start.
pub struct Counting {
    counters: Vec<Attached>,
    sparing: Option<Sparing>,
    stopwatch: Option<Stopwatch>,
    missing: Vec<String>,
}

/// What was counted up to one moment.
#[derive(Debug, Clone)]
pub struct Tally {
    counts: Counts,
    sparing: Option<sparing::Reading>,
}

/// One thing that is counted, thread by thread or CPU by CPU.
struct Attached {
    what: Wanted,
    counters: Vec<Counter>,
}

/// One thing to be counted.
#[derive(Debug, Clone)]
struct Wanted {
    name: String,
    /// Whether the name is a system call's.
    syscall: bool,
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    Software(Software),
    Hardware(Hardware),
    Tracepoint(u64),
}

impl Counting {
    /// Attaches counters to all threads of `group`: everything that can be counted here, with the common system calls
    /// by name. Each name costs one descriptor for each thread; where there are too few, calls are not counted by name.
    ///
    /// Where a group has CPUs to itself and it is allowed, everything is counted on those, system calls, switches and the
    /// task clock by BPF: whatever happens there is counted, but for time and system calls of the processes of others. Counters of
    /// threads are stored and loaded at every switch between two of them, and where the counters are a hypervisor's each is a
    /// trap: a server that switches for each request was seen to take six times the CPU with cycles among them, and twice with
    /// no more than eight counters of the kernel's own.
    ///
    /// # Errors
    /// [`ObserveError::Ended`] where the group is gone. What may not be counted is no error but said in [`Counts`].
    pub fn attach(group: &Group, own: &OwnCpus) -> Result<Self, ObserveError> {
        let (mut wanted, mut missing) = wanted();
        let mut threads = threads_of(group)?;
        let mut on_cpus = Vec::new();
        let (mut sparing, mut stopwatch, mut refusal) = (None, None, None);
        if own.are_of(&threads) {
            let processes = group.pids()?;
            let process = processes.first().copied().unwrap_or_else(|| group.root());
            // Where it is refused the kernel's own clock and counter are used, as far as they can be borne.
            stopwatch = Stopwatch::start(&own.cpus, &processes).ok();
            wanted.retain(|one| stopwatch.is_none() || !of_stopwatch(&one.name));
            match Sparing::attach(&own.cpus, process, &processes) {
                Ok(begun) => {
                    wanted.retain(|one| !Sparing::counts(&one.name, one.syscall));
                    missing.clear();
                    sparing = Some(begun);
                }
                Err(error) => refusal = Some(error),
            }
            wanted.retain(|one| match attached_to_cpus(one, own) {
                Ok(counters) => {
                    on_cpus.extend(counters);
                    false
                }
                Err(()) => true,
            });
        }
        let mut counting = Self::attach_to_threads(group, &mut threads, &wanted, &missing)?;
        counting.counters.append(&mut on_cpus);
        counting.sparing = sparing;
        counting.stopwatch = stopwatch;
        counting.say_what_is_missing();
        let calls = counting.counters.iter().any(|one| one.what.name == ALL_CALLS);
        counting.missing.extend(refusal.filter(|_| calls).map(|error| without_slices(&error)));
        Ok(counting)
    }

    /// Attaches what the kernel counts by itself: task clock, switches, migrations and faults, without a tracepoint or a
    /// counter unit. Of all that is counted it is what costs the server least.
    ///
    /// # Errors
    /// As [`Counting::attach`].
    pub fn attach_software(group: &Group) -> Result<Self, ObserveError> {
        let is_software = |one: &Wanted| matches!(one.kind, Kind::Software(_));
        let wanted: Vec<Wanted> = BUILT_IN.iter().map(built_in).filter(is_software).collect();
        let mut counting = Self::attach_to_threads(group, &mut threads_of(group)?, &wanted, &[])?;
        if counting.counters.is_empty() {
            counting.missing = vec![no_events()];
        }
        Ok(counting)
    }

    fn attach_to_threads(
        group: &Group,
        threads: &mut Vec<u32>,
        wanted: &[Wanted],
        missing: &[String],
    ) -> Result<Self, ObserveError> {
        for _ in 0..ATTEMPTS {
            let counting = Self::attach_to(threads, wanted.to_vec(), missing.to_vec());
            let now = threads_of(group)?;
            if now.iter().all(|thread| threads.contains(thread)) {
                return Ok(counting);
            }
            // Whether the new threads were inherited cannot be told: they began before or after their parent's counters.
            *threads = now;
        }
        Ok(Self::attach_to(threads, wanted.to_vec(), missing.to_vec()))
    }

    fn say_what_is_missing(&mut self) {
        let hardware = self.counters.iter().any(|one| matches!(one.what.kind, Kind::Hardware(_)));
        if self.counters.is_empty() {
            self.missing = vec![no_events()];
        } else if !hardware {
            self.missing.push(NO_HARDWARE.to_owned());
        }
    }

    fn attach_to(threads: &[u32], mut wanted: Vec<Wanted>, mut missing: Vec<String>) -> Self {
        let most = (MAX_EVENTS / threads.len().max(1)).max(1);
        if wanted.len() > most {
            wanted.truncate(most);
            let names = wanted.iter().filter(|one| one.syscall).count();
            missing.push(format!(
                "with {} threads only {names} kinds of system calls are counted by name, and all together",
                threads.len()
            ));
        }
        let needed = (threads.len() * wanted.len()) as u64;
        let allowed = descriptors_allowed() as u64;
        if needed > allowed {
            wanted.retain(|one| !one.syscall);
            missing.push(format!(
                "system calls are not counted by name: that needs {} descriptors and {} are allowed; raise them \
                 with ulimit -n",
                needed + SPARE_DESCRIPTORS,
                allowed + SPARE_DESCRIPTORS
            ));
        }
        let mut counters: Vec<Attached> = Vec::new();
        for what in wanted {
            let opened: io::Result<Vec<Counter>> =
                threads.iter().filter_map(|thread| open(&what.kind, *thread).transpose()).collect();
            // Refusals of one kind are reported once, below.
            counters.extend(opened.ok().map(|counters| Attached { what, counters }));
        }
        Self { counters, sparing: None, stopwatch: None, missing }
    }

    /// From now on does not count system calls all of the time where that would take more than 0.2 % of the group's CPUs,
    /// but in slices of it, which stand for the rest; above 400 000 calls a second of one CPU it takes more. Only where
    /// whole CPUs are counted by BPF; else nothing changes.
    #[must_use]
    pub fn sparingly(mut self, own: &OwnCpus) -> Self {
        self.sparing = self.sparing.map(|sparing| sparing.with_pauses(own.cpus.len()));
        self
    }

    /// What was counted so far; threads that ended are included. A counter that cannot be read is left out.
    #[must_use]
    pub fn read(&self) -> Tally {
        let mut counts = Counts { missing: self.missing.clone(), ..Counts::default() };
        for Attached { what, counters } in &self.counters {
            let sum: io::Result<u64> = counters.iter().map(total).sum();
            let place = if what.syscall { &mut counts.syscalls } else { &mut counts.events };
            place.extend(sum.ok().map(|sum| (what.name.clone(), sum)));
        }
        if let Some(stopwatch) = &self.stopwatch {
            counts.events.insert(TASK_CLOCK.to_owned(), stopwatch.busy_ns());
            counts.events.insert(SWITCHES.to_owned(), stopwatch.switches());
        }
        Tally { counts, sparing: self.sparing.as_ref().map(Sparing::read) }
    }

    /// Lets the counters go in a thread of its own, which takes the kernel some 40 ms for each tracepoint. Until it ends,
    /// every process of the host pays for the tracepoints.
    #[must_use]
    pub fn detach(self) -> JoinHandle<()> {
        std::thread::spawn(move || drop(self))
    }
}

/// Descriptors that events may take: what is allowed, but for some that whatever else is done needs.
pub(crate) fn descriptors_allowed() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let left = limit.map(|limit| limit.saturating_sub(SPARE_DESCRIPTORS));
    left.and_then(|left| usize::try_from(left).ok()).unwrap_or(usize::MAX)
}

impl Tally {
    /// What was counted by whoever counts all of the time.
    pub(crate) fn from_counts(counts: Counts) -> Self {
        Self { counts, sparing: None }
    }

    /// What was counted since an earlier reading of the same counters.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Counts {
        let since = |now: &BTreeMap<String, u64>, earlier: &BTreeMap<String, u64>| {
            let before = |name| earlier.get(name).copied().unwrap_or(0);
            now.iter().map(|(name, count)| (name.clone(), count.saturating_sub(before(name)))).collect()
        };
        let sparing = self.sparing.as_ref().zip(earlier.sparing.as_ref());
        let mut counts = sparing.map(|(now, earlier)| now.since(earlier)).unwrap_or_default();
        counts.events.append(&mut since(&self.counts.events, &earlier.counts.events));
        counts.syscalls.append(&mut since(&self.counts.syscalls, &earlier.counts.syscalls));
        counts.writes = self.counts.writes.map(|now| now.since(&earlier.counts.writes.unwrap_or_default()));
        counts.missing.extend(self.counts.missing.iter().cloned());
        counts
    }
}

/// What the group's CPU time is called, by a clock that is none of the scheduler's.
const TASK_CLOCK: &str = "task_clock_ns";
/// What a thread's leaving a CPU is called.
const SWITCHES: &str = "context_switches";

/// Whether a [`Stopwatch`] tells what is called so.
fn of_stopwatch(name: &str) -> bool {
    name == TASK_CLOCK || name == SWITCHES
}

/// What the kernel counts by itself, or with a counter unit where the machine has one.
const BUILT_IN: [(&str, Kind); 9] = [
    (TASK_CLOCK, Kind::Software(Software::TaskClock)),
    (SWITCHES, Kind::Software(Software::CtxSwitch)),
    ("cpu_migrations", Kind::Software(Software::CpuMigration)),
    ("minor_faults", Kind::Software(Software::MinorPageFault)),
    ("major_faults", Kind::Software(Software::MajorPageFault)),
    ("cycles", Kind::Hardware(Hardware::CpuCycle)),
    ("instructions", Kind::Hardware(Hardware::Instr)),
    ("cache_misses", Kind::Hardware(Hardware::CacheMiss)),
    ("branch_misses", Kind::Hardware(Hardware::BranchMiss)),
];

/// What the sum of all system calls is called.
pub(crate) const ALL_CALLS: &str = "syscalls";

/// What threads that are made ready to run are called.
const WAKEUPS: &str = "wakeups";
/// What packets are called.
const PACKETS: &str = "packets_sent";

/// Tracepoints that are counted: name, system, tracepoint. They count for the thread in whose name the kernel works.
const TRACED: [(&str, &str, &str); 4] = [
    (ALL_CALLS, "raw_syscalls", "sys_enter"),
    (WAKEUPS, "sched", "sched_wakeup"),
    (PACKETS, "net", "net_dev_queue"),
    ("retransmits", "tcp", "tcp_retransmit_skb"),
];

/// System calls that are counted by name, as tracepoints call them: what servers do for a request, a connection, a
/// thread, memory and time; those that tell most come first, for a server with many threads has only these. The kernel
/// takes some 40 ms to let the counters of one go, so that it is not all of them; `syscalls` counts those too that are not
/// named here.
const SYSCALLS: [&str; 53] = [
    "recvfrom",
    "sendto",
    "read",
    "write",
    "readv",
    "writev",
    "recvmsg",
    "sendmsg",
    "epoll_wait",
    "epoll_pwait",
    "epoll_ctl",
    "poll",
    "futex",
    "accept4",
    "accept",
    "close",
    "nanosleep",
    "clock_nanosleep",
    "fsync",
    "fdatasync",
    "openat",
    "mmap",
    "munmap",
    "madvise",
    "brk",
    "clock_gettime",
    "clone",
    "clone3",
    "connect",
    "epoll_pwait2",
    "fcntl",
    "getpid",
    "getppid",
    "getrandom",
    "gettid",
    "io_uring_enter",
    "ioctl",
    "mprotect",
    "newfstat",
    "newfstatat",
    "ppoll",
    "pread64",
    "pselect6",
    "pwrite64",
    "rt_sigprocmask",
    "sched_yield",
    "select",
    "sendfile64",
    "setsockopt",
    "shutdown",
    "timerfd_settime",
    "msync",
    "sync_file_range",
];

/// What is to be counted here, and what cannot be.
fn wanted() -> (Vec<Wanted>, Vec<String>) {
    let one = |name: &str, syscall, kind| Wanted { name: name.to_owned(), syscall, kind };
    let built_in = BUILT_IN.iter().map(built_in);
    let Some(tracefs) = Tracefs::open() else {
        return (built_in.collect(), vec![NO_TRACEPOINTS.to_owned()]);
    };
    let mut wanted = Vec::new();
    for (name, system, tracepoint) in TRACED {
        wanted.extend(tracefs.id(system, tracepoint).map(|id| one(name, false, Kind::Tracepoint(id))));
    }
    wanted.extend(built_in);
    for name in SYSCALLS {
        let id = tracefs.id("syscalls", &format!("sys_enter_{name}"));
        wanted.extend(id.map(|id| one(call_name(name), true, Kind::Tracepoint(id))));
    }
    let missing = if wanted.iter().any(|one| one.syscall) { Vec::new() } else { vec![NO_NAMES.to_owned()] };
    (wanted, missing)
}

fn built_in((name, kind): &(&str, Kind)) -> Wanted {
    Wanted { name: (*name).to_owned(), syscall: false, kind: kind.clone() }
}

/// What is said where the kernel has tracepoints, but none for system calls.
const NO_NAMES: &str = "system calls are not counted by name: the kernel lacks CONFIG_FTRACE_SYSCALLS";

/// A counter for one thread and those it starts; `None` where the thread has ended.
fn open(kind: &Kind, thread: u32) -> io::Result<Option<Counter>> {
    let opts = Opts { inherit: Some(Inherit::NewChild), ..at_once() };
    let target = (Proc(thread), Cpu::ALL);
    let opened = match kind {
        Kind::Software(event) => Counter::new(*event, target, opts),
        Kind::Hardware(event) => Counter::new(event.clone(), target, opts),
        Kind::Tracepoint(id) => Counter::new(Tracepoint { id: *id }, target, opts),
    };
    match opened {
        Ok(counter) => Ok(Some(counter)),
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Counts from now on, and tells for how much of the time it did.
fn at_once() -> Opts {
    let stat_format = StatFormat { time_enabled: true, time_running: true, ..StatFormat::default() };
    Opts { enable: true, stat_format, ..Opts::default() }
}

/// What a counter saw; where the machine has fewer units than counters these take turns, and it is what it would have seen
/// in all of the time.
fn total(counter: &Counter) -> io::Result<u64> {
    let stat = counter.stat()?;
    Ok(match (stat.time_enabled, stat.time_running) {
        (Some(enabled), Some(running)) if enabled > running => {
            (u128::from(stat.count) * u128::from(enabled) / u128::from(running.max(1))) as u64
        }
        _ => stat.count,
    })
}

/// What is said where perf events are refused altogether.
fn no_events() -> String {
    // What refuses us the plainest counter of ourselves refuses all others too.
    let refusal = try_on_itself(&Kind::Software(Software::TaskClock)).err();
    let advice = refusal.map_or_else(|| ADVICE.to_owned(), |error| likely_reason(&error, PERF, ADVICE));
    format!("nothing is counted by perf events: {advice}")
}

/// Counts a tracepoint in this thread for a moment.
pub(crate) fn try_tracepoint(id: u64) -> io::Result<()> {
    try_on_itself(&Kind::Tracepoint(id))
}

/// What is said where calls are counted, but not in slices: what it costs, and what would allow it.
pub(crate) fn without_slices(refusal: &io::Error) -> String {
    // Source: Linux before 5.11, kernel/bpf/syscall.c: a map counts as locked memory.
    const ADVICE: &str =
        "run as root, or give CAP_BPF and CAP_PERFMON; with a kernel before 5.11 also raise ulimit -l";
    format!(
        "system calls cannot be counted in slices of the time, so that counting them slows a server by 5 to 30 %: bpf is \
         refused ({refusal}): {}",
        likely_reason(refusal, "bpf", ADVICE)
    )
}

/// Counts system calls in slices for a moment, on the last CPU that this process may use.
pub(crate) fn try_slices() -> io::Result<()> {
    let allowed = rustix::thread::sched_getaffinity(None)?;
    let last = (0..rustix::thread::CpuSet::MAX_CPU).rev().find(|cpu| allowed.is_set(*cpu));
    let last = last.and_then(|cpu| u32::try_from(cpu).ok()).unwrap_or(0);
    Sparing::attach(&CpuSet::from_iter([last]), std::process::id(), &[std::process::id()]).map(drop)
}

/// Counts the instructions of this thread for a moment.
pub(crate) fn try_instructions() -> io::Result<()> {
    try_on_itself(&Kind::Hardware(Hardware::Instr))
}

fn try_on_itself(kind: &Kind) -> io::Result<()> {
    let thread = rustix::thread::gettid().as_raw_pid();
    open(kind, thread.unsigned_abs()).map(drop)
}

/// Whether a thread may run on these CPUs only.
fn stays_on(thread: u32, cpus: &CpuSet) -> bool {
    let Some(thread) = i32::try_from(thread).ok().and_then(rustix::process::Pid::from_raw) else {
        return false;
    };
    let all = u32::try_from(rustix::thread::CpuSet::MAX_CPU).unwrap_or(u32::MAX);
    match rustix::thread::sched_getaffinity(Some(thread)) {
        Ok(allowed) => (0..all).filter(|cpu| allowed.is_set(*cpu as usize)).all(|cpu| cpus.contains(cpu)),
        // One that has ended runs nowhere else.
        Err(error) => error == rustix::io::Errno::SRCH,
    }
}

/// Counters of `what` on each of the group's own CPUs, or none where they would count the wrong thing; an error where it
/// is for threads to count, or the kernel refuses.
fn attached_to_cpus(what: &Wanted, own: &OwnCpus) -> Result<Option<Attached>, ()> {
    let not_the_groups = match what.kind {
        // Of a CPU these would be those of its idle thread, too. Of the group the kernel keeps them anyway, so that nobody
        // has to pay at every switch.
        Kind::Software(Software::TaskClock | Software::CtxSwitch) if own.switched_often => true,
        Kind::Software(Software::TaskClock | Software::CtxSwitch) => return Err(()),
        _ => false,
    };
    if not_the_groups {
        return Ok(None);
    }
    let on = |cpu: u32| {
        let place = (Proc::ALL, Cpu(cpu));
        match &what.kind {
            Kind::Software(event) => Counter::new(*event, place, at_once()),
            Kind::Hardware(event) => Counter::new(event.clone(), place, at_once()),
            Kind::Tracepoint(id) => Counter::new(Tracepoint { id: *id }, place, at_once()),
        }
    };
    let counters = own.cpus.iter().map(on).collect::<io::Result<_>>().map_err(drop)?;
    Ok(Some(Attached { what: what.clone(), counters }))
}

fn threads_of(group: &Group) -> Result<Vec<u32>, ObserveError> {
    let processes = group.pids()?;
    Ok(processes.iter().flat_map(|pid| numbered(&format!("/proc/{pid}/task")).unwrap_or_default()).collect())
}
