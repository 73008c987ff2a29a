//! Reads stacks of threads while they wait: what an interpreter runs in them, and where there is none, the stack of machine code itself;
//! and goroutines that wait, which have no thread. Nobody is stopped. Whether a thread waited all the while is for others to know.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use model::record::Frame;

use super::goroutines::Parked;
use super::interpreted::{Found, Memory, every};
use crate::Group;
use crate::file::{numbered, optional};
use crate::parse::{USER_REGISTERS, waiting_stack};
use crate::sampler::{monotonic_ns, own_cpu_ns};
use crate::sys::perf::STACK_BYTES;

/// Time between two looks: 97 in a second, not in step with timers of round periods.
const PERIOD: Duration = Duration::from_nanos(1_000_000_000 / 97);
/// Threads of an interpreter that are read at once, whether they run or not: each takes some tens of microseconds.
const MOST_READ: usize = 32;
/// Threads whose stacks are copied at once, of all processes together, whether they run or not. Each takes some 14 µs, and 4 µs for its
/// callers to be found if it waited: 1.4 % of a CPU.
const MOST_COPIED: usize = 8;

/// The stack of one thread. It says where the thread waits only if it did so from the begin of the reading to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) thread: u32,
    /// Nanoseconds of the monotonic clock.
    pub(crate) begin_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) what: Read,
}

/// What was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Read {
    /// Functions that an interpreter runs, outermost first.
    Interpreted(Vec<Frame>),
    /// The stack pointer, and what was on the stack from there upwards.
    Copied(u64, Vec<u8>),
}

impl Reading {
    /// Reads the kernel's number of a thread and its stack. One that waits does not change that: once is enough.
    pub(super) fn of(read: impl FnOnce() -> Option<(u32, Read)>) -> Option<Self> {
        let begin_ns = monotonic_ns();
        let (thread, what) = read()?;
        Some(Self { thread, begin_ns, end_ns: monotonic_ns(), what })
    }
}

/// Whose turn it is to be read, where that is not done of all threads or processes at once.
#[derive(Debug, Default)]
pub(super) struct Turn {
    next: usize,
}

impl Turn {
    /// Those of the threads whose turn it is; the next time it is that of those who come after them.
    pub(super) fn of<'a>(&mut self, threads: &'a [u64]) -> &'a [u64] {
        &threads[self.places(threads.len(), MOST_READ)]
    }

    /// The places of those, of so many, at most so many at a time.
    pub(super) fn places(&mut self, count: usize, most: usize) -> Range<usize> {
        let begin = if self.next < count { self.next } else { 0 };
        self.next = begin + most;
        begin..self.next.min(count)
    }
}

/// Who is read otherwise than by copies of stacks, from one time to the next.
#[derive(Debug, Default)]
pub(crate) struct Readable {
    interpreters: Found,
    pub(crate) parked: Parked,
}

/// Reads the stacks of all threads of a group, in a thread of its own.
#[derive(Debug)]
pub(crate) struct Readers {
    stop: Sender<()>,
    thread: JoinHandle<(u64, Readable)>,
}

impl Readers {
    /// Begins to look for processes that may be read, to read them, and to tell what was read of threads. Those that `readable` has are read
    /// on.
    pub(crate) fn begin(
        group: &Group,
        mut readable: Readable,
        tell: impl Fn(Vec<Reading>) + Send + 'static,
    ) -> Self {
        let (stop, stopped) = channel();
        let group = group.clone();
        let thread = std::thread::spawn(move || {
            let Readable { interpreters, parked } = &mut readable;
            interpreters.find(&group);
            let others = group.pids().unwrap_or_default().into_iter().filter(|pid| !interpreters.has(*pid));
            let mut copies = Copies::of(others);
            parked.find(&group);
            if !interpreters.is_empty() || !copies.memories.is_empty() || !parked.is_empty() {
                let mut turn = Turn::default();
                every(PERIOD, &stopped, || {
                    let mut readings = Vec::new();
                    interpreters.each(&mut turn, |interpreter| interpreter.read(&mut readings));
                    copies.read(&mut readings);
                    tell(readings);
                    parked.look();
                });
            }
            (own_cpu_ns(), readable)
        });
        Self { stop, thread }
    }

    /// Ends it; everything was told by then. It says what CPU time it took, and has all goroutines that were met.
    pub(crate) fn stop(self) -> (u64, Readable) {
        drop(self.stop);
        self.thread.join().expect("reading stacks does not panic")
    }
}

/// Processes in which no interpreter is read: what their code waits in, their stacks tell. The C library keeps no frame pointers, and
/// nearly every wait is in it.
struct Copies {
    memories: BTreeMap<u32, Memory>,
    /// Processes and threads whose turn is still to come.
    due: Vec<(u32, u32)>,
}

impl Copies {
    /// Those of the processes that may be read; none where a stack does not tell its callers.
    fn of(pids: impl Iterator<Item = u32>) -> Self {
        let memory = |pid| Some((pid, Memory::of(pid)?));
        let memories = pids.filter(|_| !USER_REGISTERS.is_empty()).filter_map(memory).collect();
        Self { memories, due: Vec::new() }
    }

    /// Copies the stacks of some threads that wait; the next time it goes on with others.
    fn read(&mut self, readings: &mut Vec<Reading>) {
        if self.due.is_empty() {
            let threads = |pid: &u32| numbered(&format!("/proc/{pid}/task")).unwrap_or_default();
            self.due =
                self.memories.keys().flat_map(|pid| threads(pid).into_iter().map(|id| (*pid, id))).collect();
        }
        for (pid, thread) in self.due.split_off(self.due.len().saturating_sub(MOST_COPIED)) {
            let Some(memory) = self.memories.get(&pid) else { continue };
            readings.extend(Reading::of(|| {
                let stack = waiting_stack(&optional(format!("/proc/{pid}/task/{thread}/syscall"))?)?;
                Some((thread, Read::Copied(stack, memory.up_to(stack, STACK_BYTES as usize)?)))
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_many_threads_has_its_turn_to_be_read() {
        let threads: Vec<u64> = (0..70).collect();
        let mut turn = Turn::default();
        let read: Vec<u64> = (0..3).flat_map(|_| turn.of(&threads).to_vec()).collect();
        assert_eq!(read, threads);
        assert_eq!(turn.of(&threads), &threads[..MOST_READ]);
        // The rest of them ended.
        assert_eq!(turn.of(&threads[..3]), &threads[..3]);
        assert!(turn.of(&[]).is_empty());
    }
}
