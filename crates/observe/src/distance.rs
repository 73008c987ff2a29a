//! How far the server's CPU and the generator's are from each other, again and again while a window lasts.
//!
//! A hypervisor moves virtual CPUs about: two of them may share a core in one minute and no cache in the next. What
//! server and generator pass to each other then costs several times as much, with nothing in `/proc` to show for it. What
//! a line of memory takes from one CPU to the other and back does show it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use model::units::CpuSet;
use rustix::thread::{CpuSet as KernelCpuSet, sched_setaffinity};

/// Between two samples: CPUs mostly stay where they are for seconds, and now and then for a tenth of one.
const EVERY: Duration = Duration::from_millis(50);
/// Round trips of one sample: 15 µs where CPUs are far apart, 0.03 % of the time of either.
const TRIPS: u64 = 32;
/// Longest wait of one side for the other, which may have to wait for its CPU; the sample is then given up.
const PATIENCE: Duration = Duration::from_micros(150);
/// Turns between two looks at the clock.
const TURNS: u32 = 64;
/// Lines that take turns. Which memory controller keeps a line is a matter of its address, and some are farther: the mean
/// over many is the same for every window.
const LINES: usize = 16;

/// A line of memory of its own: 128 bytes, as CPUs fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Line(AtomicU64);

/// What the two sides share.
#[derive(Debug, Default)]
struct Between {
    lines: [Line; LINES],
    over: AtomicBool,
}

impl Between {
    /// The line of trip `trip`.
    fn line(&self, trip: u64) -> &AtomicU64 {
        &self.lines[trip as usize % LINES].0
    }
}

/// Two threads that pass lines of memory back and forth some times a second.
#[derive(Debug)]
pub struct DistanceWatch {
    between: Arc<Between>,
    answering: Option<JoinHandle<()>>,
    asking: Option<JoinHandle<Vec<f64>>>,
}

impl DistanceWatch {
    /// Watches the way from the first CPU of `server` to the first of `load`. Nothing is seen where they are the same, or
    /// the kernel refuses one.
    ///
    /// # Errors
    /// Where no thread can be started.
    pub fn start(server: &CpuSet, load: &CpuSet) -> io::Result<Self> {
        let mut watch = Self { between: Arc::default(), answering: None, asking: None };
        let (Some(from), Some(to)) = (server.iter().next(), load.iter().next()) else { return Ok(watch) };
        if from == to {
            return Ok(watch);
        }
        let begin = Instant::now();
        let name = |side: &str| std::thread::Builder::new().name(format!("distance-{side}"));
        let between = Arc::clone(&watch.between);
        watch.answering = Some(name("to").spawn(move || {
            if pin(to).is_ok() {
                answer(&between, begin);
            }
        })?);
        let between = Arc::clone(&watch.between);
        watch.asking = Some(
            name("from").spawn(move || if pin(from).is_ok() { ask(&between, begin) } else { Vec::new() })?,
        );
        Ok(watch)
    }

    /// Ends it; gives the usual round trip of each sample in nanoseconds, in order.
    #[must_use]
    pub fn stop(mut self) -> Vec<f64> {
        self.end()
    }

    fn end(&mut self) -> Vec<f64> {
        self.between.over.store(true, Ordering::Release);
        let threads = self.asking.iter().map(JoinHandle::thread);
        threads.chain(self.answering.iter().map(JoinHandle::thread)).for_each(std::thread::Thread::unpark);
        if let Some(answering) = self.answering.take() {
            // It does nothing that could panic.
            let _ = answering.join();
        }
        self.asking.take().and_then(|asking| asking.join().ok()).unwrap_or_default()
    }
}

impl Drop for DistanceWatch {
    fn drop(&mut self) {
        self.end();
    }
}

fn pin(cpu: u32) -> io::Result<()> {
    let mut set = KernelCpuSet::new();
    set.set(cpu as usize);
    Ok(sched_setaffinity(None, &set)?)
}

/// The words of trip `trip` of sample `sample`: question and answer. No two are the same.
fn words(sample: u64, trip: u64) -> (u64, u64) {
    let word = sample << 16 | trip << 1;
    (word | 1, word + 2)
}

