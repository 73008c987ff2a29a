//! Exact counts of system calls for whoever may trace a server, which an ordinary user may of processes of his own: every
//! thread is stopped at each call and counted. That slows a server many times, so that it is for a low rate of requests,
//! at which what one request does is the same.

mod descriptors;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use model::record::{Counts, Writes};
use rustix::io::Errno;
use syscalls::Sysno;

use self::descriptors::{Descriptors, Kind, target_of_write};
use crate::capability::{SYS_PTRACE, has, yama_scope};
use crate::counting::{ALL_CALLS, Tally};
use crate::error::{FILTERED, Untraceable};
use crate::file::optional;
use crate::sys::ptrace::{self, Call, Change};
use crate::{Group, ObserveError, capability};

/// Looks at the list of threads until one finds no new one: threads may begin while we seize their parents.
const MAX_LOOKS: usize = 10;
/// Longest wait for every thread to stop once: one that waits for a disk cannot.
const PATIENCE: Duration = Duration::from_secs(2);
/// For so long after the last stop we look again at once, and let others run between two looks: the next call of a thread
/// comes within microseconds.
const AWAKE: Duration = Duration::from_millis(1);
/// After that we sleep between two looks, by which at most the first call of a request comes later.
const NAP: Duration = Duration::from_micros(200);
/// Longest wait for a write to be over: most take microseconds, and one that blocks is not waited for.
const LONGEST_WRITE: Duration = Duration::from_millis(20);

/// A tracer of a group, at work in a thread of its own until it is dropped. What it traces goes on running then, and would
/// also if this process were killed.
#[derive(Debug)]
pub struct Tracer {
    counted: Arc<Mutex<Counted>>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Calls by number, and writes.
#[derive(Debug, Default)]
struct Counted {
    calls: BTreeMap<u64, u64>,
    writes: Writes,
    /// Writes that have begun and are not over, whose bytes are not known yet.
    under_way: usize,
    /// Calls of programs for another architecture, whose numbers are others.
    foreign: u64,
}

impl Tracer {
    /// Attaches to every thread of `group`, and to those that they begin; returns when the calls of all are counted.
    ///
    /// A thread that waits in a system call is interrupted once, now and when the tracer is dropped: of calls that no
    /// kernel takes up again, as epoll_wait(2), it sees EINTR.
    ///
    /// # Errors
    /// [`ObserveError::Untraceable`] where it is not allowed, or somebody traces the group already;
    /// [`ObserveError::Ended`] where it is gone.
    pub fn attach(group: &Group) -> Result<Self, ObserveError> {
        let counted = Arc::new(Mutex::new(Counted::default()));
        let (stop, stopped) = channel();
        // The kernel takes requests from the thread only that began to trace.
        let (seizure, ready) = sync_channel(1);
        let (root, group, shared) = (group.root(), group.clone(), Arc::clone(&counted));
        let thread = std::thread::spawn(move || trace(&group, shared, &seizure, &stopped));
        let mut tracer = Self { counted, stop: Some(stop), thread: Some(thread) };
        match ready.recv() {
            Ok(Ok(())) => Ok(tracer),
            Ok(Err(error)) => {
                tracer.end();
                Err(error)
            }
            // A thread that ended without a word has let everything go.
            Err(_) => Err(ObserveError::Ended(root)),
        }
    }

    /// What was counted so far. Whoever is sent something has it before the write is over, so that writes under way are
    /// waited for, some milliseconds at most.
    #[must_use]
    pub fn read(&self) -> Tally {
        let begin = Instant::now();
        let mut counted = locked(&self.counted);
        while counted.under_way > 0 && begin.elapsed() < LONGEST_WRITE {
            drop(counted);
            std::thread::sleep(NAP);
            counted = locked(&self.counted);
        }
        let mut counts = Counts { writes: Some(counted.writes), ..Counts::default() };
        for (number, calls) in &counted.calls {
            counts.syscalls.insert(name(*number), *calls);
        }
        let all = counted.calls.values().sum::<u64>() + counted.foreign;
        counts.events.insert(ALL_CALLS.to_owned(), all);
        if counted.foreign > 0 {
            counts.missing.push("system calls of another architecture are counted without a name".to_owned());
        }
        Tally::from_counts(counts)
    }

