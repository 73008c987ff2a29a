//! Connections that are kept for the next handler: some for each shard, given out in the order in which they are asked for.

use crate::rt::shard::current;
use crate::rt::waker::{Promise, Remote, unpoisoned};
use std::any::Any;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Instant;

/// The shelves of one pool. `B` is what each shard has beside its connections.
#[derive(Debug)]
pub(super) struct Shelves<C, B = ()> {
    /// Tells the pool from others in what each thread remembers.
    id: u64,
    all: Mutex<Vec<Owned<C, B>>>,
}

/// A shelf and the shard that it belongs to; that of threads to none.
type Owned<C, B> = (Option<Arc<Remote>>, Arc<Shelf<C, B>>);
/// A pool, a shard, and the shelf of the one for the other.
type Near = (u64, Arc<Remote>, Weak<dyn Any + Send + Sync>);

/// The connections of one shard.
#[derive(Debug)]
pub(super) struct Shelf<C, B = ()> {
    state: Mutex<State<C>>,
    #[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "Redis has nothing there"))]
    pub(super) beside: B,
}

#[derive(Debug)]
struct State<C> {
    /// Connections that nobody uses; the last given back is the first taken.
    idle: Vec<Box<C>>,
    /// Connections that are open, or are being opened.
    open: usize,
    waiting: VecDeque<Arc<Promise<Grant<C>>>>,
}

/// What one is given who wants a connection.
#[derive(Debug)]
enum Grant<C> {
    /// One that rested, or that another has just given back. Whoever takes it looks first whether it is quiet.
    Connection(Box<C>),
    /// Leave to open one.
    Leave,
}

/// Why somebody is given nothing.
#[derive(Debug)]
pub(super) enum Missed {
    /// None came free in time.
    Late,
    /// The wait was broken off.
    Stopped(io::Error),
}

/// How connections are opened for one who wants one.
pub(super) trait Opener<C> {
    type Error;

    /// Opens a connection.
    fn open(&self) -> Result<C, Self::Error>;

    /// Why nothing is given.
    fn missed(&self, missed: Missed) -> Self::Error;

    /// Whether one that rested can be used.
    fn is_quiet(&self, connection: &mut C) -> bool;

    /// Whether the server has no room for one more.
    fn is_full(&self, error: &Self::Error) -> bool;

    /// Says so if nobody wants it any more, asked after a wait.
    fn check_wanted(&self) -> Result<(), Self::Error> {
        Ok(())
    }
}

/// What is the same in the [`Opener`] of every client: the functions that a connection with a `wire` and an error with `Busy`,
/// `TooManyConnections` and `of_stream` answer by themselves.
macro_rules! answers_of_openers {
    ($connection:ident, $error:ident) => {
        fn missed(&self, missed: $crate::kit::shelf::Missed) -> $error {
            match missed {
                $crate::kit::shelf::Missed::Late => $error::Busy,
                $crate::kit::shelf::Missed::Stopped(error) => $error::of_stream(error),
            }
        }

        fn is_quiet(&self, connection: &mut $connection) -> bool {
            connection.wire.is_quiet()
        }

        fn is_full(&self, error: &$error) -> bool {
            matches!(error, $error::TooManyConnections(_))
        }
    };
}

pub(super) use answers_of_openers;

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

impl<C: Send + 'static, B: Default + Send + Sync + 'static> Shelves<C, B> {
    pub(super) fn new() -> Self {
        static POOLS: AtomicU64 = AtomicU64::new(0);
        Self { id: POOLS.fetch_add(1, Ordering::Relaxed), all: Mutex::default() }
    }

    /// The shelf of the present shard. Threads without a shard share one.
    pub(super) fn here(&self) -> Arc<Shelf<C, B>> {
        let Some(shard) = current() else { return self.shelf_for(None) };
        let remote = shard.remote();
        NEAR.with_borrow_mut(|near| {
            let is_it = |(id, other, _): &&Near| *id == self.id && Arc::ptr_eq(other, remote);
            let known = near.iter().find(is_it).and_then(|(.., shelf)| shelf.upgrade());
            if let Some(known) = known.and_then(|shelf| shelf.downcast().ok()) {
                return known;
            }
            near.retain(|(.., shelf)| shelf.strong_count() > 0);
            let shelf = self.shelf_for(Some(remote));
            let weak: Weak<Shelf<C, B>> = Arc::downgrade(&shelf);
            near.push((self.id, Arc::clone(remote), weak));
            shelf
        })
    }

    fn shelf_for(&self, remote: Option<&Arc<Remote>>) -> Arc<Shelf<C, B>> {
        let mut shelves = unpoisoned(&self.all);
        let same = |other: &Option<Arc<Remote>>| match (other, remote) {
            (Some(other), Some(remote)) => Arc::ptr_eq(other, remote),
            (None, None) => true,
            _ => false,
        };
        if let Some((_, shelf)) = shelves.iter().find(|(other, _)| same(other)) {
            return Arc::clone(shelf);
        }
        let state = State { idle: Vec::new(), open: 0, waiting: VecDeque::new() };
        let shelf = Arc::new(Shelf { state: Mutex::new(state), beside: B::default() });
        shelves.push((remote.cloned(), Arc::clone(&shelf)));
        shelf
    }

