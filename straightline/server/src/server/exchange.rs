//! One request and its answer, as far as both ends need to know of it.

use super::conn::Conn;
use super::http2::Stream;
use super::output::Output;
use crate::rt::time_limit;
use crate::rt::waker::deadline_in;
use crate::rt::watch::Name;
use http1::request::{Request, RequestHead};
use std::cell::{Cell, OnceCell, RefCell};
use std::time::{Duration, Instant};

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

/// How an answer gets to its client.
#[derive(Clone, Copy)]
pub(crate) enum Way<'a> {
    /// As HTTP/1 does.
    Usual,
    /// Likewise, but that the client asks for a tunnel, and there is none.
    Tunnel,
    /// As HTTP/2 does.
    Stream(&'a Stream),
}

/// What request and response share.
pub(crate) struct Exchange<'a> {
    pub(crate) conn: &'a Conn,
    /// Where the head of the answer is made.
    pub(crate) output: &'a RefCell<Output>,
    pub(crate) way: Way<'a>,
    pub(crate) progress: Cell<Progress>,
    /// The status that the handler answered with; 0 until the head is on the way.
    pub(crate) status: Cell<u16>,
    /// Length of the body of the answer, as far as the handler wrote it.
    pub(crate) body_bytes: Cell<u64>,
    /// Whether the connection may carry another request afterwards.
    pub(crate) keep: Cell<bool>,
    /// Whether the client waits to be told to send its body.
    pub(crate) expects: Cell<bool>,
    /// Whether bytes of the body are still to be received.
    pub(crate) body_left: Cell<BodyLeft>,
    /// Fields, as lines, that stay on the answer whatever becomes of the handler. Few answers have any.
    lasting: OnceCell<Box<RefCell<Vec<u8>>>>,
    /// The route that a router chose.
    pub(crate) route: Cell<Option<&'static Name>>,
    /// Whether the handler has only so much time.
    limited: Cell<bool>,
    pub(crate) is_head: bool,
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
            output: conn.output(),
            way: if view.has_method(b"CONNECT") { Way::Tunnel } else { Way::Usual },
            progress: Cell::new(Progress::Fresh),
            status: Cell::new(0),
            body_bytes: Cell::new(0),
            keep: Cell::new(head.keep_alive && !conn.worker().is_draining()),
            expects: Cell::new(head.expect_continue),
            body_left: Cell::new(BodyLeft::Nothing),
            lasting: OnceCell::new(),
            route: Cell::new(None),
            limited: Cell::new(false),
            is_head: view.has_method(b"HEAD"),
            upgrade: head.upgrade,
            minor_version: head.minor_version,
        }
    }

    /// One that goes by a stream; the head of its answer is made in `output`.
    pub(crate) fn on_stream(
        stream: &'a Stream,
        output: &'a RefCell<Output>,
        head: &RequestHead,
        view: &Request<'_>,
    ) -> Self {
        Self { output, way: Way::Stream(stream), ..Self::new(stream.conn(), head, view) }
    }

    /// Calls the handler by its route, in all that is told of it.
    #[cfg(feature = "router")]
    pub(crate) fn name_route(&self, route: &'static Name) {
        self.route.set(Some(route));
        self.rename(route);
    }

    /// Takes back what was set for the handler: its time limit, and the name that a router gave to the coroutine, which other requests
    /// of the connection may use.
    #[inline]
    pub(crate) fn leave_handler(&self) {
        self.lift_time_limit();
        if self.route.get().is_some() {
            self.rename(self.conn.worker().name());
        }
    }

    /// Where the fields that stay on the answer are collected, as lines.
    #[cold]
    pub(crate) fn keep_lasting(&self) -> &RefCell<Vec<u8>> {
        self.lasting.get_or_init(Box::default)
    }

    /// The fields that stay on the answer, as lines.
    pub(crate) fn lasting(&self) -> Vec<u8> {
        self.lasting.get().map_or_else(Vec::new, |lines| lines.borrow().clone())
    }

    /// Gives the handler so much time from now on, or as much as it takes.
    #[cold]
    pub(crate) fn limit_time(&self, time: Option<Duration>) {
        self.limited.set(time.is_some());
        time_limit::set(time.map(deadline_in));
    }

    /// Lifts the handler's time limit, if there is one.
    #[inline]
    pub(crate) fn lift_time_limit(&self) {
        if self.limited.get() {
            self.limit_time(None);
        }
    }

    /// When the handler's time is over.
    pub(crate) fn time_limit(&self) -> Option<Instant> {
        if self.limited.get() { time_limit::get() } else { None }
    }

    #[cold]
    fn rename(&self, name: &'static Name) {
        if let Some(shard) = self.conn.worker().shard() {
            shard.rename(name);
        }
    }

    /// What the handler is called in what is told of it.
    pub(crate) fn name(&self) -> &'static str {
        self.route.get().unwrap_or_else(|| self.conn.worker().name()).text()
    }

    /// Counts what the handler wrote of the body.
    #[inline]
    pub(crate) fn add_body(&self, bytes: u64) {
        self.body_bytes.set(self.body_bytes.get() + bytes);
    }

    /// Whether nobody waits for the answer any more.
    pub(crate) fn is_gone(&self) -> bool {
        match self.way {
            Way::Stream(stream) => stream.is_gone(),
            _ => self.conn.is_gone(),
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
