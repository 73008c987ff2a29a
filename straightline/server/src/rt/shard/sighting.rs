//! The stacks of what is suspended, for those who ask why nothing happens.

use super::Shard;
use super::coroutine::Resume;
use crate::rt::slab::Key;
use std::backtrace::Backtrace;
use std::rc::Rc;
use std::time::Duration;

/// The stack of one suspended coroutine.
#[derive(Debug)]
pub(crate) struct Sighting {
    pub(crate) name: &'static str,
    pub(crate) suspended: Duration,
    pub(crate) stack: Backtrace,
}

impl Shard {
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
    pub(super) fn sight(&self) {
        let name = self.running.borrow().as_ref().map_or("", |frame| frame.name.text());
        let stack = Backtrace::force_capture();
        self.sightings.borrow_mut().push(Sighting { name, suspended: Duration::ZERO, stack });
    }
}