    pub(super) fn counts(&self) -> PoolCounts {
        let mut counts = PoolCounts::default();
        for (_, shelf) in &*unpoisoned(&self.all) {
            let state = unpoisoned(&shelf.state);
            counts.open += state.open;
            counts.idle += state.idle.len();
            counts.waiting += state.waiting.len();
        }
        counts
    }
}

impl<C, B> Shelf<C, B> {
    /// A connection that can be used, in the order in which they were asked for, and its place.
    ///
    /// Where the server has no room for one more, it waits for one of the others, as long as there are any.
    pub(super) fn obtain<O: Opener<C>>(
        self: Arc<Self>,
        most: usize,
        deadline: Instant,
        opener: &O,
    ) -> Result<Placed<C, B>, O::Error> {
        let (mut grant, mut waited) = self.take(most, deadline).map_err(|missed| opener.missed(missed))?;
        loop {
            if let Err(unwanted) = if waited { opener.check_wanted() } else { Ok(()) } {
                self.give(grant);
                return Err(unwanted);
            }
            // From here on it is given back whatever happens.
            let place = Place::on(Arc::clone(&self));
            if let Grant::Connection(mut connection) = grant
                && opener.is_quiet(&mut connection)
            {
                return Ok((connection, place));
            }
            let full = match opener.open() {
                Ok(connection) => return Ok((Box::new(connection), place)),
                Err(error) if opener.is_full(&error) => error,
                Err(error) => return Err(error),
            };
            (grant, waited) = match place.wait_for_another(deadline) {
                Ok(Some(grant)) => (grant, true),
                Ok(None) | Err(Missed::Late) => return Err(full),
                Err(missed) => return Err(opener.missed(missed)),
            };
        }
    }

    /// A connection, or leave to open one; and whether it was waited for.
    fn take(&self, most: usize, deadline: Instant) -> Result<(Grant<C>, bool), Missed> {
        let promise = {
            let mut state = unpoisoned(&self.state);
            if state.waiting.is_empty() {
                if let Some(connection) = state.idle.pop() {
                    return Ok((Grant::Connection(connection), false));
                }
                if state.open < most {
                    state.open += 1;
                    return Ok((Grant::Leave, false));
                }
            }
            let promise = Promise::new();
            state.waiting.push_back(Arc::clone(&promise));
            promise
        };
        self.wait(&promise, deadline).map(|grant| (grant, true))
    }

    /// Waits in line.
    fn wait(&self, promise: &Arc<Promise<Grant<C>>>, deadline: Instant) -> Result<Grant<C>, Missed> {
        match promise.take_until(Some(deadline)) {
            Ok(Some(grant)) => Ok(grant),
            taken => {
                self.leave(promise);
                Err(taken.map_or_else(Missed::Stopped, |_| Missed::Late))
            }
        }
    }

    /// Waits no longer. What came in the same moment is for the next in line.
    fn leave(&self, promise: &Arc<Promise<Grant<C>>>) {
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

    /// Gives what came free to the next in line.
    fn give(&self, grant: Grant<C>) {
        let mut state = unpoisoned(&self.state);
        let next = state.waiting.pop_front();
        match (next, grant) {
            // Under the lock, so that whoever finds itself called finds what it was called for.
            (Some(next), grant) => next.keep(grant),
            (None, Grant::Connection(connection)) => state.idle.push(connection),
            (None, Grant::Leave) => state.open -= 1,
        }
    }
}

/// A connection that is used, and where it goes back to.
pub(super) type Placed<C, B> = (Box<C>, Place<C, B>);

/// One connection's place on a shelf.
#[derive(Debug)]
pub(super) struct Place<C, B = ()> {
    shelf: Arc<Shelf<C, B>>,
    /// Whether it needs no more to be given back.
    kept: bool,
}

impl<C, B> Place<C, B> {
    fn on(shelf: Arc<Shelf<C, B>>) -> Self {
        Self { shelf, kept: false }
    }

    /// Gives the place up for the first in line, if there are others that can come back; nothing otherwise.
    fn wait_for_another(mut self, deadline: Instant) -> Result<Option<Grant<C>>, Missed> {
        let promise = Promise::new();
        {
            let mut state = unpoisoned(&self.shelf.state);
            if state.open == 1 {
                return Ok(None);
            }
            state.open -= 1;
            self.kept = true;
            if let Some(connection) = state.idle.pop() {
                return Ok(Some(Grant::Connection(connection)));
            }
            state.waiting.push_front(Arc::clone(&promise));
        }
        self.shelf.wait(&promise, deadline).map(Some)
    }

    /// Gives a connection back; one that nobody can use goes, and leaves its place to another.
    pub(super) fn give_back(mut self, connection: Box<C>, is_clean: bool) {
        self.kept = is_clean;
        if is_clean {
            self.shelf.give(Grant::Connection(connection));
        }
    }
}

impl<C, B> Drop for Place<C, B> {
    fn drop(&mut self) {
        if !self.kept {
            self.shelf.give(Grant::Leave);
        }
    }
}
