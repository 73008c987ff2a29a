//! What was read of the stacks of threads that waited: what an interpreter ran, or who had called whom in machine code that keeps no frame
//! pointers. A thread that waits does not change that, so that one reading tells it of a whole wait. Of waits that are alike and were not
//! all met, the time goes to what was read in them by how often that was.

use std::collections::{HashMap, VecDeque};

use model::record::{Frame, WaitLeaf};

use super::machine::{Sum, Waiting};
use crate::parse::UserStack;
use crate::profile::{Read, Reading, Unwinder, stack_pointer, with_interpreted};

/// Different stacks that are kept. Further ones count as not read.
const MOST_STACKS: usize = 8192;

/// Where a thread was read to wait.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Within<Native> {
    /// In functions that an interpreter ran, outermost first.
    Interpreted(Vec<Frame>),
    Native(Native),
}

impl<Native> Within<Native> {
    pub(super) fn native(&self) -> Option<&Native> {
        match self {
            Self::Interpreted(_) => None,
            Self::Native(native) => Some(native),
        }
    }

    /// With something else in the place of what it says of machine code.
    pub(super) fn with<Other>(self, other: impl FnOnce(Native) -> Other) -> Within<Other> {
        match self {
            Self::Interpreted(stack) => Within::Interpreted(stack),
            Self::Native(native) => Within::Native(other(native)),
        }
    }
}

/// A process, and a chain of addresses.
pub(super) type Chain = (u32, Vec<u64>);

/// Readings that were not yet held against what was recorded, and every stack in those that were.
#[derive(Default)]
pub(super) struct Readings {
    /// In the order of their ends.
    waiting: VecDeque<Reading>,
    numbers: HashMap<Within<Chain>, u32>,
    unwinder: Unwinder,
}

impl Readings {
    /// Adds readings, which come in the order of time.
    pub(super) fn add(&mut self, readings: Vec<Reading>) {
        self.waiting.extend(readings);
    }

    /// The next reading that ended before a time.
    pub(super) fn before(&mut self, time_ns: u64) -> Option<Reading> {
        self.waiting.pop_front_if(|reading| reading.end_ns < time_ns)
    }

    /// Counts what was read in the wait that it lies in.
    pub(super) fn count(&mut self, what: Read, wait: Waiting<'_>) {
        let within = match what {
            Read::Interpreted(stack) => Within::Interpreted(stack),
            // Without the registers of the same stack nobody knows what its bytes are.
            Read::Copied(pointer, _) if stack_pointer(wait.registers) != Some(pointer) => return,
            Read::Copied(_, bytes) => {
                let stack = UserStack { registers: wait.registers.to_vec(), bytes };
                Within::Native((wait.process, self.unwinder.chain(wait.process, wait.chain, &stack)))
            }
        };
        let next = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX);
        if self.numbers.len() < MOST_STACKS || self.numbers.contains_key(&within) {
            let number = *self.numbers.entry(within).or_insert(next);
            *wait.read.entry(number).or_default() += 1;
        }
    }

    /// The stacks by their numbers.
    pub(super) fn into_stacks(self) -> Vec<Within<Chain>> {
        let mut stacks: Vec<(u32, Within<Chain>)> =
            self.numbers.into_iter().map(|(stack, number)| (number, stack)).collect();
        stacks.sort_unstable_by_key(|(number, _)| *number);
        stacks.into_iter().map(|(_, stack)| stack).collect()
    }
}

/// Leaves that differ, with what they sum to.
#[derive(Debug, Default)]
pub(super) struct Leaves(Vec<(WaitLeaf, Sum)>);

impl Leaves {
    /// Adds waits; those in addresses of one function are in one place.
    pub(super) fn add(&mut self, leaf: WaitLeaf, sum: Sum) {
        match self.0.iter_mut().find(|(other, _)| *other == leaf) {
            Some((_, same)) => same.add(&sum),
            None => self.0.push((leaf, sum)),
        }
    }

