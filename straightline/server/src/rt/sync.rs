//! Locks that suspend the coroutine, not the thread. Between threads they work as well.

use super::waker::{WaitList, deadline_in, park, unpoisoned};
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex as StdMutex, MutexGuard as StdGuard, TryLockError};
use std::time::{Duration, Instant};

/// A lock that may be held over a suspension, and whose waiters are suspended.
///
/// A `std::sync::Mutex` held over a suspension stops its whole shard as soon as another coroutine of it wants the
/// lock. A panic of a holder releases the lock and leaves the data as it is.
#[derive(Debug, Default)]
pub struct Mutex<T: ?Sized> {
    waiting: WaitList,
    inner: StdMutex<T>,
}

impl<T> Mutex<T> {
    /// An open lock around `value`.
    pub const fn new(value: T) -> Self {
        Self { waiting: WaitList::new(), inner: StdMutex::new(value) }
    }

    /// The value, once nobody else can have the lock.
    pub fn into_inner(self) -> T {
        self.inner.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits for the lock and takes it.
    ///
    /// # Errors
    ///
    /// If the coroutine is cancelled while it waits.
    pub fn lock(&self) -> io::Result<MutexGuard<'_, T>> {
        let guard = self.waiting.wait_until(None, || self.try_lock())?;
        Ok(guard.expect("without a deadline it waits for the lock or an error"))
    }

    /// Takes the lock if it is free now.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let inner = match self.inner.try_lock() {
            Ok(inner) => inner,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(MutexGuard { inner: Some(inner), mutex: self })
    }
}

/// The lock of a [`Mutex`], given back when dropped.
pub struct MutexGuard<'a, T: ?Sized> {
    /// `None` only while it is dropped.
    inner: Option<StdGuard<'a, T>>,
    mutex: &'a Mutex<T>,
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.inner.as_ref().expect("it is there until the guard is dropped")
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.inner.as_mut().expect("it is there until the guard is dropped")
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(out)
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        self.inner = None;
        self.mutex.waiting.wake_one();
    }
}

/// Lets coroutines wait for a change of what a [`Mutex`] protects.
#[derive(Debug, Default)]
pub struct Condvar {
    waiting: WaitList,
}

impl Condvar {
    /// One that nobody waits for.
    pub const fn new() -> Self {
        Self { waiting: WaitList::new() }
    }

    /// Gives the lock back, waits for a notification, and takes the lock again. It may return without one.
    ///
    /// # Errors
    ///
    /// If the coroutine is cancelled; the lock is then given back.
    pub fn wait<'a, T: ?Sized>(&self, guard: MutexGuard<'a, T>) -> io::Result<MutexGuard<'a, T>> {
        self.wait_to(guard, None).map(|(guard, _)| guard)
    }

    /// [`Condvar::wait`] as long as `condition` holds.
    ///
    /// # Errors
    ///
    /// As [`Condvar::wait`].
    pub fn wait_while<'a, T: ?Sized>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> io::Result<MutexGuard<'a, T>> {
        while condition(&mut guard) {
            guard = self.wait(guard)?;
        }
        Ok(guard)
    }

    /// [`Condvar::wait`] no longer than `timeout`; also says whether it was woken rather than timed out.
    ///
    /// # Errors
    ///
    /// As [`Condvar::wait`].
    pub fn wait_timeout<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Duration,
    ) -> io::Result<(MutexGuard<'a, T>, bool)> {
        self.wait_to(guard, Some(deadline_in(timeout)))
    }

    fn wait_to<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        deadline: Option<Instant>,
    ) -> io::Result<(MutexGuard<'a, T>, bool)> {
        let mutex = guard.mutex;
        let ticket = self.waiting.join();
        drop(guard);
        let woken = park(deadline);
        let called = !self.waiting.remove(ticket);
        let outcome = woken.and_then(|woken| Ok((mutex.lock()?, woken || called)));
        // The call of one that gives up, be it while it waits for the lock, is for the next in line.
        if called && outcome.is_err() {
            self.waiting.wake_one();
        }
        outcome
    }

    /// Wakes one that waits.
    pub fn notify_one(&self) {
        self.waiting.wake_one();
    }

    /// Wakes all that wait.
    pub fn notify_all(&self) {
        self.waiting.wake_all();
    }
}

