//! The clocks of other machines: how far each is from ours, by asking for the time as NTP does.

use rustix::time::{ClockId, clock_gettime};

use super::{Command, Event, Remote};
use crate::compare::Early;

/// How often the time is asked for: the fastest answer tells it best.
const TRIES: usize = 8;

/// Nanoseconds of the monotonic clock, which nobody sets.
pub(in crate::compare) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// The monotonic clock of another machine as ours tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Clock {
    /// What it shows more than ours.
    ahead_ns: i64,
    /// How long the fastest answer was on its way, there and back: the clocks are known to half of it.
    round_trip_ns: u64,
}

impl Clock {
    /// Asks `remote` for the time.
    pub(in crate::compare) fn ask(remote: &Remote) -> Result<Self, Early> {
        let mut readings = Vec::new();
        for _ in 0..TRIES {
            let before_ns = now_ns();
            match remote.ask(&Command::Clock)? {
                Event::Clock(there_ns) => readings.push([before_ns, there_ns, now_ns()]),
                other => return Err(remote.unexpected(&other)),
            }
        }
        Ok(Self::from_readings(&readings))
    }

    /// From readings of the other clock: when each was asked for, what it was, when it came. The fastest counts.
    fn from_readings(readings: &[[u64; 3]]) -> Self {
        let [before, there, after] = readings
            .iter()
            .copied()
            .min_by_key(|[before, _, after]| after.saturating_sub(*before))
            .unwrap_or_default();
        let round_trip_ns = after.saturating_sub(before);
        Self { ahead_ns: there.wrapping_sub(before + round_trip_ns / 2).cast_signed(), round_trip_ns }
    }

    /// What it shows when ours shows `here_ns`.
    pub(in crate::compare) fn there(self, here_ns: u64) -> u64 {
        here_ns.wrapping_add_signed(self.ahead_ns)
    }

    /// What ours shows when it shows `there_ns`.
    pub(in crate::compare) fn here(self, there_ns: u64) -> u64 {
        there_ns.wrapping_add_signed(self.ahead_ns.wrapping_neg())
    }

    /// How long an answer is on its way.
    pub(in crate::compare) fn round_trip_ns(self) -> u64 {
        self.round_trip_ns
    }

    /// By how much an instant there may be another one here.
    pub(in crate::compare) fn unsure_ns(self) -> u64 {
        self.round_trip_ns / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fastest_answer_tells_how_far_a_clock_is_from_ours() {
        // Asked at 1000, it showed 5_000_100 half way, and the answer came at 1200.
        let clock =
            Clock::from_readings(&[[0, 5_000_000, 900], [1000, 5_000_100, 1200], [2000, 5_001_900, 4000]]);
        assert_eq!((clock.round_trip_ns(), clock.unsure_ns()), (200, 100));
        assert_eq!((clock.there(2000), clock.here(5_001_000)), (5_001_000, 2000));
        // A machine that was started later than this one.
        let behind = Clock::from_readings(&[[5_000_000, 1000, 5_000_200]]);
        assert_eq!((behind.there(5_000_100), behind.here(1000)), (1000, 5_000_100));
    }
}
