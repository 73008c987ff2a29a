//! Waiting and being woken, the same for coroutines and for plain threads.

use super::shard::{Refused, Resume, Shard, current, current_coroutine};
use super::slab::Key;
use super::time_limit;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Something for a shard to do, from another thread.
pub(crate) type Call = Box<dyn FnOnce(&Rc<Shard>) + Send>;

/// What other threads may touch of a shard: a letter box with a bell.
pub(crate) struct Remote {
    letters: Mutex<Letters>,
    bell: OwnedFd,
}

#[derive(Default)]
struct Letters {
    wakes: Vec<Key>,
    calls: Vec<Call>,
    /// Whether the shard has ended, or is about to: nobody reads another.
    closed: bool,
}

impl Letters {
    fn is_empty(&self) -> bool {
        self.wakes.is_empty() && self.calls.is_empty()
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Remote").field("bell", &self.bell).finish_non_exhaustive()
    }
}

impl Remote {
    /// The bell's own key, which no source has.
    pub(crate) const KEY: Key = Key::MAX;

    pub(crate) fn new() -> io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { letters: Mutex::default(), bell })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Wakes a coroutine of the shard.
    pub(crate) fn wake(&self, key: Key) {
        self.post(|letters| letters.wakes.push(key));
    }

    /// Asks the shard to do something, unless it has ended.
    pub(crate) fn call(&self, call: impl FnOnce(&Rc<Shard>) + Send + 'static) {
        self.offer(Box::new(call)).ok();
    }

    /// The same; a shard that has ended gives the call back.
    pub(crate) fn offer(&self, call: Call) -> Result<(), Call> {
        let mut call = Some(call);
        self.post(|letters| letters.calls.extend(call.take()));
        call.map_or(Ok(()), Err)
    }

    fn post(&self, letter: impl FnOnce(&mut Letters)) {
        let mut letters = unpoisoned(&self.letters);
        if letters.closed {
            return;
        }
        let silent = letters.is_empty();
        letter(&mut letters);
        drop(letters);
        if silent {
            // It fails only when the counter is full, and then the bell rings already.
            rustix::io::write(&self.bell, &1u64.to_ne_bytes()).ok();
        }
    }

    /// Empties the letter box.
    pub(crate) fn take(&self) -> (Vec<Key>, Vec<Call>) {
        rustix::io::read(&self.bell, &mut [0; 8]).ok();
        let mut letters = unpoisoned(&self.letters);
        (std::mem::take(&mut letters.wakes), std::mem::take(&mut letters.calls))
    }

    /// Takes no more letters, if none is left to be read; whether that is so.
    pub(crate) fn close(&self) -> bool {
        let mut letters = unpoisoned(&self.letters);
        letters.closed = letters.closed || letters.is_empty();
        letters.closed
    }

    /// Takes no more letters, and drops those that are left.
    pub(crate) fn shut(&self) {
        let mut letters = unpoisoned(&self.letters);
        letters.closed = true;
        let left = std::mem::take(&mut letters.calls);
        drop(letters);
        drop(left);
    }
}

/// Locks a mutex whose data is whole at every moment, so that a panic of a holder does not matter.
pub(crate) fn unpoisoned<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls what is somebody else's. A panic of it ends here: the panic hook has told of it, and nobody waits for more.
pub(crate) fn contained(call: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(call)) {
        discard(panic);
    }
}

/// How often what a panic left is dropped before it is let go.
const DISCARDS: u32 = 3;

/// Drops what somebody else's code panicked with. That could panic again, with something that could as well.
#[cold]
pub(crate) fn discard(mut panic: Box<dyn Any + Send>) {
    for _ in 0..DISCARDS {
        match catch_unwind(AssertUnwindSafe(move || drop(panic))) {
            Ok(()) => return,
            Err(next) => panic = next,
        }
    }
    std::mem::forget(panic);
}

/// Longest wait that is reckoned with, a hundred years: the clock cannot say when `Duration::MAX` will have passed.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// When `time` will have passed.
pub(crate) fn deadline_in(time: Duration) -> Instant {
    Instant::now() + time.min(FOREVER)
}

/// Wakes one coroutine or one thread, from anywhere.
#[derive(Clone, Debug)]
pub(crate) enum Waker {
    Coroutine(Arc<Remote>, Key),
    Thread(std::thread::Thread),
}

