use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::file::Reader;
use crate::sampler::own_cpu_ns;
use crate::{Group, parse};

/// One look at a group while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Point {
    /// Nanoseconds since the series began.
    pub at_ns: u64,
    /// Resident memory of the group in bytes.
    pub rss_bytes: u64,
    /// Descriptors that the group has open; 0 where they are hidden from this user.
    pub descriptors: u64,
    /// Threads of the group.
    pub threads: u32,
    /// Threads of the whole host that run or wait for a CPU.
    pub running: u32,
}

/// Looks at a group again and again in a thread of its own until it is stopped or the group ends.
#[derive(Debug)]
pub struct Series {
    stop: Sender<()>,
    thread: JoinHandle<(Vec<Point>, u64)>,
}

impl Series {
    /// Begins to look every `period`; the thread inherits the CPU set of the caller.
    #[must_use]
    pub fn start(group: Group, period: Duration) -> Self {
        let (stop, stopped) = channel();
        let thread = std::thread::spawn(move || {
            let (begin, mut reader, mut points) = (Instant::now(), Reader::new(), Vec::new());
            // The next look is due a whole number of periods after the begin, however long a look takes.
            for turn in 1.. {
                let due = begin + period * turn;
                match stopped.recv_timeout(due.saturating_duration_since(Instant::now())) {
                    Err(RecvTimeoutError::Timeout) => {}
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
                }
                let Some(point) = look(&group, &mut reader, begin) else { break };
                points.push(point);
            }
            (points, own_cpu_ns())
        });
        Self { stop, thread }
    }

    /// Ends it; the points in order, and the CPU time in nanoseconds that they took.
    #[must_use]
    pub fn stop(self) -> (Vec<Point>, u64) {
        // A thread that has ended by itself needs no telling.
        let _ = self.stop.send(());
        self.thread.join().expect("the thread of a series does not panic")
    }
}

fn look(group: &Group, reader: &mut Reader, begin: Instant) -> Option<Point> {
    let at_ns = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let (rss_bytes, threads) = group.size(reader).ok()?;
    let running = reader.read("/proc/stat").ok().and_then(parse::running).unwrap_or(0);
    Some(Point { at_ns, rss_bytes, descriptors: group.open_descriptors(), threads, running })
}