/// Sleeps until sample `sample` is due, on both sides at the same time; false when it is over.
fn until(between: &Between, begin: Instant, sample: u64) -> bool {
    let due = begin + EVERY * u32::try_from(sample).unwrap_or(u32::MAX);
    loop {
        if between.over.load(Ordering::Acquire) {
            return false;
        }
        match due.checked_duration_since(Instant::now()) {
            Some(left) if !left.is_zero() => std::thread::park_timeout(left),
            _ => return true,
        }
    }
}

fn ask(between: &Between, begin: Instant) -> Vec<f64> {
    let mut samples = Vec::new();
    for sample in 1.. {
        if !until(between, begin, sample) {
            break;
        }
        samples.extend(sample_ns(between, sample));
    }
    samples
}

/// The usual trip of one sample: the mean of the middle half; nothing where the other side was not there.
fn sample_ns(between: &Between, sample: u64) -> Option<f64> {
    let mut trips = Vec::with_capacity(TRIPS as usize);
    for trip in 0..TRIPS {
        let (question, reply) = words(sample, trip);
        let begun = Instant::now();
        between.line(trip).store(question, Ordering::Release);
        if !becomes(between.line(trip), reply) {
            return None;
        }
        trips.push(begun.elapsed());
    }
    trips.sort_unstable();
    // The clock ticks every 10 ns in some machines: the mean of the middle half tells less than that.
    let middle = &trips[trips.len() / 4..trips.len() * 3 / 4];
    Some(middle.iter().sum::<Duration>().as_nanos() as f64 / middle.len() as f64)
}

fn answer(between: &Between, begin: Instant) {
    for sample in 1.. {
        if !until(between, begin, sample) {
            return;
        }
        for trip in 0..TRIPS {
            let (question, reply) = words(sample, trip);
            if !becomes(between.line(trip), question) {
                break;
            }
            between.line(trip).store(reply, Ordering::Release);
        }
    }
}

/// Waits for a word, busily; false if it does not come in time.
fn becomes(line: &AtomicU64, wanted: u64) -> bool {
    let begun = Instant::now();
    loop {
        for _ in 0..TURNS {
            if line.load(Ordering::Acquire) == wanted {
                return true;
            }
        }
        if begun.elapsed() > PATIENCE {
            return false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(list: &str) -> CpuSet {
        list.parse().unwrap()
    }

    #[test]
    fn a_trip_takes_less_than_a_system_call_and_more_than_nothing() {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let allowed = crate::parse::status(&status).allowed_cpus.parse::<CpuSet>().unwrap();
        if allowed.len() < 2 {
            return;
        }
        let (here, there) = allowed.halves();
        // Other tests may have the CPUs: some of the samples are enough.
        let mut seen = Vec::new();
        for _ in 0..20 {
            let watch = DistanceWatch::start(&here, &there).unwrap();
            std::thread::sleep(EVERY * 3 + EVERY / 2);
            let samples = watch.stop();
            assert!(samples.len() <= 3, "{samples:?}");
            seen.extend(samples);
            if seen.len() > 2 {
                break;
            }
        }
        assert!(!seen.is_empty() && seen.iter().all(|ns| (5.0..100_000.0).contains(ns)), "{seen:?}");
    }

    #[test]
    fn there_is_no_distance_to_oneself_or_to_a_cpu_that_is_not_there() {
        for (server, load) in [("0", "0"), ("0", "1000"), ("1000", "0")] {
            let watch = DistanceWatch::start(&set(server), &set(load)).unwrap();
            std::thread::sleep(EVERY + EVERY / 2);
            assert_eq!(watch.stop(), Vec::<f64>::new(), "{server} {load}");
        }
        drop(DistanceWatch::start(&set("0"), &set("1000")).unwrap());
    }

    #[test]
    fn the_end_is_heard_at_any_moment() {
        // Amid a sample, too: a drop that waited for ever would show here.
        for lateness in 0..12 {
            let watch = DistanceWatch::start(&set("0"), &set("1")).unwrap();
            std::thread::sleep(EVERY + Duration::from_micros(25 * lateness) - Duration::from_micros(150));
            drop(watch);
        }
        assert_eq!(sample_ns(&Between::default(), 1), None, "nobody answers");
    }

    #[test]
    fn every_word_is_said_once() {
        let mut seen = std::collections::BTreeSet::from([0]);
        for sample in 1..4 {
            for trip in 0..TRIPS {
                let (question, reply) = words(sample, trip);
                // An answer is not the question that follows it, which the asker alone may put.
                assert!(seen.insert(question) && seen.insert(reply), "{sample} {trip}");
            }
        }
    }
}