impl Waker {
    /// Of the running coroutine, or else of this thread.
    pub(crate) fn current() -> Self {
        match current_coroutine() {
            Some(shard) => Self::Coroutine(Arc::clone(shard.remote()), shard.running_key()),
            None => Self::Thread(std::thread::current()),
        }
    }

    pub(crate) fn wake(&self) {
        match self {
            Self::Thread(thread) => thread.unpark(),
            Self::Coroutine(remote, key) => match current() {
                Some(shard) if Arc::ptr_eq(shard.remote(), remote) => shard.wake(*key),
                _ => remote.wake(*key),
            },
        }
    }
}

/// Why a call that waits gave up: the coroutine was cancelled, the time of its handler is over, or it would wait while it
/// unwinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancelled {
    why: Refused,
}

impl fmt::Display for Cancelled {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self.why {
            Refused::Cancelled => "the coroutine was cancelled",
            Refused::Late => "the time that the handler has is over",
            Refused::Unwinding => "a coroutine cannot wait while it unwinds from a panic",
        })
    }
}

impl std::error::Error for Cancelled {}

/// Whether `error` says that the coroutine was cancelled, or that the time of its handler is over: it should give up. The kind
/// of the error is `TimedOut` in the second case.
pub fn is_cancelled(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Cancelled>())
}

/// Whether `error` says that what was waited for did not come in its own time, and not that the handler has none left.
pub(crate) fn is_timeout(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::TimedOut && !is_cancelled(error)
}

impl From<Refused> for io::Error {
    fn from(refused: Refused) -> Self {
        let kind = match refused {
            Refused::Late => io::ErrorKind::TimedOut,
            Refused::Cancelled | Refused::Unwinding => io::ErrorKind::ConnectionAborted,
        };
        Self::new(kind, Cancelled { why: refused })
    }
}

/// Waits to be woken; `false` once `deadline` passed. It may return for no reason.
pub(crate) fn park(deadline: Option<Instant>) -> io::Result<bool> {
    if let Some(shard) = current_coroutine() {
        let why = shard.suspend(deadline.map(|at| shard.to_ns(at)))?;
        return Ok(why != Resume::Deadline);
    }
    time_limit::on_thread(deadline, |deadline| {
        let Some(deadline) = deadline else {
            std::thread::park();
            return Ok(true);
        };
        std::thread::park_timeout(deadline.saturating_duration_since(Instant::now()));
        Ok(Instant::now() < deadline)
    })
}

/// Those who wait for one thing, first come first served.
#[derive(Debug, Default)]
pub(crate) struct WaitList {
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    tickets: u64,
    queue: VecDeque<(u64, Waker)>,
}

impl WaitList {
    pub(crate) const fn new() -> Self {
        Self { waiting: Mutex::new(Waiting { tickets: 0, queue: VecDeque::new() }) }
    }

    /// Waits until `attempt` gives something; `None` once `deadline` passed.
    ///
    /// Whoever makes an attempt succeed calls [`WaitList::wake_one`] afterwards.
    pub(crate) fn wait_until<R>(
        &self,
        deadline: Option<Instant>,
        mut attempt: impl FnMut() -> Option<R>,
    ) -> io::Result<Option<R>> {
        loop {
            if let Some(result) = attempt() {
                return Ok(Some(result));
            }
            let ticket = self.join();
            // What was waited for may have come between the attempt and the joining.
            if let Some(result) = attempt() {
                self.leave(ticket);
                return Ok(Some(result));
            }
            let woken = park(deadline);
            let called = !self.remove(ticket);
            if !matches!(woken, Ok(true)) {
                return self.give_up(woken, called, attempt());
            }
        }
    }

    /// The deadline passed or the coroutine was cancelled: a call that came meanwhile is for the next in line.
    fn give_up<R>(&self, woken: io::Result<bool>, called: bool, last: Option<R>) -> io::Result<Option<R>> {
        if last.is_none() && called {
            self.wake_one();
        }
        match last {
            Some(result) => Ok(Some(result)),
            None => woken.map(|_| None),
        }
    }

