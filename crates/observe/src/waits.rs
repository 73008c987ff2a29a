//! Tier 3: what ends the waits of a group's threads. Each switch on the CPUs that they may use, each waking on any CPU, and
//! who sends packets, by the kernel's tracepoints; the rings of all CPUs are put in one order before intervals are closed. The kernel
//! tells callers by frame pointers only: what an interpreter runs in threads that wait, or else their stacks, are read meanwhile, and so are
//! goroutines of Go that wait, of which no record tells.

mod machine;
mod marks;
mod parked;
mod peers;
mod readings;

use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use model::record::{WaitLeaf, Waits};
use model::units::CpuSet;

use self::machine::{Eyes, Kind, Machine, Origin, Sum, Waited};
use self::marks::{Functions, Marks};
use self::peers::Peers;
use self::readings::{Chain, Frames, Leaves, Readings, Within};
use crate::file::{numbered, optional};
use crate::parse::{Tracepoints, Wake, wakes};
use crate::profile::{Parked, ParkedIn, Readable, Readers, Reading, named};
use crate::sampler::{monotonic_ns, own_cpu_ns};
use crate::sys::perf::{self, Ring, With};
use crate::tracefs::Tracefs;
use crate::{Group, ObserveError};

/// How often the rings are emptied: of 400 bytes a record, one of 8 MiB holds a million records a second.
const DRAIN_PERIOD: Duration = Duration::from_millis(20);
/// A record is in its ring at most so long after its time: younger ones wait for those of other rings.
const WRITTEN_AFTER_NS: u64 = 2_000_000;
/// Kinds of waits that are kept with their stacks, longest first.
const MOST_LEAVES: usize = 300;

/// Watches what ends the waits of a group.
#[derive(Debug)]
pub struct WakerWatch {
    group: Group,
    events: Vec<OwnedFd>,
    orders: Sender<Order>,
    drain: JoinHandle<Waits>,
    /// Who reads stacks while it watches.
    readers: Option<Readers>,
    /// CPU time that such reading took before, in nanoseconds.
    reading_ns: u64,
    /// Whom they read, with the goroutines that were met.
    readable: Readable,
}

/// What the thread that empties the rings is told; orders with the time at which they were given.
#[derive(Debug)]
enum Order {
    Begin(u64, Vec<(u32, u32, String)>),
    Read(Vec<Reading>),
    Pause(u64),
    /// What was met of goroutines.
    Parked(Parked),
}

impl WakerWatch {
    /// Attaches to all CPUs; it sees waits from [`WakerWatch::begin`] on.
    ///
    /// # Errors
    /// [`ObserveError::NoTracepoints`] where the kernel's tracepoints or the names of its functions cannot be read,
    /// [`ObserveError::Sampling`] where they may not be recorded, [`ObserveError::Ended`] where the group is gone.
    pub fn attach(group: &Group) -> Result<Self, ObserveError> {
        let tracefs = Tracefs::open().ok_or(ObserveError::NoTracepoints)?;
        let id = |system, name| tracefs.id(system, name).ok_or(ObserveError::NoTracepoints);
        let ids = Tracepoints {
            switch: id("sched", "sched_switch")?,
            waking: id("sched", "sched_waking")?,
            sending: id("net", "net_dev_queue")?,
        };
        let functions = Functions::of_this_kernel().ok_or(ObserveError::NoTracepoints)?;
        let (events, rings) = open(group, ids)?;
        let (orders, received) = channel();
        let peers = Peers::new(group);
        let drainer = Drainer {
            ids,
            rings,
            buffer: Vec::new(),
            waiting: Vec::new(),
            machine: Machine::default(),
            readings: Readings::default(),
            seen: Lookup { functions, peers },
            parked: Parked::default(),
            begun_ns: None,
            wall_ns: 0,
        };
        let drain = std::thread::spawn(move || drainer.run(&received));
        let (readers, readable) = (None, Readable::default());
        Ok(Self { group: group.clone(), events, orders, drain, readers, reading_ns: 0, readable })
    }