    /// The leaves, longest first, divided among the stacks that were read in them. One in which none was, or that has no place, stays
    /// as it is.
    pub(super) fn divided(self, stacks: &[Within<Vec<u32>>], frames: &mut Frames) -> Vec<WaitLeaf> {
        let mut divided = Self::default();
        for (leaf, sum) in self.0 {
            if leaf.waited_in.is_empty() || sum.read.is_empty() {
                divided.add(leaf, sum);
                continue;
            }
            for (number, count, ns) in shares(&sum) {
                let waited_in = match stacks.get(number as usize) {
                    Some(Within::Interpreted(stack)) => frames.with_interpreted(&leaf.waited_in, stack),
                    Some(Within::Native(stack)) => stack.clone(),
                    None => leaf.waited_in.clone(),
                };
                divided.add(WaitLeaf { waited_in, ..leaf.clone() }, Sum { count, ns, ..Sum::default() });
            }
        }
        let whole = |(leaf, sum): (WaitLeaf, Sum)| WaitLeaf { count: sum.count, ns: sum.ns, ..leaf };
        let mut leaves: Vec<WaitLeaf> = divided.0.into_iter().map(whole).collect();
        leaves.sort_by_key(|leaf| std::cmp::Reverse(leaf.ns));
        leaves
    }
}

/// How many of the waits and how much of their time is of each stack, by its number: nothing is lost and nothing is told twice.
fn shares(sum: &Sum) -> Vec<(u32, u64, u64)> {
    let all: u64 = sum.read.values().sum();
    let part = |whole: u64, times: u64| {
        u64::try_from(u128::from(whole) * u128::from(times) / u128::from(all.max(1))).unwrap_or(whole)
    };
    let mut passed = 0;
    let share = |(number, times): (&u32, &u64)| {
        let before = passed;
        passed += times;
        let due = |whole| part(whole, passed) - part(whole, before);
        (*number, due(sum.count), due(sum.ns))
    };
    sum.read.iter().map(share).collect()
}

/// Every function met, each once.
#[derive(Debug)]
pub(super) struct Frames {
    all: Vec<Frame>,
    places: HashMap<Frame, u32>,
}

impl Frames {
    pub(super) fn new(all: Vec<Frame>) -> Self {
        let places = (0..).zip(&all).map(|(place, frame)| (frame.clone(), place)).collect();
        Self { all, places }
    }

    pub(super) fn into_all(self) -> Vec<Frame> {
        self.all
    }

    /// A stack with what its interpreter ran in the interpreter's place.
    fn with_interpreted(&mut self, native: &[u32], interpreted: &[Frame]) -> Vec<u32> {
        let native: Vec<Frame> =
            native.iter().filter_map(|place| self.all.get(*place as usize)).cloned().collect();
        with_interpreted(&native, interpreted).into_iter().map(|frame| self.place(frame)).collect()
    }

