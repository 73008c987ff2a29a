//! How long something may take, and for whom it is done.

use super::error::Error;
use crate::ClientWatch;
use std::time::{Duration, Instant};

/// How often it is looked whether the client is still there while the database works: a client that goes costs the
/// database no more than so much, and a statement that is answered before costs no look.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How long something may take, and for whom it is done.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Patience<'r> {
    pub(super) deadline: Option<Instant>,
    pub(super) client: Option<ClientWatch<'r>>,
}

impl Patience<'_> {
    /// For nobody in particular, from now on.
    pub(super) fn lasting(time: Duration) -> Patience<'static> {
        Patience { deadline: Instant::now().checked_add(time), client: None }
    }

    /// How long the next wait may be; `None` for ever.
    pub(super) fn next_wait(&self, waited: bool) -> Result<Option<Duration>, Error> {
        if waited && self.client.is_some_and(|client| client.is_gone()) {
            return Err(Error::ClientGone);
        }
        let left = self.deadline.map(|at| at.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Err(Error::Deadline);
        }
        Ok(match self.client {
            Some(_) => Some(left.map_or(LOOK_EVERY, |left| left.min(LOOK_EVERY))),
            None => left,
        })
    }

    /// All the time that is left; `None` for ever.
    pub(super) fn left(&self) -> Result<Option<Duration>, Error> {
        Patience { deadline: self.deadline, client: None }.next_wait(false)
    }
}
