//! System calls counted in slices of time, so that counting them takes a small share of the server however many it makes.
//!
//! While anybody counts system calls, the kernel sends each of them, of every process, the slow way in and out. How many
//! there were in all of the time is told by the bytes that went over loopback, which the kernel counts anyway and which go
//! with the answers.

use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use model::plan::SplitMix64;
use model::record::Counts;
use model::units::CpuSet;
use syscalls::Sysno;

use super::{ALL_CALLS, PACKETS, WAKEUPS};
use crate::file::optional;
use crate::parse;
use crate::sys::bpf::{CALLS, Members, Program, SLOTS, Slot, Table};

/// Where system calls begin.
const ENTRY: &CStr = c"sys_enter";
/// What else is counted in slices: event, tracepoint, slot. What is rare has no place here.
const EVENTS: [(&str, &CStr, usize); 2] =
    [(WAKEUPS, c"sched_wakeup", CALLS), (PACKETS, c"net_dev_queue", CALLS + 1)];
/// How much longer a call takes while calls are counted: 80 ns on the virtual machine where it was measured.
const COST: Duration = Duration::from_nanos(100);
/// Share of the time of the server's CPUs that counting its calls may take.
const MOST_COST: f64 = 0.002;
/// Length of a slice: much more than beginning and ending it take, 0.2 ms each.
const SLICE: Duration = Duration::from_millis(20);
/// How long counting goes on before a slice begins: attaching holds up whoever runs on this CPU, and then requests that
/// waited are sent all at once.
const SETTLING: Duration = Duration::from_millis(1);
/// Shortest pause: to end a slice for less would cost the server more than to go on.
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);
/// Longest pause before it is drawn, so that a slice falls into each turn of a diagnosis, of 200 ms at least. It is reached at 120 000
/// calls a second of one CPU; more of them cost more than [`MOST_COST`], and no more than a sixth of what counting all the time costs.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);
/// A pause is between a half and one and a half of what it should be: whatever a server does at even intervals is not to
/// keep step with it.
const SHORTEST_DRAW: f64 = 0.5;
/// Bytes in slices from which on they tell what share of everything was counted: of some hundred answers. Below, time does.
const FEW_BYTES: u64 = 20_000;
/// The interface whose bytes are read: what other interfaces carry is not this comparison's.
const LOOPBACK: &str = "lo:";
/// Longest that reading everything at one moment may take, and how often it is tried: of who is held up between the
/// counts and the bytes the two are of different moments.
const ONE_MOMENT: Duration = Duration::from_micros(100);
const ATTEMPTS: u32 = 4;

/// What is said of a window in which no slice was, for counting could not be begun anew.
const NOT_COUNTED: &str = "system calls were not counted: BPF was refused after it had been allowed";

/// Counts on whole CPUs what tracepoints tell.
#[derive(Debug)]
pub(super) struct Sparing {
    shared: Arc<Shared>,
    /// Ends the thread that begins and ends slices.
    pauses: Option<(Sender<()>, JoinHandle<()>)>,
}

#[derive(Debug)]
struct Shared {
    table: Table,
    programs: Vec<(Program, &'static CStr)>,
    /// Follows those of the group that begin.
    _members: Option<Members>,
    /// Where the interfaces that the server sees tell their bytes.
    interfaces: String,
    slices: Mutex<Slices>,
}

#[derive(Debug, Default)]
struct Slices {
    /// What was counted in those that are over.
    over: Counted,
    /// The one that is not: what keeps it going, and everything when it began.
    now: Option<(Vec<OwnedFd>, Edge)>,
}

/// Everything at one moment.
#[derive(Debug, Clone)]
struct Edge {
    counts: Vec<u64>,
    /// 0 where the process that tells them has ended.
    bytes: u64,
    at: Instant,
}

/// What was counted, by slot, and while how many bytes and how much time went by.
#[derive(Debug, Clone, Default, PartialEq)]
struct Counted {
    counts: Vec<u64>,
    bytes: u64,
    time: Duration,
}

/// What was counted so far.
#[derive(Debug, Clone)]
pub(super) struct Reading {
    in_slices: Counted,
    bytes: u64,
    at: Instant,
}

impl Sparing {
    /// Begins to count on these CPUs, without pauses, for the server that `pid` is one process of; system calls of the processes
    /// `of_group` alone, and of those that they begin.
    ///
    /// # Errors
    /// Those of bpf(2); nearly always that it is not allowed.
    pub(super) fn attach(cpus: &CpuSet, pid: u32, of_group: &[u32]) -> io::Result<Self> {
        let table = Table::new(cpus)?;
        // In a container that numbers processes anew they cannot be told apart.
        let members = Members::of_group(of_group, cpus.iter().next().unwrap_or(0)).ok();
        let mut programs = vec![(table.counter(Slot::OfCall, members.as_ref())?, ENTRY)];
        for (_, tracepoint, slot) in EVENTS {
            programs.push((table.counter(Slot::Fixed(slot), None)?, tracepoint));
        }
        let interfaces = format!("/proc/{pid}/net/dev");
        let shared = Shared { table, programs, _members: members, interfaces, slices: Mutex::default() };
        shared.begin_slice()?;
        Ok(Self { shared: Arc::new(shared), pauses: None })
    }

