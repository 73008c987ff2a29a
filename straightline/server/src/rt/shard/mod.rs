//! One thread's share of the work: its descriptors, its timers, its stacks, and the coroutines that run on them.
//!
//! A coroutine is born, runs and ends on one shard. Nothing here is shared with another thread but [`Remote`].
//!
//! - [`sources`]: what the kernel reports on, and timers
//! - [`turn`]: the loop
//! - [`coroutine`]: starting, suspending, waking and cancelling; where the switch happens
//! - [`sighting`]: the stacks of what is suspended

mod coroutine;
mod sighting;
mod sources;
mod turn;

use super::arena::Arena;
use super::driver::{Driver, Event, Interest};
use super::slab::Slab;
use super::watch::Watch;
use super::wheel::Wheel;
use super::{guard, overflow, waker::Remote};
use coroutine::{Frame, Parked};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;
use turn::{Alarm, Job, TRIM_EVERY};

pub(crate) use coroutine::{Refused, Resume};
pub(crate) use sighting::Sighting;
pub(crate) use sources::Source;

/// How a shard is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShardOptions {
    /// Size of each stack in bytes.
    pub(crate) stack_bytes: usize,
    /// Most coroutines at a time; fewer where the kernel cannot guard so many stacks.
    pub(crate) stacks: u32,
    /// So many shards of this process are made alike, and share the guards that it may have.
    pub(crate) shards: usize,
}

/// One thread's share of the work. See the [module](self).
pub(crate) struct Shard {
    remote: Arc<Remote>,
    watch: Arc<Watch>,
    driver: RefCell<Box<dyn Driver>>,
    events: Cell<Vec<Event>>,
    expired: Cell<Vec<Alarm>>,
    arena: Rc<Arena>,
    sources: RefCell<Slab<Rc<dyn Source>>>,
    parked: RefCell<Slab<Parked>>,
    queue: RefCell<VecDeque<Job>>,
    /// Coroutines that wait for a stack.
    starved: RefCell<VecDeque<Job>>,
    wheel: RefCell<Wheel<Alarm>>,
    running: RefCell<Option<Frame>>,
    sightings: RefCell<Vec<Sighting>>,
    origin: Instant,
    now_ns: Cell<u64>,
    /// How long it has waited for something to happen so far.
    waited_ns: Cell<u64>,
    suspensions: Cell<u64>,
    /// Whether coroutines that begin are cancelled as those there are.
    cancels: Cell<bool>,
}

thread_local! {
    static CURRENT: RefCell<Option<Rc<Shard>>> = const { RefCell::new(None) };
}

/// The shard of this thread, if it has one.
pub(crate) fn current() -> Option<Rc<Shard>> {
    CURRENT.with(|shard| shard.borrow().clone())
}

/// The shard of this thread, if a coroutine runs on it now.
pub(crate) fn current_coroutine() -> Option<Rc<Shard>> {
    current().filter(|shard| shard.running.borrow().is_some())
}

/// While it lives, the thread has a shard.
pub(crate) struct Entered(());

impl Drop for Entered {
    fn drop(&mut self) {
        overflow::forget();
        let shard = CURRENT.with(|current| current.borrow_mut().take());
        if let Some(shard) = shard {
            shard.close();
        }
    }
}

impl Shard {
    pub(crate) fn new(driver: Box<dyn Driver>, options: ShardOptions) -> io::Result<Rc<Self>> {
        let kind = guard::kind();
        let stacks = options.stacks.min(guard::most(kind, options.shards));
        let (remote, watch) = (Arc::new(Remote::new()?), Watch::new());
        driver.add(remote.fd(), Remote::KEY, Interest::Level)?;
        let shard = Self {
            remote,
            origin: watch.origin(),
            watch,
            driver: RefCell::new(driver),
            events: Cell::default(),
            expired: Cell::default(),
            arena: Arena::new(options.stack_bytes, stacks, kind)?,
            sources: RefCell::new(Slab::new()),
            parked: RefCell::new(Slab::new()),
            queue: RefCell::default(),
            starved: RefCell::default(),
            wheel: RefCell::new(Wheel::new()),
            running: RefCell::new(None),
            sightings: RefCell::default(),
            now_ns: Cell::new(0),
            waited_ns: Cell::new(0),
            suspensions: Cell::new(0),
            cancels: Cell::new(false),
        };
        shard.alarm_in(TRIM_EVERY, Alarm::Trim);
        Ok(Rc::new(shard))
    }

    /// Makes this the shard of the thread.
    ///
    /// # Panics
    ///
    /// If the thread has one already.
    pub(crate) fn enter(self: &Rc<Self>) -> Entered {
        let before = CURRENT.with(|current| current.borrow_mut().replace(Rc::clone(self)));
        assert!(before.is_none(), "a thread has at most one shard");
        overflow::watch_for(&self.arena, &self.watch);
        Entered(())
    }

    pub(crate) fn remote(&self) -> &Arc<Remote> {
        &self.remote
    }

    pub(crate) fn watch(&self) -> &Arc<Watch> {
        &self.watch
    }

    pub(crate) fn arena(&self) -> &Arena {
        &self.arena
    }

    /// Time of the present turn, in nanoseconds since the shard was made.
    #[inline]
    pub(crate) fn now_ns(&self) -> u64 {
        self.now_ns.get()
    }

    /// `at` on the clock of [`Shard::now_ns`].
    pub(crate) fn to_ns(&self, at: Instant) -> u64 {
        at.saturating_duration_since(self.origin).as_nanos() as u64
    }

    /// Coroutines that are suspended or wait for a stack.
    pub(crate) fn coroutines(&self) -> usize {
        self.parked.borrow().len() + self.starved.borrow().len()
    }

    /// Whether any coroutine is still to run.
    pub(crate) fn has_work(&self) -> bool {
        self.coroutines() > 0 || !self.queue.borrow().is_empty()
    }

    /// How often a coroutine was suspended so far.
    pub(crate) fn suspensions(&self) -> u64 {
        self.suspensions.get()
    }

    /// Leaves coroutines that would not end where they are: to unwind them by force would run handlers' code while
    /// the thread seems to panic. Their stacks stay mapped.
    fn close(&self) {
        self.remote.shut();
        for parked in self.parked.borrow_mut().drain() {
            std::mem::forget(parked.coroutine);
        }
        self.queue.take();
        self.starved.take();
        let sources = self.sources.borrow_mut().drain();
        drop(sources);
    }
}
