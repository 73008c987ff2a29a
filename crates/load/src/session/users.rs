//! Users, whose requests follow each other: what a session does for a feed that has any.
//!
//! The next request of a user is due when the one before it was answered, plus the time to think. It waits for a connection
//! like any arrival, and with its stamp. A user who arrives is an arrival of the schedule. One whose request fails is gone.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use model::job::scenario::Lack;

use super::dispatch::NEVER;
use super::ring::Stamp;
use super::{Session, Source};
use crate::histogram::{Latencies, add_latencies, latencies};

/// A user under way, by a number that is free again when the user has ended.
pub type User = u32;

/// What comes after an answer to a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Another request, so much later.
    After {
        /// Time to think.
        wait_ns: u64,
    },
    /// The user has had every step.
    Finished {
        /// From the instant at which the first was due to the last answer.
        took_ns: u64,
    },
    /// The answer had not what was to be taken from it, and the user is gone.
    Missing(Missing),
}

/// A value that was to be taken from an answer and could not be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Missing {
    /// Which step.
    pub step: u16,
    /// Which of its values.
    pub take: u16,
    /// What was wrong.
    pub why: Lack,
}

/// What became of users in a window.
#[derive(Debug, Clone)]
pub struct Users {
    /// They came.
    pub begun: u64,
    /// They had every step.
    pub finished: u64,
    /// They ended at a step that went wrong.
    pub failed: u64,
    /// They were still at it when the window ended.
    pub under_way: u64,
    /// Users who were due in it and never began: nobody had room for them.
    pub not_begun: u64,
    /// From the instant at which the first step was due to the last answer, of those who finished.
    pub took: Latencies,
    /// Values that could not be taken.
    pub missing: BTreeMap<Missing, u64>,
}

impl Default for Users {
    fn default() -> Self {
        Self {
            begun: 0,
            finished: 0,
            failed: 0,
            under_way: 0,
            not_begun: 0,
            took: latencies(),
            missing: BTreeMap::new(),
        }
    }
}

impl Users {
    /// Adds what others counted.
    pub(crate) fn add(&mut self, more: &Self) {
        self.begun += more.begun;
        self.finished += more.finished;
        self.failed += more.failed;
        self.under_way += more.under_way;
        self.not_begun += more.not_begun;
        add_latencies(&mut self.took, &more.took);
        for (value, count) in &more.missing {
            *self.missing.entry(*value).or_default() += count;
        }
    }
}

impl Session {
    /// When a step of a user can be sent; [`NEVER`] while no connection has room.
    #[cold]
    pub(super) fn due_step_ns(&self) -> u64 {
        match self.dispatcher.has_idle() && !self.tally.is_over_by(self.step_ns) {
            true => self.step_ns,
            false => NEVER,
        }
    }

    /// Gives `lane` the step that is due first.
    #[cold]
    pub(super) fn assign_step(&mut self, lane: u32) {
        if let Some(due_ns) = self.source.each().and_then(|each| each.fetch_step(lane)) {
            self.assign(lane, Stamp::due(due_ns));
        }
        self.note_users();
    }

    /// Whether there is room for another user, and when the next step is due, have changed.
    pub(super) fn note_users(&mut self) {
        if let Some(each) = self.source.each().filter(|each| each.has_users()) {
            (self.step_ns, self.full) = (each.step_ns(), !each.has_room());
        }
    }

    /// A user has come.
    pub(super) fn user_begun(&mut self) {
        if self.source.each().is_some_and(|each| each.has_users()) {
            if let Some(users) = self.tally.open_users() {
                users.begun += 1;
            }
            self.note_users();
        }
    }

    /// The request of a user is answered, well or not, with the stamp `due_ns`.
    #[cold]
    pub(super) fn user_answered(
        &mut self,
        lane: u32,
        user: User,
        label: Option<u16>,
        well: bool,
        due_ns: u64,
        at: u64,
    ) {
        let Source::Each(each) = &mut self.source else { return };
        if !well {
            each.lose(user);
            self.tally.user_failed(at);
            return self.note_users();
        }
        match each.user_answered(user, self.heard.get_mut(lane as usize), due_ns, at) {
            Next::After { .. } => {}
            Next::Finished { took_ns } => self.tally.user_finished(took_ns, at),
            Next::Missing(missing) => self.tally.value_missing(missing, label, at),
        }
        self.note_users();
    }

    /// The oldest request of `lane` will not be answered: its label. Its user, if it has one, is gone.
    pub(super) fn lose(&mut self, lane: u32, at: u64) -> Option<u16> {
        let request = self.source.each()?.pop(lane)?.0;
        if let Some(user) = request.user {
            self.source.each()?.lose(user);
            self.tally.user_failed(at);
            self.note_users();
        }
        request.label
    }

    /// So many arrivals were due and nobody took them: where requests have users, each is one who never began.
    pub(super) fn note_not_begun(&mut self, arrivals: u64) {
        if self.source.each().is_some_and(|each| each.has_users())
            && let Some(users) = self.tally.open_users()
        {
            users.not_begun += arrivals;
        }
    }

    /// The window ends: users who are under way are counted, and steps that were due and not sent.
    pub(super) fn end_users(&mut self, end: u64) {
        let Some(each) = self.source.each().filter(|each| each.has_users()) else { return };
        let (under_way, steps) = (each.under_way(), each.take_steps());
        for Reverse((due_ns, _)) in steps {
            self.tally.unsent(due_ns, end);
        }
        if let Some(users) = self.tally.open_users() {
            users.under_way += under_way as u64;
        }
        self.step_ns = NEVER;
    }
}
