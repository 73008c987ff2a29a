//! Coroutines of a shard: starting, suspending, waking and cancelling them.

use super::turn::{Alarm, Job};
use super::{Shard, Source};
use crate::rt::arena::Slot;
use crate::rt::slab::Key;
use crate::rt::waker::contained;
use crate::rt::watch::Name;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Calls of a cancelled or late coroutine that are refused with an error; one more and it is suspended for good, for it does
/// not listen, and would hold the shard for ever.
const REFUSALS: u32 = 1_000;

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
    /// The time that its handler has is over.
    Late,
    /// It unwinds from a panic, and other coroutines of the thread would seem to unwind as well.
    Unwinding,
}

/// No time limit.
const NEVER_NS: u64 = u64::MAX;

type Switch = Yielder<Resume, ()>;

/// How a running coroutine gives the thread back, whom it waits for, and when its time is over.
type WayOut = (*const Switch, Option<Rc<dyn Source>>, u64);
type Stackful = Coroutine<Resume, (), (), Slot>;

/// What is to be remembered of a coroutine, running or not.
pub(super) struct Frame {
    /// Where the coroutine gives the thread back; it lies on the coroutine's own stack.
    switch: *const Switch,
    pub(super) name: &'static Name,
    /// Told before each suspension.
    source: Option<Rc<dyn Source>>,
    key: Option<Key>,
    cancelled: bool,
    /// When its time is over, on the clock of the shard; [`NEVER_NS`] without a limit.
    late_ns: u64,
    refusals: u32,
}

