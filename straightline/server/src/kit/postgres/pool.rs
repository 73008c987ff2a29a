//! Connections that are kept for the next request: a few for each shard.

use super::client::Client;
use super::config::Config;
use super::connect::connect;
use super::connection::Connection;
use super::error::Error;
use super::patience::Patience;
use super::shared::{Line, Shared};
use crate::rt::shard::current;
use crate::rt::waker::{Promise, Remote, deadline_in, unpoisoned};
use crate::{ClientWatch, Request};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

/// Connections for each shard, unless said. PostgreSQL has a process for each, and does no more with many than with a few
/// for each of its CPUs.
const CONNECTIONS: usize = 8;
/// Longest wait for a connection, unless said: a request that waits longer is better told so.
const WAIT_TIME: Duration = Duration::from_secs(5);
/// A connection that rested longer is looked at before it is used: the server may have closed it. One that was given
/// back a moment ago would have shown it.
const REST_TIME: Duration = Duration::from_millis(10);

/// Connections to one database, shared by handlers: each shard has some of its own, which it opens as they are needed.
/// Handlers on threads share as many as one shard has.
///
/// Who finds none waits in line. A connection that broke is replaced by the next who wants one.
#[derive(Clone, Debug)]
pub struct Pool {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// Tells it from others in what each thread remembers.
    id: u64,
    config: Arc<Config>,
    connections: usize,
    wait_time: Duration,
    shelves: Mutex<Vec<Owned>>,
}

/// A shelf and the shard that it belongs to; that of threads to none.
type Owned = (Option<Arc<Remote>>, Arc<Shelf>);
/// A pool, a shard, and the shelf of the one for the other.
type Near = (u64, Arc<Remote>, Weak<Shelf>);

/// The connections of one shard.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    state: Mutex<State>,
    /// Those who use the one connection that all share.
    pub(super) line: Line,
}

#[derive(Debug, Default)]
struct State {
    /// Connections that nobody uses, and since when; the last given back is the first taken.
    idle: Vec<(Box<Connection>, Instant)>,
    /// Connections that are open, or are being opened.
    open: usize,
    waiting: VecDeque<Arc<Promise<Grant>>>,
}

/// What one is given who wants a connection.
#[derive(Debug)]
enum Grant {
    Connection(Box<Connection>, Instant),
    /// Leave to open one.
    Leave,
}

/// How many connections a pool has, over all shards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolCounts {
    /// Open, or being opened.
    pub open: usize,
    /// Of those, not in use.
    pub idle: usize,
    /// Handlers that wait for one.
    pub waiting: usize,
}

thread_local! {
    /// The shelf of the present shard for each pool that was asked on this thread.
    static NEAR: RefCell<Vec<Near>> = const { RefCell::new(Vec::new()) };
}

impl Pool {
    /// A pool that has no connection yet.
    pub fn new(config: Config) -> Self {
        static POOLS: AtomicU64 = AtomicU64::new(0);
        let inner = Inner {
            id: POOLS.fetch_add(1, Ordering::Relaxed),
            config: Arc::new(config),
            connections: CONNECTIONS,
            wait_time: WAIT_TIME,
            shelves: Mutex::default(),
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
    /// [`Error::Busy`] if none came free in time; those of connecting.
    pub fn get(&self) -> Result<Client<'static>, Error> {
        self.take(None)
    }

    /// A connection for the answer to a request. When the client closes its connection, or its sending half, the statement
    /// that runs is cancelled, and fails with [`Error::ClientGone`].
    ///
    /// # Errors
    ///
    /// As [`Pool::get`].
    pub fn get_for<'r>(&self, request: &Request<'r>) -> Result<Client<'r>, Error> {
        self.take(Some(request.client()))
    }

    /// The one connection that all handlers of a shard use at the same time, beside those that [`Pool::get`] gives to one
    /// at a time.
    pub fn shared(&self) -> Shared<'_> {
        Shared::of(self)
    }

    pub(super) fn config(&self) -> &Config {
        &self.inner.config
    }

    fn take<'r>(&self, watch: Option<ClientWatch<'r>>) -> Result<Client<'r>, Error> {
        let (inner, shelf) = (&*self.inner, self.shelf());
        let deadline = deadline_in(inner.wait_time);
        let grant = shelf.take(inner.connections, deadline)?;
        // From here on it is given back whatever happens.
        let place = Place { shelf, kept: false };
        let kept = match grant {
            Grant::Connection(connection, since) if is_good(&connection, since) => Some(connection),
            _ => None,
        };
        let connection = match kept {
            Some(connection) => connection,
            None => Box::new(connect(&inner.config, &Patience { deadline: Some(deadline), client: watch })?),
        };
        Ok(Client::over(Arc::clone(&inner.config), connection, watch, Some(place)))
    }

    /// How many connections there are.
    pub fn counts(&self) -> PoolCounts {
        let mut counts = PoolCounts::default();
        for (_, shelf) in &*unpoisoned(&self.inner.shelves) {
            let state = unpoisoned(&shelf.state);
            counts.open += state.open;
            counts.idle += state.idle.len();
            counts.waiting += state.waiting.len();
        }
        counts
    }

    /// The shelf of the present shard. Threads without a shard share one.
    pub(super) fn shelf(&self) -> Arc<Shelf> {
        let Some(shard) = current() else { return self.inner.shelf(None) };
        let remote = shard.remote();
        NEAR.with_borrow_mut(|near| {
            let is_it = |(id, other, _): &&Near| *id == self.inner.id && Arc::ptr_eq(other, remote);
            if let Some(known) = near.iter().find(is_it).and_then(|(.., shelf)| shelf.upgrade()) {
                return known;
            }
            near.retain(|(.., shelf)| shelf.strong_count() > 0);
            let shelf = self.inner.shelf(Some(remote));
            near.push((self.inner.id, Arc::clone(remote), Arc::downgrade(&shelf)));
            shelf
        })
    }
}

