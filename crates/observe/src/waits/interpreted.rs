//! What interpreters ran in threads that waited. A thread that waits does not change that, so that one reading tells it of a whole
//! wait. Of waits that are alike and were not all met, the time goes to what was read in them by how often that was.

use std::collections::{HashMap, VecDeque};

use model::record::{Frame, WaitLeaf};

use super::machine::Sum;
use crate::profile::{Reading, with_interpreted};

/// Readings that were not yet held against what was recorded, and every stack in them.
#[derive(Debug, Default)]
pub(super) struct Interpreted {
    /// In the order of their ends.
    readings: VecDeque<Numbered>,
    numbers: HashMap<Vec<Frame>, u32>,
}

/// A reading with the number of its stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Numbered {
    pub(super) thread: u32,
    pub(super) begin_ns: u64,
    end_ns: u64,
    pub(super) number: u32,
}

impl Interpreted {
    /// Adds readings, which come in the order of time.
    pub(super) fn add(&mut self, readings: Vec<Reading>) {
        for Reading { thread, begin_ns, end_ns, stack } in readings {
            let next = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX);
            let number = *self.numbers.entry(stack).or_insert(next);
            self.readings.push_back(Numbered { thread, begin_ns, end_ns, number });
        }
    }

    /// The next reading that ended before a time.
    pub(super) fn before(&mut self, time_ns: u64) -> Option<Numbered> {
        self.readings.pop_front_if(|reading| reading.end_ns < time_ns)
    }

    /// The stacks by their numbers.
    pub(super) fn into_stacks(self) -> Vec<Vec<Frame>> {
        let mut stacks: Vec<(u32, Vec<Frame>)> =
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
    pub(super) fn divided(self, stacks: &[Vec<Frame>], frames: &mut Frames) -> Vec<WaitLeaf> {
        let mut divided = Self::default();
        for (leaf, sum) in self.0 {
            if leaf.waited_in.is_empty() || sum.read.is_empty() {
                divided.add(leaf, sum);
                continue;
            }
            for (number, count, ns) in shares(&sum) {
                let stack = stacks.get(number as usize).map_or(&[][..], Vec::as_slice);
                let waited_in = frames.with_interpreted(&leaf.waited_in, stack);
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
    use model::record::EndedBy;

    use super::*;

    fn frames(names: &str) -> Vec<Frame> {
        names.split_whitespace().map(|name| Frame { name: name.to_owned(), ..Frame::default() }).collect()
    }

    fn leaf(ended_by: EndedBy, waited_in: &[u32]) -> WaitLeaf {
        let waited_in = waited_in.to_vec();
        WaitLeaf { ended_by, behind: None, by: None, waited_in, woken_from: Vec::new(), count: 0, ns: 0 }
    }

    #[test]
    fn waits_are_divided_by_what_was_read_in_them_and_none_is_lost() {
        let native = frames("main _PyEval_EvalFrameDefault sem_wait");
        let stacks = [frames("app.py take_order"), frames("app.py bill"), frames("other")];
        let mut leaves = Leaves::default();
        let sum = |count, ns, read: &[(u32, u64)]| Sum { count, ns, read: read.iter().copied().collect() };
        // The same place twice, and others in which nothing was read, or of which the place is not known.
        leaves.add(leaf(EndedBy::Lock, &[0, 1, 2]), sum(7, 70, &[(0, 1)]));
        leaves.add(leaf(EndedBy::Lock, &[0, 1, 2]), sum(3, 31, &[(0, 1), (1, 1)]));
        leaves.add(leaf(EndedBy::Timer, &[0, 1, 2]), sum(5, 20, &[]));
        leaves.add(leaf(EndedBy::Client, &[]), sum(2, 10, &[(2, 9)]));
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
            ]
        );
    }
}
