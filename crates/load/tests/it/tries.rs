//! Repeats of a timed test, on a host that may take CPUs away.

use std::fmt::Debug;
use std::num::NonZero;
use std::time::Instant;

/// Runs that must all be wrong for a test to fail: other work on the machine delays some of them.
const TRIES: usize = 5;
/// A run is spoilt if the host takes more than this share of the CPUs.
const SPOILT: f64 = 0.02;
/// Spoilt runs after which a test is left out.
const MOST_SPOILT: usize = 10;

/// Whether a run was right; `attempt` gives what is wrong with one. `false` if the host spoilt too many, which leaves the test out.
///
/// # Panics
/// If [`TRIES`] runs are wrong that the host did not spoil.
pub(crate) fn one_is_right<T: Debug>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> bool {
    let cpus = std::thread::available_parallelism().map_or(1, NonZero::get) as f64;
    let (mut wrong, mut spoilt) = (Vec::new(), 0);
    while wrong.len() < TRIES {
        if spoilt == MOST_SPOILT {
            testkit::skipped(&format!("the host takes CPUs away: {what}"));
            return false;
        }
        let (begun, taken_s) = (Instant::now(), stolen_s());
        let Some(found) = attempt() else { return true };
        match (stolen_s() - taken_s) / (begun.elapsed().as_secs_f64() * cpus) {
            share if share > SPOILT => spoilt += 1,
            _ => wrong.push(found),
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
