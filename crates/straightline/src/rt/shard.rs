//! One thread's share of the work: its descriptors, its timers, its stacks, and the coroutines that run on them.
//!
//! A coroutine is born, runs and ends on one shard. Nothing here is shared with another thread but [`Remote`].

use super::arena::{Arena, Slot};
use super::driver::{Driver, Event, Interest, Ready};
use super::slab::{Key, Slab};
use super::watch::{Name, Watch};
use super::wheel::{TimerKey, Wheel};
use super::{guard, overflow, waker::Remote};
use corosensei::{Coroutine, CoroutineResult, Yielder};
use rustix::fd::BorrowedFd;
use std::backtrace::Backtrace;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often free stacks are looked at for memory to give back.
const TRIM_EVERY: Duration = Duration::from_secs(1);
/// Calls of a cancelled coroutine that are refused with an error; one more and it is suspended for good, for it does
/// not listen, and would hold the shard for ever.
const REFUSALS: u32 = 1_000;

/// Something the kernel reports on, or that has a timer, and that needs no stack to deal with it.
pub(crate) trait Source {
    /// Its descriptor became ready.
    fn ready(self: Rc<Self>, ready: Ready);

    /// The coroutine `key` is to be woken when the descriptor next becomes ready for any of `wanted`.
    fn wait(&self, _wanted: Ready, _key: Key) {}

    /// Its timer expired.
    fn expired(self: Rc<Self>) {}

    /// The shard is to end: what is idle is closed.
    fn drain(&self) {}

    /// The shard ends: whatever is still open is cut off.
    fn cut_off(&self) {}

    /// The coroutine that serves it is about to be suspended, somewhere in a handler.
    fn parking(&self) {}
}

/// Why a suspended coroutine runs again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resume {
    /// Something it may wait for happened.
    Event,
    /// The deadline it gave passed.
    Deadline,
    /// It is to give up.
    Cancel,
    /// It is to show its stack and go on waiting.
    Dump,
}

/// Why a coroutine cannot be suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It was cancelled.
    Cancelled,
    /// It unwinds from a panic, and other coroutines of the thread would seem to unwind as well.
    Unwinding,
}

type Switch = Yielder<Resume, ()>;

/// How a running coroutine gives the thread back, and whom it waits for.
type WayOut = (*const Switch, Option<Rc<dyn Source>>);
type Stackful = Coroutine<Resume, (), (), Slot>;

/// What is to be remembered of a coroutine, running or not.
struct Frame {
    /// Where the coroutine gives the thread back; it lies on the coroutine's own stack.
    switch: *const Switch,
    name: &'static Name,
    /// Told before each suspension.
    source: Option<Rc<dyn Source>>,
    key: Option<Key>,
    cancelled: bool,
    refusals: u32,
}

struct Parked {
    /// `None` while it runs.
    coroutine: Option<(Stackful, Frame)>,
    /// Whether it is in the queue already.
    queued: bool,
    since_ns: u64,
}

