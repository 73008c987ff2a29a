//! What a supervisor says to its parent: one line each on its standard output.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::process::ChildStdout;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, poll};

use crate::Exit;

/// One line of a supervisor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Report {
    /// The target runs and has this process id.
    Started(u32),
    /// The target could not be started.
    Failed(String),
    /// The target ended.
    Ended(Exit),
    /// Everything was stopped.
    Stopped {
        /// Processes that needed SIGKILL.
        killed: u32,
        /// Processes that are still there.
        left: u32,
    },
}

impl Report {
    pub(crate) fn line(&self) -> String {
        match self {
            Self::Started(pid) => format!("started {pid}\n"),
            Self::Failed(reason) => format!("failed {}\n", reason.replace('\n', " ")),
            Self::Ended(Exit::Code(code)) => format!("exited {code}\n"),
            Self::Ended(Exit::Signal(signal)) => format!("signalled {signal}\n"),
            Self::Stopped { killed, left } => format!("stopped {killed} {left}\n"),
        }
    }

    pub(crate) fn parse(line: &str) -> Option<Self> {
        let (word, rest) = line.split_once(' ')?;
        match word {
            "started" => rest.parse().ok().map(Self::Started),
            "failed" => Some(Self::Failed(rest.to_owned())),
            "exited" => rest.parse().ok().map(|code| Self::Ended(Exit::Code(code))),
            "signalled" => rest.parse().ok().map(|signal| Self::Ended(Exit::Signal(signal))),
            "stopped" => {
                let (killed, left) = rest.split_once(' ')?;
                Some(Self::Stopped { killed: killed.parse().ok()?, left: left.parse().ok()? })
            }
            _ => None,
        }
    }
}

/// The reports of one supervisor, in order.
#[derive(Debug)]
pub(crate) struct Reports {
    stdout: ChildStdout,
    unread: Vec<u8>,
}

impl Reports {
    pub(crate) fn new(stdout: ChildStdout) -> Self {
        Self { stdout, unread: Vec::new() }
    }

    /// The next report; `None` where none came before `deadline`. After an error there are no more.
    pub(crate) fn next(&mut self, deadline: Instant) -> Option<io::Result<Report>> {
        loop {
            if let Some(end) = self.unread.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line[..end]).into_owned();
                return Some(Report::parse(&line).ok_or_else(|| io::Error::other(line)));
            }
            match self.readable(deadline).and_then(|readable| if readable { self.read() } else { Ok(None) }) {
                Ok(Some(())) => {}
                Ok(None) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
    }

    fn readable(&self, deadline: Instant) -> io::Result<bool> {
        wait_readable(&[self.stdout.as_fd()], Some(deadline))
    }

    fn read(&mut self) -> io::Result<Option<()>> {
        let mut chunk = [0; 256];
        match self.stdout.read(&mut chunk)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                self.unread.extend_from_slice(&chunk[..count]);
                Ok(Some(()))
            }
        }
    }
}

/// Waits until one of `fds` can be read or has ended; `false` where `deadline` came first.
pub(crate) fn wait_readable(
    fds: &[std::os::fd::BorrowedFd<'_>],
    deadline: Option<Instant>,
) -> io::Result<bool> {
    let mut polled: Vec<PollFd<'_>> =
        fds.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let left = left.map(|left| left.try_into().expect("a deadline of ours fits a timespec"));
        match poll(&mut polled, left.as_ref()) {
            Ok(ready) => return Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_report_reads_as_it_was_written() {
        for report in [
            Report::Started(17),
            Report::Failed("no such file".to_owned()),
            Report::Ended(Exit::Code(-1)),
            Report::Ended(Exit::Signal(9)),
            Report::Stopped { killed: 2, left: 0 },
        ] {
            assert_eq!(Report::parse(report.line().trim_end()), Some(report));
        }
    }

    #[test]
    fn a_reason_of_several_lines_stays_one_report() {
        assert_eq!(Report::Failed("a\nb".to_owned()).line(), "failed a b\n");
    }

    #[test]
    fn nonsense_is_no_report() {
        for line in ["", "started", "started x", "stopped 1", "hello 1"] {
            assert_eq!(Report::parse(line), None, "{line}");
        }
    }
}
