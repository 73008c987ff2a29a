//! The loop of a shard.

use super::coroutine::Resume;
use super::{Shard, Source};
use crate::rt::driver::{Event, Ready};
use crate::rt::slab::Key;
use crate::rt::waker::Remote;
use crate::rt::watch::Name;
use std::io;
use std::rc::Rc;
use std::time::Duration;

/// How often free stacks are looked at for memory to give back.
pub(super) const TRIM_EVERY: Duration = Duration::from_secs(1);

/// How soon, where one look was not enough.
const TRIM_AGAIN: Duration = Duration::from_millis(10);

/// Something to do in the next turn.
pub(super) enum Job {
    Resume(Key, Resume),
    Start(&'static Name, Option<Rc<dyn Source>>, Box<dyn FnOnce()>),
    Ready(Rc<dyn Source>),
}

/// What a timer is for.
#[derive(Clone, Copy)]
pub(super) enum Alarm {
    Task(Key),
    Source(Key),
    Trim,
}

impl Shard {
    /// Waits for something to happen, no longer than to the next timer, and deals with it.
    pub(crate) fn turn(self: &Rc<Self>) -> io::Result<()> {
        let mut events = self.events.take();
        events.clear();
        self.wait(&mut events)?;
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

    /// Lets the kernel say what happened, and the shard sleep until then if there is nothing else to do.
    fn wait(&self, events: &mut Vec<Event>) -> io::Result<()> {
        if !self.queue.borrow().is_empty() {
            self.driver.borrow_mut().wait(Some(Duration::ZERO), events)?;
            self.now_ns.set(self.clock_ns());
            return Ok(());
        }
        let (from_ns, waited_ns) = (self.clock_ns(), self.waited_ns.get());
        let next_ns = self.wheel.borrow().next_ns();
        let patience = next_ns.map(|next_ns| Duration::from_nanos(next_ns.saturating_sub(from_ns)));
        self.watch.waits(from_ns - waited_ns);
        self.driver.borrow_mut().wait(patience, events)?;
        self.now_ns.set(self.clock_ns());
        self.waited_ns.set(waited_ns + self.now_ns.get() - from_ns);
        self.watch.works(self.waited_ns.get());
        Ok(())
    }

    pub(super) fn clock_ns(&self) -> u64 {
        self.origin.elapsed().as_nanos() as u64
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
                    let next = if self.arena.trim() { TRIM_AGAIN } else { TRIM_EVERY };
                    self.alarm_in(next, Alarm::Trim);
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
