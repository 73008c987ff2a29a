//! Goroutines of Go that wait. They keep no thread meanwhile, so that no record of the scheduler has them: they are read from the runtime's
//! own list, out of the memory of the process. Nobody is stopped.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use super::golang::{GoNames, Program, path};
use super::interpreted::{Memory, symbols};
use crate::Group;
use crate::parse::{BELOW, GOROUTINE_BYTES, GoLayout, go_layout};

/// Goroutines of a process that are read at a look: most take a microsecond, and one that waits for something other than the network four.
const MOST_AT_ONCE: usize = 256;
/// Goroutines of a process that are believed: of more the list was read wrong.
const MOST_GOROUTINES: u64 = 1 << 20;
/// Bytes of a stack that are read, from its innermost frame on.
const STACK_BYTES: u64 = 16 << 10;
/// Different stacks of a process that are kept, and those of them, most frequent first, that are told: one for each place in a program
/// that waits.
const MOST_STACKS: usize = 4096;
const MOST_TOLD: usize = 300;
/// The variables that have the list and its length. Source: Go, runtime/proc.go.
const LIST: [&str; 2] = ["runtime.allgptr", "runtime.allglen"];
/// What is said of a program of Go that cannot be read.
const NOT_READ: &str = "Goroutines that wait are not seen: they are read in programs of Go 1.20 to 1.26 for x86-64 that this user may trace.";

/// Stacks by their addresses, innermost first, with how many goroutines were met in each.
type Stacks = HashMap<Vec<u64>, u64>;

/// The goroutines that waited in the processes of a group.
#[derive(Debug, Default)]
pub(crate) struct Parked {
    /// By process; nothing of one that is no program of Go or cannot be read.
    processes: BTreeMap<u32, Option<Process>>,
    /// Whether one of them is a program of Go that cannot be read.
    has_unread: bool,
}

/// Those of one process.
#[derive(Debug)]
pub(crate) struct ParkedIn {
    pub(crate) pid: u32,
    /// How often all goroutines were read.
    pub(crate) readings: u64,
    /// The stacks that were met most, by their addresses, innermost first, with how often.
    pub(crate) stacks: Vec<(Vec<u64>, u64)>,
}

impl Parked {
    /// Looks for processes that were not there before.
    pub(super) fn find(&mut self, group: &Group) {
        for pid in group.pids().unwrap_or_default() {
            if !self.processes.contains_key(&pid) {
                let program = Program::of(pid);
                let process = program.as_ref().and_then(|program| Process::of(pid, program));
                self.has_unread |= program.is_some() && process.is_none();
                self.processes.insert(pid, process);
            }
        }
    }

    /// Whether there is somebody to read.
    pub(super) fn is_empty(&self) -> bool {
        self.processes.values().all(Option::is_none)
    }

    /// Reads some goroutines of each process; the next time it goes on with those that come after them.
    pub(super) fn look(&mut self) {
        for process in self.processes.values_mut().flatten() {
            // Nothing of one that has ended.
            let _ = process.look();
        }
    }

    /// What was seen, and what must be said of what was not.
    pub(crate) fn into_seen(self) -> (Vec<ParkedIn>, Vec<String>) {
        let seen = |(pid, process): (u32, Option<Process>)| {
            let Process { readings, met, .. } = process?;
            let mut stacks: Vec<(Vec<u64>, u64)> = met.into_iter().collect();
            stacks.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
            stacks.truncate(MOST_TOLD);
            (readings > 0).then_some(ParkedIn { pid, readings, stacks })
        };
        let missing = self.has_unread.then(|| NOT_READ.to_owned());
        (self.processes.into_iter().filter_map(seen).collect(), missing.into_iter().collect())
    }
}

/// A process of Go that can be read.
#[derive(Debug)]
struct Process {
    memory: Memory,
    layout: GoLayout,
    /// Where the address of the list stands, and how many are in it.
    list: u64,
    length: u64,
    /// Who is read next.
    next: u64,
    /// What was met since the list was begun, and before that.
    meeting: Stacks,
    met: Stacks,
    readings: u64,
}

impl Process {
    fn of(pid: u32, program: &Program) -> Option<Self> {
        let layout = go_layout(program.version?).filter(|_| program.is_for_x86_64)?;
        let memory = Memory::of(pid)?;
        let by_symbols = symbols(Path::new(&path(pid)), LIST);
        let by_symbols = by_symbols.map(|found| found.map(|address| address.wrapping_add(program.above)));
        // A program that was stripped is told by its code.
        let [list, length] = by_symbols.or_else(|| GoNames::of(pid)?.list())?;
        let first = memory.word(memory.word(list, 0)?, 0)?;
        let is_known = layout.is_first(first, &memory.bytes::<GOROUTINE_BYTES>(first)?);
        is_known.then(|| Self::new(memory, layout, [list, length]))
    }

