use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::protocol::{Report, Reports};
use crate::supervise::{AFTERWARDS_LIMIT, GRACE, KILL_LIMIT};

/// Beyond what a supervisor needs to kill everything: time to be scheduled on a busy machine.
const PATIENCE: Duration = Duration::from_secs(2);

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It exited with this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

impl Exit {
    /// Whether it exited with code 0.
    #[must_use]
    pub fn is_success(self) -> bool {
        self == Self::Code(0)
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(out, "exited with code {code}"),
            Self::Signal(signal) => write!(out, "was ended by signal {signal}"),
        }
    }
}

/// How a target and its descendants were stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped {
    /// How the target itself ended; absent where that was not seen.
    pub exit: Option<Exit>,
    /// Processes that had to be killed because they did not heed SIGTERM in time.
    pub killed: u32,
    /// Processes that are still there: stuck in the kernel, or belonging to a supervisor that was itself killed.
    pub left: u32,
}

/// A running target and everything it forks. Dropping it kills them all at once.
#[derive(Debug)]
pub struct Process {
    pid: u32,
    supervisor: Child,
    /// `None` once it was closed, which tells the supervisor to kill.
    control: Option<ChildStdin>,
    reports: Reports,
    log: PathBuf,
    started: Instant,
    exit: Option<Exit>,
    stopped: Option<Stopped>,
    /// Set once nobody wants to wait for it any more.
    stop: Option<Arc<AtomicBool>>,
    /// The first process of the container that serves in its place.
    container: Option<u32>,
    /// How long what it has removed at its end may take to be gone.
    afterwards: Duration,
}

impl Process {
    pub(crate) fn new(
        pid: u32,
        mut supervisor: Child,
        reports: Reports,
        log: PathBuf,
        started: Instant,
    ) -> Self {
        let control = supervisor.stdin.take();
        let (exit, stopped, stop, container, afterwards) = (None, None, None, None, Duration::ZERO);
        Self { pid, supervisor, control, reports, log, started, exit, stopped, stop, container, afterwards }
    }

    /// The same of a target that has something removed at its end.
    pub(crate) fn with_afterwards(mut self, has: bool) -> Self {
        // It is run once more where the first time did not end everything.
        self.afterwards = if has { 2 * AFTERWARDS_LIMIT } else { Duration::ZERO };
        self
    }

    /// Takes note of who serves in its place.
    pub(crate) fn serves_in(&mut self, first_process: u32) {
        self.container = Some(first_process);
    }

    /// The process at or below which all are that serve.
    pub(crate) fn root(&self) -> u32 {
        self.container.unwrap_or_else(|| self.supervisor_pid())
    }

    pub(crate) fn until(mut self, stop: Option<Arc<AtomicBool>>) -> Self {
        self.stop = stop;
        self
    }

    /// Whether we were asked to stop.
    #[must_use]
    pub fn is_unwanted(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed))
    }

    /// The target's process id, which is also the id of its process group.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The supervisor's process id: exactly its descendants are the target and everything the target left behind.
    #[must_use]
    pub fn supervisor_pid(&self) -> u32 {
        self.supervisor.id()
    }

    /// The file that has what it printed.
    #[must_use]
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// When it was started.
    #[must_use]
    pub fn started(&self) -> Instant {
        self.started
    }

    /// How the target ended, or `None` while it runs.
    pub fn try_exit(&mut self) -> Option<Exit> {
        self.wait(Duration::ZERO)
    }

    /// Waits up to `timeout` for the target to end by itself.
    pub fn wait(&mut self, timeout: Duration) -> Option<Exit> {
        let deadline = Instant::now() + timeout;
        while self.exit.is_none() {
            match self.reports.next(deadline) {
                Some(Ok(report)) => self.note(&report),
                // Without a supervisor the parent-death signal has killed the target.
                Some(Err(_)) => self.exit = Some(Exit::Signal(rustix::process::Signal::KILL.as_raw())),
                None => break,
            }
        }
        self.exit
    }

    /// Ends the target and everything it forked: SIGTERM, after three seconds SIGKILL; returns when all are gone.
    #[must_use]
    pub fn stop(mut self) -> Stopped {
        if let Some(control) = &mut self.control {
            // A supervisor that is gone cannot be told; the reports then end too.
            let _ = control.write_all(b"stop\n");
        }
        self.collect(GRACE)
    }

    /// Waits for the supervisor's last words and for itself.
    fn collect(&mut self, grace: Duration) -> Stopped {
        let deadline = Instant::now() + grace + KILL_LIMIT + PATIENCE + self.afterwards;
        while self.stopped.is_none() {
            match self.reports.next(deadline) {
                Some(Ok(report)) => self.note(&report),
                Some(Err(_)) | None => break,
            }
        }
        self.control = None;
        self.reap(deadline);
        self.stopped.unwrap_or(Stopped { exit: self.exit, killed: 0, left: 1 })
    }

    fn reap(&mut self, deadline: Instant) {
        while matches!(self.supervisor.try_wait(), Ok(None)) {
            if Instant::now() >= deadline {
                // It is stuck; its own end kills the target through the parent-death signal.
                let _ = self.supervisor.kill();
                let _ = self.supervisor.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn note(&mut self, report: &Report) {
        match report {
            Report::Ended(exit) => self.exit = Some(*exit),
            Report::Stopped { killed, left } => {
                self.stopped = Some(Stopped { exit: self.exit, killed: *killed, left: *left });
            }
            Report::Started(_) | Report::Failed(_) => {}
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.control.take().is_some() {
            self.collect(Duration::ZERO);
        }
    }
}
