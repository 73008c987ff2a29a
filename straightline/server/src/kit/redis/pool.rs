//! Connections that are kept for the next request: a few for each shard.

use super::client::{Client, Connection};
use super::config::Config;
use super::error::Error;
use crate::kit::shelf::{self, Opener, PoolCounts, Shelves, answers_of_openers};
use crate::rt::waker::deadline_in;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Connections for each shard, unless said.
const CONNECTIONS: usize = 8;
/// Longest wait for a connection, unless said: a request that waits longer is better told so.
const WAIT_TIME: Duration = Duration::from_secs(5);

/// One connection's place on a shelf.
pub(super) type Place = shelf::Place<Connection>;

/// Connections to one Redis, shared by handlers: each shard has some of its own, which it opens as they are needed.
/// Handlers on threads share as many as one shard has.
///
/// Who finds none waits in line, and so does who finds that Redis has no room for one more, where the shard has others. A connection that
/// broke is replaced by the next who wants one.
#[derive(Clone, Debug)]
pub struct Pool {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    config: Config,
    connections: usize,
    wait_time: Duration,
    shelves: Shelves<Connection>,
}

impl Pool {
    /// A pool that has no connection yet.
    pub fn new(config: Config) -> Self {
        let inner = Inner { config, connections: CONNECTIONS, wait_time: WAIT_TIME, shelves: Shelves::new() };
        Self { inner: Arc::new(inner) }
    }

    /// Most connections of each shard, 8 unless said; at least 1.
    ///
    /// # Panics
    ///
    /// If the pool was cloned before.
    pub fn connections(self, most: usize) -> Self {
        self.changed(|inner| inner.connections = most.max(1))
    }

    /// Longest wait for a connection to come free, 5 s unless said.
    ///
    /// # Panics
    ///
    /// If the pool was cloned before.
    pub fn wait_time(self, time: Duration) -> Self {
        self.changed(|inner| inner.wait_time = time)
    }

    fn changed(mut self, change: impl FnOnce(&mut Inner)) -> Self {
        change(Arc::get_mut(&mut self.inner).expect("a pool is set up before it is shared"));
        self
    }

    /// A connection, which goes back when it is dropped.
    ///
    /// # Errors
    ///
    /// [`Error::Busy`] if none came free in time; those of connecting.
    pub fn get(&self) -> Result<Client, Error> {
        let inner = &*self.inner;
        let deadline = deadline_in(inner.wait_time);
        let opener = Wanted { config: &inner.config, deadline };
        let (connection, place) = inner.shelves.here().obtain(inner.connections, deadline, &opener)?;
        Ok(Client::over(&inner.config, connection, Some(place)))
    }

    /// How many connections there are.
    pub fn counts(&self) -> PoolCounts {
        self.inner.shelves.counts()
    }
}

/// A connection that somebody wants.
struct Wanted<'w> {
    config: &'w Config,
    deadline: Instant,
}

impl Opener<Connection> for Wanted<'_> {
    type Error = Error;

    fn open(&self) -> Result<Connection, Error> {
        Connection::open(self.config, self.deadline)
    }

    answers_of_openers!(Connection, Error);
}
