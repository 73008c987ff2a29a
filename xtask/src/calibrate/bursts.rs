//! Other load in bursts: what else a shared machine does meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_setaffinity};
use stats::Rng;

/// Mean length of a burst. Lengths follow an exponential distribution, so that some are much longer.
const MEAN_BURST_S: f64 = 0.2;
/// Longest pause or burst: a thread that is told to end does so within this time.
const LONGEST_S: f64 = 2.0;

/// One thread on each CPU that is busy for a share of the time, until this is dropped.
pub(super) struct Bursts {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Bursts {
    /// Begins to keep every CPU busy for `share` of the time, in bursts of random length.
    pub(super) fn begin(share: f64, seed: u64) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = (0..cpus)
            .map(|cpu| {
                let stop = Arc::clone(&stop);
                std::thread::spawn(move || on_one(cpu, share, seed.wrapping_add(cpu as u64), &stop))
            })
            .collect();
        Self { stop, threads }
    }
}

impl Drop for Bursts {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn on_one(cpu: usize, share: f64, seed: u64, stop: &AtomicBool) {
    let mut set = CpuSet::new();
    set.set(cpu);
    // Where it may not be pinned it is load all the same.
    let _ = sched_setaffinity(None, &set);
    let mut random = Rng::seeded(seed);
    let mut length =
        |mean_s: f64| Duration::from_secs_f64((-mean_s * (1.0 - random.uniform()).ln()).min(LONGEST_S));
    while !stop.load(Ordering::Relaxed) {
        let until = Instant::now() + length(MEAN_BURST_S);
        while Instant::now() < until {
            std::hint::spin_loop();
        }
        std::thread::sleep(length(MEAN_BURST_S * (1.0 - share) / share));
    }
}
