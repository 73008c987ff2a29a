//! Tier 2: the stacks of a group, sampled by its own CPU time. Tier 3: those in which its threads leave their CPUs.
//!
//! Where a group has CPUs to itself, and it is allowed, whoever runs on one of them is sampled (`cpu-clock`), and what is not
//! of the group is left out afterwards. Else each thread has one software event (`cpu-clock`, `context-switches`) for each CPU
//! that it may run on, inherited by the threads and processes that it begins. The events of one CPU write into one ring,
//! which a thread of ours empties.

mod golang;
mod goroutines;
mod hotspot;
mod interpreted;
mod readers;
mod spins;
mod symbols;
mod unwind;

pub(crate) use goroutines::{Parked, ParkedIn};
pub use hotspot::names_java;
pub(crate) use interpreted::with_interpreted;
use interpreted::{Interpreters, Taken};
pub(crate) use readers::{Read, Readable, Readers, Reading};
pub(crate) use symbols::{kernel_symbols, named};
pub(crate) use unwind::{Unwinder, stack_pointer};

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use model::plan::SplitMix64;
use model::record::{Profile, ProfileKind};
use model::units::CpuSet;
use rustix::io::Errno;

use crate::counting::descriptors_allowed;
use crate::parse::{PerfRecord, UserStack, perf_records};
use crate::sampler::own_cpu_ns;
use crate::sys::perf::{self, Moment, Ring, Whose};
use crate::{Group, ObserveError, OwnCpus};

/// Samples per second of CPU time that can be asked for. Both ends are odd, so as not to beat with timers of round
/// periods; below the first a window has too few samples, above the second sampling itself shows.
const HZ: [u32; 2] = [99, 997];
/// How often the rings are emptied: at the highest rate and the deepest stacks (127 addresses), a ring of 512 KiB
/// holds half a second; of 300 bytes for each switch, one of 8 MiB holds a million switches a second.
const DRAIN_PERIOD: Duration = Duration::from_millis(20);
/// Least and most of the steps between two samples of a CPU, over the one asked for. A step that never changes keeps time
/// with what it watches: the kernel, which lets timers of sleeping threads be a little late, has all of them go off with the
/// interrupt that takes the sample, so that each step begins at the same place of what repeats after it.
const STEPS: [f64; 2] = [0.6, 1.4];
/// How long each step is kept.
const STEP_KEPT: Duration = Duration::from_millis(5);
/// Events at most, where so many descriptors are allowed: each takes one, and one or two KiB of the kernel's memory.
const MAX_EVENTS: usize = 16_384;
/// Looks at the list of threads until one finds no new one: threads may begin while we attach to their parents.
const MAX_LOOKS: usize = 10;
/// Samples and waits whose times are kept, 16 bytes each; of more it is not known when they were.
const MOST_DATED: usize = 2_000_000;
/// Bytes of stacks that are kept until sampling has ended; of later samples only frame pointers tell the callers.
const MOST_COPIED: usize = 128 << 20;
const SECOND_NS: u64 = 1_000_000_000;
const MICROSECOND_NS: u64 = 1_000;

/// Stacks of one process, as the kernel wrote them; with the mark that the thread would have gone on.
type Chain = (u32, Vec<u64>, bool);
/// Stacks and when they were seen.
type Chains = HashMap<Chain, StackWeight>;

/// How often one stack was seen, or for how long a thread left with it.
#[derive(Debug, Default)]
struct StackWeight {
    /// Samples, or microseconds.
    weight: u64,
    /// Begin and end of each, in nanoseconds of the monotonic clock; a sample begins when it ends.
    times: Vec<[u64; 2]>,
}

impl StackWeight {
    /// What of the weight falls into `stalls`, which are in the order of time and do not overlap.
    fn within(&self, stalls: &[[u64; 2]]) -> u64 {
        let overlap = |[begin, end]: &[u64; 2]| -> u64 {
            let first = stalls.partition_point(|[_, until]| until < begin);
            let overlapped = stalls[first..].iter().take_while(|[from, _]| from <= end);
            if begin == end {
                return u64::from(overlapped.count() > 0);
            }
            overlapped.map(|[from, until]| until.min(end).saturating_sub(*from.max(begin))).sum::<u64>()
                / MICROSECOND_NS
        };
        self.times.iter().map(overlap).sum()
    }
}

/// Processes that began others: when, which, and the new one.
type Forks = Vec<(u64, u32, u32)>;

