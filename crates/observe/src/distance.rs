//! How far the server's CPU and the generator's are from each other, again and again while a window lasts.
//!
//! A hypervisor moves virtual CPUs about: two of them may share a core in one minute and no cache in the next. What
//! server and generator pass to each other then costs several times as much, with nothing in `/proc` to show for it. What
//! a line of memory takes from one CPU to the other and back does show it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet as KernelCpuSet, sched_setaffinity};
use units::CpuSet;

/// Between two samples: CPUs stay where they are for seconds.
const EVERY: Duration = Duration::from_millis(200);
/// Round trips of one sample: 30 µs where CPUs are far apart, 0.015 % of the time of either.
const TRIPS: u64 = 64;
/// Longest wait of one side for the other, which may have to wait for its CPU; the sample is then given up.
const PATIENCE: Duration = Duration::from_micros(300);
/// Turns between two looks at the clock.
const TURNS: u32 = 64;
/// The word that ends both sides.
const OVER: u64 = u64::MAX;

/// A line of memory of its own: 128 bytes, as CPUs fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Line(AtomicU64);

/// Two threads that pass a line of memory back and forth a few times a second.
#[derive(Debug)]
pub struct DistanceWatch {
    line: Arc<Line>,
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
        let mut watch = Self { line: Arc::default(), answering: None, asking: None };
        let (Some(from), Some(to)) = (server.iter().next(), load.iter().next()) else { return Ok(watch) };
        if from == to {
            return Ok(watch);
        }
        let begin = Instant::now();
        let name = |side: &str| std::thread::Builder::new().name(format!("distance-{side}"));
        let line = Arc::clone(&watch.line);
        watch.answering = Some(name("to").spawn(move || {
            if pin(to).is_ok() {
                answer(&line, begin);
            }
        })?);
        let line = Arc::clone(&watch.line);
        watch.asking =
            Some(name("from").spawn(move || if pin(from).is_ok() { ask(&line, begin) } else { Vec::new() })?);
        Ok(watch)
    }

    /// Ends it; gives the median round trip of each sample in nanoseconds, in order.
    #[must_use]
    pub fn stop(mut self) -> Vec<f64> {
        self.end()
    }

    fn end(&mut self) -> Vec<f64> {
        self.line.0.store(OVER, Ordering::Release);
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
fn until(line: &Line, begin: Instant, sample: u64) -> bool {
    let due = begin + EVERY * u32::try_from(sample).unwrap_or(u32::MAX);
    loop {
        if line.0.load(Ordering::Acquire) == OVER {
            return false;
        }
        match due.checked_duration_since(Instant::now()) {
            Some(left) if !left.is_zero() => std::thread::park_timeout(left),
            _ => return true,
        }
    }
}

fn ask(line: &Line, begin: Instant) -> Vec<f64> {
    let mut medians = Vec::new();
    for sample in 1.. {
        if !until(line, begin, sample) {
            break;
        }
        medians.extend(sample_ns(line, sample));
    }
    medians
}

/// The median trip of one sample; nothing where the other side was not there.
fn sample_ns(line: &Line, sample: u64) -> Option<f64> {
    let mut trips = Vec::with_capacity(TRIPS as usize);
    let mut last = line.0.load(Ordering::Acquire);
    for trip in 0..TRIPS {
        let (question, reply) = words(sample, trip);
        let begun = Instant::now();
        // The end, which may have been said at any time, is not to be overwritten.
        if last == OVER
            || line.0.compare_exchange(last, question, Ordering::AcqRel, Ordering::Acquire).is_err()
        {
            return None;
        }
        if !becomes(line, reply) {
            return None;
        }
        last = reply;
        trips.push(begun.elapsed());
    }
    trips.sort_unstable();
    Some(trips[trips.len() / 2].as_nanos() as f64)
}

fn answer(line: &Line, begin: Instant) {
    for sample in 1.. {
        if !until(line, begin, sample) {
            return;
        }
        for trip in 0..TRIPS {
            let (question, reply) = words(sample, trip);
            let came = becomes(line, question);
            if !came || line.0.compare_exchange(question, reply, Ordering::AcqRel, Ordering::Acquire).is_err()
            {
                break;
            }
        }
    }
}

/// Waits for a word, busily; false if it does not come in time.
fn becomes(line: &Line, wanted: u64) -> bool {
    let begun = Instant::now();
    loop {
        for _ in 0..TURNS {
            if line.0.load(Ordering::Acquire) == wanted {
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
        // Just when a sample begins, the end must not be taken for the other side's last word.
        for lateness in 0..12 {
            let watch = DistanceWatch::start(&set("0"), &set("1")).unwrap();
            std::thread::sleep(EVERY + Duration::from_micros(25 * lateness) - Duration::from_micros(150));
            drop(watch);
        }
        let line = Line::default();
        line.0.store(OVER, Ordering::Release);
        assert_eq!(sample_ns(&line, 1), None);
        assert_eq!(line.0.load(Ordering::Acquire), OVER);
    }

    #[test]
    fn every_word_is_said_once() {
        let mut seen = std::collections::BTreeSet::from([0, OVER]);
        for sample in 1..4 {
            for trip in 0..TRIPS {
                let (question, reply) = words(sample, trip);
                // An answer is not the question that follows it, which the asker alone may put.
                assert!(seen.insert(question) && seen.insert(reply), "{sample} {trip}");
            }
        }
    }
}