    /// Begins to watch, or goes on with it after a pause.
    pub fn begin(&mut self) {
        let threads = threads(&self.group);
        self.events.iter().for_each(|event| drop(perf::enable(event)));
        // It is there until this value is dropped.
        let _ = self.orders.send(Order::Begin(monotonic_ns(), threads));
        let orders = self.orders.clone();
        let tell = move |readings| drop(orders.send(Order::Read(readings)));
        self.readers = Some(Readers::begin(&self.group, std::mem::take(&mut self.readable), tell));
    }

    /// Pauses: nothing is recorded, and it costs nothing, until it begins again.
    pub fn pause(&mut self) {
        if let Some(readers) = self.readers.take() {
            // All that was read is told before the pause is.
            let (reading_ns, readable) = readers.stop();
            (self.reading_ns, self.readable) = (self.reading_ns + reading_ns, readable);
            let time_ns = monotonic_ns();
            self.events.iter().for_each(|event| drop(perf::disable(event)));
            let _ = self.orders.send(Order::Pause(time_ns));
        }
    }

    /// Ends it. Addresses get their names now, while the processes still live.
    #[must_use]
    pub fn stop(mut self) -> Waits {
        self.pause();
        let _ = self.orders.send(Order::Parked(self.readable.parked));
        drop(self.orders);
        let mut waits = self.drain.join().expect("the thread that empties the rings does not panic");
        waits.observer_cpu_ns += self.reading_ns;
        waits
    }
}

/// Disabled events, and a ring for each CPU. Threads of others may wake the group's on any CPU.
fn open(group: &Group, ids: Tracepoints) -> Result<(Vec<OwnedFd>, Vec<Ring>), ObserveError> {
    let parsed = |text: &str| text.parse::<CpuSet>().map_err(|_| ObserveError::Ended(group.root()));
    let own = parsed(&group.fairness()?.allowed_cpus)?;
    let online = optional("/sys/devices/system/cpu/online").ok_or(ObserveError::NoTracepoints)?;
    let (mut events, mut rings) = (Vec::new(), Vec::new());
    for cpu in parsed(&online)?.iter() {
        let event = |id, with| perf::open_tracepoint(id, cpu, with).map_err(ObserveError::sampling);
        let leader = event(ids.waking, With::Stack)?;
        rings.push(Ring::map(&leader).map_err(ObserveError::sampling)?);
        if own.contains(cpu) {
            for (id, with) in [(ids.switch, With::StackAndRegisters), (ids.sending, With::Nothing)] {
                let other = event(id, with)?;
                perf::redirect(&other, &leader).map_err(ObserveError::sampling)?;
                events.push(other);
            }
        }
        events.push(leader);
    }
    Ok((events, rings))
}

/// Process, id and name of every thread.
fn threads(group: &Group) -> Vec<(u32, u32, String)> {
    let of = |pid: u32| {
        let ids = numbered(&format!("/proc/{pid}/task")).unwrap_or_default();
        let name = move |id: u32| optional(format!("/proc/{pid}/task/{id}/comm")).unwrap_or_default();
        ids.into_iter().map(move |id| (pid, id, name(id)))
    };
    group.pids().unwrap_or_default().into_iter().flat_map(of).collect()
}

/// What addresses and processes are.
#[derive(Debug)]
struct Lookup {
    functions: Functions,
    peers: Peers,
}

impl Eyes for Lookup {
    fn marks(&mut self, chain: &[u64]) -> Marks {
        self.functions.marks(chain)
    }

    fn origin(&mut self, process: u32) -> Origin {
        self.peers.origin(process)
    }

    fn among(&mut self, waiting: u32, process: u32) -> Origin {
        self.peers.among(waiting, process)
    }
}

/// The thread that empties the rings.
struct Drainer {
    ids: Tracepoints,
    rings: Vec<Ring>,
    buffer: Vec<u8>,
    /// Records that may be preceded by some of another ring.
    waiting: Vec<Wake>,
    machine: Machine,
    readings: Readings,
    seen: Lookup,
    parked: Parked,
    begun_ns: Option<u64>,
    wall_ns: u64,
}

