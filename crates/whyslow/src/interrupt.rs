//! Ctrl-C and SIGTERM as something that can be waited for together with a pipe, without waking up to look.

use std::io::PipeReader;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGINT, SIGTERM};

/// Becomes and stays set once the user or the system asks us to stop.
pub(crate) struct Interrupt {
    requested: Arc<AtomicBool>,
    wake: PipeReader,
}

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waited {
    /// There is something to read.
    Readable,
    /// We were asked to stop first.
    Interrupted,
    /// The time was over.
    TooLong,
}

impl Interrupt {
    /// Listens for SIGINT and SIGTERM from now on; a second signal of the kind ends the program at once.
    pub(crate) fn listen() -> anyhow::Result<Self> {
        let requested = Arc::new(AtomicBool::new(false));
        let (wake, write) = std::io::pipe().context("cannot make a pipe")?;
        for signal in [SIGINT, SIGTERM] {
            // The order matters: the first signal finds the flag unset, sets it, and only a second one ends us.
            let register = |error| anyhow::Error::new(error).context("cannot listen for signals");
            signal_hook::flag::register_conditional_shutdown(signal, 130, requested.clone())
                .map_err(register)?;
            signal_hook::flag::register(signal, requested.clone()).map_err(register)?;
            let write = write.try_clone().context("cannot share a pipe")?;
            signal_hook::low_level::pipe::register(signal, write).map_err(register)?;
        }
        Ok(Self { requested, wake })
    }

    /// Whether we were asked to stop.
    pub(crate) fn is_set(&self) -> bool {
        self.requested.load(Ordering::Relaxed)
    }

    /// The flag itself, for loops that look at it.
    pub(crate) fn flag(&self) -> &Arc<AtomicBool> {
        &self.requested
    }

    /// Waits until `file` can be read, for `patience` at most where there is a limit.
    pub(crate) fn wait_readable(&self, file: &impl AsFd, patience: Option<Duration>) -> Waited {
        let deadline = patience.map(|patience| Instant::now() + patience);
        while !self.is_set() {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Waited::TooLong;
            }
            let mut files = [PollFd::new(file, PollFlags::IN), PollFd::new(&self.wake, PollFlags::IN)];
            // What is longer than the kernel can count is as good as no limit.
            let left = left.and_then(|left| Timespec::try_from(left).ok());
            // A failed wait is a signal that came in between: look again.
            if poll(&mut files, left.as_ref()).is_ok() && !files[0].revents().is_empty() {
                return Waited::Readable;
            }
        }
        Waited::Interrupted
    }
}
