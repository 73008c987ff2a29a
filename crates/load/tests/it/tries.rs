//! Repeats of a timed test, on a host that may take CPUs away.

use std::fmt::Debug;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Runs that must all be wrong for a test to fail: other work on the machine delays some of them.
const TRIES: usize = 5;
/// A run is spoilt if the host takes more than this share of the CPUs.
const SPOILT: f64 = 0.02;
/// Spoilt runs of all tests together; a test with one more is left out.
const MOST_SPOILT: usize = 20;
/// How many there were.
static SPOILT_RUNS: AtomicUsize = AtomicUsize::new(0);

/// Whether a run was right; `attempt` gives what is wrong with one. `false` if the host spoils too many, which leaves the test out.
///
/// # Panics
/// If [`TRIES`] runs are wrong that the host did not spoil.
pub(crate) fn one_is_right<T: Debug>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> bool {
    let cpus = std::thread::available_parallelism().map_or(1, NonZero::get) as f64;
    let mut wrong = Vec::new();
    while wrong.len() < TRIES {
        let (begun, taken_s) = (Instant::now(), stolen_s());
        let Some(found) = attempt() else { return true };
        if (stolen_s() - taken_s) / (begun.elapsed().as_secs_f64() * cpus) <= SPOILT {
            wrong.push(found);
        } else if SPOILT_RUNS.fetch_add(1, Ordering::Relaxed) >= MOST_SPOILT {
            testkit::skipped(&format!("the host takes CPUs away: {what}"));
            return false;
        }
    }
    panic!("{what}: {wrong:?}");
}

/// Seconds in which the host ran something else on this machine's CPUs.
///
/// Source: proc_stat(5), the eighth figure of the first line.
fn stolen_s() -> f64 {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks: u32 = text.split_whitespace().nth(8).and_then(|steal| steal.parse().ok()).unwrap_or(0);
    f64::from(ticks) / rustix::param::clock_ticks_per_second() as f64
}
