//! Memory for received bytes, taken from a pool while there is something in it.

use super::limits::INPUT_BYTES;
use crate::rt::pages::Pages;
use http1::request::{NO_SLOTS, Slots};

/// Room for received bytes, and for where the fields of a head lie among them.
pub(crate) struct Buffer {
    pub(crate) bytes: Pages,
    pub(crate) slots: Box<Slots>,
}

impl Buffer {
    pub(crate) fn new() -> Box<Self> {
        Box::new(Self { bytes: Pages::new(INPUT_BYTES), slots: Box::new(NO_SLOTS) })
    }
}

/// A buffer and which part of it is filled.
pub(crate) struct Input {
    pub(crate) buffer: Box<Buffer>,
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// So many of the first bytes were found to be an unfinished head.
    pub(crate) looked_at: usize,
}

impl Input {
    pub(crate) fn over(buffer: Box<Buffer>) -> Self {
        Self { buffer, start: 0, end: 0, looked_at: 0 }
    }

    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer.bytes[self.start..self.end]
    }

    #[inline]
    pub(crate) fn consume(&mut self, count: usize) {
        self.start += count;
        debug_assert!(self.start <= self.end);
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        self.looked_at = 0;
    }

    /// Where bytes can be received.
    #[inline]
    pub(crate) fn room(&mut self) -> &mut [u8] {
        &mut self.buffer.bytes[self.end..]
    }

    #[inline]
    pub(crate) fn add(&mut self, count: usize) {
        self.end += count;
    }

    /// Moves what is there to the front if it is in the way.
    pub(crate) fn make_room(&mut self) {
        if self.start > 0 && self.end > INPUT_BYTES / 2 {
            self.buffer.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
    }

    /// Appends bytes kept elsewhere; they must fit.
    pub(crate) fn put(&mut self, bytes: &[u8]) {
        self.room()[..bytes.len()].copy_from_slice(bytes);
        self.add(bytes.len());
    }
}
