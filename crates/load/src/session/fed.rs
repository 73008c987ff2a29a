//! What a session does only where its requests come from a feed.

use super::dispatch::NEVER;
use super::ring::Stamp;
use super::{FeedError, Session, Source};

impl Session {
    /// Gives `lane` the next batch, all of which was due when its first request was; the others use up arrivals of
    /// their own.
    pub(super) fn assign_batch(&mut self, lane: u32, stamp: Stamp) {
        let Some(each) = self.source.each() else { return };
        let count = each.fetch(lane);
        for nth in 0..count {
            if nth > 0 {
                if self.quota == 0 && self.again.is_empty() {
                    return self.source.each().into_iter().for_each(|each| each.give_back(lane, count - nth));
                }
                self.take(lane);
            }
            self.assign(lane, stamp);
        }
        self.user_begun();
    }

    /// Whether the next answer on `lane` is to be heard, where any is.
    #[inline]
    pub(super) fn hears(&self, lane: u32) -> bool {
        match &self.source {
            Source::Same(_) => false,
            Source::Each(each) => each.hears(lane),
        }
    }

    /// Whether a connection with room may ask now.
    #[inline]
    pub(super) fn may_ask(&mut self, lane: u32) -> bool {
        match &mut self.source {
            Source::Same(_) => true,
            Source::Each(each) => !each.is_over() && each.is_rested(lane),
        }
    }

    /// Lets those ask whose rest is over.
    #[inline]
    pub(super) fn end_rests(&mut self, now: u64) {
        while let Some(lane) = self.source.each().and_then(|each| each.rested(now)) {
            self.note_room(lane);
        }
    }

    /// When the next rest is over.
    #[inline]
    pub(super) fn rest_end_ns(&self) -> u64 {
        match &self.source {
            Source::Same(_) => NEVER,
            Source::Each(each) => each.wake_ns(),
        }
    }

    /// The next answer on `lane` is to the oldest request there.
    #[inline]
    pub(super) fn expect_answer(&mut self, lane: u32) {
        if let Source::Each(each) = &self.source {
            self.heads.expect(each.bodiless(lane));
        }
    }

    /// Lets the feed hear the answer that is complete on `lane`.
    #[inline]
    pub(super) fn hear(&mut self, lane: u32) {
        if let (Some(each), Some(heard)) = (self.source.each(), self.heard.get(lane as usize)) {
            each.heard(heard);
        }
    }

    /// Whether the feed wants to end, or cannot go on.
    #[inline]
    #[must_use]
    pub fn is_over(&self) -> bool {
        match &self.source {
            Source::Same(_) => false,
            Source::Each(each) => each.is_over(),
        }
    }

    /// Whether anything was sent since the session began.
    #[must_use]
    pub fn has_sent(&self) -> bool {
        self.completed > 0 || self.occupancy.now > 0
    }

    /// Why the feed cannot go on, once.
    pub fn take_failure(&mut self) -> Option<FeedError> {
        self.source.each().and_then(|each| each.take_failure())
    }
}
