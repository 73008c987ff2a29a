//! Coroutines of the user's own, sleeping, and work that would hold up a shard.

use super::shard::{Refused, Shard, ShardOptions, current};
use super::slab::Key;
use super::waker::{Promise, Remote, contained, deadline_in, park, unpoisoned};
use super::watch::Name;
use super::{STACK_BYTES, driver::Epoll};
use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Most threads that [`blocking`] uses at a time: as many as a disk or a database usefully serves at once.
const BLOCKING_THREADS: usize = 64;
/// How long such a thread waits for more to do.
const BLOCKING_IDLE: Duration = Duration::from_secs(10);
/// Bytes of one connection that are moved without a wait before the other coroutines of the shard have their turn: a peer
/// that is as fast as this end would hold the shard until the last byte.
pub(crate) const TURN_BYTES: u64 = 256 * 1024;
/// Most coroutines of a runtime started by [`run`].
const RUN_STACKS: u32 = 16 * 1024;

/// Waits for `duration`, rounded up by at most 0.1 ms.
///
/// # Errors
///
/// If the coroutine is cancelled meanwhile.
pub fn sleep(duration: Duration) -> io::Result<()> {
    let deadline = deadline_in(duration);
    while park(Some(deadline))? {}
    Ok(())
}

/// Lets every other coroutine of the shard that can run do so first.
///
/// # Errors
///
/// If the coroutine is cancelled.
pub fn yield_now() -> io::Result<()> {
    match super::shard::current_coroutine() {
        Some(shard) => {
            // The wake-up comes through the letter box, and so after whatever else is ready.
            shard.remote().wake(shard.running_key());
            shard.suspend(None)?;
        }
        None => std::thread::yield_now(),
    }
    Ok(())
}

/// Runs `body` in a coroutine of its own on the same shard; on a plain thread, in a thread of its own.
///
/// `body` takes nothing by reference: what it uses must live as long as it may run, and nothing makes a caller wait.
/// There is no scoped variant, for a handle that is forgotten would let the coroutine outlive the scope:
///
/// ```compile_fail,E0373
/// let mut count = 0;
/// straightline::rt::spawn(|| count += 1);
/// ```
///
/// ```
/// let mut count = 0;
/// let counts = straightline::rt::spawn(move || {
///     count += 1;
///     count
/// });
/// assert_eq!(counts.join()?, 1);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn spawn<T, F>(body: F) -> JoinHandle<T>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    let promise = Promise::new();
    let shard = current();
    let begins = if shard.is_some() { Place::NotStarted } else { Place::Thread };
    let key = Arc::new(Mutex::new(begins));
    let (kept, place) = (Arc::clone(&promise), Arc::clone(&key));
    let whole = move || {
        kept.keep(catch_unwind(AssertUnwindSafe(body)));
    };
    match shard {
        Some(shard) => shard.spawn(
            Name::intern(std::any::type_name::<F>()),
            Box::new(move || {
                if Place::take_up(&place) {
                    whole();
                }
            }),
        ),
        None => drop(std::thread::spawn(whole)),
    }
    JoinHandle { promise, place: key }
}

/// Where a spawned coroutine is, for those who cancel it.
#[derive(Debug)]
enum Place {
    /// On a thread of its own, where nobody can cancel it.
    Thread,
    NotStarted,
    Cancelled,
    Runs(Arc<Remote>, Key),
}

impl Place {
    /// Notes where the running coroutine is; `false` if it was cancelled before it began.
    fn take_up(place: &Mutex<Self>) -> bool {
        let Some(shard) = current() else { return true };
        let mut place = unpoisoned(place);
        // Its handle must find that out, and not wait for it.
        if matches!(*place, Self::Cancelled) {
            return false;
        }
        *place = Self::Runs(Arc::clone(shard.remote()), shard.running_key());
        true
    }
}

/// The other end of [`spawn`]. Dropping it lets the coroutine run on.
#[derive(Debug)]
pub struct JoinHandle<T> {
    promise: Arc<Promise<std::thread::Result<T>>>,
    place: Arc<Mutex<Place>>,
}

impl<T> JoinHandle<T> {
    /// Waits for the end of the coroutine. If it panicked, the panic goes on in the caller.
    ///
    /// # Errors
    ///
    /// If the caller is cancelled, or the coroutine was before it began; [`is_cancelled`] knows both.
    ///
    /// [`is_cancelled`]: super::is_cancelled
    pub fn join(self) -> io::Result<T> {
        if self.never_begins() {
            return Err(Refused::Cancelled.into());
        }
        self.promise.take()?.or_else(|panic| resume_unwind(panic))
    }