    fn end(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // What it was to do it has done, or the kernel does it when its thread ends.
            let _ = thread.join();
        }
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        self.end();
    }
}

fn locked(counted: &Mutex<Counted>) -> MutexGuard<'_, Counted> {
    counted.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The name of a system call as manuals have it.
fn name(number: u64) -> String {
    let known = usize::try_from(number).ok().and_then(Sysno::new);
    known.map_or_else(|| format!("syscall_{number}"), |known| known.name().to_owned())
}

/// What the tracing thread does.
fn trace(
    group: &Group,
    counted: Arc<Mutex<Counted>>,
    seizure: &SyncSender<Result<(), ObserveError>>,
    stopped: &Receiver<()>,
) {
    let mut tracees = Tracees::new(counted);
    let seized = tracees.seize(group);
    let failed = seized.is_err();
    if failed {
        let _ = seizure.send(seized);
    } else {
        tracees.follow(PATIENCE, Tracees::all_run, stopped);
        let _ = seizure.send(Ok(()));
        tracees.follow(Duration::MAX, |_| false, stopped);
    }
    tracees.let_go();
}

/// The threads that are traced, by the thread that traces them.
struct Tracees {
    counted: Arc<Mutex<Counted>>,
    all: BTreeSet<u32>,
    /// Those that run without being stopped at their calls yet.
    silent: BTreeSet<u32>,
    /// Those that write: where to, and whether the result is a number of bytes.
    writing: BTreeMap<u32, (Kind, bool)>,
    descriptors: Descriptors,
}

impl Tracees {
    fn new(counted: Arc<Mutex<Counted>>) -> Self {
        let (all, silent, writing) = (BTreeSet::new(), BTreeSet::new(), BTreeMap::new());
        Self { counted, all, silent, writing, descriptors: Descriptors::default() }
    }

    fn seize(&mut self, group: &Group) -> Result<(), ObserveError> {
        for _ in 0..MAX_LOOKS {
            let threads = group.threads()?;
            let new: Vec<u32> = threads.into_iter().filter(|thread| !self.all.contains(thread)).collect();
            if new.is_empty() {
                break;
            }
            for thread in new {
                self.seize_one(thread)?;
            }
        }
        if self.all.is_empty() { Err(ObserveError::Ended(group.root())) } else { Ok(()) }
    }

    fn seize_one(&mut self, thread: u32) -> Result<(), ObserveError> {
        match ptrace::seize(thread).map_err(|error| (Errno::from_io_error(&error), error)) {
            Ok(()) => {
                self.all.insert(thread);
                self.silent.insert(thread);
                // One that has ended meanwhile is reported as ended.
                let _ = ptrace::interrupt(thread);
                Ok(())
            }
            Err((Some(Errno::SRCH), _)) => Ok(()),
            Err((_, error)) => match refusal(thread, error) {
                // It began after its parent was seized, and was seized with it.
                None => {
                    self.all.insert(thread);
                    Ok(())
                }
                Some(error) => Err(error),
            },
        }
    }

    fn all_run(&self) -> bool {
        self.silent.is_empty()
    }

    /// Follows the threads for so long, until all is `done`, or it is told to stop.
    fn follow(&mut self, patience: Duration, done: fn(&Self) -> bool, stopped: &Receiver<()>) {
        let begin = Instant::now();
        let mut last = begin;
        while !done(self) && begin.elapsed() < patience && stopped.try_recv() == Err(TryRecvError::Empty) {
            if let Ok(Some((thread, change))) = ptrace::next() {
                self.take(thread, change);
                last = Instant::now();
            } else if last.elapsed() < AWAKE {
                std::thread::yield_now();
            } else {
                std::thread::sleep(NAP);
            }
        }
    }

    /// Notes what became of a thread, and lets it go on. One that is killed while it is stopped is reported as ended.
    fn take(&mut self, thread: u32, change: Change) {
        if change == Change::Ended {
            self.forget(thread);
            return;
        }
        self.all.insert(thread);
        self.silent.remove(&thread);
        let mut signal = 0;
        match change {
            Change::Call => self.count(thread),
            Change::Signal(number) => signal = number,
            Change::Began => self.all.extend(ptrace::message(thread)),
            Change::Became => self.became(thread),
            Change::Halted => {
                let _ = ptrace::leave_halted(thread);
                return;
            }
            Change::Asked | Change::Ended => {}
        }
        let _ = ptrace::run_to_call(thread, signal);
    }