    pub(crate) fn join(&self) -> u64 {
        let waker = Waker::current();
        let mut waiting = unpoisoned(&self.waiting);
        waiting.tickets += 1;
        let ticket = waiting.tickets;
        waiting.queue.push_back((ticket, waker));
        ticket
    }

    /// Takes a ticket back; `false` if it was called already.
    pub(crate) fn remove(&self, ticket: u64) -> bool {
        let mut waiting = unpoisoned(&self.waiting);
        let place = waiting.queue.iter().position(|(other, _)| *other == ticket);
        place.is_some_and(|place| waiting.queue.remove(place).is_some())
    }

    fn leave(&self, ticket: u64) {
        if !self.remove(ticket) {
            self.wake_one();
        }
    }

    pub(crate) fn wake_one(&self) {
        let first = unpoisoned(&self.waiting).queue.pop_front();
        if let Some((_, waker)) = first {
            waker.wake();
        }
    }

    pub(crate) fn wake_all(&self) {
        let all = std::mem::take(&mut unpoisoned(&self.waiting).queue);
        for (_, waker) in all {
            waker.wake();
        }
    }
}

/// A place for one value that somebody waits for.
#[derive(Debug)]
pub(crate) struct Promise<T> {
    value: Mutex<Option<T>>,
    waiting: WaitList,
}

impl<T> Promise<T> {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { value: Mutex::new(None), waiting: WaitList::new() })
    }

    pub(crate) fn keep(&self, value: T) {
        *unpoisoned(&self.value) = Some(value);
        self.waiting.wake_all();
    }

    pub(crate) fn is_kept(&self) -> bool {
        unpoisoned(&self.value).is_some()
    }

    /// Waits for the value, which goes to one taker.
    pub(crate) fn take(&self) -> io::Result<T> {
        let value = self.take_until(None)?;
        Ok(value.expect("without a deadline it waits for a value or an error"))
    }

    /// The value if it is there.
    #[cfg(any(feature = "postgres", feature = "redis"))]
    pub(crate) fn take_now(&self) -> Option<T> {
        unpoisoned(&self.value).take()
    }

    /// Waits for the value no longer than to `deadline`.
    pub(crate) fn take_until(&self, deadline: Option<Instant>) -> io::Result<Option<T>> {
        self.waiting.wait_until(deadline, || unpoisoned(&self.value).take())
    }
}

#[cfg(test)]
mod tests {
    use super::{DISCARDS, Remote, discard};
    use crate::rt::slab::Key;
    use std::panic::resume_unwind;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// Panics so many times more, each time with another of its kind.
    struct Again(u32, Arc<AtomicU32>);

    impl Drop for Again {
        fn drop(&mut self) {
            self.1.fetch_add(1, Ordering::Relaxed);
            if self.0 > 0 {
                resume_unwind(Box::new(Self(self.0 - 1, Arc::clone(&self.1))));
            }
        }
    }

    #[test]
    fn a_letter_is_read_or_given_back() {
        let remote = Remote::new().unwrap();
        assert!(remote.offer(Box::new(|_| {})).is_ok());
        assert!(!remote.close(), "a letter is left");
        assert_eq!(remote.take().1.len(), 1);
        assert!(remote.close());
        assert!(remote.offer(Box::new(|_| {})).is_err());
        remote.wake(Key::MAX);
        let (wakes, calls) = remote.take();
        assert_eq!((wakes.len(), calls.len()), (0, 0), "nobody would read them");
    }

    #[test]
    fn a_shard_that_ends_by_a_failure_drops_what_it_was_asked() {
        let (remote, asked) = (Remote::new().unwrap(), Arc::new(()));
        let held = Arc::clone(&asked);
        remote.call(move |_| drop(held));
        remote.shut();
        assert_eq!(Arc::strong_count(&asked), 1);
        assert!(remote.offer(Box::new(|_| {})).is_err());
    }

    #[test]
    fn what_a_panic_left_is_dropped_unless_that_panics_again_and_again() {
        for (times, drops) in [(0, 1), (1, 2), (DISCARDS, DISCARDS)] {
            let dropped = Arc::new(AtomicU32::new(0));
            discard(Box::new(Again(times, Arc::clone(&dropped))));
            assert_eq!(dropped.load(Ordering::Relaxed), drops, "{times}");
        }
    }
}
