//! Receiving and sending, from within a coroutine or a thread that may wait, and the memory for both.

use super::{Conn, Driver, Io};
use crate::rt::driver::Ready;
use crate::rt::waker::is_timeout;
use crate::rt::{TURN_BYTES, sys, yield_now};
use crate::server::buffer::Input;
use crate::server::output::Output;
use crate::server::transport::Agreed;
use rustix::event::PollFlags;
use rustix::fd::AsFd;
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::time::Instant;

/// What some clients send after a request and do not count.
const EMPTY_LINE: &[u8] = b"\r\n";

impl Conn {
    /// Whether there may be something to receive.
    #[inline]
    pub(crate) fn may_receive(&self) -> bool {
        self.seen.get().has(Ready::READ)
    }

    /// Receives what is there.
    #[inline]
    pub(crate) fn recv(&self, into: &mut [u8]) -> Io {
        let outcome = self.transport.recv(&self.socket, into);
        match outcome {
            Ok(count) => {
                self.worker.counters().received_bytes.add(count as u64);
                // A short read says that nothing more is there, unless the end is near: it takes a read of its own.
                if count < into.len() && count > 0 && !self.seen.get().has(Ready::ENDED) {
                    self.received_all();
                }
            }
            Err(Errno::AGAIN) => self.unmark(Ready::READ),
            Err(_) => self.mark(Ready::GONE.with(Ready::ENDED)),
        }
        outcome
    }

    #[inline]
    fn received_all(&self) {
        if self.transport.is_drained() {
            self.unmark(Ready::READ);
        }
    }

    /// Bytes that wait to be sent, or to be allowed to.
    #[inline]
    pub(crate) fn holds(&self) -> usize {
        self.output.borrow().held()
    }

    /// Sends what may go out, as far as the socket takes it; whether everything went.
    #[inline]
    pub(crate) fn try_flush(&self) -> sys::Result<bool> {
        let mut output = self.output.borrow_mut();
        while !output.sendable().is_empty() {
            match self.transport.send(&self.socket, output.sendable()) {
                Ok(count) => {
                    self.worker.counters().sent_bytes.add(count as u64);
                    output.mark_sent(count);
                }
                Err(Errno::AGAIN) => {
                    self.unmark(Ready::WRITE);
                    return Ok(false);
                }
                Err(error) => {
                    self.mark(Ready::GONE.with(Ready::ENDED));
                    return Err(error);
                }
            }
        }
        self.transport.flush(&self.socket)
    }

    /// Whether the client took anything since this was last asked.
    pub(crate) fn take_moved(&self) -> bool {
        // What is encrypted and held is not taken yet, and what is taken may have been held for long.
        self.transport.take_moved().unwrap_or(self.output.borrow_mut().take_moved())
    }

    /// Sends what may go out, and waits until it has gone.
    pub(crate) fn flush(&self) -> io::Result<()> {
        let mut deadline = None;
        while !self.try_flush()? {
            self.wait_for_room(&mut deadline)?;
        }
        Ok(())
    }

    /// Sends what may go out and then `bytes`, which are not copied, and waits until all has gone.
    pub(crate) fn flush_with(&self, mut bytes: &[u8]) -> io::Result<()> {
        let (mut deadline, mut unbroken) = (None, 0);
        while !bytes.is_empty() {
            let mut output = self.output.borrow_mut();
            let before = output.sendable().len();
            match self.transport.send_two(&self.socket, output.sendable(), bytes) {
                Ok(count) => {
                    self.worker.counters().sent_bytes.add(count as u64);
                    output.mark_sent(count.min(before));
                    bytes = &bytes[count.saturating_sub(before)..];
                    drop(output);
                    unbroken += count as u64;
                    if unbroken >= TURN_BYTES && !bytes.is_empty() {
                        unbroken = 0;
                        yield_now()?;
                    }
                }
                Err(Errno::AGAIN) => {
                    drop(output);
                    self.wait_for_room(&mut deadline)?;
                }
                Err(error) => {
                    self.mark(Ready::GONE.with(Ready::ENDED));
                    return Err(error.into());
                }
            }
        }
        self.flush()
    }

    /// Whether [`Conn::flush_with_file`] can be used.
    pub(crate) fn can_send_files(&self) -> bool {
        self.transport.is_plain()
    }