pub(super) struct Parked {
    /// `None` while it runs.
    pub(super) coroutine: Option<(Stackful, Frame)>,
    /// Whether it is in the queue already.
    queued: bool,
    pub(super) since_ns: u64,
}

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
            contained(body);
        });
        let switch = std::ptr::null();
        let cancelled = self.cancels.get();
        let frame = Frame { switch, name, source, key: None, cancelled, late_ns: NEVER_NS, refusals: 0 };
        self.run(coroutine, frame, Resume::Event);
    }

    fn remember_switch(&self, switch: &Switch) {
        if let Some(frame) = self.running.borrow_mut().as_mut() {
            frame.switch = switch;
        }
    }

    /// Switches to a coroutine until it gives the thread back.
    #[inline]
    pub(super) fn run(self: &Rc<Self>, mut coroutine: Stackful, frame: Frame, why: Resume) {
        self.watch.enter(frame.name);
        // Written where it stays: to move what was written field by field a moment ago stalls the CPU.
        *self.running.borrow_mut() = Some(frame);
        let outcome = coroutine.resume(why);
        self.watch.leave();
        match outcome {
            CoroutineResult::Yield(()) => self.park(coroutine),
            CoroutineResult::Return(()) => self.retire(coroutine),
        }
    }

    /// Calls the coroutine that runs by another name from now on.
    #[cold]
    pub(crate) fn rename(&self, name: &'static Name) {
        if let Some(frame) = self.running.borrow_mut().as_mut() {
            frame.name = name;
            self.watch.rename(name);
        }
    }

    /// Gives the coroutine that runs time up to `until`, or as much as it takes. Its calls that wait fail afterwards.
    #[cold]
    pub(crate) fn limit_running(&self, until: Option<Instant>) {
        if let Some(frame) = self.running.borrow_mut().as_mut() {
            frame.late_ns = until.map_or(NEVER_NS, |at| self.to_ns(at));
            if !frame.cancelled {
                frame.refusals = 0;
            }
        }
    }

    /// When the time of the coroutine that runs is over.
    pub(crate) fn running_limit(&self) -> Option<Instant> {
        let late_ns = self.running.borrow().as_ref().map_or(NEVER_NS, |frame| frame.late_ns);
        (late_ns != NEVER_NS).then(|| self.origin + Duration::from_nanos(late_ns))
    }

    fn park(&self, coroutine: Stackful) {
        let mut frame = self.running.take().expect("the coroutine that ran, for they are not nested");
        let key = self.key_of(&mut frame);
        let since_ns = self.now_ns.get();
        if let Some(parked) = self.parked.borrow_mut().get_mut(key) {
            *parked = Parked { coroutine: Some((coroutine, frame)), queued: parked.queued, since_ns };
        }
    }

    #[inline]
    fn retire(&self, coroutine: Stackful) {
        drop(coroutine);
        let (key, source) = match &mut *self.running.borrow_mut() {
            Some(frame) => (frame.key, frame.source.take()),
            None => (None, None),
        };
        *self.running.borrow_mut() = None;
        drop(source);
        if let Some(key) = key {
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
        let (switch, source, late_ns) = self.before_suspension()?;
        if let Some(source) = source {
            source.parking();
        }
        let limited = late_ns < deadline_ns.unwrap_or(NEVER_NS);
        let deadline_ns = if limited { Some(late_ns) } else { deadline_ns };
        let timer = deadline_ns.map(|at| self.wheel.borrow_mut().insert(at, Alarm::Task(key)));
        self.suspensions.set(self.suspensions.get() + 1);
        // SAFETY: It is the switch of the running coroutine, which is the caller.
        let why = unsafe { self.switch_away(switch) };
        if let Some(timer) = timer {
            self.wheel.borrow_mut().cancel(timer);
        }
        match why {
            Resume::Cancel => Err(Refused::Cancelled),
            Resume::Deadline if limited => Err(Refused::Late),
            why => Ok(why),
        }
    }

    /// Gives the thread back until the running coroutine is to go on; why it is.
    ///
    /// # Safety
    ///
    /// `switch` is that of the running coroutine: it lies at the base of its stack, and lives as long as it does.
    unsafe fn switch_away(&self, switch: *const Switch) -> Resume {
        loop {
            // SAFETY: As the caller promises; and coroutines never change their thread.
            match unsafe { &*switch }.suspend(()) {
                Resume::Dump => self.sight(),
                why => return why,
            }
        }
    }

    /// The way out of the running coroutine, unless it is cancelled or late.
    fn before_suspension(&self) -> Result<WayOut, Refused> {
        let mut running = self.running.borrow_mut();
        let frame = running.as_mut().expect("only the running coroutine is suspended");
        let late = frame.late_ns != NEVER_NS && self.clock_ns() >= frame.late_ns;
        if !frame.cancelled && !late {
            return Ok((frame.switch, frame.source.clone(), frame.late_ns));
        }
        frame.refusals += 1;
        if frame.refusals < REFUSALS {
            return Err(if frame.cancelled { Refused::Cancelled } else { Refused::Late });
        }
        let switch = frame.switch;
        drop(running);
        loop {
            // SAFETY: As in `suspend`.
            unsafe { self.switch_away(switch) };
        }
    }

    /// Lets a suspended coroutine run in the next turn.
    pub(crate) fn wake(&self, key: Key) {
        self.wake_for(key, Resume::Event);
    }

    pub(super) fn wake_for(&self, key: Key, why: Resume) {
        if let Some(parked) = self.parked.borrow_mut().get_mut(key)
            && !parked.queued
            && parked.coroutine.is_some()
        {
            parked.queued = true;
            self.queue.borrow_mut().push_back(Job::Resume(key, why));
        }
    }

    pub(super) fn resume(self: &Rc<Self>, key: Key, why: Resume) {
        let taken = self.parked.borrow_mut().get_mut(key).and_then(|parked| {
            parked.queued = false;
            parked.coroutine.take()
        });
        if let Some((coroutine, frame)) = taken {
            let why = if frame.cancelled && why != Resume::Dump { Resume::Cancel } else { why };
            self.run(coroutine, frame, why);
        }
    }

    /// Makes the present wait, and every later one, of every coroutine fail, also of those that begin later.
    pub(crate) fn cancel_all(&self) {
        self.cancels.set(true);
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
}
