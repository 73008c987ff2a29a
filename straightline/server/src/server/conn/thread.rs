//! A connection on a thread of its own, which blocks wherever the connection waits.

use super::Conn;
use super::life::{After, Next, Phase, Start};
use crate::rt::sys;
use crate::server::turn::{refuse, serve};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::io;
use std::rc::Rc;
use std::time::Instant;

/// What a thread found when it waited between requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Bytes,
    TooLate,
    Bell,
}

/// Waits for bytes, the bell, or the deadline.
pub(crate) fn wait(fd: BorrowedFd<'_>, bell: &OwnedFd, deadline: Option<Instant>) -> io::Result<Found> {
    loop {
        let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN), PollFd::new(bell, PollFlags::IN)];
        let timeout = deadline.map(|deadline| {
            let left = deadline.saturating_duration_since(Instant::now());
            Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() }
        });
        match poll(&mut fds, timeout.as_ref()) {
            Ok(0) => return Ok(Found::TooLate),
            Ok(_) if !fds[0].revents().is_empty() => return Ok(Found::Bytes),
            Ok(_) => return Ok(Found::Bell),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The whole life of a connection. The `bell` rings, for good, when the server drains.
pub(crate) fn live(conn: &Conn, bell: &OwnedFd) {
    let mut deadline = Instant::now() + conn.worker().limits().head_time;
    let mut heard = false;
    loop {
        if !heard && conn.worker().is_draining() {
            heard = true;
            match conn.draining() {
                Next::Close => return conn.close(),
                Next::Within(time) => deadline = Instant::now() + time,
                _ => {}
            }
        }
        let found = match heard {
            true => sys::wait(conn.fd(), PollFlags::IN, Some(deadline))
                .map(|bytes| if bytes { Found::Bytes } else { Found::TooLate }),
            false => wait(conn.fd(), bell, Some(deadline)),
        };
        let after = match found {
            Ok(Found::Bytes) => conn.serve_on_thread(),
            Ok(Found::Bell) => continue,
            Ok(Found::TooLate) => conn.late_on_thread(),
            Err(_) => After::Close,
        };
        if conn.flush().is_err() {
            conn.reset_on_close();
            return conn.close();
        }
        match conn.sent(after) {
            Next::Await(time) => deadline = time.map_or(deadline, |time| Instant::now() + time),
            Next::Linger => return conn.linger_on_thread(),
            _ => return conn.close(),
        }
    }
}

impl Conn {
    /// Serves what is there, as often as it takes.
    fn serve_on_thread(&self) -> After {
        self.with_life(|life| life.phase = Phase::Serve);
        self.expect_bytes();
        loop {
            match serve(self) {
                // There are no others that wait for their turn.
                After::Again => self.set_start(Start::Again),
                after => return after,
            }
        }
    }

    /// What becomes of a connection whose request did not come in time.
    fn late_on_thread(&self) -> After {
        if self.late() != Next::Refuse {
            return After::Close;
        }
        refuse(self, 408, "the head came too slowly");
        After::Linger
    }

    /// Lets a refused client read why.
    fn linger_on_thread(&self) {
        let deadline = Instant::now() + self.worker().limits().linger_time;
        self.shut_down();
        let mut scrap = Rc::clone(self.worker()).take_input();
        while Instant::now() < deadline {
            match self.until_readable(deadline, |conn| sys::recv(conn.fd(), scrap.room())) {
                Ok(1..) => {}
                Ok(0) | Err(_) => break,
            }
        }
        self.close();
    }
}
