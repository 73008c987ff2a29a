//! The end of a window: what is censored, and what is handed over.

use super::answer::Malformed;
use super::dispatch::Dispatcher;
use super::{Reasons, Session, Tally};
use crate::schedule::AT_ONCE;

/// What a session leaves behind.
#[derive(Debug)]
pub struct Finished {
    /// What was counted.
    pub tally: Tally,
    /// Answers on each connection in the window.
    pub answers_per_lane: Vec<u64>,
    /// Requests in flight, summed over the nanoseconds of the window.
    pub in_flight_ns: u128,
    /// What was wrong with the first answer that was not HTTP.
    pub first_malformed: Option<Malformed>,
    /// Why the server failed requests or ended connections, as it said itself.
    pub(crate) reasons: Reasons,
}

impl Session {
    /// Sends nothing more.
    pub fn drain(&mut self) {
        self.draining = true;
    }

    /// Whether nothing is in flight, nor about to be.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.lanes.iter().all(|lane| lane.cursor.held == 0)
    }

    /// Connections on which something is in flight.
    pub fn unanswered(&self) -> impl Iterator<Item = u32> + '_ {
        let lanes = self.lanes.iter().zip(0..);
        lanes.filter(|(lane, _)| lane.cursor.held > 0).map(|(_, index)| index)
    }

    /// The connection of `lane` is to be given up, whatever it still may bring.
    pub fn give_up(&mut self, lane: u32, at: u64) {
        self.abandon(lane, at);
    }

    /// Ends the window at `end`: what is in flight, assigned or due becomes censored. Afterwards nothing is due; where nothing
    /// was in flight, another window may be prepared.
    #[must_use]
    pub fn finish(&mut self, end: u64) -> Finished {
        let least_ns = self.least_told_ns(end);
        for lane in 0..self.spec.lanes {
            while self.lanes[lane as usize].cursor.held > 0 {
                self.censor_next(lane, least_ns, end);
            }
        }
        for stamp in std::mem::take(&mut self.again) {
            self.tally.unsent(stamp.intended_ns, end);
        }
        self.end_users(end);
        self.censor_due(end);
        self.tally.close(end);
        self.dispatcher.replace(Dispatcher::silent());
        let occupancy = std::mem::take(&mut self.occupancy);
        Finished {
            answers_per_lane: self.lanes.iter().map(|lane| lane.answers).collect(),
            in_flight_ns: occupancy.area_until(end),
            tally: std::mem::replace(&mut self.tally, Tally::silent()),
            first_malformed: self.first_malformed.take(),
            reasons: std::mem::take(&mut self.reasons),
        }
    }

    /// How long a request must have waited at `end` for that to say anything of latencies. In a closed loop each connection always has
    /// one under way: what has waited no longer than an answer takes on average (Little's law) says nothing, and would lower the mean.
    fn least_told_ns(&self, end: u64) -> u64 {
        if self.tally.is_open() {
            return 0;
        }
        let answers = u128::from(self.tally.answers.max(1));
        u64::try_from(self.occupancy.area_until(end) / answers).unwrap_or(u64::MAX)
    }

    fn censor_next(&mut self, lane: u32, least_ns: u64, end: u64) {
        let state = &mut self.lanes[lane as usize];
        let waits = state.waits_ns != 0;
        let sent = waits || state.cursor.held > state.unwritten;
        let stamp = match waits {
            true => {
                self.tally.without_stream += u64::from(self.spec.hold.is_none());
                self.take_waiting(lane, end)
            }
            false => self.rings.pop(lane, &mut state.cursor),
        };
        let label = self.source.give_up(lane);
        match sent {
            true => {
                let tells = end.saturating_sub(stamp.intended_ns) >= least_ns;
                self.tally.unfinished(stamp, label, end, tells);
                match tells {
                    true => self.note_begun(lane, stamp, end),
                    false => self.lanes[lane as usize].begun_ns = 0,
                }
            }
            false => {
                self.lanes[lane as usize].unwritten -= 1;
                self.tally.unsent(stamp.intended_ns, end);
            }
        }
    }

    /// Every arrival that was due and that no connection took.
    fn censor_due(&mut self, end: u64) {
        let (last, before) = (end.min(self.tally.end_ns()), self.tally.unsent);
        for timeline in self.dispatcher.timelines_mut() {
            while timeline.next_ns() < last && timeline.next_ns() != AT_ONCE && self.quota > 0 {
                self.quota -= 1;
                self.tally.unsent(timeline.take(), end);
            }
        }
        self.note_not_begun(self.tally.unsent - before);
    }
}
