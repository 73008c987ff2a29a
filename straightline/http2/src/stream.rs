//! One stream, as far as a server's connection needs to know of it.

use crate::frame::ErrorCode;

/// Who ended a stream before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// The client does not want it any more.
    ByClient,
    /// The client made an error on it.
    ByError,
}

/// A stream whose request came and which is not over.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) head: Vec<u8>,
    /// The rest of the length that was promised of the body.
    pub(crate) content_left: Option<u64>,
    /// Bytes of the body that nobody took.
    received: Vec<u8>,
    taken: usize,
    pub(crate) trailers: Vec<u8>,
    /// Bytes that the client may still send.
    pub(crate) may_receive: i64,
    /// Bytes that were taken and that the client was not told it may send again.
    pub(crate) unreturned: u32,
    /// Bytes that may still be sent; below zero where the client took leave back.
    pub(crate) may_send: i64,
    pub(crate) client_ended: bool,
    pub(crate) server_ended: bool,
    pub(crate) gone: Option<Gone>,
    /// Of a stream that the server has answered: bytes that the client may send on it before it is told to stop.
    pub(crate) ebb: Option<u32>,
}

impl Stream {
    pub(crate) fn new(head: Vec<u8>, content_left: Option<u64>, may_receive: i64, may_send: i64) -> Self {
        Self {
            head,
            content_left,
            received: Vec::new(),
            taken: 0,
            trailers: Vec::new(),
            may_receive,
            unreturned: 0,
            may_send,
            client_ended: false,
            server_ended: false,
            gone: None,
            ebb: None,
        }
    }

    /// Bytes of the body that wait.
    pub(crate) fn waiting(&self) -> &[u8] {
        &self.received[self.taken..]
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) {
        if self.taken > 0 && self.received.len() + bytes.len() > self.received.capacity() {
            self.received.drain(..self.taken);
            self.taken = 0;
        }
        self.received.extend_from_slice(bytes);
    }

    /// Drops the bytes of the body that wait; how many they were.
    pub(crate) fn drop_waiting(&mut self) -> usize {
        let count = self.waiting().len();
        self.received = Vec::new();
        self.taken = 0;
        count
    }

    /// Takes note of bytes that nobody will read; whether the client may go on.
    pub(crate) fn ebb_on(&mut self, bytes: usize) -> bool {
        let left = self.ebb.and_then(|left| left.checked_sub(u32::try_from(bytes).ok()?));
        self.ebb = Some(left.unwrap_or(0));
        left.is_some()
    }

    /// So many of the bytes that wait were taken.
    pub(crate) fn take(&mut self, count: usize) {
        self.taken += count;
        if self.taken == self.received.len() {
            self.received.clear();
            self.taken = 0;
        }
    }

    /// Takes note of bytes of the body, and of its end, by the length that was promised.
    pub(crate) fn count(&mut self, bytes: usize, ended: bool) -> Result<(), ErrorCode> {
        let Some(left) = self.content_left else { return Ok(()) };
        let left = left.checked_sub(bytes as u64).ok_or(ErrorCode::ProtocolError)?;
        self.content_left = Some(left);
        if ended && left > 0 { Err(ErrorCode::ProtocolError) } else { Ok(()) }
    }
}

/// How a stream ended that is not kept any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Both ends said so.
    InOrder,
    /// The client broke it off.
    ByClient,
    /// We broke it off, so that what the client sent before it knew is no error.
    ByServer,
}