/// A profiler attached to a group; it takes stacks from [`Profiler::begin`] on.
#[derive(Debug)]
pub struct Profiler {
    events: Events,
    kind: ProfileKind,
    /// The group, and its processes when sampling began, where whole CPUs are sampled.
    among: Option<(Group, BTreeSet<u32>)>,
    /// What samples its interpreters besides.
    interpreters: Option<Interpreters>,
    /// When sampling began; nothing while it pauses.
    begun: Option<Instant>,
    /// Time that was sampled before.
    wall_ns: u64,
    stop: Sender<()>,
    drain: JoinHandle<Drained>,
}

/// What was sampled, still as addresses: they get their names from [`Samples::resolve`].
#[derive(Debug)]
pub struct Samples {
    drained: Drained,
    kind: ProfileKind,
    period_ns: u64,
    wall_ns: u64,
    kernel: bool,
    interpreted: Option<Taken>,
}

/// A sample with a copy of its stack, from which its callers are found when sampling has ended.
#[derive(Debug)]
struct Copied {
    pid: u32,
    time_ns: u64,
    chain: Vec<u64>,
    stack: UserStack,
}

#[derive(Debug, Default)]
struct Drained {
    chains: Chains,
    copied: Vec<Copied>,
    /// Bytes of stacks in `copied`.
    copied_bytes: usize,
    /// Samples whose stacks found no room there.
    not_copied: u64,
    /// Times in `chains`.
    dated: usize,
    forks: Forks,
    /// What processes called themselves last, by their ids.
    names: BTreeMap<u32, String>,
    /// Samples of CPUs on which nobody ran.
    idle: u64,
    lost: u64,
    cost_ns: u64,
}

impl Drained {
    fn add(&mut self, chain: Chain, weight: u64, time_ns: [u64; 2]) {
        let stack = self.chains.entry(chain).or_default();
        stack.weight += weight;
        if self.dated < MOST_DATED {
            stack.times.push(time_ns);
            self.dated += 1;
        }
    }

    /// Keeps a sample with its stack; without, where there is no room.
    fn keep(&mut self, pid: u32, time_ns: u64, chain: Vec<u64>, stack: Option<UserStack>) {
        match stack {
            Some(stack) if self.copied_bytes + stack.bytes.len() <= MOST_COPIED => {
                self.copied_bytes += stack.bytes.len();
                self.copied.push(Copied { pid, time_ns, chain, stack });
            }
            stack => {
                self.not_copied += u64::from(stack.is_some());
                self.add((pid, chain, false), 1, [time_ns, time_ns]);
            }
        }
    }

    /// Finds the callers of what was copied, while the processes still live.
    fn unwind(&mut self) {
        let mut unwinder = Unwinder::default();
        for Copied { pid, time_ns, chain, stack } in std::mem::take(&mut self.copied) {
            let chain = unwinder.chain(pid, &chain, &stack);
            self.add((pid, chain, false), 1, [time_ns, time_ns]);
        }
    }

    /// Leaves the samples of these processes, and of those that they began.
    fn keep_only(&mut self, mut members: BTreeSet<u32>) {
        self.forks.sort_unstable();
        for (_, parent, child) in &self.forks {
            if members.contains(parent) {
                members.insert(*child);
            }
        }
        self.chains.retain(|(pid, ..), _| members.contains(pid));
        self.copied.retain(|copied| members.contains(&copied.pid));
    }
}

impl Profiler {
    /// Attaches to `group`, to sample where its threads are after even steps of CPU time: `frequency_hz` times in a second
    /// of it, from 99 to 997.
    ///
    /// On CPUs of its own the CPU is sampled, and not each thread: a timer that has to be started and stopped at every switch
    /// was seen to make a server that has a thread for each connection take twice to three times the CPU, and a thread that
    /// lives for less than a step is never sampled by a timer of its own.
    ///
    /// # Errors
    /// [`ObserveError::Sampling`] where this user may not sample the group, [`ObserveError::TooManyThreads`],
    /// [`ObserveError::Ended`] where the group is gone.
    pub fn attach(group: &Group, frequency_hz: u32, own: &OwnCpus) -> Result<Self, ObserveError> {
        let period_ns = SECOND_NS / u64::from(frequency_hz.clamp(HZ[0], HZ[1]));
        let moment = Moment::CpuTime(period_ns);
        let mut profiler = match Events::of_cpus(group, moment, own) {
            Some(events) => Self::with(events, ProfileKind::Cpu, Some((group.clone(), BTreeSet::new()))),
            None => Self::new(group, ProfileKind::Cpu, moment)?,
        };
        profiler.interpreters = Some(Interpreters::of(group));
        Ok(profiler)
    }

