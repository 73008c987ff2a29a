//! Opening connections: few at a time, again after a while where it fails.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::VecDeque;

use super::clock::SECOND_NS;
use super::link::{Link, Refusal};

/// Connections that one worker is opening at the same time: fewer than any backlog holds, so that no SYN is dropped.
const OPENING: usize = 64;
/// First pause after a failure: longer than a server's restart of its accept loop, short against any window.
const FIRST_PAUSE_NS: u64 = SECOND_NS / 100;
/// Longest pause: a server that is away for a minute is found again within a second.
const LONGEST_PAUSE_NS: u64 = SECOND_NS;

/// How long one attempt may take at most: a lost SYN is sent again after 1, 3 and 7 s, and then hope is over.
const ATTEMPT_NS: u64 = 10 * SECOND_NS;

/// The connection of one lane.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    pub(crate) link: Option<Link>,
    /// Whether it is still being opened.
    pub(crate) connecting: bool,
    /// Counts the connections of this lane, so that an event of an earlier one is known as such.
    pub(crate) generation: u32,
    /// When it began to be opened, and when it was connected; 0 as long as it is not.
    began_ns: u64,
    connected_ns: u64,
    pause_ns: u64,
    /// When its link next has something to do by itself, as far as that is noted; 0 for never.
    pub(crate) timer_ns: u64,
    /// Whether its link is to be tended before the worker waits.
    pub(crate) touched: bool,
}

impl Slot {
    /// It is connected at `now`, and what follows is TLS; only the first word counts.
    pub(crate) fn note_connected(&mut self, now: u64) {
        if self.connected_ns == 0 {
            self.connected_ns = now;
        }
    }

    /// Whether it is connected, and only TLS is missing.
    pub(crate) fn is_connected(&self) -> bool {
        self.connected_ns != 0
    }

    /// Its times of being connected, and of all that came after that until `now`.
    pub(crate) fn opening_ns(&self, now: u64) -> [u64; 2] {
        [self.connected_ns.saturating_sub(self.began_ns), now.saturating_sub(self.connected_ns)]
    }
}

/// Which lanes want a connection.
#[derive(Debug, Default)]
pub(crate) struct Opener {
    waiting: VecDeque<u32>,
    pausing: BinaryHeap<Reverse<(u64, u32)>>,
    /// Attempts under way, oldest first: when each is given up, its lane and generation.
    attempts: VecDeque<(u64, u32, u32)>,
    /// How long one may take.
    pub(crate) attempt_ns: u64,
    opening: usize,
    /// Lanes whose first attempt has not ended.
    pub(crate) untried: usize,
    pub(crate) established: u64,
    /// Attempts that have succeeded, those of connections that were lost since included.
    pub(crate) opened: u64,
    pub(crate) first_error: Option<Refusal>,
}

impl Opener {
    /// For so many lanes. An attempt may take as long as a request, where that has a limit.
    pub(crate) fn new(lanes: u32, timeout_ns: Option<u64>) -> Self {
        let attempt_ns = timeout_ns.map_or(ATTEMPT_NS, |timeout_ns| timeout_ns.min(ATTEMPT_NS));
        Self { waiting: (0..lanes).collect(), attempt_ns, untried: lanes as usize, ..Self::default() }
    }

    /// A lane for which a socket may be opened now.
    pub(crate) fn next(&mut self, now: u64) -> Option<u32> {
        while self.pausing.peek().is_some_and(|Reverse((until, _))| *until <= now) {
            self.waiting.extend(self.pausing.pop().map(|Reverse((_, lane))| lane));
        }
        if self.opening >= OPENING {
            return None;
        }
        let lane = self.waiting.pop_front()?;
        self.opening += 1;
        Some(lane)
    }

    /// When there is something to do; `u64::MAX` if not by itself.
    pub(crate) fn wake_ns(&self) -> u64 {
        let overdue_ns = self.attempts.front().map_or(u64::MAX, |(until, ..)| *until);
        if self.opening >= OPENING {
            return overdue_ns;
        }
        match self.waiting.is_empty() {
            false => 0,
            true => self.pausing.peek().map_or(u64::MAX, |Reverse((until, _))| *until).min(overdue_ns),
        }
    }

    /// An attempt has begun.
    pub(crate) fn begun(&mut self, lane: u32, slot: &mut Slot, now: u64) {
        (slot.began_ns, slot.connected_ns) = (now, 0);
        self.attempts.push_back((now.saturating_add(self.attempt_ns), lane, slot.generation));
    }

    /// A lane and generation whose attempt, if it still goes on, has taken too long.
    pub(crate) fn overdue(&mut self, now: u64) -> Option<(u32, u32)> {
        let (_, lane, generation) = self.attempts.pop_front_if(|(until, ..)| *until <= now)?;
        Some((lane, generation))
    }

    pub(crate) fn succeeded(&mut self, slot: &mut Slot) {
        self.opening -= 1;
        self.tried(slot);
        self.established += 1;
        self.opened += 1;
    }

    pub(crate) fn failed(&mut self, lane: u32, slot: &mut Slot, error: Refusal, now: u64) {
        self.opening -= 1;
        self.tried(slot);
        self.first_error.get_or_insert(error);
        slot.link = None;
        slot.connecting = false;
        self.pause(lane, slot, now);
    }

    /// A connection was opened, and what it is for was refused at `now`: its lane wants another after a while.
    pub(crate) fn refused(&mut self, lane: u32, slot: &mut Slot, now: u64) {
        self.established -= 1;
        self.pause(lane, slot, now);
    }

    fn pause(&mut self, lane: u32, slot: &mut Slot, now: u64) {
        slot.pause_ns = (slot.pause_ns * 2).clamp(FIRST_PAUSE_NS, LONGEST_PAUSE_NS);
        self.pausing.push(Reverse((now.saturating_add(slot.pause_ns), lane)));
    }

    /// A connection was lost and its lane wants another at once.
    pub(crate) fn lost(&mut self, lane: u32, slot: &mut Slot) {
        slot.pause_ns = 0;
        self.established -= 1;
        self.waiting.push_back(lane);
    }

    fn tried(&mut self, slot: &Slot) {
        if slot.generation == 1 {
            self.untried -= 1;
        }
    }
}
