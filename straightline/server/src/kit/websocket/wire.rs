//! The stream below a WebSocket: bytes that are checked as they come, and waits that end when something else is to be done.

use super::check::Check;
use super::mailbox::Shared;
use crate::Upgraded;
use crate::rt::{TURN_BYTES, yield_now};
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often a handler on a thread looks whether something else is to be done, for nothing wakes it: one on a coroutine is
/// woken.
const LOOK_EVERY: Duration = Duration::from_millis(50);

pub(super) struct Wire<'r, 'a> {
    pub(super) stream: Upgraded<'r, 'a>,
    pub(super) check: Check,
    pub(super) shared: Arc<Shared>,
    /// When the client was last heard.
    pub(super) heard: Instant,
    /// When a read is to come back.
    pub(super) until: Instant,
    /// Whether the last close was said, and only its answer is waited for.
    pub(super) closing: bool,
    /// Bytes read since the other connections of the shard last had their turn.
    unbroken: u64,
}

impl<'r, 'a> Wire<'r, 'a> {
    pub(super) fn new(stream: Upgraded<'r, 'a>, check: Check, shared: Arc<Shared>) -> Self {
        let now = Instant::now();
        Self { stream, check, shared, heard: now, until: now, closing: false, unbroken: 0 }
    }

    /// Says that no more comes, and drops what still does until the client has seen that: to close with bytes unread would
    /// take back what was said last.
    pub(super) fn linger(&mut self, deadline: Instant, most: u64) {
        let (mut scrap, mut dropped) = ([0; 4096], 0);
        self.stream.shut_down();
        while dropped < most && Instant::now() < deadline {
            match self.stream.read_until(&mut scrap, deadline, || false) {
                Ok(count @ 1..) => dropped += count as u64,
                Ok(0) | Err(_) => return,
            }
        }
    }
}

impl Read for Wire<'_, '_> {
    /// `WouldBlock` when something else is to be done.
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.check.fault().is_some() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        if self.unbroken >= TURN_BYTES {
            self.unbroken = 0;
            yield_now()?;
        }
        let (shared, closing, draining) = (&self.shared, self.closing, self.stream.is_draining());
        let until = match self.stream.is_on_thread() {
            true => self.until.min(Instant::now() + LOOK_EVERY),
            false => self.until,
        };
        let drains = self.stream.drains();
        let stop = || !closing && (shared.has_mail() || (!draining && drains()));
        let count = self.stream.read_until(into, until, stop)?;
        self.heard = Instant::now();
        self.unbroken += count as u64;
        let passed = self.check.pass(&mut into[..count], self.heard);
        if passed == 0 && count > 0 { Err(io::ErrorKind::InvalidData.into()) } else { Ok(passed) }
    }
}

impl Write for Wire<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}
