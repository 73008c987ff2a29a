//! System calls on descriptors, without the signals and retries that nobody wants to see.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{Errno, IoSlice, retry_on_intr};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, SocketFlags};
use std::io;
use std::ops::Range;
use std::time::Instant;

/// What a system call gave back; [`Errno::AGAIN`] says "not now".
pub(crate) type Result<T> = std::result::Result<T, Errno>;

/// Receives what is there, up to the length of `into`.
#[inline]
pub(crate) fn recv(fd: impl AsFd, into: &mut [u8]) -> Result<usize> {
    retry_on_intr(|| rustix::net::recv(&fd, &mut *into, RecvFlags::empty())).map(|(taken, _)| taken)
}

/// Looks whether anything can be received, without taking it; 0 says that the peer stopped sending.
pub(crate) fn peek(fd: impl AsFd) -> Result<usize> {
    let mut byte = [0];
    retry_on_intr(|| rustix::net::recv(&fd, &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT))
        .map(|(there, _)| there)
}

/// Sends as much of `bytes` as the socket takes now. A closed peer is an error, never a signal.
#[inline]
pub(crate) fn send(fd: impl AsFd, bytes: &[u8]) -> Result<usize> {
    retry_on_intr(|| rustix::net::send(&fd, bytes, SendFlags::NOSIGNAL))
}

/// Sends `first`, then `second`, as far as the socket takes them now.
pub(crate) fn send_two(fd: impl AsFd, first: &[u8], second: &[u8]) -> Result<usize> {
    let slices = [IoSlice::new(first), IoSlice::new(second)];
    let mut control = SendAncillaryBuffer::default();
    retry_on_intr(|| rustix::net::sendmsg(&fd, &slices, &mut control, SendFlags::NOSIGNAL))
}

/// Most of a file that one system call sends, in bytes: then the other connections of the shard have their turn.
const SEND_FILE_BYTES: u64 = 256 * 1024;

/// Sends from the beginning of `part` as much as the socket takes now, and takes it off `part`. A closed peer is an
/// error as long as the process ignores SIGPIPE, which every Rust program does unless told otherwise.
pub(crate) fn send_file(fd: impl AsFd, file: impl AsFd, part: &mut Range<u64>) -> Result<usize> {
    let count = (part.end - part.start).min(SEND_FILE_BYTES) as usize;
    retry_on_intr(|| rustix::fs::sendfile(&fd, &file, Some(&mut part.start), count))
}

/// Takes one waiting connection, as a descriptor that does not block and is not inherited.
pub(crate) fn accept(listener: impl AsFd) -> Result<OwnedFd> {
    retry_on_intr(|| rustix::net::accept_with(&listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC))
}

/// Blocks this thread until `fd` is as wanted; `false` once `deadline` passed.
pub(crate) fn wait(fd: BorrowedFd<'_>, wanted: PollFlags, deadline: Option<Instant>) -> io::Result<bool> {
    super::time_limit::on_thread(deadline, |deadline| poll_until(fd, wanted, deadline))
}

fn poll_until(fd: BorrowedFd<'_>, wanted: PollFlags, deadline: Option<Instant>) -> io::Result<bool> {
    loop {
        let timeout = deadline.map(|deadline| {
            let left = deadline.saturating_duration_since(Instant::now());
            Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() }
        });
        match poll(&mut [PollFd::from_borrowed_fd(fd, wanted)], timeout.as_ref()) {
            Ok(0) => return Ok(false),
            Ok(_) => return Ok(true),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
