//! First bytes of answers that came before their last ones.

use super::Session;
use super::ring::Stamp;
use crate::histogram::{Latencies, Record as _, add_latencies, latencies};

/// Answers whose first byte was read before their last. Of every other answer both came with one read, so that only these
/// cost anything: the first bytes of all are the last bytes of all, with these in the place of those.
#[derive(Debug, Clone)]
pub struct InPieces {
    /// First byte − sent; in a closed loop − intended, as all is counted there.
    pub first: Latencies,
    /// Last byte − the same. Of an answer that is given up, or not complete at the end of the window, the moment of that.
    pub last: Latencies,
}

impl Default for InPieces {
    fn default() -> Self {
        Self { first: latencies(), last: latencies() }
    }
}

impl InPieces {
    /// One more.
    pub(super) fn note(&mut self, from_ns: u64, begun_ns: u64, end_ns: u64) {
        self.first.note(begun_ns.saturating_sub(from_ns));
        self.last.note(end_ns.saturating_sub(from_ns));
    }

    /// Adds what others counted.
    pub(crate) fn add(&mut self, more: &Self) {
        for (sum, more) in [(&mut self.first, &more.first), (&mut self.last, &more.last)] {
            add_latencies(sum, more);
        }
    }

    /// The first bytes of all answers whose last bytes are `last`; nothing where these are not among them.
    pub(crate) fn first_of_all(&self, last: &Latencies) -> Option<Latencies> {
        let mut first = last.clone();
        first.subtract(&self.last).ok()?;
        first.add(&self.first).ok()?;
        Some(first)
    }
}

impl Session {
    /// The first part of the answer of `lane` came at `at`, where a protocol of streams says so.
    pub fn stream_begun(&mut self, lane: u32, at: u64) {
        let state = &mut self.lanes[lane as usize];
        if state.begun_ns == 0 {
            state.begun_ns = at;
        }
    }

    /// An answer is complete: whether it came in pieces, and how far apart.
    #[inline]
    pub(super) fn note_pieces(&mut self, lane: u32, stamp: Stamp, at: u64, timed: bool) {
        if self.lanes[lane as usize].begun_ns != 0 {
            let begun_ns = std::mem::take(&mut self.lanes[lane as usize].begun_ns);
            if self.tally.covers(at) {
                self.tally.pieces.note(at.saturating_sub(begun_ns));
                if timed {
                    self.tally.in_pieces(stamp, begun_ns, at);
                }
            }
        }
    }

    /// The answer of `lane` is not complete at `end`, and will not be: what of it there was.
    #[cold]
    pub(super) fn note_begun(&mut self, lane: u32, stamp: Stamp, end: u64) {
        let begun_ns = std::mem::take(&mut self.lanes[lane as usize].begun_ns);
        if begun_ns != 0 && begun_ns <= end {
            self.tally.in_pieces(stamp, begun_ns, end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes_are_last_bytes_but_of_answers_in_pieces() {
        let mut last = latencies();
        [100, 100, 200, 900].into_iter().for_each(|ns| last.note(ns));
        let mut pieces = InPieces::default();
        pieces.note(1_000, 1_050, 1_900);
        let first = pieces.first_of_all(&last).expect("it is among them");
        assert_eq!((first.len(), first.min(), first.max()), (4, 50, 200));
        pieces.note(0, 1, 3_000);
        assert!(pieces.first_of_all(&last).is_none(), "no answer took so long");
    }
}
