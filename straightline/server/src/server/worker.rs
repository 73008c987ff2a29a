//! What all connections of one shard share; with a thread for each connection, what that one has to itself.

use super::accept::Listener;
use super::balance::Place;
use super::buffer::{Buffer, Input};
use super::conn::Conn;
use super::counters::Counters;
use super::event::Event;
use super::limits::{Limits, OUTPUT_BYTES};
use super::service::{Handler, Service};
use super::threads::Until;
use super::transport::Transport;
use crate::rt::shard::Shard;
use crate::rt::watch::Name;
use http1::write::{DATE_BYTES, DIGITS, date, digits};
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Output buffers kept for the next connection: as many as handlers that answer at one time on a busy shard.
const POOLED_OUTPUTS: usize = 32;
/// Input buffers kept, of which each handler that waits has one. They hold little: the pages that were touched.
const POOLED_INPUTS: usize = 256;
/// Room of a fresh output buffer, in bytes: it grows with what is written, up to [`OUTPUT_BYTES`] and an answer more.
const OUTPUT_BEGINS_BYTES: usize = 4 * 1024;

/// One shard of a server. See the [module](self).
pub(crate) struct Worker {
    shard: Option<Rc<Shard>>,
    service: Arc<Service>,
    counters: Arc<Counters>,
    #[expect(
        clippy::vec_box,
        reason = "a connection at work holds the box, so that an idle one is a pointer smaller"
    )]
    inputs: RefCell<Vec<Box<Buffer>>>,
    outputs: RefCell<Vec<Vec<u8>>>,
    date: RefCell<DateLines>,
    drain_until: Cell<Option<Instant>>,
    /// The same, where it is another thread that drains.
    told_until: Option<Arc<Until>>,
    /// Whether what is left is to be given up.
    abandoned: Cell<bool>,
    listener: RefCell<Option<Rc<Listener>>>,
    /// Its shard's among the others.
    place: Option<Place>,
}

impl Worker {
    /// That of a shard.
    pub(crate) fn on_shard(shard: &Rc<Shard>, service: Arc<Service>, place: Place) -> Rc<Self> {
        let (shard, place) = (Some(Rc::clone(shard)), Some(place));
        Rc::new(Self { shard, place, ..Self::bare(service, Arc::default()) })
    }

    /// That of a connection with a thread of its own, which is to end when `until` says so.
    pub(crate) fn on_thread(service: Arc<Service>, counters: Arc<Counters>, until: Arc<Until>) -> Rc<Self> {
        Rc::new(Self { told_until: Some(until), ..Self::bare(service, counters) })
    }

    fn bare(service: Arc<Service>, counters: Arc<Counters>) -> Self {
        Self {
            shard: None,
            service,
            counters,
            inputs: RefCell::default(),
            outputs: RefCell::default(),
            date: RefCell::new(DateLines::new()),
            drain_until: Cell::new(None),
            told_until: None,
            abandoned: Cell::new(false),
            listener: RefCell::default(),
            place: None,
        }
    }

    #[inline]
    pub(crate) fn shard(&self) -> Option<&Rc<Shard>> {
        self.shard.as_ref()
    }

    #[inline]
    pub(crate) fn limits(&self) -> &Limits {
        &self.service.limits
    }

    #[inline]
    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(crate) fn counters_shared(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }

    #[inline]
    pub(crate) fn handler(&self) -> &Handler {
        &*self.service.handler
    }

    #[inline]
    pub(crate) fn name(&self) -> &'static Name {
        self.service.name
    }

    pub(crate) fn service(&self) -> &Service {
        &self.service
    }

    pub(crate) fn tell(&self, event: Event) {
        self.service.tell(event);
    }

    pub(crate) fn is_plain(&self) -> bool {
        self.service.is_plain()
    }

    pub(crate) fn transport(&self) -> io::Result<Transport> {
        self.service.transport()
    }

    #[inline]
    pub(crate) fn is_draining(&self) -> bool {
        self.drain_deadline().is_some()
    }

    #[inline]
    pub(crate) fn drain_deadline(&self) -> Option<Instant> {
        match &self.told_until {
            None => self.drain_until.get(),
            Some(until) => until.get(),
        }
    }

    /// Begins to drain; of several deadlines the earliest counts.
    pub(crate) fn drain_until(&self, until: Instant) {
        let earliest = self.drain_until.get().map_or(until, |before| before.min(until));
        self.drain_until.set(Some(earliest));
    }

    /// Gives up what is left of a drain.
    pub(crate) fn abandon(&self) {
        self.abandoned.set(true);
    }

    /// Whether the shard was drained.
    pub(crate) fn is_finished(&self) -> bool {
        let nothing_left = self.listener.borrow().is_none()
            && self.counters.open.value() == 0
            && self.shard.as_ref().is_none_or(|shard| !shard.has_work());
        self.abandoned.get() || (self.is_draining() && nothing_left)
    }

    pub(crate) fn set_listener(&self, listener: Option<Rc<Listener>>) {
        self.listener.replace(listener);
    }

    pub(crate) fn listener(&self) -> Option<Rc<Listener>> {
        self.listener.borrow().clone()
    }

    pub(crate) fn opened(&self) {
        self.counters.accepted.add(1);
        self.counters.open.add(1);
    }

    pub(crate) fn closed(&self) {
        self.counters.open.subtract(1);
    }

    pub(crate) fn is_full(&self) -> bool {
        let coming = self.place.as_ref().map_or(0, Place::coming);
        self.counters.open.value() + coming >= u64::from(self.limits().connections)
    }

    pub(crate) fn place(&self) -> Option<&Place> {
        self.place.as_ref()
    }
}

