//! What the kernel reports on, and timers.

use super::Shard;
use super::turn::Alarm;
use crate::rt::driver::{Interest, Ready};
use crate::rt::slab::Key;
use crate::rt::wheel::TimerKey;
use rustix::fd::BorrowedFd;
use std::io;
use std::rc::Rc;
use std::time::Duration;

/// Something the kernel reports on, or that has a timer, and that needs no stack to deal with it.
pub(crate) trait Source {
    /// Its descriptor became ready.
    fn ready(self: Rc<Self>, ready: Ready);

    /// The coroutine `key` is to be woken when the descriptor next becomes ready for any of `wanted`.
    fn wait(&self, _wanted: Ready, _key: Key) {}

    /// A call found that its descriptor is not ready for `exhausted` any more.
    fn exhaust(&self, _exhausted: Ready) {}

    /// Whether a call for `wanted` may find something: not if it was exhausted, and nothing was reported since.
    fn may(&self, _wanted: Ready) -> bool {
        true
    }

    /// The coroutine `key` waits no longer.
    fn leave(&self, _key: Key) {}

    /// Its timer expired.
    fn expired(self: Rc<Self>) {}

    /// The shard is to end: what is idle is closed.
    fn drain(&self) {}

    /// The shard ends: whatever is still open is cut off.
    fn cut_off(&self) {}

    /// The coroutine that serves it is about to be suspended, somewhere in a handler.
    fn parking(&self) {}
}

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

    /// Reports to another source from now on.
    pub(crate) fn replace(&self, key: Key, source: Rc<dyn Source>) {
        let before = self.sources.borrow_mut().get_mut(key).map(|place| std::mem::replace(place, source));
        drop(before);
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

    pub(super) fn alarm_in(&self, after: Duration, alarm: Alarm) {
        self.wheel.borrow_mut().insert(self.now_ns.get() + after.as_nanos() as u64, alarm);
    }
}