impl Inner {
    fn shelf(&self, remote: Option<&Arc<Remote>>) -> Arc<Shelf> {
        let mut shelves = unpoisoned(&self.shelves);
        let same = |other: &Option<Arc<Remote>>| match (other, remote) {
            (Some(other), Some(remote)) => Arc::ptr_eq(other, remote),
            (None, None) => true,
            _ => false,
        };
        if let Some((_, shelf)) = shelves.iter().find(|(other, _)| same(other)) {
            return Arc::clone(shelf);
        }
        let shelf = Arc::new(Shelf::default());
        shelves.push((remote.cloned(), Arc::clone(&shelf)));
        shelf
    }
}

/// Whether a connection that rested can still be used.
pub(super) fn is_good(connection: &Connection, since: Instant) -> bool {
    since.elapsed() < REST_TIME || connection.wire.is_quiet()
}

impl Shelf {
    /// A connection, or leave to open one, in the order in which they were asked for.
    fn take(&self, most: usize, deadline: Instant) -> Result<Grant, Error> {
        let promise = {
            let mut state = unpoisoned(&self.state);
            if state.waiting.is_empty() {
                if let Some((connection, since)) = state.idle.pop() {
                    return Ok(Grant::Connection(connection, since));
                }
                if state.open < most {
                    state.open += 1;
                    return Ok(Grant::Leave);
                }
            }
            let promise = Promise::new();
            state.waiting.push_back(Arc::clone(&promise));
            promise
        };
        let taken = promise.take_until(Some(deadline));
        match taken {
            Ok(Some(grant)) => Ok(grant),
            taken => {
                self.leave(&promise);
                Err(taken.map_or_else(Error::of_stream, |_| Error::Busy))
            }
        }
    }

    /// Waits no longer. What came in the same moment is for the next in line.
    fn leave(&self, promise: &Arc<Promise<Grant>>) {
        let mut state = unpoisoned(&self.state);
        let before = state.waiting.len();
        state.waiting.retain(|other| !Arc::ptr_eq(other, promise));
        if state.waiting.len() < before {
            return;
        }
        drop(state);
        if let Some(grant) = promise.take_now() {
            self.give(grant);
        }
    }

    fn give(&self, grant: Grant) {
        let mut state = unpoisoned(&self.state);
        let next = state.waiting.pop_front();
        match (next, grant) {
            // Under the lock, so that whoever finds itself called finds what it was called for.
            (Some(next), grant) => next.keep(grant),
            (None, Grant::Connection(connection, since)) => state.idle.push((connection, since)),
            (None, Grant::Leave) => state.open -= 1,
        }
    }
}

/// One connection's place on a shelf.
#[derive(Debug)]
pub(super) struct Place {
    shelf: Arc<Shelf>,
    /// Whether its connection is on the shelf again.
    kept: bool,
}

impl Place {
    /// Gives a connection back; one that nobody can use goes, and leaves its place to another.
    pub(super) fn give_back(mut self, connection: Box<Connection>) {
        self.kept = connection.is_clean();
        if self.kept {
            self.shelf.give(Grant::Connection(connection, Instant::now()));
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.kept {
            self.shelf.give(Grant::Leave);
        }
    }
}