/// Memory.
impl Worker {
    #[inline]
    pub(crate) fn take_input(&self) -> Input {
        Input::over(self.inputs.borrow_mut().pop().unwrap_or_else(Buffer::new))
    }

    #[inline]
    pub(crate) fn give_input(&self, input: Input) {
        let mut inputs = self.inputs.borrow_mut();
        if inputs.len() < POOLED_INPUTS {
            inputs.push(input.buffer);
        }
    }

    #[inline]
    pub(crate) fn take_output(&self) -> Vec<u8> {
        self.outputs.borrow_mut().pop().unwrap_or_else(|| Vec::with_capacity(OUTPUT_BEGINS_BYTES))
    }

    #[inline]
    pub(crate) fn give_output(&self, memory: Vec<u8>) {
        let mut outputs = self.outputs.borrow_mut();
        let usual = OUTPUT_BEGINS_BYTES..=2 * OUTPUT_BYTES;
        if outputs.len() < POOLED_OUTPUTS && usual.contains(&memory.capacity()) {
            outputs.push(memory);
        }
    }
}

/// Dates.
impl Worker {
    /// Appends the fields `Content-Length` and `Date`.
    #[inline]
    pub(crate) fn push_length_and_date(&self, out: &mut Vec<u8>, length: u64) {
        self.refresh_date();
        out.extend_from_slice(b"Content-Length: ");
        out.extend_from_slice(digits(length, &mut [0; DIGITS]));
        out.extend_from_slice(&self.date.borrow().line);
    }

    /// Appends the field `Date`.
    pub(crate) fn push_date(&self, out: &mut Vec<u8>) {
        self.refresh_date();
        out.extend_from_slice(&self.date.borrow().line[LINE_END.len()..]);
    }

    #[inline]
    fn refresh_date(&self) {
        let now_ns = self.shard.as_ref().map_or(u64::MAX, |shard| shard.now_ns());
        if now_ns >= self.date.borrow().good_until_ns {
            self.date.borrow_mut().refresh(now_ns);
        }
    }
}

const LINE_END: &[u8] = b"\r\n";
/// The end of the line before, `Date: `, a date, and a line end.
const DATE_START: usize = LINE_END.len() + b"Date: ".len();
const DATE_LINE_BYTES: usize = DATE_START + DATE_BYTES + LINE_END.len();

/// The line that nearly every answer ends its head with, and how long it is right.
struct DateLines {
    line: [u8; DATE_LINE_BYTES],
    good_until_ns: u64,
}

impl DateLines {
    fn new() -> Self {
        let mut line = [0; DATE_LINE_BYTES];
        line[..DATE_START].copy_from_slice(b"\r\nDate: ");
        line[DATE_START + DATE_BYTES..].copy_from_slice(LINE_END);
        Self { line, good_until_ns: 0 }
    }

    #[cold]
    fn refresh(&mut self, now_ns: u64) {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        self.line[DATE_START..DATE_START + DATE_BYTES].copy_from_slice(&date(since_1970.as_secs()));
        let rest_of_second = 1_000_000_000 - u64::from(since_1970.subsec_nanos());
        self.good_until_ns = now_ns.saturating_add(rest_of_second);
    }
}

/// Takes up a connection; a failure closes it.
pub(crate) fn take_up(worker: &Rc<Worker>, shard: &Rc<Shard>, socket: rustix::fd::OwnedFd) {
    if Conn::open(worker, shard, socket).is_err() {
        worker.counters().refused.add(1);
    }
}