    /// Whether this counts an event or a system call of this name.
    pub(super) fn counts(name: &str, is_call: bool) -> bool {
        is_call || name == ALL_CALLS || EVENTS.iter().any(|(event, ..)| *event == name)
    }

    /// From now on pauses, where counting calls on so many CPUs would take more of them than it may.
    pub(super) fn with_pauses(mut self, cpus: usize) -> Self {
        let (end, ended) = channel();
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::spawn(move || {
            let goes_on = |length| ended.recv_timeout(length) == Err(RecvTimeoutError::Timeout);
            let mut random = SplitMix64::new(u64::from(std::process::id()));
            while goes_on(SLICE) {
                let pause = pause_after(&shared.slice(), cpus).mul_f64(SHORTEST_DRAW + random.unit());
                if pause < SHORTEST_PAUSE {
                    continue;
                }
                shared.end_slice();
                // What cannot be begun anew stays as it is: in a pause, and a window without a slice says so.
                if !goes_on(pause) || shared.begin_slice().is_err() {
                    return;
                }
            }
        });
        self.pauses = Some((end, thread));
        self
    }

    /// All counts up to now.
    pub(super) fn read(&self) -> Reading {
        let slices = self.shared.slices();
        let now = self.shared.edge();
        Reading { in_slices: slices.until(&now), bytes: now.bytes, at: now.at }
    }
}

impl Drop for Sparing {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.pauses.take() {
            drop(end);
            // A thread that panicked has said so itself.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn slices(&self) -> MutexGuard<'_, Slices> {
        self.slices.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn edge(&self) -> Edge {
        let mut tries = (1..ATTEMPTS).map(|_| self.edge_at_once());
        let (edge, _) = tries.find(|(_, took)| *took <= ONE_MOMENT).unwrap_or_else(|| self.edge_at_once());
        edge
    }

    /// Everything, and how long it took to read.
    fn edge_at_once(&self) -> (Edge, Duration) {
        let at = Instant::now();
        let counts = (0..SLOTS).map(|slot| self.table.count(slot)).collect();
        let interfaces = optional(&self.interfaces).unwrap_or_default();
        let loopback = interfaces.lines().find(|line| line.trim_start().starts_with(LOOPBACK));
        let bytes = loopback.map_or(0, |line| parse::interfaces(line).out_bytes);
        (Edge { counts, bytes, at }, at.elapsed())
    }

    fn begin_slice(&self) -> io::Result<()> {
        let attach = |(program, tracepoint): &(Program, &CStr)| program.attach(tracepoint);
        let links = self.programs.iter().map(attach).collect::<io::Result<_>>()?;
        std::thread::sleep(SETTLING);
        let mut slices = self.slices();
        slices.now = Some((links, self.edge()));
        Ok(())
    }

    fn end_slice(&self) {
        let mut slices = self.slices();
        slices.over = slices.until(&self.edge());
        slices.now = None;
    }

    /// What the slice that is not over has counted.
    fn slice(&self) -> Counted {
        let slices = self.slices();
        let now = self.edge();
        slices.now.as_ref().map_or_else(Counted::default, |(_, begin)| now.since(begin))
    }
}

impl Slices {
    /// What they have counted up to `now`.
    fn until(&self, now: &Edge) -> Counted {
        let last = self.now.as_ref().map(|(_, begin)| now.since(begin));
        last.map_or_else(|| self.over.clone(), |last| self.over.and(&last))
    }
}

impl Edge {
    fn since(&self, begin: &Self) -> Counted {
        let counts = self.counts.iter().zip(&begin.counts).map(|(now, then)| now - then).collect();
        Counted { counts, bytes: self.bytes.saturating_sub(begin.bytes), time: self.at - begin.at }
    }
}

impl Counted {
    fn count(&self, slot: usize) -> u64 {
        self.counts.get(slot).copied().unwrap_or(0)
    }