    /// Sends what may go out and then a part of `file`, and waits until all has gone.
    pub(crate) fn flush_with_file(&self, file: &File, mut part: Range<u64>) -> io::Result<()> {
        self.flush()?;
        let mut deadline = None;
        while part.start < part.end {
            match sys::send_file(&self.socket, file, &mut part) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    self.worker.counters().sent_bytes.add(count as u64);
                    self.output.borrow_mut().mark_sent(0);
                    // A client as fast as the disk would hold the shard until the last byte.
                    if part.start < part.end {
                        yield_now()?;
                    }
                }
                Err(Errno::AGAIN) => self.wait_for_room(&mut deadline)?,
                Err(error) => {
                    self.mark(Ready::GONE.with(Ready::ENDED));
                    return Err(error.into());
                }
            }
        }
        Ok(())
    }

    /// Waits for room to send. Only a client that takes something moves the `deadline`.
    fn wait_for_room(&self, deadline: &mut Option<Instant>) -> io::Result<()> {
        let at = match *deadline {
            Some(at) if !self.take_moved() => at,
            _ => {
                self.take_moved();
                Instant::now() + self.worker.limits().write_stall
            }
        };
        *deadline = Some(at);
        self.wait_for_client(Ready::WRITE, at)
    }

    /// Waits until the socket may be ready, and counts a client that takes too long.
    pub(crate) fn wait_for_client(&self, wanted: Ready, deadline: Instant) -> io::Result<()> {
        let outcome = self.wait(wanted, Some(deadline));
        if outcome.as_ref().is_err_and(is_timeout) {
            self.worker.counters().timeouts.add(1);
        }
        outcome
    }

    /// Repeats a receiving call until it does not say "not now".
    pub(crate) fn until_readable(
        &self,
        deadline: Instant,
        mut receive: impl FnMut(&Self) -> Io,
    ) -> io::Result<usize> {
        loop {
            match receive(self) {
                Err(Errno::AGAIN) => self.wait(Ready::READ, Some(deadline))?,
                outcome => return Ok(outcome?),
            }
        }
    }

    /// Waits until the socket may be ready.
    pub(crate) fn wait(&self, wanted: Ready, deadline: Option<Instant>) -> io::Result<()> {
        let in_time = match &self.driver {
            Driver::Shard(driver) => driver.wait(wanted, deadline)?,
            Driver::Thread => {
                let flags = if wanted == Ready::READ { PollFlags::IN } else { PollFlags::OUT };
                sys::wait(self.socket.as_fd(), flags, deadline)?
            }
        };
        if in_time { Ok(()) } else { Err(io::ErrorKind::TimedOut.into()) }
    }

    /// The bytes that were stashed, in a buffer with room for more.
    #[inline]
    pub(crate) fn unstash(&self) -> Input {
        let mut input = self.worker.take_input();
        let stash = self.stash.take();
        if !stash.is_empty() {
            input.put(&stash);
            input.looked_at = stash.len();
        }
        input
    }

    /// Keeps what is left of `input` in as much memory as it takes.
    #[inline]
    pub(crate) fn put_back(&self, input: Input) {
        if !input.bytes().is_empty() {
            self.stash.set(input.bytes().to_vec());
        }
        self.worker.give_input(input);
    }

    /// Whether a part of a request waits for the rest of it. The empty line that is passed over before one is no part.
    #[inline]
    pub(crate) fn has_stash(&self) -> bool {
        let stash = self.stash.take();
        let has = !EMPTY_LINE.starts_with(&stash);
        self.stash.set(stash);
        has
    }

    /// A thread was told that there is something to receive.
    pub(crate) fn expect_bytes(&self) {
        self.mark(Ready::READ);
    }

    /// Which protocol was agreed on before the first byte of HTTP.
    pub(crate) fn agreed_on(&self) -> Agreed {
        self.transport.agreed_on()
    }

    /// Memory for output, while there is some to make.
    #[inline]
    pub(crate) fn ensure_output(&self) {
        let mut output = self.output.borrow_mut();
        if !output.has_memory() {
            *output = Output::over(self.worker.take_output());
        }
    }

    #[inline]
    pub(crate) fn release_output(&self) {
        if let Some(memory) = self.output.borrow_mut().take_memory() {
            self.worker.give_output(memory);
        }
    }
}