    /// Attaches to every thread of `group`, to take its stack whenever it leaves its CPU, with the time until it comes
    /// back. It costs some microseconds for each switch.
    ///
    /// # Errors
    /// As [`Profiler::attach`].
    pub fn attach_off_cpu(group: &Group) -> Result<Self, ObserveError> {
        Self::new(group, ProfileKind::OffCpu, Moment::Switch)
    }

    fn new(group: &Group, kind: ProfileKind, moment: Moment) -> Result<Self, ObserveError> {
        let mut events = Events::new(group, moment)?;
        events.attach(group)?;
        Ok(Self::with(events, kind, None))
    }

    fn with(mut events: Events, kind: ProfileKind, among: Option<(Group, BTreeSet<u32>)>) -> Self {
        let rings: Vec<Ring> = events.rings.drain(..).collect();
        let mut steps = Steps::new(&events, among.is_some());
        let (stop, stopped) = channel();
        let drain = std::thread::spawn(move || {
            let mut drainer = Drainer::new(kind, rings);
            let pause = if steps.events.is_empty() { DRAIN_PERIOD } else { STEP_KEPT };
            while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                steps.change();
                drainer.drain();
            }
            drainer.drain();
            drainer.drained.cost_ns = own_cpu_ns();
            drainer.drained
        });
        Self { events, kind, among, interpreters: None, begun: None, wall_ns: 0, stop, drain }
    }

    /// Begins to sample, or goes on with it after a pause.
    pub fn begin(&mut self) {
        if let Some((group, members)) = &mut self.among {
            members.extend(group.pids().unwrap_or_default());
        }
        if let Some(interpreters) = &mut self.interpreters {
            interpreters.begin();
        }
        // A thread that has ended since has nothing to enable.
        self.events.all.iter().for_each(|event| drop(perf::enable(event)));
        self.begun = Some(Instant::now());
    }

    /// Pauses: nothing is sampled, and it costs nothing, until it begins again.
    pub fn pause(&mut self) {
        if let Some(begun) = self.begun.take() {
            self.events.all.iter().for_each(|event| drop(perf::disable(event)));
            self.wall_ns += u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        }
        if let Some(interpreters) = &mut self.interpreters {
            interpreters.pause();
        }
    }

    /// Ends it.
    #[must_use]
    pub fn stop(mut self) -> Samples {
        self.pause();
        let wall_ns = self.wall_ns;
        let interpreted = self.interpreters.and_then(Interpreters::stop);
        // A thread that has ended by itself needs no telling.
        let _ = self.stop.send(());
        let mut drained = self.drain.join().expect("the thread that empties the rings does not panic");
        let mut period_ns = match self.events.moment {
            Moment::CpuTime(period_ns) => period_ns,
            Moment::Switch => MICROSECOND_NS,
        };
        if let Some((group, mut members)) = self.among {
            // Whoever ran, or nobody: together they are all of the time.
            let sampled: u64 = drained.chains.values().map(|stack| stack.weight).sum();
            let all = sampled + drained.copied.len() as u64 + drained.idle + drained.lost;
            let cpus_ns = wall_ns.saturating_mul(self.events.cpus.len() as u64);
            period_ns = cpus_ns.checked_div(all).unwrap_or(period_ns);
            members.extend(group.pids().unwrap_or_default());
            drained.keep_only(members);
        }
        Samples { drained, kind: self.kind, period_ns, wall_ns, kernel: self.events.kernel, interpreted }
    }
}