    fn and(&self, other: &Self) -> Self {
        let counts = (0..SLOTS).map(|slot| self.count(slot) + other.count(slot)).collect();
        Self { counts, bytes: self.bytes + other.bytes, time: self.time + other.time }
    }

    fn since(&self, earlier: &Self) -> Self {
        let counts = (0..SLOTS).map(|slot| self.count(slot) - earlier.count(slot)).collect();
        // Of a process that has ended meanwhile nothing is told any more.
        Self { counts, bytes: self.bytes.saturating_sub(earlier.bytes), time: self.time - earlier.time }
    }

    fn calls(&self) -> u64 {
        (0..CALLS).map(|call| self.count(call)).sum()
    }
}

impl Reading {
    /// What happened since an earlier reading of the same counters: how often, in all of the time, and each system call by
    /// name.
    pub(super) fn since(&self, earlier: &Self) -> Counts {
        let counted = self.in_slices.since(&earlier.in_slices);
        let share = share_counted(&counted, self.bytes.saturating_sub(earlier.bytes), self.at - earlier.at);
        let mut counts = Counts { counted_share: share, ..Counts::default() };
        if share <= 0.0 {
            counts.missing.push(NOT_COUNTED.to_owned());
        } else {
            let whole = |count: u64| (count as f64 / share).round() as u64;
            counts.events.insert(ALL_CALLS.to_owned(), whole(counted.calls()));
            let events =
                EVENTS.into_iter().map(|(name, _, slot)| (name.to_owned(), whole(counted.count(slot))));
            counts.events.extend(events);
            let made = (0..CALLS).filter(|call| counted.count(*call) > 0);
            let named = |call| Some((Sysno::new(call)?.name().to_owned(), whole(counted.count(call))));
            counts.syscalls = made.filter_map(named).collect();
        }
        counts
    }
}

/// What share of everything between two readings was counted.
fn share_counted(counted: &Counted, bytes: u64, time: Duration) -> f64 {
    if (FEW_BYTES..=bytes).contains(&counted.bytes) {
        counted.bytes as f64 / bytes as f64
    } else {
        counted.time.as_secs_f64() / time.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

/// How long to pause after a slice, for counting to take no more of so many CPUs than it may.
fn pause_after(slice: &Counted, cpus: usize) -> Duration {
    let cost = COST.as_secs_f64() * slice.calls() as f64;
    let allowed = slice.time.as_secs_f64() * cpus as f64 * MOST_COST;
    let pause = slice.time.as_secs_f64() * (cost / allowed.max(f64::MIN_POSITIVE) - 1.0);
    Duration::from_secs_f64(pause.clamp(0.0, LONGEST_PAUSE.as_secs_f64()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(calls: u64, bytes: u64, ms: u64) -> Counted {
        Counted { counts: vec![calls], bytes, time: Duration::from_millis(ms) }
    }

    #[test]
    fn what_was_counted_stands_for_as_many_bytes_as_there_were() {
        let second = Duration::from_secs(1);
        // Counting slows the server, so that fewer bytes than their share of the time fall into slices.
        assert_eq!(share_counted(&seen(0, 90_000, 100), 1_000_000, second), 0.09);
        assert_eq!(share_counted(&seen(0, 9_900, 100), 500_000, second), 0.1);
        assert_eq!(share_counted(&seen(0, 0, 0), 0, Duration::ZERO), 0.0);
        // The process whose interfaces told them has ended.
        assert_eq!(share_counted(&seen(0, 90_000, 100), 0, second), 0.1);
    }

    #[test]
    fn a_pause_is_as_long_as_what_counting_cost_asks_for() {
        // 200 ns of each 100 µs are allowed on one CPU: two calls.
        assert_eq!(pause_after(&seen(400, 0, 20), 1), Duration::ZERO);
        assert_eq!(pause_after(&seen(800, 0, 20), 1).as_millis(), 20);
        assert_eq!(pause_after(&seen(800, 0, 20), 2), Duration::ZERO);
        assert_eq!(pause_after(&seen(1_000_000, 0, 20), 1), LONGEST_PAUSE);
    }

    #[test]
    fn what_came_before_a_reading_is_not_in_the_next() {
        let at = Instant::now();
        let reading = |calls, bytes, ms| Reading {
            in_slices: seen(calls, bytes / 2, ms / 2),
            bytes,
            at: at + Duration::from_millis(ms),
        };
        let counts = reading(4_000, 300_000, 200).since(&reading(1_000, 100_000, 0));
        assert_eq!((counts.event("syscalls"), counts.counted_share), (Some(6_000), 0.5));
        assert_eq!(counts.syscalls.values().sum::<u64>(), 6_000);
    }
}
