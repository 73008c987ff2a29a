//! When the kernel received an answer.
//!
//! The time at which an answer is read has in it how long this thread took to wake. With the kernel's stamp it does not
//! matter when an answer is read, so that a worker need not wake for it: it reads when the next request is due. On a
//! virtual machine, where a wake-up costs more than a request, that halves the price of an open loop.

use std::io::IoSliceMut;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
use nix::sys::time::TimeSpec;

use super::clock::{SECOND_NS, now_ns, wall_ns};
use super::socket::Moved;

/// A read of more than this is of an answer that could fill the socket's buffer, and make its server wait, unless it is
/// read as it comes.
const SMALL_BYTES: usize = 16 * 1024;
/// Change of the wall clock against ours within one turn that is a step, and makes stamps from before it worthless.
const STEP_NS: u64 = 1_000_000;

/// The stamps of one worker's connections.
#[derive(Debug)]
pub(super) struct Stamps {
    control: Vec<u8>,
    /// The wall clock, by which the kernel stamps, less ours.
    ahead_ns: u64,
    /// Whether the wall clock went on evenly since the last turn.
    even: bool,
    /// Whether the last read bore a stamp.
    stamped: bool,
    /// Whether every read was small.
    small: bool,
}

impl Stamps {
    pub(super) fn new() -> Self {
        let control = nix::cmsg_space!(TimeSpec);
        Self { control, ahead_ns: 0, even: false, stamped: false, small: true }
    }

    /// Has the kernel stamp what `socket` receives. Where it does not, reads say so.
    pub(super) fn ask(socket: &OwnedFd) {
        let _ = setsockopt(socket, sockopt::ReceiveTimestampns, &true);
    }

    /// Whether answers may be read later than they come.
    #[inline]
    pub(super) fn may_wait(&self) -> bool {
        self.stamped && self.small
    }

    /// Another turn of the worker: how far the wall clock is ahead is read anew, for it may be slewed or set.
    #[inline]
    pub(super) fn turn(&mut self) {
        let ahead_ns = wall_ns().wrapping_sub(now_ns());
        self.even = ahead_ns.abs_diff(self.ahead_ns) < STEP_NS;
        self.ahead_ns = ahead_ns;
    }

    /// Reads once, and says when the last byte of it was received, on the monotonic clock.
    #[inline]
    pub(super) fn read(&mut self, socket: &OwnedFd, buf: &mut [u8]) -> (Moved, Option<u64>) {
        let mut parts = [IoSliceMut::new(buf)];
        let received =
            recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut self.control), MsgFlags::empty());
        let message = match received {
            Ok(message) => message,
            Err(nix::errno::Errno::EAGAIN | nix::errno::Errno::EINTR) => return (Moved::Later, None),
            Err(_) => return (Moved::Broken, None),
        };
        if message.bytes == 0 {
            return (Moved::End, None);
        }
        let stamp = message.cmsgs().ok().and_then(|mut all| {
            all.find_map(|one| match one {
                ControlMessageOwned::ScmTimestampns(at) => Some(at),
                _ => None,
            })
        });
        let bytes = message.bytes;
        self.stamped = stamp.is_some();
        self.small &= bytes <= SMALL_BYTES;
        let at = stamp
            .filter(|_| self.even)
            .map(|at| (at.tv_sec() as u64 * SECOND_NS + at.tv_nsec() as u64).wrapping_sub(self.ahead_ns));
        (Moved::Bytes(bytes), at)
    }
}
