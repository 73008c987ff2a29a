//! One request and its answer, as far as both ends need to know of it.

use super::conn::Conn;
use http1::request::{Request, RequestHead};
use std::cell::Cell;

/// Says that the connection ends with this answer.
pub(crate) const CONNECTION_CLOSE: &[u8] = b"Connection: close\r\n";

/// How far the answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Nothing of it can have reached the client.
    Fresh,
    /// Its head is on the way, its end is not.
    Started,
    /// It is complete.
    Done,
    /// The connection speaks another protocol now.
    Upgraded,
}

/// What request and response share.
pub(crate) struct Exchange<'a> {
    pub(crate) conn: &'a Conn,
    pub(crate) progress: Cell<Progress>,
    /// Whether the connection may carry another request afterwards.
    pub(crate) keep: Cell<bool>,
    /// Whether the client waits to be told to send its body.
    pub(crate) expects: Cell<bool>,
    /// Whether bytes of the body are still to be received.
    pub(crate) body_left: Cell<BodyLeft>,
    pub(crate) is_head: bool,
    pub(crate) is_connect: bool,
    pub(crate) upgrade: bool,
    pub(crate) minor_version: u8,
}

/// What is still to come of a request's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyLeft {
    Nothing,
    Bytes(u64),
    Unknown,
}

impl<'a> Exchange<'a> {
    #[inline]
    pub(crate) fn new(conn: &'a Conn, head: &RequestHead, view: &Request<'_>) -> Self {
        Self {
            conn,
            progress: Cell::new(Progress::Fresh),
            keep: Cell::new(head.keep_alive && !conn.worker().is_draining()),
            expects: Cell::new(head.expect_continue),
            body_left: Cell::new(BodyLeft::Nothing),
            is_head: view.has_method(b"HEAD"),
            is_connect: view.has_method(b"CONNECT"),
            upgrade: head.upgrade,
            minor_version: head.minor_version,
        }
    }

    /// The field that says whether the connection is kept; nothing where that goes without saying.
    #[inline]
    pub(crate) fn connection_line(&self) -> &'static [u8] {
        match (self.keep.get(), self.minor_version) {
            (false, _) => CONNECTION_CLOSE,
            (true, 0) => b"Connection: keep-alive\r\n",
            (true, _) => b"",
        }
    }

    /// Decides, before a head is written, whether the connection can be kept after it.
    pub(crate) fn settle_keep(&self) {
        let drainable = match self.body_left.get() {
            BodyLeft::Nothing => true,
            // A client that waits for `100 Continue` may send its body or not; nobody can tell which.
            _ if self.expects.get() => false,
            BodyLeft::Bytes(left) => left <= self.conn.worker().limits().drain_bytes,
            BodyLeft::Unknown => true,
        };
        if !drainable || self.conn.worker().is_draining() {
            self.keep.set(false);
        }
    }
}