    fn place(&mut self, frame: Frame) -> u32 {
        *self.places.entry(frame).or_insert_with_key(|frame| {
            self.all.push(frame.clone());
            u32::try_from(self.all.len() - 1).unwrap_or(u32::MAX)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use model::record::EndedBy;

    use super::*;
    use crate::parse::chain_of;

    fn frames(names: &str) -> Vec<Frame> {
        names.split_whitespace().map(|name| Frame { name: name.to_owned(), ..Frame::default() }).collect()
    }

    fn leaf(ended_by: EndedBy, waited_in: &[u32]) -> WaitLeaf {
        let waited_in = waited_in.to_vec();
        let (of_service, count, ns) = (false, 0, 0);
        WaitLeaf {
            ended_by,
            behind: None,
            by: None,
            of_service,
            waited_in,
            woken_from: Vec::new(),
            count,
            ns,
        }
    }

    #[test]
    fn callers_are_found_in_the_copy_of_the_stack_that_the_registers_are_of() {
        // No such process: all its code keeps frame pointers.
        let process = u32::MAX;
        let [pointer, frame, innermost, caller] = [0x1000_u64, 0x1008, 0x70, 0x80];
        let registers = [0, frame, pointer, innermost, 0, 0, 0, 0, 0];
        let recorded = chain_of(&[0x7777], &[innermost]);
        let bytes = [1, 0, caller].map(u64::to_le_bytes).concat();
        let mut readings = Readings::default();
        let mut count = |registers: &[u64], pointer, bytes: &[u8]| {
            let mut read = BTreeMap::new();
            let wait = Waiting { process, chain: &recorded, registers, read: &mut read };
            readings.count(Read::Copied(pointer, bytes.to_vec()), wait);
            read.into_iter().collect::<Vec<_>>()
        };
        assert_eq!(count(&registers, pointer, &bytes), [(0, 1)]);
        // Of another wait, or without registers.
        assert_eq!(count(&registers, pointer - 8, &bytes), []);
        assert_eq!(count(&[], pointer, &bytes), []);
        // Nothing of it was there: what the kernel recorded stays.
        assert_eq!(count(&registers, pointer, &[]), [(1, 1)]);
        assert_eq!(count(&registers, pointer, &bytes), [(0, 1)]);
        let native = |chain| Within::Native((process, chain));
        let whole = chain_of(&[0x7777], &[innermost, caller]);
        assert_eq!(readings.into_stacks(), [native(whole), native(recorded)]);
    }

    #[test]
    fn waits_are_divided_by_what_was_read_in_them_and_none_is_lost() {
        let native = frames("main _PyEval_EvalFrameDefault sem_wait pay lock");
        let interpreted = |names| Within::Interpreted(frames(names));
        let stacks = [
            interpreted("app.py take_order"),
            interpreted("app.py bill"),
            interpreted("other"),
            Within::Native(vec![0, 3, 4]),
        ];
        let mut leaves = Leaves::default();
        let sum = |count, ns, read: &[(u32, u64)]| Sum { count, ns, read: read.iter().copied().collect() };
        // The same place twice, and others in which nothing was read, or of which the place is not known.
        leaves.add(leaf(EndedBy::Lock, &[0, 1, 2]), sum(7, 70, &[(0, 1)]));
        leaves.add(leaf(EndedBy::Lock, &[0, 1, 2]), sum(3, 31, &[(0, 1), (1, 1)]));
        leaves.add(leaf(EndedBy::Timer, &[0, 1, 2]), sum(5, 20, &[]));
        leaves.add(leaf(EndedBy::Client, &[]), sum(2, 10, &[(2, 9)]));
        // Of machine code: only the innermost function was known.
        leaves.add(leaf(EndedBy::Lock, &[4]), sum(1, 5, &[(3, 2)]));
        let mut frames = Frames::new(native);
        let divided = leaves.divided(&stacks, &mut frames);
        let all = frames.into_all();
        let told: Vec<_> = divided
            .iter()
            .map(|leaf| {
                let names: Vec<&str> =
                    leaf.waited_in.iter().map(|place| all[*place as usize].name.as_str()).collect();
                (leaf.ended_by, names.join(" "), leaf.count, leaf.ns)
            })
            .collect();
        let row = |ended_by, stack: &str, count, ns| (ended_by, stack.to_owned(), count, ns);
        assert_eq!(
            told,
            [
                row(EndedBy::Lock, "main app.py take_order sem_wait", 6, 67),
                row(EndedBy::Lock, "main app.py bill sem_wait", 4, 34),
                row(EndedBy::Timer, "main _PyEval_EvalFrameDefault sem_wait", 5, 20),
                row(EndedBy::Client, "", 2, 10),
                row(EndedBy::Lock, "main pay lock", 1, 5),
            ]
        );
    }
}
