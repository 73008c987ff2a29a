use std::time::Duration;

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Nanoseconds of a second.
pub(crate) const SECOND_NS: u64 = 1_000_000_000;

/// Now on the monotonic clock in nanoseconds, read without a system call.
#[inline]
pub(crate) fn now_ns() -> u64 {
    to_ns(clock_gettime(ClockId::Monotonic))
}

/// Now on the wall clock in nanoseconds since 1970, read without a system call.
#[inline]
pub(crate) fn wall_ns() -> u64 {
    to_ns(clock_gettime(ClockId::Realtime))
}

/// CPU time of the calling thread in nanoseconds.
pub(crate) fn thread_cpu_ns() -> u64 {
    to_ns(clock_gettime(ClockId::ThreadCPUTime))
}

/// A length of time in nanoseconds.
pub(crate) fn as_ns(time: Duration) -> u64 {
    // A century is enough, and leaves room for sums.
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).min(100 * 365 * 86_400 * SECOND_NS)
}

#[inline]
fn to_ns(time: Timespec) -> u64 {
    time.tv_sec as u64 * SECOND_NS + time.tv_nsec as u64
}

/// A length of time as the kernel takes it.
#[inline]
pub(crate) fn timespec(ns: u64) -> Timespec {
    Timespec { tv_sec: (ns / SECOND_NS) as i64, tv_nsec: (ns % SECOND_NS) as i64 }
}
