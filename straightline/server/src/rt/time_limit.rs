//! How long a handler may take. A coroutine's limit is kept with the coroutine, a thread's here.

use super::shard::{Refused, current_coroutine};
use std::cell::Cell;
use std::io;
use std::time::Instant;

thread_local! {
    /// When the time of what runs on this thread is over, where that is no coroutine.
    static UNTIL: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Gives what runs here time up to `until`, or as much as it takes; its calls that wait fail afterwards.
#[cold]
pub(crate) fn set(until: Option<Instant>) {
    match current_coroutine() {
        Some(shard) => shard.limit_running(until),
        None => UNTIL.set(until),
    }
}

/// When the time of what runs here is over.
pub(crate) fn get() -> Option<Instant> {
    match current_coroutine() {
        Some(shard) => shard.running_limit(),
        None => UNTIL.get(),
    }
}

/// Lets a thread wait to `deadline`, and no longer than it has time. `wait` says whether that was in time.
pub(super) fn on_thread(
    deadline: Option<Instant>,
    wait: impl FnOnce(Option<Instant>) -> io::Result<bool>,
) -> io::Result<bool> {
    let Some(until) = UNTIL.get() else { return wait(deadline) };
    if Instant::now() >= until {
        return Err(Refused::Late.into());
    }
    if deadline.is_some_and(|deadline| deadline <= until) {
        return wait(deadline);
    }
    if wait(Some(until))? { Ok(true) } else { Err(Refused::Late.into()) }
}