impl Samples {
    /// Gives the addresses their names, while the processes still live: what has ended by then is only counted.
    ///
    /// Symbols come from ELF files and their debug information, from `/proc/kallsyms`, and of just-in-time compiled
    /// code from `/tmp/perf-PID.map` where its runtime wrote one. It takes CPU time of the caller: up to seconds for
    /// large programs with debug information.
    ///
    /// What was seen during `stalls` is kept apart: begin and end in nanoseconds of the monotonic clock, in the order of
    /// time, none overlapping another.
    #[must_use]
    pub fn resolve(mut self, stalls: &[[u64; 2]]) -> Profile {
        let begin_ns = own_cpu_ns();
        self.drained.unwind();
        let stalls = if self.drained.dated < MOST_DATED { stalls } else { &[] };
        let mut profile = symbols::resolve(&self.drained.chains, &self.drained.names, stalls);
        profile.stalls_ns = stalls.iter().map(|[begin, end]| end.saturating_sub(*begin)).collect();
        profile.schema = model::record::SCHEMA_VERSION;
        profile.kind = self.kind;
        profile.period_ns = self.period_ns;
        profile.wall_ns = self.wall_ns;
        profile.lost = self.drained.lost;
        profile.kernel = self.kernel;
        if !self.kernel {
            profile.notes.push(symbols::NO_KERNEL.to_owned());
        }
        if self.drained.not_copied > 0 {
            profile.notes.push(format!(
                "Only frame pointers tell the callers in the last {} samples: there was no more room for copies of stacks.",
                self.drained.not_copied
            ));
        }
        if self.drained.lost > 0 {
            profile.notes.push(format!(
                "The kernel dropped {} samples: too many were waiting to be read.",
                self.drained.lost
            ));
        }
        profile.observer_cpu_ns = self.drained.cost_ns + own_cpu_ns().saturating_sub(begin_ns);
        if self.kind == ProfileKind::Cpu {
            interpreted::add_to(&mut profile, self.interpreted);
        }
        profile
    }
}

/// Whether this process may sample itself, with time in the kernel or without.
pub(crate) fn permitted(kernel: bool) -> bool {
    perf::open_sampling(Whose::Thread(0), 0, Moment::CpuTime(SECOND_NS), kernel).is_ok()
}

/// The steps between samples of whole CPUs.
#[derive(Debug)]
struct Steps {
    /// Nothing where they stay.
    events: Vec<OwnedFd>,
    period_ns: u64,
    random: SplitMix64,
}

impl Steps {
    fn new(events: &Events, change: bool) -> Self {
        let (events, period_ns) = match events.moment {
            // Without a descriptor of its own a step stays as it is.
            Moment::CpuTime(period_ns) if change => {
                (events.all.iter().filter_map(|event| event.try_clone().ok()).collect(), period_ns)
            }
            _ => (Vec::new(), 0),
        };
        Self { events, period_ns, random: SplitMix64::new(period_ns) }
    }

    fn change(&mut self) {
        let [least, most] = STEPS;
        for event in &self.events {
            let step = self.period_ns as f64 * (least + (most - least) * self.random.unit());
            // One that may not be changed stays.
            let _ = perf::set_period(event, step as u64);
        }
    }
}

/// A thread without a CPU: its stack, and since when.
#[derive(Debug)]
struct Away {
    chain: Chain,
    since_ns: u64,
}

#[derive(Debug)]
struct Drainer {
    kind: ProfileKind,
    rings: Vec<Ring>,
    buffer: Vec<u8>,
    away: HashMap<u32, Away>,
    drained: Drained,
}

impl Drainer {
    fn new(kind: ProfileKind, rings: Vec<Ring>) -> Self {
        Self { kind, rings, buffer: Vec::new(), away: HashMap::new(), drained: Drained::default() }
    }

    /// Empties all rings. Each is in order; a thread that moved left in one and came back in another.
    fn drain(&mut self) {
        self.buffer.clear();
        for ring in &mut self.rings {
            ring.drain(&mut self.buffer);
        }
        let mut records: Vec<PerfRecord> = perf_records(&self.buffer).collect();
        if self.kind == ProfileKind::OffCpu {
            records.sort_by_key(PerfRecord::time_ns);
        }
        records.into_iter().for_each(|record| self.take(record));
    }

    fn take(&mut self, record: PerfRecord) {
        match record {
            // An idle CPU is nobody's.
            PerfRecord::Sample { pid: 0, .. } => self.drained.idle += 1,
            PerfRecord::Sample { pid, tid, time_ns, chain, stack } => match self.kind {
                ProfileKind::Cpu => self.drained.keep(pid, time_ns, chain, stack),
                ProfileKind::OffCpu => {
                    let chain = (pid, chain, false);
                    self.away.insert(tid, Away { chain, since_ns: time_ns });
                }
            },
            PerfRecord::Left { tid, preempted, .. } => {
                if let Some(away) = self.away.get_mut(&tid) {
                    away.chain.2 = preempted;
                }
            }
            PerfRecord::Came { tid, time_ns } => {
                if let Some(Away { chain, since_ns }) = self.away.remove(&tid) {
                    let us = time_ns.saturating_sub(since_ns) / MICROSECOND_NS;
                    self.drained.add(chain, us, [since_ns, time_ns]);
                }
            }
            PerfRecord::Forked { parent, child, time_ns } => {
                self.drained.forks.push((time_ns, parent, child));
            }
            PerfRecord::Named { pid, name } => drop(self.drained.names.insert(pid, name)),
            PerfRecord::Lost(samples) => self.drained.lost += samples,
        }
    }
}