enum Job {
    Resume(Key, Resume),
    Start(&'static Name, Option<Rc<dyn Source>>, Box<dyn FnOnce()>),
    Ready(Rc<dyn Source>),
}

#[derive(Clone, Copy)]
enum Alarm {
    Task(Key),
    Source(Key),
    Trim,
}

/// The stack of one suspended coroutine.
#[derive(Debug)]
pub(crate) struct Sighting {
    pub(crate) name: &'static str,
    pub(crate) suspended: Duration,
    pub(crate) stack: Backtrace,
}

/// How a shard is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShardOptions {
    /// Size of each stack in bytes.
    pub(crate) stack_bytes: usize,
    /// Most coroutines at a time.
    pub(crate) stacks: u32,
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
    suspensions: Cell<u64>,
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
        let remote = Arc::new(Remote::new()?);
        driver.add(remote.fd(), Remote::KEY, Interest::Level)?;
        let shard = Self {
            remote,
            watch: Watch::new(),
            driver: RefCell::new(driver),
            events: Cell::default(),
            expired: Cell::default(),
            arena: Arena::new(options.stack_bytes, options.stacks, guard::kind())?,
            sources: RefCell::new(Slab::new()),
            parked: RefCell::new(Slab::new()),
            queue: RefCell::default(),
            starved: RefCell::default(),
            wheel: RefCell::new(Wheel::new()),
            running: RefCell::new(None),
            sightings: RefCell::default(),
            origin: Instant::now(),
            now_ns: Cell::new(0),
            suspensions: Cell::new(0),
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

    /// Time of the present turn, the clock not read again.
    pub(crate) fn now(&self) -> Instant {
        self.origin + Duration::from_nanos(self.now_ns.get())
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
}

/// Descriptors and timers.
impl Shard {
    /// Begins to report on `fd` to `source`.
    pub(crate) fn register(
        &self,
        fd: BorrowedFd<'_>,
        interest: Interest,
        source: Rc<dyn Source>,
    ) -> io::Result<Key> {
        let key = self.sources.borrow_mut().insert(source);
        let added = self.driver.borrow().add(fd, key, interest);
        if added.is_err() {
            self.sources.borrow_mut().remove(key);
        }
        added.map(|()| key)
    }

    /// Keeps a source that has timers but no descriptor.
    pub(crate) fn add_source(&self, source: Rc<dyn Source>) -> Key {
        self.sources.borrow_mut().insert(source)
    }

    pub(crate) fn change(&self, fd: BorrowedFd<'_>, key: Key, interest: Interest) -> io::Result<()> {
        self.driver.borrow().change(fd, key, interest)
    }

    /// Forgets a source. Its descriptor must be closed, or taken out by [`Shard::unregister`].
    pub(crate) fn forget(&self, key: Key) {
        let source = self.sources.borrow_mut().remove(key);
        drop(source);
    }

    /// Forgets a source whose descriptor stays open.
    pub(crate) fn unregister(&self, fd: BorrowedFd<'_>, key: Key) {
        self.driver.borrow().remove(fd).ok();
        self.forget(key);
    }

    /// The source of `key`.
    pub(crate) fn source(&self, key: Key) -> Option<Rc<dyn Source>> {
        self.sources.borrow().get(key).cloned()
    }

    /// Every source, for those who close all of them.
    pub(crate) fn sources(&self) -> Vec<Rc<dyn Source>> {
        self.sources.borrow().iter().map(|(_, source)| Rc::clone(source)).collect()
    }

    /// Tells the source of `key` when `deadline_ns` passes.
    pub(crate) fn alarm(&self, deadline_ns: u64, key: Key) -> TimerKey {
        self.wheel.borrow_mut().insert(deadline_ns, Alarm::Source(key))
    }

    pub(crate) fn cancel_alarm(&self, timer: TimerKey) -> bool {
        self.wheel.borrow_mut().cancel(timer)
    }

    fn alarm_in(&self, after: Duration, alarm: Alarm) {
        self.wheel.borrow_mut().insert(self.now_ns.get() + after.as_nanos() as u64, alarm);
    }
}

/// The loop.
impl Shard {
    /// Waits for something to happen, no longer than to the next timer, and deals with it.
    pub(crate) fn turn(self: &Rc<Self>) -> io::Result<()> {
        let mut events = self.events.take();
        events.clear();
        self.driver.borrow_mut().wait(self.patience(), &mut events)?;
        self.now_ns.set(self.origin.elapsed().as_nanos() as u64);
        for event in &events {
            self.dispatch(event);
        }
        self.events.set(events);
        self.expire();
        let jobs = self.queue.borrow().len();
        for _ in 0..jobs {
            let job = self.queue.borrow_mut().pop_front();
            if let Some(job) = job {
                self.work(job);
            }
        }
        Ok(())
    }

    /// How long the kernel may let the shard sleep.
    fn patience(&self) -> Option<Duration> {
        if !self.queue.borrow().is_empty() {
            return Some(Duration::ZERO);
        }
        let next_ns = self.wheel.borrow().next_ns()?;
        let now_ns = self.origin.elapsed().as_nanos() as u64;
        Some(Duration::from_nanos(next_ns.saturating_sub(now_ns)))
    }

    fn dispatch(self: &Rc<Self>, event: &Event) {
        if event.key == Remote::KEY {
            return self.take_remote();
        }
        if let Some(source) = self.source(event.key) {
            source.ready(event.ready);
        }
    }

    /// Does what other threads asked for.
    fn take_remote(self: &Rc<Self>) {
        let (wakes, calls) = self.remote.take();
        for key in wakes {
            self.wake(key);
        }
        for call in calls {
            call(self);
        }
    }

    fn expire(&self) {
        let mut expired = self.expired.take();
        self.wheel.borrow_mut().advance(self.now_ns.get(), &mut expired);
        for alarm in expired.drain(..) {
            match alarm {
                Alarm::Task(key) => self.wake_for(key, Resume::Deadline),
                Alarm::Source(key) => {
                    if let Some(source) = self.source(key) {
                        source.expired();
                    }
                }
                Alarm::Trim => {
                    self.arena.trim();
                    self.alarm_in(TRIM_EVERY, Alarm::Trim);
                }
            }
        }
        self.expired.set(expired);
    }

    fn work(self: &Rc<Self>, job: Job) {
        match job {
            Job::Resume(key, why) => self.resume(key, why),
            Job::Start(name, source, body) => self.start(name, source, body),
            Job::Ready(source) => source.ready(Ready::NONE),
        }
    }

    /// Comes back to `source` in the next turn, after everything that is ready now.
    pub(crate) fn come_back(&self, source: Rc<dyn Source>) {
        self.queue.borrow_mut().push_back(Job::Ready(source));
    }
}

/// Coroutines.
impl Shard {
    /// Starts a coroutine in the next turn.
    pub(crate) fn spawn(&self, name: &'static Name, body: Box<dyn FnOnce()>) {
        self.queue.borrow_mut().push_back(Job::Start(name, None, body));
    }

    /// Runs `body` as a coroutine until it ends or is first suspended. A coroutine cannot be started by another.
    #[inline]
    pub(crate) fn start(
        self: &Rc<Self>,
        name: &'static Name,
        source: Option<Rc<dyn Source>>,
        body: impl FnOnce() + 'static,
    ) {
        debug_assert!(self.running.borrow().is_none(), "coroutines are started from the loop alone");
        let Some(stack) = self.arena.take() else {
            return self.starved.borrow_mut().push_back(Job::Start(name, source, Box::new(body)));
        };
        let shard = Rc::clone(self);
        let coroutine = Coroutine::with_stack(stack, move |switch: &Switch, _: Resume| {
            shard.remember_switch(switch);
            // Nobody waits for the outcome; the panic hook has told of a panic.
            catch_unwind(AssertUnwindSafe(body)).ok();
        });
        let switch = std::ptr::null();
        let frame = Frame { switch, name, source, key: None, cancelled: false, refusals: 0 };
        self.run(coroutine, frame, Resume::Event);
    }

    fn remember_switch(&self, switch: &Switch) {
        if let Some(frame) = self.running.borrow_mut().as_mut() {
            frame.switch = switch;
        }
    }

    /// Switches to a coroutine until it gives the thread back.
    #[inline]
    fn run(self: &Rc<Self>, mut coroutine: Stackful, frame: Frame, why: Resume) {
        self.watch.enter(frame.name);
        self.running.replace(Some(frame));
        let outcome = coroutine.resume(why);
        self.watch.leave();
        let frame = self.running.take().expect("set above, and coroutines are not nested");
        match outcome {
            CoroutineResult::Yield(()) => self.park(coroutine, frame),
            CoroutineResult::Return(()) => self.retire(coroutine, frame),
        }
    }

    fn park(&self, coroutine: Stackful, mut frame: Frame) {
        let key = self.key_of(&mut frame);
        let since_ns = self.now_ns.get();
        if let Some(parked) = self.parked.borrow_mut().get_mut(key) {
            *parked = Parked { coroutine: Some((coroutine, frame)), queued: parked.queued, since_ns };
        }
    }

    #[inline]
    fn retire(self: &Rc<Self>, coroutine: Stackful, frame: Frame) {
        drop(coroutine);
        if let Some(key) = frame.key {
            self.parked.borrow_mut().remove(key);
        }
        if !self.starved.borrow().is_empty() {
            let next = self.starved.borrow_mut().pop_front();
            self.queue.borrow_mut().extend(next);
        }
    }

    fn key_of(&self, frame: &mut Frame) -> Key {
        *frame.key.get_or_insert_with(|| {
            self.parked.borrow_mut().insert(Parked { coroutine: None, queued: false, since_ns: 0 })
        })
    }

    /// The key under which the running coroutine can be woken.
    ///
    /// # Panics
    ///
    /// If no coroutine runs.
    pub(crate) fn running_key(&self) -> Key {
        let mut running = self.running.borrow_mut();
        self.key_of(running.as_mut().expect("asked by the running coroutine"))
    }

    /// Suspends the running coroutine until it is woken or `deadline_ns` passes. It may be woken for no reason.
    pub(crate) fn suspend(&self, deadline_ns: Option<u64>) -> Result<Resume, Refused> {
        if std::thread::panicking() {
            return Err(Refused::Unwinding);
        }
        let key = self.running_key();
        let (switch, source) = self.before_suspension()?;
        if let Some(source) = source {
            source.parking();
        }
        let timer = deadline_ns.map(|at| self.wheel.borrow_mut().insert(at, Alarm::Task(key)));
        self.suspensions.set(self.suspensions.get() + 1);
        let why = loop {
            // SAFETY: The switch lies at the base of the stack of the running coroutine, which is the caller: it lives
            // as long as the coroutine does, and coroutines never change their thread.
            let why = unsafe { &*switch }.suspend(());
            if why != Resume::Dump {
                break why;
            }
            self.sight();
        };
        if let Some(timer) = timer {
            self.wheel.borrow_mut().cancel(timer);
        }
        if why == Resume::Cancel { Err(Refused::Cancelled) } else { Ok(why) }
    }

    /// The way out of the running coroutine, unless it is cancelled.
    fn before_suspension(&self) -> Result<WayOut, Refused> {
        let mut running = self.running.borrow_mut();
        let frame = running.as_mut().expect("only the running coroutine is suspended");
        if !frame.cancelled {
            return Ok((frame.switch, frame.source.clone()));
        }
        frame.refusals += 1;
        if frame.refusals < REFUSALS {
            return Err(Refused::Cancelled);
        }
        let switch = frame.switch;
        drop(running);
        loop {
            // SAFETY: As in `suspend`.
            unsafe { &*switch }.suspend(());
        }
    }

    /// Lets a suspended coroutine run in the next turn.
    pub(crate) fn wake(&self, key: Key) {
        self.wake_for(key, Resume::Event);
    }

    fn wake_for(&self, key: Key, why: Resume) {
        if let Some(parked) = self.parked.borrow_mut().get_mut(key)
            && !parked.queued
            && parked.coroutine.is_some()
        {
            parked.queued = true;
            self.queue.borrow_mut().push_back(Job::Resume(key, why));
        }
    }

    fn resume(self: &Rc<Self>, key: Key, why: Resume) {
        let taken = self.parked.borrow_mut().get_mut(key).and_then(|parked| {
            parked.queued = false;
            parked.coroutine.take()
        });
        if let Some((coroutine, frame)) = taken {
            let why = if frame.cancelled && why != Resume::Dump { Resume::Cancel } else { why };
            self.run(coroutine, frame, why);
        }
    }

    /// Makes the present wait, and every later one, of every suspended coroutine fail.
    pub(crate) fn cancel_all(&self) {
        let keys: Vec<Key> = self.parked.borrow().iter().map(|(key, _)| key).collect();
        for key in keys {
            self.cancel(key);
        }
    }

    /// Makes the present wait, and every later one, of a coroutine fail.
    pub(crate) fn cancel(&self, key: Key) {
        if let Some(Parked { coroutine: Some((_, frame)), .. }) = self.parked.borrow_mut().get_mut(key) {
            frame.cancelled = true;
        }
        self.wake_for(key, Resume::Cancel);
    }

    /// The stacks of all suspended coroutines. Not to be called by one.
    pub(crate) fn sightings(self: &Rc<Self>) -> Vec<Sighting> {
        let keys: Vec<Key> = self.parked.borrow().iter().map(|(key, _)| key).collect();
        for key in keys {
            self.show(key);
        }
        self.sightings.take()
    }

    fn show(self: &Rc<Self>, key: Key) {
        let taken = self.parked.borrow_mut().get_mut(key).and_then(|parked| {
            let since_ns = parked.since_ns;
            parked.coroutine.take().map(|coroutine| (coroutine, since_ns))
        });
        let Some(((coroutine, frame), since_ns)) = taken else { return };
        self.run(coroutine, frame, Resume::Dump);
        if let Some(parked) = self.parked.borrow_mut().get_mut(key) {
            parked.since_ns = since_ns;
        }
        if let Some(sighting) = self.sightings.borrow_mut().last_mut() {
            sighting.suspended = Duration::from_nanos(self.now_ns.get() - since_ns);
        }
    }

    /// Notes the stack of the running coroutine.
    #[cold]
    fn sight(&self) {
        let name = self.running.borrow().as_ref().map_or("", |frame| frame.name.text());
        let stack = Backtrace::force_capture();
        self.sightings.borrow_mut().push(Sighting { name, suspended: Duration::ZERO, stack });
    }

    /// Leaves coroutines that would not end where they are: to unwind them by force would run handlers' code while
    /// the thread seems to panic. Their stacks stay mapped.
    fn close(&self) {
        for parked in self.parked.borrow_mut().drain() {
            std::mem::forget(parked.coroutine);
        }
        self.queue.take();
        self.starved.take();
        let sources = self.sources.borrow_mut().drain();
        drop(sources);
    }
}
