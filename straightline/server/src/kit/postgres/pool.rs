//! Connections that are kept for the next request: a few for each shard.

use super::client::Client;
use super::config::Config;
use super::connect::connect;
use super::connection::Connection;
use super::error::Error;
use super::patience::Patience;
use super::shared::{Line, Shared};
use crate::kit::shelf::{self, Opener, Shelves, answers_of_openers};
use crate::rt::waker::deadline_in;
use crate::{ClientWatch, Request};
use std::sync::Arc;
use std::time::Duration;

pub use crate::kit::shelf::PoolCounts;

/// Connections for each shard, unless said. PostgreSQL has a process for each, and does no more with many than with a few
/// for each of its CPUs.
const CONNECTIONS: usize = 8;
/// Longest wait for a connection, unless said: a request that waits longer is better told so.
const WAIT_TIME: Duration = Duration::from_secs(5);
/// The connections of one shard, and those who use the one connection that all share.
type Shelf = shelf::Shelf<Connection, Line>;
/// One connection's place on a shelf.
pub(super) type Place = shelf::Place<Connection, Line>;

/// Connections to one database, shared by handlers: each shard has some of its own, which it opens as they are needed.
/// Handlers on threads share as many as one shard has.
///
/// Who finds none waits in line, and so does who finds that the database has no room for one more, where the shard has others: during a
/// restart, say, in which two processes have theirs. A connection that broke is replaced by the next who wants one.
#[derive(Clone, Debug)]
pub struct Pool {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    config: Arc<Config>,
    connections: usize,
    wait_time: Duration,
    shelves: Shelves<Connection, Line>,
}

impl Pool {
    /// A pool that has no connection yet.
    pub fn new(config: Config) -> Self {
        let inner = Inner {
            config: Arc::new(config),
            connections: CONNECTIONS,
            wait_time: WAIT_TIME,
            shelves: Shelves::new(),
        };
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

    /// A connection, for work that is to be done whether somebody waits for it or not.
    ///
    /// # Errors
    ///
    /// [`Error::Busy`] if none came free in time; those of connecting, of which [`Error::TooManyConnections`] comes after a wait where the
    /// shard has other connections.
    pub fn get(&self) -> Result<Client<'static>, Error> {
        self.take(None)
    }

    /// A connection for the answer to a request. When the client closes its connection, or its sending half, the statement
    /// that runs is cancelled, and fails with [`Error::ClientGone`].
    ///
    /// # Errors
    ///
    /// As [`Pool::get`]; [`Error::ClientGone`] if the client went while this waited in line.
    pub fn get_for<'r>(&self, request: &Request<'r>) -> Result<Client<'r>, Error> {
        self.take(Some(request.client()))
    }

    /// The one connection that all handlers of a shard use at the same time, beside those that [`Pool::get`] gives to one
    /// at a time.
    pub fn shared(&self) -> Shared<'_> {
        Shared::new(self)
    }

    pub(super) fn config(&self) -> &Config {
        &self.inner.config
    }

    fn take<'r>(&self, watch: Option<ClientWatch<'r>>) -> Result<Client<'r>, Error> {
        let inner = &*self.inner;
        let deadline = deadline_in(inner.wait_time);
        let patience = Patience { deadline: Some(deadline), client: watch };
        let opener = Wanted { config: &inner.config, patience };
        let (connection, place) = self.shelf().obtain(inner.connections, deadline, &opener)?;
        Ok(Client::over(Arc::clone(&inner.config), connection, watch, Some(place)))
    }

    /// How many connections there are.
    pub fn counts(&self) -> PoolCounts {
        self.inner.shelves.counts()
    }

    /// The shelf of the present shard. Threads without a shard share one.
    pub(super) fn shelf(&self) -> Arc<Shelf> {
        self.inner.shelves.here()
    }
}

/// A connection that somebody wants.
struct Wanted<'w> {
    config: &'w Config,
    patience: Patience<'w>,
}

impl Opener<Connection> for Wanted<'_> {
    type Error = Error;

    fn open(&self) -> Result<Connection, Error> {
        connect(self.config, &self.patience)
    }

    answers_of_openers!(Connection, Error);

    fn check_wanted(&self) -> Result<(), Error> {
        if self.patience.client.is_some_and(|client| client.is_gone()) {
            Err(Error::ClientGone)
        } else {
            Ok(())
        }
    }
}