    /// Whether the coroutine came to its end, or was cancelled before it began.
    pub fn is_finished(&self) -> bool {
        self.promise.is_kept() || self.never_begins()
    }

    fn never_begins(&self) -> bool {
        matches!(*unpoisoned(&self.place), Place::Cancelled)
    }

    /// Makes the call in which the coroutine waits, and every later one, return an error that [`is_cancelled`] knows.
    /// A coroutine that did not begin yet never will. Does nothing to a plain thread.
    ///
    /// [`is_cancelled`]: super::is_cancelled
    pub fn cancel(&self) {
        let mut place = unpoisoned(&self.place);
        match &*place {
            Place::NotStarted => *place = Place::Cancelled,
            Place::Cancelled | Place::Thread => {}
            Place::Runs(remote, key) => {
                let key = *key;
                remote.call(move |shard| shard.cancel(key));
            }
        }
    }
}

/// Runs `work` on a thread where it may block, and waits for it.
///
/// On a plain thread it simply calls `work`. A panic of `work` goes on in the caller.
///
/// ```
/// let text = straightline::rt::blocking(|| std::fs::read_to_string("/proc/version"))??;
/// assert!(text.starts_with("Linux"));
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// If the coroutine is cancelled; `work` is then done all the same, and its result dropped.
pub fn blocking<T, F>(work: F) -> io::Result<T>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    if super::shard::current_coroutine().is_none() {
        return Ok(work());
    }
    let promise = Promise::new();
    let kept = Arc::clone(&promise);
    POOL.submit(Box::new(move || kept.keep(catch_unwind(AssertUnwindSafe(work)))))?;
    promise.take()?.or_else(|panic| resume_unwind(panic))
}

type Work = Box<dyn FnOnce() + Send>;

/// Threads that come with work and go when there is none.
struct Pool {
    state: Mutex<PoolState>,
    work: Condvar,
}

struct PoolState {
    queue: VecDeque<Work>,
    threads: usize,
    idle: usize,
}

static POOL: Pool = Pool {
    state: Mutex::new(PoolState { queue: VecDeque::new(), threads: 0, idle: 0 }),
    work: Condvar::new(),
};

impl Pool {
    fn submit(&'static self, work: Work) -> io::Result<()> {
        let mut state = unpoisoned(&self.state);
        state.queue.push_back(work);
        let wanting = state.queue.len() > state.idle && state.threads < BLOCKING_THREADS;
        state.threads += usize::from(wanting);
        drop(state);
        self.work.notify_one();
        if wanting {
            let spawned = std::thread::Builder::new().name("straightline-blocking".into());
            if let Err(error) = spawned.spawn(|| self.serve()) {
                let mut state = unpoisoned(&self.state);
                state.threads -= 1;
                // Without any thread nobody would ever do it.
                return if state.threads == 0 { Err(error) } else { Ok(()) };
            }
        }
        Ok(())
    }

    fn serve(&self) {
        super::cpus::unpin();
        let mut state = unpoisoned(&self.state);
        loop {
            if let Some(work) = state.queue.pop_front() {
                drop(state);
                // It ends with the drop of a result that nobody took, which may panic.
                contained(work);
                state = unpoisoned(&self.state);
                continue;
            }
            state.idle += 1;
            let (next, waited) = self
                .work
                .wait_timeout(state, BLOCKING_IDLE)
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            state = next;
            state.idle -= 1;
            if waited.timed_out() && state.queue.is_empty() {
                state.threads -= 1;
                return;
            }
        }
    }
}

/// Runs `body` as a coroutine on this thread, with all that it spawns, and returns when the last of them ended.
///
/// A server needs none of this: its handlers are coroutines already.
///
/// # Errors
///
/// If the kernel gives no descriptors or memory for a shard.
///
/// # Panics
///
/// If `body` panics, or when called on a thread that has a shard.
pub fn run<T: 'static>(body: impl FnOnce() -> T + 'static) -> io::Result<T> {
    let options = ShardOptions { stack_bytes: STACK_BYTES, stacks: RUN_STACKS, shards: 1 };
    let shard = Shard::new(Box::new(Epoll::new()?), options)?;
    let entered = shard.enter();
    let outcome = std::rc::Rc::new(std::cell::Cell::new(None));
    let place = std::rc::Rc::clone(&outcome);
    let name = Name::intern(std::any::type_name_of_val(&body));
    shard.start(name, None, move || place.set(Some(catch_unwind(AssertUnwindSafe(body)))));
    while shard.has_work() {
        shard.turn()?;
    }
    drop(entered);
    let outcome = outcome.take().expect("the body ended, for no coroutine is left");
    Ok(outcome.unwrap_or_else(|panic| resume_unwind(panic)))
}