impl Drainer {
    fn run(mut self, orders: &Receiver<Order>) -> Waits {
        loop {
            match orders.recv_timeout(DRAIN_PERIOD) {
                Err(RecvTimeoutError::Timeout) => self.drain_written(),
                Ok(Order::Read(readings)) => {
                    self.readings.add(readings);
                    self.drain_written();
                }
                Ok(Order::Begin(time_ns, threads)) => {
                    // Between two slices nothing is recorded, so that all there is comes after.
                    self.machine.begin(time_ns, &threads);
                    self.begun_ns = Some(time_ns);
                }
                Ok(Order::Pause(time_ns)) => {
                    self.drain(u64::MAX);
                    self.machine.end(time_ns);
                    self.wall_ns += self.begun_ns.take().map_or(0, |begun| time_ns.saturating_sub(begun));
                }
                Ok(Order::Parked(parked)) => self.parked = parked,
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let (parked, missing) = self.parked.into_seen();
        let mut waits = recorded(self.machine.into_waited(), self.readings.into_stacks(), &parked);
        waits.missing = missing;
        waits.wall_ns = self.wall_ns;
        waits.observer_cpu_ns = own_cpu_ns();
        waits
    }

    /// The same of what can be preceded by nothing any more.
    fn drain_written(&mut self) {
        self.drain(monotonic_ns().saturating_sub(WRITTEN_AFTER_NS));
    }

    /// Empties all rings, and takes what was recorded and read before this time in its order.
    fn drain(&mut self, until_ns: u64) {
        for ring in &mut self.rings {
            self.buffer.clear();
            ring.drain(&mut self.buffer);
            self.waiting.extend(wakes(&self.buffer, self.ids));
        }
        for wake in in_order(&mut self.waiting, until_ns) {
            self.take_readings(wake.time_ns);
            self.machine.take(wake, &mut self.seen);
        }
        self.take_readings(until_ns);
    }

    fn take_readings(&mut self, until_ns: u64) {
        while let Some(reading) = self.readings.before(until_ns) {
            if let Some(wait) = self.machine.waiting(reading.thread, reading.begin_ns) {
                self.readings.count(reading.what, wait);
            }
        }
    }
}

/// Takes the records before a time out of those that wait, in the order of time; of one time, as they came.
fn in_order(waiting: &mut Vec<Wake>, until_ns: u64) -> Vec<Wake> {
    waiting.sort_by_key(|wake| wake.time_ns);
    let ready = waiting.partition_point(|wake| wake.time_ns < until_ns);
    let rest = waiting.split_off(ready);
    std::mem::replace(waiting, rest)
}

/// With names in the place of addresses, and with what was read of stacks and goroutines; the short ones without their stacks.
fn recorded(waited: Waited, read: Vec<Within<Chain>>, parked: &[ParkedIn]) -> Waits {
    let Waited { waits, threads, services, others_ns, lost } = waited;
    let with_stacks = &waits[..waits.len().min(MOST_LEAVES)];
    let sides = |(kind, _): &(Kind, Sum)| {
        [Some((kind.process, kind.waited_in.clone())), kind.woken_from.clone()].map(Option::unwrap_or_default)
    };
    let mut chains: Vec<Chain> = with_stacks.iter().flat_map(sides).collect();
    let of_leaves = chains.len();
    chains.extend(read.iter().filter_map(Within::native).cloned());
    let of_threads = chains.len();
    chains.extend(parked::chains(parked));
    let (frames, mut stacks) = named(&chains);
    let goroutines = parked::leaves(parked, &frames, stacks.split_off(of_threads));
    let mut natives = stacks.split_off(of_leaves).into_iter();
    let read: Vec<Within<Vec<u32>>> =
        read.into_iter().map(|within| within.with(|_| natives.next().unwrap_or_default())).collect();
    stacks.resize(2 * waits.len(), Vec::new());
    let mut stacks = stacks.into_iter();
    let mut leaves = Leaves::default();
    for (kind, sum) in waits {
        let (waited_in, woken_from) = (stacks.next().unwrap_or_default(), stacks.next().unwrap_or_default());
        let Kind { process, ended_by, behind, by, .. } = kind;
        let of_service = services.contains(&process);
        let (count, ns) = (0, 0);
        leaves.add(WaitLeaf { ended_by, behind, by, of_service, waited_in, woken_from, count, ns }, sum);
    }
    let mut frames = Frames::new(frames);
    let leaves = leaves.divided(&read, &mut frames);
    let idle_ns = leaves.iter().map(|leaf| leaf.ns).sum();
    let frames = frames.into_all();
    Waits { threads, idle_ns, others_ns, lost, frames, leaves, goroutines, ..Waits::default() }
}