/// The events of all threads on all CPUs.
#[derive(Debug)]
struct Events {
    cpus: Vec<u32>,
    moment: Moment,
    /// Whether the kernel lets us sample time in the kernel.
    kernel: bool,
    all: Vec<OwnedFd>,
    /// One of each thread, for its events to stay its own.
    anchors: Vec<OwnedFd>,
    /// For each CPU the index of the event whose ring the others write to.
    leaders: Vec<Option<usize>>,
    rings: Vec<Ring>,
    attached: BTreeSet<u32>,
}

impl Events {
    fn new(group: &Group, moment: Moment) -> Result<Self, ObserveError> {
        let cpus: CpuSet =
            group.fairness()?.allowed_cpus.parse().map_err(|_| ObserveError::Ended(group.root()))?;
        let cpus: Vec<u32> = cpus.iter().collect();
        let leaders = vec![None; cpus.len()];
        let (all, anchors, rings, attached) = (Vec::new(), Vec::new(), Vec::new(), BTreeSet::new());
        Ok(Self { cpus, moment, kernel: true, all, anchors, leaders, rings, attached })
    }

    /// One for each CPU that the group has to itself; nothing where it has none, or that is not allowed.
    fn of_cpus(group: &Group, moment: Moment, own: &OwnCpus) -> Option<Self> {
        if !own.are_of(&group.threads().ok()?) {
            return None;
        }
        let mut events = Self { cpus: own.cpus.iter().collect(), ..Self::new(group, moment).ok()? };
        for cpu in &events.cpus {
            let event = perf::open_sampling(Whose::Everybody, *cpu, moment, events.kernel).ok()?;
            events.rings.push(Ring::map(&event).ok()?);
            events.all.push(event);
        }
        Some(events)
    }

    fn attach(&mut self, group: &Group) -> Result<(), ObserveError> {
        for _ in 0..MAX_LOOKS {
            let mut threads = group.threads()?;
            threads.retain(|tid| !self.attached.contains(tid));
            if threads.is_empty() {
                break;
            }
            let most = MAX_EVENTS.min(descriptors_allowed()) / (self.cpus.len() + 1);
            if self.attached.len() + threads.len() > most {
                return Err(ObserveError::TooManyThreads {
                    found: self.attached.len() + threads.len(),
                    most,
                });
            }
            for tid in threads {
                self.anchor(tid).map_err(ObserveError::sampling)?;
                self.attach_thread(tid).map_err(ObserveError::sampling)?;
                self.attached.insert(tid);
            }
        }
        if self.all.is_empty() { Err(ObserveError::Ended(group.root())) } else { Ok(()) }
    }

    fn anchor(&mut self, tid: u32) -> io::Result<()> {
        match perf::open_anchor(tid) {
            Ok(event) => self.anchors.push(event),
            Err(error) if Errno::from_io_error(&error) == Some(Errno::SRCH) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn attach_thread(&mut self, tid: u32) -> io::Result<()> {
        for place in 0..self.cpus.len() {
            let Some(event) = self.open(tid, self.cpus[place])? else { return Ok(()) };
            match self.leaders[place] {
                Some(leader) => perf::redirect(&event, &self.all[leader])?,
                None => {
                    self.rings.push(Ring::map(&event)?);
                    self.leaders[place] = Some(self.all.len());
                }
            }
            self.all.push(event);
        }
        Ok(())
    }

    /// One event; nothing where the thread has ended. Samples of CPU time that are refused with the kernel are asked for
    /// without it; a switch is in the kernel, so that without it there would be an event and never a sample.
    fn open(&mut self, tid: u32, cpu: u32) -> io::Result<Option<OwnedFd>> {
        let opened = perf::open_sampling(Whose::Thread(tid), cpu, self.moment, self.kernel);
        match opened.as_ref().map_err(Errno::from_io_error) {
            Err(Some(Errno::SRCH)) => Ok(None),
            Err(Some(Errno::ACCESS | Errno::PERM))
                if self.kernel && self.all.is_empty() && self.moment != Moment::Switch =>
            {
                self.kernel = false;
                self.open(tid, cpu)
            }
            _ => opened.map(Some),
        }
    }
}