    fn count(&mut self, thread: u32) {
        match ptrace::call(thread).unwrap_or(Call::Unknown) {
            Call::Entered(number, args) => {
                if let Some((descriptor, in_bytes)) = target_of_write(number, &args) {
                    self.writing.insert(thread, (self.descriptors.kind(thread, descriptor), in_bytes));
                }
                let mut counted = locked(&self.counted);
                *counted.calls.entry(number).or_default() += 1;
                counted.under_way = self.writing.len();
            }
            Call::Left(result) => {
                let Some((kind, in_bytes)) = self.writing.remove(&thread) else { return };
                let mut counted = locked(&self.counted);
                counted.under_way = self.writing.len();
                let written = match kind {
                    Kind::Network => &mut counted.writes.network,
                    Kind::Other => &mut counted.writes.other,
                };
                written.calls += 1;
                written.uncounted += u64::from(!in_bytes);
                written.bytes += u64::try_from(result).ok().filter(|_| in_bytes).unwrap_or(0);
            }
            Call::Foreign => locked(&self.counted).foreign += 1,
            Call::Unknown => {}
        }
    }

    /// A thread that becomes another program is from then on the first of its process, and the only one.
    fn became(&mut self, thread: u32) {
        if let Some(before) = ptrace::message(thread).ok().filter(|before| *before != thread) {
            self.forget(before);
        }
        self.writing.remove(&thread);
    }

    fn forget(&mut self, thread: u32) {
        self.all.remove(&thread);
        self.silent.remove(&thread);
        self.writing.remove(&thread);
        locked(&self.counted).under_way = self.writing.len();
    }

    /// Stops every thread once more and lets it go. Whatever does not stop in time is let go by the kernel when this
    /// thread ends.
    fn let_go(mut self) {
        let begin = Instant::now();
        for thread in &self.all {
            let _ = ptrace::interrupt(*thread);
        }
        while !self.all.is_empty() && begin.elapsed() < PATIENCE {
            match ptrace::next() {
                Ok(Some((thread, change))) => self.release(thread, change),
                Ok(None) => std::thread::yield_now(),
                // Nobody is traced any more.
                Err(_) => return,
            }
        }
    }

    fn release(&mut self, thread: u32, change: Change) {
        let signal = match change {
            Change::Ended => return self.forget(thread),
            // The new one is traced too, and stops by itself.
            Change::Began => {
                self.all.extend(ptrace::message(thread));
                0
            }
            Change::Signal(number) => number,
            _ => 0,
        };
        let _ = ptrace::let_go(thread, signal);
        self.forget(thread);
    }
}

/// Why a thread may not be traced; nothing where it is by us already, or is ending.
fn refusal(thread: u32, error: io::Error) -> Option<ObserveError> {
    let status = optional(format!("/proc/{thread}/status")).unwrap_or_default();
    let value = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
        line.split_whitespace().next().map(str::to_owned)
    };
    let tracer: u32 = value("TracerPid").and_then(|number| number.parse().ok()).unwrap_or(0);
    let ended = value("State").is_none_or(|state| ["Z", "X"].contains(&&*state));
    let ours = rustix::thread::gettid().as_raw_pid().unsigned_abs();
    if ended || tracer == ours {
        return None;
    }
    let reason = match (tracer, yama_scope()) {
        (1.., _) => Untraceable::Traced(tracer),
        _ if capability::own_status("Seccomp").as_deref() == Some(FILTERED) && is_filtered() => {
            Untraceable::Filtered(error)
        }
        (_, 3..) => Untraceable::Nobody,
        (_, 2) if !has(SYS_PTRACE) => Untraceable::PrivilegedOnly,
        (_, 1) if !has(SYS_PTRACE) => Untraceable::DescendantsOnly,
        _ => Untraceable::Refused(error),
    };
    Some(ObserveError::Untraceable { pid: thread, reason })
}

/// Whether a filter of system calls refuses to let us trace: the kernel itself says of a process that there is none that
/// there is none.
pub(crate) fn is_filtered() -> bool {
    ptrace::seize(0).err().and_then(|error| Errno::from_io_error(&error)) != Some(Errno::SRCH)
}
