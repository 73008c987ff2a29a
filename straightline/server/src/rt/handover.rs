//! Descriptors that a service manager opened for this process.

use rustix::fd::{FromRawFd, OwnedFd};
use rustix::io::{FdFlags, fcntl_setfd};
use std::sync::atomic::{AtomicBool, Ordering};

/// The first descriptor handed over. Source: `SD_LISTEN_FDS_START` in `sd-daemon.h`.
const FIRST: i32 = 3;

/// The descriptors, once: a second call gives none, for each has one owner.
///
/// Source: `sd_listen_fds(3)`.
pub(crate) fn handed_over() -> Vec<OwnedFd> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<i32>().ok());
    let for_us = number("LISTEN_PID") == i32::try_from(std::process::id()).ok();
    let count = number("LISTEN_FDS").unwrap_or(0);
    if !for_us || count < 1 || TAKEN.swap(true, Ordering::Relaxed) {
        return Vec::new();
    }
    let taken = (FIRST..FIRST.saturating_add(count)).map(|fd| {
        // SAFETY: The service manager says by `LISTEN_PID` that these descriptors are open and meant for this
        // process, and `TAKEN` lets nobody own them twice.
        unsafe { OwnedFd::from_raw_fd(fd) }
    });
    let taken: Vec<OwnedFd> = taken.collect();
    for fd in &taken {
        fcntl_setfd(fd, FdFlags::CLOEXEC).ok();
    }
    taken
}
