//! How long processes ran, and how long they were ready to run but had no CPU, read again and again: what a server does while it
//! answers nobody tells whether it stopped or was stopped.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::Group;
use crate::file::{self, Reader};
use crate::parse;
use crate::sampler::monotonic_ns;

/// From one reading to the next, at least.
const PERIOD: Duration = Duration::from_millis(4);
/// How many times as long as a reading takes the time to the next one is, at least: reading costs 4 % of a CPU then.
const REST: u32 = 25;

/// One thread so far, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Readiness {
    /// On a CPU.
    pub run_ns: u64,
    /// Ready to run, without a CPU: up to the last time that it got one.
    pub wait_ns: u64,
}

/// One reading of some groups, in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadinessAt {
    /// When, on the monotonic clock.
    pub at_ns: u64,
    /// The threads that each group had when watching began, always in the same order; nothing of one that has ended.
    pub groups: Vec<Vec<Readiness>>,
}

/// Reads some groups until it is ended.
#[derive(Debug)]
pub struct ReadinessWatch {
    /// Dropped to end it.
    goes_on: Sender<()>,
    readings: JoinHandle<Vec<ReadinessAt>>,
}

impl ReadinessWatch {
    /// Begins to read the threads that `groups` have now; of a group that is gone there is nothing to read.
    #[must_use]
    pub fn begin(groups: &[Group]) -> Self {
        let threads: Vec<Vec<String>> = groups.iter().map(files).collect();
        let (goes_on, ended) = mpsc::channel::<()>();
        let readings = std::thread::spawn(move || {
            let (mut reader, mut readings) = (Reader::new(), Vec::new());
            loop {
                let at_ns = monotonic_ns();
                let groups = threads.iter().map(|files| read(&mut reader, files)).collect();
                readings.push(ReadinessAt { at_ns, groups });
                let took = Duration::from_nanos(monotonic_ns().saturating_sub(at_ns));
                if ended.recv_timeout(PERIOD.max(took * REST)) != Err(RecvTimeoutError::Timeout) {
                    break;
                }
            }
            // What ends after the last reading is in this one.
            let groups = threads.iter().map(|files| read(&mut reader, files)).collect();
            readings.push(ReadinessAt { at_ns: monotonic_ns(), groups });
            readings
        });
        Self { goes_on, readings }
    }

    /// All readings, in the order of time.
    #[must_use]
    pub fn end(self) -> Vec<ReadinessAt> {
        drop(self.goes_on);
        self.readings.join().unwrap_or_default()
    }
}

/// The files that tell it of each thread.
fn files(group: &Group) -> Vec<String> {
    let pids = group.pids().unwrap_or_default();
    let of_threads = |pid: u32| {
        let threads = file::numbered(&format!("/proc/{pid}/task")).unwrap_or_default();
        threads.into_iter().map(move |tid| format!("/proc/{pid}/task/{tid}/schedstat"))
    };
    pids.into_iter().flat_map(of_threads).collect()
}

fn read(reader: &mut Reader, files: &[String]) -> Vec<Readiness> {
    let mut one = |file: &String| {
        let found = reader.read(file).ok().and_then(parse::schedstat).unwrap_or_default();
        Readiness { run_ns: found.run_ns, wait_ns: found.wait_ns }
    };
    files.iter().map(&mut one).collect()
}