/// A queue of at most `capacity` values between coroutines or threads; with capacity 0, as with 1, one value waits.
///
/// Both ends can be cloned; each value goes to one receiver.
///
/// ```
/// use straightline::rt;
///
/// let (sender, receiver) = rt::channel(4);
/// let counting = rt::spawn(move || (0..10).try_for_each(|number| sender.send(number)));
/// let mut sum = 0;
/// while let Some(number) = receiver.recv()? {
///     sum += number;
/// }
/// counting.join()??;
/// assert_eq!(sum, 45);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn channel<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let shared = Arc::new(Channel {
        state: StdMutex::new(State { values: VecDeque::new(), senders: 1, receivers: 1 }),
        capacity: capacity.max(1),
        room: WaitList::new(),
        values: WaitList::new(),
    });
    (Sender { shared: Arc::clone(&shared) }, Receiver { shared })
}

#[derive(Debug)]
struct Channel<T> {
    state: StdMutex<State<T>>,
    capacity: usize,
    room: WaitList,
    values: WaitList,
}

#[derive(Debug)]
struct State<T> {
    values: VecDeque<T>,
    senders: usize,
    receivers: usize,
}

/// The end of a [`channel`] that takes values.
#[derive(Debug)]
pub struct Sender<T> {
    shared: Arc<Channel<T>>,
}

impl<T> Sender<T> {
    /// Waits for room and sends `value`.
    ///
    /// # Errors
    ///
    /// `BrokenPipe` when every receiver is gone; or if the coroutine is cancelled. The value is then dropped.
    pub fn send(&self, value: T) -> io::Result<()> {
        let mut value = Some(value);
        let sent = self.shared.room.wait_until(None, || {
            let mut state = unpoisoned(&self.shared.state);
            if state.receivers == 0 {
                return Some(false);
            }
            if state.values.len() == self.shared.capacity {
                return None;
            }
            state.values.extend(value.take());
            Some(true)
        })?;
        if sent != Some(true) {
            return Err(io::Error::new(io::ErrorKind::BrokenPipe, "every receiver of the channel is gone"));
        }
        self.shared.values.wake_one();
        Ok(())
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        unpoisoned(&self.shared.state).senders += 1;
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut state = unpoisoned(&self.shared.state);
        state.senders -= 1;
        let last = state.senders == 0;
        drop(state);
        if last {
            self.shared.values.wake_all();
        }
    }
}

/// The end of a [`channel`] that gives values.
#[derive(Debug)]
pub struct Receiver<T> {
    shared: Arc<Channel<T>>,
}

impl<T> Receiver<T> {
    /// Waits for a value; `None` when every sender is gone and nothing is left.
    ///
    /// # Errors
    ///
    /// If the coroutine is cancelled.
    pub fn recv(&self) -> io::Result<Option<T>> {
        self.recv_to(None)
    }

    /// [`Receiver::recv`] no longer than `timeout`.
    ///
    /// # Errors
    ///
    /// `TimedOut` when no value came; or if the coroutine is cancelled.
    pub fn recv_timeout(&self, timeout: Duration) -> io::Result<Option<T>> {
        self.recv_to(Some(deadline_in(timeout)))
    }

    fn recv_to(&self, deadline: Option<Instant>) -> io::Result<Option<T>> {
        let received = self.shared.values.wait_until(deadline, || {
            let mut state = unpoisoned(&self.shared.state);
            match state.values.pop_front() {
                Some(value) => Some(Some(value)),
                None => (state.senders == 0).then_some(None),
            }
        })?;
        let Some(value) = received else { return Err(io::ErrorKind::TimedOut.into()) };
        if value.is_some() {
            self.shared.room.wake_one();
        }
        Ok(value)
    }

    /// A value if one is there now.
    pub fn try_recv(&self) -> Option<T> {
        let value = unpoisoned(&self.shared.state).values.pop_front();
        if value.is_some() {
            self.shared.room.wake_one();
        }
        value
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        unpoisoned(&self.shared.state).receivers += 1;
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut state = unpoisoned(&self.shared.state);
        state.receivers -= 1;
        let last = state.receivers == 0;
        drop(state);
        if last {
            self.shared.room.wake_all();
        }
    }
}