    fn new(memory: Memory, layout: GoLayout, [list, length]: [u64; 2]) -> Self {
        let (meeting, met) = (Stacks::new(), Stacks::new());
        Self { memory, layout, list, length, next: 0, meeting, met, readings: 0 }
    }

    fn look(&mut self) -> Option<()> {
        // In this order the list has at least so many.
        let length = self.memory.word(self.length, 0)?;
        let list = self.memory.word(self.list, 0)?;
        if !(1..=MOST_GOROUTINES).contains(&length) {
            return None;
        }
        if self.next >= length {
            (self.next, self.meeting) = (0, Stacks::new());
        }
        let count = (length - self.next).min(MOST_AT_ONCE as u64);
        let addresses = self.memory.many(list, 8 * self.next, 8 * count)?;
        for address in addresses.as_chunks::<8>().0 {
            if let Some(stack) = self.stack(u64::from_le_bytes(*address)) {
                add(&mut self.meeting, stack, 1);
            }
        }
        self.next += count;
        if self.next == length {
            let meeting = std::mem::take(&mut self.meeting);
            meeting.into_iter().for_each(|(stack, times)| add(&mut self.met, stack, times));
            (self.next, self.readings) = (0, self.readings + 1);
        }
        Some(())
    }

    /// The stack of a goroutine; nothing where it does not wait, or went on while it was read.
    fn stack(&self, address: u64) -> Option<Vec<u64>> {
        let read = || {
            let bytes = self.memory.bytes::<GOROUTINE_BYTES>(address)?;
            self.layout.waiting(address, &bytes)
        };
        let waiting = read()?;
        let length = (waiting.end - waiting.stack_pointer + BELOW).min(STACK_BYTES);
        let stack = self.memory.up_to(waiting.read_from(), length as usize)?;
        (read()? == waiting).then(|| waiting.chain(&stack))
    }
}

/// Adds to how often a stack was met, as long as there are not too many.
fn add(stacks: &mut Stacks, stack: Vec<u64>, times: u64) {
    if stacks.len() < MOST_STACKS || stacks.contains_key(&stack) {
        *stacks.entry(stack).or_default() += times;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is in the memory of this very process as if it were a list of goroutines.
    fn own(list: &u64, length: &u64) -> Process {
        let at = |value: &u64| std::ptr::from_ref(value) as u64;
        let memory = Memory::of(std::process::id()).unwrap();
        Process::new(memory, go_layout(26).unwrap(), [at(list), at(length)])
    }

    #[test]
    fn lists_that_are_none_give_nothing_and_take_no_time() {
        let garbage: Vec<u64> = (0..4096).map(|word: u64| word.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        let there = garbage.as_ptr() as u64;
        for (list, length, readings) in [
            // It points nowhere, or has none, or more than there can be.
            (0, 5, 0),
            (u64::MAX, 5, 0),
            (u64::MAX - 8, u64::MAX, 0),
            (there, 0, 0),
            (there, u64::MAX, 0),
            (there, MOST_GOROUTINES + 1, 0),
            // Those that it has are none.
            (there, 4096, 1),
        ] {
            let mut process = own(&list, &length);
            for _ in 0..4096 / MOST_AT_ONCE {
                let _ = process.look();
            }
            assert_eq!((process.readings, process.met.len()), (readings, 0), "{list:#x} {length}");
        }
    }

    #[test]
    fn a_process_that_is_no_program_of_go_is_not_read_and_nothing_is_said_of_it() {
        let mut parked = Parked::default();
        parked.find(&Group::from_pid(std::process::id()).unwrap());
        assert!(parked.is_empty());
        let (seen, missing) = parked.into_seen();
        assert!(seen.is_empty() && missing.is_empty());
    }

    #[test]
    fn of_very_many_stacks_some_are_kept() {
        let mut stacks = Stacks::new();
        (0..2 * MOST_STACKS as u64).for_each(|address| add(&mut stacks, vec![address], 1));
        add(&mut stacks, vec![0], 1);
        assert_eq!((stacks.len(), stacks[&vec![0]]), (MOST_STACKS, 2));
    }
}
