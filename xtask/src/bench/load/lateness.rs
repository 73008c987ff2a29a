//! How late a thread of this host is that does nothing but wait for the next instant.

use std::time::{Duration, Instant};

use rustix::thread::{ClockId, Timespec, clock_nanosleep_relative};
use stats::descriptive;

/// How late it was, in microseconds: p50, p99, p99.9.
pub(super) struct Lateness {
    pub(super) us: [f64; 3],
}

/// Sleeps until each of `per_s` instants a second for `seconds`; an instant that has passed is late by as much.
pub(super) fn sleeping(per_s: u64, seconds: u32) -> Lateness {
    // Without it the kernel adds 50 µs of its own.
    rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1)).ok();
    waiting(per_s, seconds, |left| {
        let wait = Timespec { tv_sec: 0, tv_nsec: i64::from(left.subsec_nanos()) };
        // A signal only makes one sleep short.
        let _ = clock_nanosleep_relative(ClockId::Monotonic, &wait);
    })
}

/// The same of a thread that reads the clock until each instant comes, and so keeps its CPU. What it is late by, the host of a virtual machine
/// took: a generator that is busy cannot be earlier.
pub(super) fn polling(per_s: u64, seconds: u32) -> Lateness {
    waiting(per_s, seconds, |left| {
        let begin = Instant::now();
        while begin.elapsed() < left {
            std::hint::spin_loop();
        }
    })
}

fn waiting(per_s: u64, seconds: u32, wait: impl Fn(Duration)) -> Lateness {
    let gap = Duration::from_nanos(1_000_000_000 / per_s);
    let begin = Instant::now();
    let mut late: Vec<f64> = Vec::new();
    let mut due = gap;
    while due.as_secs() < u64::from(seconds) {
        due.checked_sub(begin.elapsed()).into_iter().for_each(&wait);
        late.push(begin.elapsed().saturating_sub(due).as_secs_f64() * 1e6);
        due += gap;
    }
    Lateness { us: [0.5, 0.99, 0.999].map(|q| descriptive::quantile(&late, q).unwrap_or(f64::NAN)) }
}
