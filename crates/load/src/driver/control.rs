use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{read, write};

use crate::schedule::Pace;
use crate::session::Span;
use crate::{Idle, LoadError};

/// Stands for an instant that is not known yet.
const UNKNOWN: u64 = u64::MAX;

/// How a window is loaded that follows another.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Order {
    pub(crate) pace: Pace,
    pub(crate) seed: u64,
    /// Over all workers of the endpoint.
    pub(crate) requests: Option<u64>,
    pub(crate) idle: Idle,
    /// How long answers are waited for after the window.
    pub(crate) drain_ns: u64,
}

/// What the conductor tells its workers: instants on the monotonic clock in nanoseconds, each known before it comes.
///
/// A worker reads them at every turn. They are written before the worker is woken, so that none comes too late.
#[derive(Debug)]
pub(crate) struct Control {
    warmup_ns: AtomicU64,
    start_ns: AtomicU64,
    end_ns: AtomicU64,
    /// Which window is the present one, from 1.
    number: AtomicU64,
    /// How it is loaded; nothing for the first of a load, which is as its workers were made for.
    order: Mutex<Option<Order>>,
    over: AtomicBool,
}

impl Control {
    pub(crate) fn new() -> Self {
        Self {
            warmup_ns: AtomicU64::new(UNKNOWN),
            start_ns: AtomicU64::new(UNKNOWN),
            end_ns: AtomicU64::new(UNKNOWN),
            number: AtomicU64::new(1),
            order: Mutex::new(None),
            over: AtomicBool::new(false),
        }
    }

    /// No window is coming yet: workers wait for the first that is [begun](Self::begin).
    pub(crate) fn waiting() -> Self {
        Self { number: AtomicU64::new(0), ..Self::new() }
    }

    /// Another window. The number is stored last: whoever sees it sees the rest.
    pub(crate) fn begin(&self, order: Order, span: Span) {
        *self.order.lock().unwrap_or_else(PoisonError::into_inner) = Some(order);
        self.set_window(span);
        self.number.fetch_add(1, Ordering::Release);
    }

    /// A window without length, so that workers report why they cannot begin: those that wait for turns hear of no other.
    pub(crate) fn call_off(&self) {
        let span = Span { start_ns: 0, end_ns: 0 };
        if self.number() > 0 {
            return self.set_window(span);
        }
        let order = Order { pace: Pace::Closed, seed: 0, requests: None, idle: Idle::Sleep, drain_ns: 0 };
        self.begin(order, span);
    }

    #[inline]
    pub(crate) fn number(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }

    pub(crate) fn order(&self) -> Option<Order> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// No window will come any more.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Release);
    }

    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    pub(crate) fn warm_up_at(&self, at: u64) {
        self.warmup_ns.store(at, Ordering::Release);
    }

    /// The end is stored first: whoever sees the begin sees the end.
    pub(crate) fn set_window(&self, span: Span) {
        self.end_ns.store(span.end_ns, Ordering::Release);
        self.start_ns.store(span.start_ns, Ordering::Release);
    }

    pub(crate) fn end_at(&self, at: u64) {
        self.end_ns.store(at, Ordering::Release);
    }

    #[inline]
    pub(crate) fn warmup_ns(&self) -> u64 {
        self.warmup_ns.load(Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn window(&self) -> Span {
        let start_ns = self.start_ns.load(Ordering::Acquire);
        Span { start_ns, end_ns: self.end_ns.load(Ordering::Acquire) }
    }
}

/// What the conductor holds of one worker.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) waker: OwnedFd,
    pub(crate) progress: Progress,
}

/// What a worker tells at every turn, on cache lines that it shares with nobody.
///
/// Source: Intel, "Optimization Reference Manual", 3.7.3: lines are fetched in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Progress {
    /// Answers so far.
    pub(crate) completed: AtomicU64,
    /// Connections open.
    pub(crate) established: AtomicU64,
    /// Connections that were ever open. A server that closes each at once may have none open at this moment.
    pub(crate) opened: AtomicU64,
}

impl Handle {
    pub(crate) fn new() -> Result<Self, LoadError> {
        let waker = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)
            .map_err(LoadError::system("open an eventfd"))?;
        Ok(Self { waker, progress: Progress::default() })
    }

    pub(crate) fn wake(&self) {
        // It can only fail when the counter is at its end, and then the worker is woken already.
        let _ = write(&self.waker, &1u64.to_ne_bytes());
    }

    pub(crate) fn rest(&self) {
        let _ = read(&self.waker, &mut [0u8; 8]);
    }
}
