//! Which CPUs threads run on: a shard on one of its own, its helpers wherever the program may.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::sync::OnceLock;

/// What the threads that are pinned here were allowed before.
static BEFORE: OnceLock<CpuSet> = OnceLock::new();

/// The CPUs that this thread may use.
pub(crate) fn allowed() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect()
}

/// Keeps this thread on one CPU.
pub(crate) fn pin(cpu: usize) {
    if let Ok(before) = sched_getaffinity(None) {
        BEFORE.get_or_init(|| before);
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    // A server on the wrong CPU still serves.
    sched_setaffinity(None, &set).ok();
}

/// Lets this thread, which a pinned one may have begun, use every CPU again: it would hold up that one's shard.
pub(crate) fn unpin() {
    if let Some(before) = BEFORE.get() {
        sched_setaffinity(None, before).ok();
    }
}
