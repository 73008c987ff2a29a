use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::schedule::{AT_ONCE, Dispatch, Pace, Part, Schedule};

/// Stands for "never".
pub(crate) const NEVER: u64 = u64::MAX;

/// A schedule placed in time, with its next instant in hand.
#[derive(Debug)]
pub(crate) struct Timeline {
    /// `None` in a closed loop, where something is always due.
    schedule: Option<Schedule>,
    origin_ns: u64,
    next_ns: u64,
}

impl Timeline {
    /// A closed loop: a request is due whenever a connection is free.
    const CLOSED: Self = Self { schedule: None, origin_ns: 0, next_ns: AT_ONCE };
    /// Nothing is ever due.
    const SILENT: Self = Self { schedule: None, origin_ns: 0, next_ns: NEVER };

    fn open(schedule: Schedule, origin_ns: u64) -> Self {
        let mut timeline = Self { schedule: Some(schedule), origin_ns, next_ns: NEVER };
        timeline.advance();
        timeline
    }

    fn advance(&mut self) {
        if let Some(schedule) = &mut self.schedule {
            self.next_ns = schedule.next().map_or(NEVER, |offset| self.origin_ns.saturating_add(offset));
        }
    }

    #[inline]
    pub(crate) fn take(&mut self) -> u64 {
        let intended = self.next_ns;
        self.advance();
        intended
    }

    #[inline]
    pub(crate) fn next_ns(&self) -> u64 {
        self.next_ns
    }
}

/// Matches arrivals to connections with room. A backlog needs no memory: it is a timeline that lags behind.
#[derive(Debug)]
pub(crate) enum Dispatcher {
    /// Any connection with room serves the next arrival, the one that has waited longest first.
    Shared { timeline: Timeline, idle: VecDeque<u32> },
    /// Each connection serves its own arrivals.
    Own { timelines: Vec<Timeline>, idle: BinaryHeap<Reverse<(u64, u32)>> },
}

impl Dispatcher {
    /// Nothing is ever due.
    pub(crate) fn silent() -> Self {
        Self::Shared { timeline: Timeline::SILENT, idle: VecDeque::new() }
    }

    /// The arrivals of `part` at `pace` from `origin_ns` on, for `lanes` connections.
    pub(crate) fn new(pace: &Pace, seed: u64, part: Part, lanes: u32, origin_ns: u64) -> Self {
        let shared = |timeline| Self::Shared { timeline, idle: VecDeque::with_capacity(lanes as usize) };
        match pace {
            Pace::Closed => shared(Timeline::CLOSED),
            Pace::Open { intensity, arrival, dispatch: Dispatch::Shared } => {
                shared(Timeline::open(Schedule::new(intensity.clone(), *arrival, seed, part), origin_ns))
            }
            Pace::Open { intensity, arrival, dispatch: Dispatch::Connection } => Self::Own {
                timelines: (0..u64::from(lanes))
                    .map(|lane| {
                        Schedule::of_connection(intensity, *arrival, seed, part.split(lane, lanes.into()))
                    })
                    .map(|schedule| Timeline::open(schedule, origin_ns))
                    .collect(),
                idle: BinaryHeap::with_capacity(lanes as usize),
            },
        }
    }

    /// When something is due for a connection with room; [`NEVER`] if none has.
    #[inline]
    pub(crate) fn due_ns(&self) -> u64 {
        match self {
            Self::Shared { timeline, idle } => {
                if idle.is_empty() {
                    NEVER
                } else {
                    timeline.next_ns
                }
            }
            Self::Own { idle, .. } => idle.peek().map_or(NEVER, |Reverse((due, _))| *due),
        }
    }

    /// Whether any connection has room.
    #[inline]
    pub(crate) fn has_idle(&self) -> bool {
        match self {
            Self::Shared { idle, .. } => !idle.is_empty(),
            Self::Own { idle, .. } => !idle.is_empty(),
        }
    }

    /// Whether the next arrival has a connection, whatever becomes of the others.
    #[inline]
    pub(crate) fn has_spare(&self) -> bool {
        matches!(self, Self::Shared { idle, .. } if !idle.is_empty())
    }

    /// Enters a connection that has room.
    #[inline]
    pub(crate) fn enter(&mut self, lane: u32) {
        match self {
            Self::Shared { idle, .. } => idle.push_back(lane),
            Self::Own { timelines, idle } => idle.push(Reverse((timelines[lane as usize].next_ns, lane))),
        }
    }

    /// The connection whose turn it is.
    #[inline]
    pub(crate) fn leave(&mut self) -> Option<u32> {
        match self {
            Self::Shared { idle, .. } => idle.pop_front(),
            Self::Own { idle, .. } => idle.pop().map(|Reverse((_, lane))| lane),
        }
    }

    /// The next arrival for `lane`.
    #[inline]
    pub(crate) fn take(&mut self, lane: u32) -> u64 {
        match self {
            Self::Shared { timeline, .. } => timeline.take(),
            Self::Own { timelines, .. } => timelines[lane as usize].take(),
        }
    }

    /// The same connections with room, and other arrivals.
    pub(crate) fn replace(&mut self, mut next: Self) {
        while let Some(lane) = self.leave() {
            next.enter(lane);
        }
        *self = next;
    }

    /// The timelines that remain, to see what was due and never sent.
    pub(crate) fn timelines_mut(&mut self) -> &mut [Timeline] {
        match self {
            Self::Shared { timeline, .. } => std::slice::from_mut(timeline),
            Self::Own { timelines, .. } => timelines,
        }
    }
}
