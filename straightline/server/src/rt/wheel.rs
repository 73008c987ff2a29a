//! A hierarchical timer wheel: insert and cancel in constant time, whatever the number of timers.
//!
//! ```text
//! level 0:  64 places of one tick
//! level 1:  64 places of 64 ticks, each emptied into level 0 when its time comes
//! ...
//! ```
//!
//! A timer lies on the level of the highest digit (to base 64) in which its tick differs from the wheel's own.
//! Hence every level is empty behind the wheel's position, and the first occupied place is found by bit scan.
//!
//! Source: G. Varghese and T. Lauck, "Hashed and hierarchical timing wheels", SOSP 1987.

use std::num::NonZeroU32;

/// log2 of a tick in nanoseconds: 16.4 µs, a third of the kernel's own timer slack.
const TICK_BITS: u32 = 14;
/// log2 of the places of one level: one bit of a machine word each.
const PLACE_BITS: u32 = 6;
const PLACES: usize = 1 << PLACE_BITS;
/// Nine digits of six bits hold every tick: 64 bits of nanoseconds make 50 bits of ticks.
const LEVELS: usize = 9;
const NONE: u32 = u32::MAX;

/// Names a timer; of no use once the timer expired or was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimerKey {
    index: u32,
    /// Never 0, so that an `Option` of a key takes no more room.
    generation: NonZeroU32,
}

#[derive(Debug)]
struct Timer<T> {
    tick: u64,
    generation: NonZeroU32,
    previous: u32,
    next: u32,
    /// `level * PLACES + place`, or [`NONE`] when the timer is not in the wheel.
    home: u32,
    payload: T,
}

/// Timers that each hand back a payload. Times are nanoseconds on a clock of the caller's.
#[derive(Debug)]
pub(crate) struct Wheel<T> {
    /// The position: every timer up to this tick has expired.
    tick: u64,
    occupied: [u64; LEVELS],
    heads: [u32; LEVELS * PLACES],
    timers: Vec<Timer<T>>,
    free: Vec<u32>,
}

impl<T: Copy> Wheel<T> {
    pub(crate) fn new() -> Self {
        Self {
            tick: 0,
            occupied: [0; LEVELS],
            heads: [NONE; LEVELS * PLACES],
            timers: Vec::new(),
            free: Vec::new(),
        }
    }

    /// How many timers wait.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.timers.len() - self.free.len()
    }

    /// Adds a timer that expires at `deadline_ns` or up to a tick later, never before.
    pub(crate) fn insert(&mut self, deadline_ns: u64, payload: T) -> TimerKey {
        let tick = deadline_ns.div_ceil(1 << TICK_BITS).max(self.tick + 1);
        let generation = NonZeroU32::MIN;
        let timer = Timer { tick, generation, previous: NONE, next: NONE, home: NONE, payload };
        let index = match self.free.pop() {
            Some(index) => {
                let place = &mut self.timers[index as usize];
                *place = Timer { generation: place.generation, ..timer };
                index
            }
            None => {
                self.timers.push(timer);
                u32::try_from(self.timers.len() - 1).expect("memory ends long before 2^32 timers")
            }
        };
        self.link(index);
        TimerKey { index, generation: self.timers[index as usize].generation }
    }

    /// Takes a timer out before its time; `false` if it expired already.
    pub(crate) fn cancel(&mut self, key: TimerKey) -> bool {
        let waits = self
            .timers
            .get(key.index as usize)
            .is_some_and(|timer| timer.generation == key.generation && timer.home != NONE);
        if waits {
            self.unlink(key.index);
            self.release(key.index);
        }
        waits
    }

    /// When to look again: no timer expires before. `None` when no timer waits.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.next_place().map(|(_, _, tick)| tick << TICK_BITS)
    }

    /// Moves the wheel to `now_ns` and hands over what expired on the way, earliest tick first.
    pub(crate) fn advance(&mut self, now_ns: u64, expired: &mut Vec<T>) {
        let now = now_ns >> TICK_BITS;
        while let Some((level, place, tick)) = self.next_place() {
            if tick > now {
                break;
            }
            self.tick = self.tick.max(tick);
            self.empty_place(level, place, expired);
        }
        self.tick = self.tick.max(now);
    }

    /// The first occupied place, and the tick at which its turn comes.
    fn next_place(&self) -> Option<(usize, usize, u64)> {
        let level = self.occupied.iter().position(|&places| places != 0)?;
        let place = self.occupied[level].trailing_zeros();
        let shift = PLACE_BITS * level as u32;
        let above = self.tick >> (shift + PLACE_BITS) << (shift + PLACE_BITS);
        Some((level, place as usize, above + (u64::from(place) << shift)))
    }

    /// Expires the timers of one place whose tick has come; the others go to a lower level.
    fn empty_place(&mut self, level: usize, place: usize, expired: &mut Vec<T>) {
        let home = level * PLACES + place;
        self.occupied[level] &= !(1 << place);
        let mut index = std::mem::replace(&mut self.heads[home], NONE);
        while index != NONE {
            let next = self.timers[index as usize].next;
            if self.timers[index as usize].tick <= self.tick {
                expired.push(self.timers[index as usize].payload);
                self.release(index);
            } else {
                self.link(index);
            }
            index = next;
        }
    }

    fn link(&mut self, index: u32) {
        let tick = self.timers[index as usize].tick;
        let level = ((tick ^ self.tick | (PLACES as u64 - 1)).ilog2() / PLACE_BITS) as usize;
        let place = (tick >> (PLACE_BITS * level as u32)) as usize % PLACES;
        let home = level * PLACES + place;
        let next = std::mem::replace(&mut self.heads[home], index);
        if next != NONE {
            self.timers[next as usize].previous = index;
        }
        let timer = &mut self.timers[index as usize];
        (timer.previous, timer.next, timer.home) = (NONE, next, home as u32);
        self.occupied[level] |= 1 << place;
    }

    fn unlink(&mut self, index: u32) {
        let Timer { previous, next, home, .. } = self.timers[index as usize];
        if next != NONE {
            self.timers[next as usize].previous = previous;
        }
        if previous != NONE {
            self.timers[previous as usize].next = next;
            return;
        }
        self.heads[home as usize] = next;
        if next == NONE {
            self.occupied[home as usize / PLACES] &= !(1 << (home as usize % PLACES));
        }
    }

    fn release(&mut self, index: u32) {
        let timer = &mut self.timers[index as usize];
        timer.home = NONE;
        timer.generation = timer.generation.checked_add(1).unwrap_or(NonZeroU32::MIN);
        self.free.push(index);
    }
}

#[cfg(test)]
mod tests;
