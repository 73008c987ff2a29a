//! How far two sets of CPUs are from each other.
//!
//! A hypervisor moves virtual CPUs about: two of them may share a core in one minute and no cache in the next. What
//! server and generator pass to each other then costs several times as much, with nothing in `/proc` to show for it. What
//! a line of memory takes from one CPU to the other and back tells.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet as KernelCpuSet, sched_setaffinity};
use units::CpuSet;

/// Round trips of one series: half a millisecond where CPUs are far apart.
const TRIPS: usize = 1000;
/// Series of each pair. The fastest counts: what interrupts one makes it slower, never faster.
const SERIES: u32 = 3;
/// Longest series; it takes so long only where something else has one of the CPUs.
const SERIES_LIMIT: Duration = Duration::from_millis(50);
/// Turns between two looks at the clock.
const TURNS: u32 = 1000;
/// Pairs of CPUs looked at: the sets are near or far as a whole, and each pair takes time.
const PAIRS: usize = 4;

const IDLE: u32 = 0;
const ASKED: u32 = 1;
const OVER: u32 = 2;

/// A line of memory of its own: 128 bytes, as CPUs fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Line(AtomicU32);

/// Nanoseconds that a line of memory takes from a CPU of `server` to one of `load` and back: the median of many trips,
/// the mean over some pairs. Nothing where they are the same CPU, or the kernel refuses one.
#[must_use]
pub fn distance_ns(server: &CpuSet, load: &CpuSet) -> Option<f64> {
    let pairs = server.iter().zip(load.iter()).take(PAIRS).filter(|(from, to)| from != to);
    let trips: Vec<f64> = pairs.map(|(from, to)| pair_ns(from, to)).collect::<Option<_>>()?;
    (!trips.is_empty()).then(|| trips.iter().sum::<f64>() / trips.len() as f64)
}

fn pair_ns(from: u32, to: u32) -> Option<f64> {
    (0..SERIES).filter_map(|_| series(from, to)).min_by(f64::total_cmp)
}

/// The median trip of one series in nanoseconds.
fn series(from: u32, to: u32) -> Option<f64> {
    let line = Line::default();
    thread::scope(|scope| {
        let (told, ready) = channel();
        let (line, until) = (&line, Instant::now() + SERIES_LIMIT);
        scope.spawn(move || {
            let pinned = pin(to);
            let ok = pinned.is_ok();
            // Whoever asks waits for this word.
            let _ = told.send(pinned);
            if ok {
                answer(line, until);
            }
        });
        let trips = scope.spawn(move || {
            let both = pin(from).is_ok() && matches!(ready.recv(), Ok(Ok(())));
            let trips = if both { ask(line, until) } else { Vec::new() };
            line.0.store(OVER, Ordering::Release);
            trips
        });
        median(trips.join().ok()?)
    })
}

fn pin(cpu: u32) -> io::Result<()> {
    let mut set = KernelCpuSet::new();
    set.set(cpu as usize);
    Ok(sched_setaffinity(None, &set)?)
}

fn ask(line: &Line, until: Instant) -> Vec<Duration> {
    let mut trips = Vec::with_capacity(TRIPS);
    while trips.len() < TRIPS {
        let begun = Instant::now();
        line.0.store(ASKED, Ordering::Release);
        if !becomes(line, until, |word| word == IDLE) {
            break;
        }
        trips.push(begun.elapsed());
    }
    trips
}

fn answer(line: &Line, until: Instant) {
    while becomes(line, until, |word| word != IDLE) {
        // Only what was asked is answered: the end stays.
        if line.0.compare_exchange(ASKED, IDLE, Ordering::AcqRel, Ordering::Acquire).is_err() {
            return;
        }
    }
}

/// Waits for a word, busily; false if it is too late.
fn becomes(line: &Line, until: Instant, wanted: impl Fn(u32) -> bool) -> bool {
    loop {
        for _ in 0..TURNS {
            if wanted(line.0.load(Ordering::Acquire)) {
                return true;
            }
        }
        if Instant::now() > until {
            return false;
        }
    }
}

/// The median of a series that is long enough to have one.
fn median(mut trips: Vec<Duration>) -> Option<f64> {
    /// Shorter series were interrupted for most of their time.
    const FEWEST: usize = TRIPS / 10;
    trips.sort_unstable();
    (trips.len() >= FEWEST).then(|| trips[trips.len() / 2].as_nanos() as f64)
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
            eprintln!("not tried: one CPU");
            return;
        }
        let (here, there) = allowed.halves();
        // Other tests may have the CPUs: one series in several is enough.
        let ns = (0..20).find_map(|_| distance_ns(&here, &there)).unwrap();
        assert!((5.0..100_000.0).contains(&ns), "{ns} ns");
    }

    #[test]
    fn there_is_no_distance_to_oneself_or_to_a_cpu_that_is_not_there() {
        assert_eq!(distance_ns(&set("0"), &set("0")), None);
        assert_eq!(distance_ns(&set("0"), &set("1000")), None);
        assert_eq!(distance_ns(&set("1000"), &set("0")), None);
    }
}
