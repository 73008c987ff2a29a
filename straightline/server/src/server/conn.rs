//! One connection: what it is waiting for, with a coroutine while it is served and with none else.
//!
//! ```text
//!            readable                 all answered
//! Receive ────────────▶ Serve ──────────────────────▶ Receive
//!    │                    │  the socket is full          ▲
//!    │ too late           ├────────────────▶ Flush ──────┘
//!    ▼                    │ refused            │
//!  Closed ◀── Linger ◀────┴────────────────────┘
//! ```

mod traffic;

use super::output::Output;
use super::transport::Transport;
use super::turn::{refuse, serve};
use super::worker::Worker;
use crate::rt::driver::{Interest, Ready};
use crate::rt::shard::{Shard, Source};
use crate::rt::slab::Key;
use crate::rt::{net, sys};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// What a call that does not block gave; `Errno::AGAIN` says "not now".
pub(crate) type Io = sys::Result<usize>;

/// What a connection does at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Waits for a request, or for the rest of a head.
    Receive,
    /// A coroutine serves it.
    Serve,
    /// Waits for room to send the last of an answer.
    Flush(After),
    /// Waits for a refused client to read why.
    Linger,
    Closed,
}

/// What is to become of a connection once its answers are out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// It waits for bytes.
    Receive,
    /// It is served again after the others had their turn.
    Again,
    /// It is closed in a way that lets the client read the answer, whatever it still sends.
    Linger,
    /// It is closed.
    Close,
    /// It speaks HTTP/2.
    Http2,
}

/// How long a connection that was just opened may take to its first request when the server drains.
const FIRST_REQUEST: Duration = Duration::from_millis(100);

/// What is done before bytes are received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// Nothing.
    Usual,
    /// The stash is looked at: it may hold whole requests, which waited for others to have their turn.
    Again,
    /// It is found out which protocol the client speaks.
    First,
}

/// One connection. See the [module](self).
pub(crate) struct Conn {
    worker: Rc<Worker>,
    socket: OwnedFd,
    transport: Transport,
    key: Cell<Option<Key>>,
    phase: Cell<Phase>,
    /// What the socket was reported ready for and was not found exhausted of since.
    seen: Cell<Ready>,
    /// The coroutine that waits for the socket.
    waiting: Cell<Option<(Ready, Key)>>,
    /// Received bytes that are no whole request, while no coroutine has them.
    stash: RefCell<Vec<u8>>,
    /// Whether the deadline is that of a head.
    amid_head: Cell<bool>,
    start: Cell<Start>,
    output: RefCell<Output>,
    /// Whether the client took anything since that was last asked.
    moved: Cell<bool>,
    /// Whether the client must not take what it has for the whole.
    cut: Cell<bool>,
    /// When the present phase has taken too long.
    deadline_ns: Cell<u64>,
    /// When its timer looks at that.
    timer: Cell<Option<(crate::rt::TimerKey, u64)>>,
}

impl Conn {
    pub(crate) fn new(worker: Rc<Worker>, socket: OwnedFd, transport: Transport) -> Self {
        Self {
            worker,
            socket,
            transport,
            key: Cell::new(None),
            phase: Cell::new(Phase::Receive),
            seen: Cell::new(Ready::NONE),
            waiting: Cell::new(None),
            stash: RefCell::default(),
            amid_head: Cell::new(true),
            start: Cell::new(Start::First),
            output: RefCell::default(),
            moved: Cell::new(false),
            cut: Cell::new(false),
            deadline_ns: Cell::new(u64::MAX),
            timer: Cell::new(None),
        }
    }

    /// Takes up a connection that was just accepted.
    pub(crate) fn open(worker: &Rc<Worker>, shard: &Rc<Shard>, socket: OwnedFd) -> io::Result<()> {
        let transport = worker.transport()?;
        let conn = Rc::new(Self::new(Rc::clone(worker), socket, transport));
        let key = shard.register(conn.socket.as_fd(), Interest::Edges, conn.clone())?;
        conn.key.set(Some(key));
        conn.set_deadline(worker.limits().head_time);
        worker.opened();
        Ok(())
    }

    pub(crate) fn worker(&self) -> &Rc<Worker> {
        &self.worker
    }

    pub(crate) fn output(&self) -> &RefCell<Output> {
        &self.output
    }

    pub(crate) fn peer_addr(&self) -> io::Result<SocketAddr> {
        net::address(rustix::net::getpeername(&self.socket)?)
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Whether the client closed its side, or all of the connection.
    pub(crate) fn is_gone(&self) -> bool {
        let reported = Ready::ENDED.with(Ready::GONE);
        if self.seen.get().has(reported) {
            return true;
        }
        let gone = !matches!(sys::peek(&self.socket), Ok(1..) | Err(Errno::AGAIN));
        if gone {
            self.mark(Ready::ENDED);
        }
        gone
    }

    /// Whether to close now would reset the connection, for bytes are there that nobody read.
    pub(crate) fn has_unread(&self) -> bool {
        // Nobody tells a thread what came since it last looked.
        self.may_receive() || (self.worker.shard().is_none() && self.is_sent_more())
    }

    /// Whether bytes are there to be received.
    pub(crate) fn is_sent_more(&self) -> bool {
        matches!(sys::peek(&self.socket), Ok(1..))
    }

    #[inline]
    pub(crate) fn mark(&self, ready: Ready) {
        self.seen.set(self.seen.get().with(ready));
    }

    #[inline]
    fn unmark(&self, ready: Ready) {
        self.seen.set(self.seen.get().without(ready));
    }
}

/// Phases.
impl Conn {
    /// Serves what can be received, in a coroutine.
    #[inline]
    fn begin(self: &Rc<Self>) {
        let Some(shard) = self.worker.shard() else { return };
        self.phase.set(Phase::Serve);
        let served = self.clone();
        shard.start(self.worker.name(), Some(self.clone()), move || {
            let after = serve(&served);
            served.settle(after);
        });
    }

    /// Goes on after a coroutine came to its end.
    #[inline]
    fn settle(self: &Rc<Self>, after: After) {
        match self.try_flush() {
            Ok(true) => self.flushed(after),
            Ok(false) => {
                self.phase.set(Phase::Flush(after));
                self.take_moved();
                self.set_deadline(self.worker.limits().write_stall);
            }
            Err(_) => self.close(),
        }
    }

    #[inline]
    fn flushed(self: &Rc<Self>, after: After) {
        self.release_output();
        match after {
            After::Receive if self.worker.is_draining() && self.stash.borrow().is_empty() => self.close(),
            After::Receive => {
                self.phase.set(Phase::Receive);
                self.await_request();
                // An edge that came while the coroutine ran is not reported again.
                if self.may_receive() {
                    self.come_back();
                }
            }
            After::Again => {
                self.phase.set(Phase::Receive);
                self.set_start(Start::Again);
                self.come_back();
            }
            After::Linger => self.linger(),
            After::Close => self.close(),
            After::Http2 => super::http2::begin(self),
        }
    }

    /// Sets the deadline for the next request, or for the rest of the present head.
    #[inline]
    fn await_request(&self) {
        if let Some(time) = self.time_for_next() {
            self.set_deadline(time);
        }
    }

    fn come_back(self: &Rc<Self>) {
        if let Some(shard) = self.worker.shard() {
            shard.come_back(self.clone());
        }
    }

    fn continue_flush(self: &Rc<Self>, after: After) {
        match self.try_flush() {
            Ok(true) => self.flushed(after),
            // What the client sends meanwhile buys it no time.
            Ok(false) if self.take_moved() => self.set_deadline(self.worker.limits().write_stall),
            Ok(false) => {}
            Err(_) => self.close(),
        }
    }

    /// Says that no more comes, and waits until the client has seen it.
    pub(crate) fn linger(self: &Rc<Self>) {
        self.phase.set(Phase::Linger);
        self.shut_down();
        self.set_deadline(self.worker.limits().linger_time);
        self.discard();
    }

    /// Tells the client that no more comes.
    pub(crate) fn shut_down(&self) {
        self.transport.say_goodbye(&self.socket);
        rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Write).ok();
    }

    /// Drops what a refused client still sends.
    fn discard(self: &Rc<Self>) {
        /// Reads before the others of the shard have their turn.
        const READS: usize = 16;
        let mut scrap = self.worker.take_input();
        let mut ended = false;
        for _ in 0..READS {
            match sys::recv(&self.socket, scrap.room()) {
                Ok(1..) => {}
                Err(Errno::AGAIN) => {
                    self.unmark(Ready::READ);
                    break;
                }
                Ok(0) | Err(_) => {
                    ended = true;
                    break;
                }
            }
        }
        self.worker.give_input(scrap);
        if ended {
            self.close();
        } else if self.may_receive() {
            self.come_back();
        }
    }

    /// Forgets the connection. The socket is closed when the last who uses it lets go.
    pub(crate) fn close(&self) {
        if self.phase.replace(Phase::Closed) == Phase::Closed {
            return;
        }
        // The word that ends a TLS stream would say that all of it was sent.
        if !self.cut.get() {
            self.transport.say_goodbye(&self.socket);
        }
        if let Some(shard) = self.worker.shard() {
            if let Some((timer, _)) = self.timer.take() {
                shard.cancel_alarm(timer);
            }
            if let Some(key) = self.key.take() {
                shard.forget(key);
            }
            // A connection that has a thread is counted until that ends, which closes the socket before.
            self.worker.closed();
        }
    }

    /// Lets the client see that its answer was cut short, where nothing else would say so.
    pub(crate) fn reset_on_close(&self) {
        self.cut.set(true);
        rustix::net::sockopt::set_socket_linger(&self.socket, Some(Duration::ZERO)).ok();
    }

    /// The answer whose end is that of the connection is whole, and on its way.
    pub(crate) fn end_in_order(&self) {
        self.cut.set(false);
        rustix::net::sockopt::set_socket_linger(&self.socket, None).ok();
    }

    /// Whether an answer was cut short, so that nothing is to look like its end.
    pub(crate) fn is_cut(&self) -> bool {
        self.cut.get()
    }

    /// Allows the present phase so much time from now on.
    #[inline]
    pub(crate) fn set_deadline(&self, time: Duration) {
        let (Some(shard), Some(key)) = (self.worker.shard(), self.key.get()) else { return };
        let at_ns = shard.now_ns() + time.as_nanos() as u64;
        self.deadline_ns.set(at_ns);
        // A timer that comes early looks at the deadline and is set again; so most requests set none.
        match self.timer.get() {
            Some((_, timer_ns)) if timer_ns <= at_ns => return,
            Some((timer, _)) => drop(shard.cancel_alarm(timer)),
            None => {}
        }
        self.timer.set(Some((shard.alarm(at_ns, key), at_ns)));
    }

    /// Whether the deadline passed, when the timer expired; it is set again if not.
    pub(crate) fn is_too_late(&self) -> bool {
        self.timer.set(None);
        let (Some(shard), Some(key)) = (self.worker.shard(), self.key.get()) else { return false };
        let deadline_ns = self.deadline_ns.get();
        if shard.now_ns() >= deadline_ns {
            return true;
        }
        self.timer.set(Some((shard.alarm(deadline_ns, key), deadline_ns)));
        false
    }

    /// Lets another source hear of what happens.
    pub(crate) fn hand_over(&self, source: Rc<dyn Source>) {
        if let (Some(shard), Some(key)) = (self.worker.shard(), self.key.get()) {
            shard.replace(key, source);
        }
    }

    /// Comes back in the next turn to whoever hears of what happens.
    pub(crate) fn call_back(&self) {
        let (Some(shard), Some(key)) = (self.worker.shard(), self.key.get()) else { return };
        if let Some(source) = shard.source(key) {
            shard.come_back(source);
        }
    }

    fn too_late(self: &Rc<Self>) {
        let phase = self.phase.get();
        // A handler may take its time; what it waits for has times of its own.
        if phase == Phase::Serve {
            return self.set_deadline(self.worker.limits().idle_time);
        }
        self.worker.counters().timeouts.add(1);
        match phase {
            Phase::Receive if self.has_stash() => {
                refuse(self, 408, "the head came too slowly");
                self.settle(After::Linger);
            }
            Phase::Flush(_) => {
                self.reset_on_close();
                self.close();
            }
            _ => self.close(),
        }
    }
}

impl Source for Conn {
    #[inline]
    fn ready(self: Rc<Self>, ready: Ready) {
        self.mark(ready);
        match self.phase.get() {
            Phase::Receive if self.may_receive() || self.start.get() == Start::Again => self.begin(),
            Phase::Receive | Phase::Closed => {}
            Phase::Serve => {
                if let (Some((wanted, key)), Some(shard)) = (self.waiting.get(), self.worker.shard())
                    && ready.has(wanted)
                {
                    shard.wake(key);
                }
            }
            Phase::Flush(after) => self.continue_flush(after),
            Phase::Linger => self.discard(),
        }
    }

    fn expired(self: Rc<Self>) {
        if self.is_too_late() {
            self.too_late();
        }
    }

    fn drain(&self) {
        // A request that is on its way in is still answered.
        let idle = self.phase.get() == Phase::Receive && !self.has_stash();
        if idle && !self.is_sent_more() {
            match self.start.get() {
                // Who has only just connected has a first request on the way, and no reason to ask for it again.
                Start::First => self.set_deadline(FIRST_REQUEST),
                Start::Usual | Start::Again => self.close(),
            }
        }
        // What is not HTTP any more has its own way to end, and waits for the client until it is told.
        if let (Phase::Serve, Some((_, key)), Some(shard)) =
            (self.phase.get(), self.waiting.get(), self.worker.shard())
        {
            shard.wake(key);
        }
    }

    fn cut_off(&self) {
        // Where the end of the stream is that of the answer, it is reset instead: by dissolving the connection, for
        // the coroutine that is left behind keeps the descriptor.
        if !self.cut.get() || rustix::net::connect_unspec(&self.socket).is_err() {
            rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both).ok();
        }
    }

    fn parking(&self) {
        // What is answered already must not wait for what is not; an error shows at the next write.
        self.try_flush().ok();
        self.release_output();
        // It may be long until the handler goes on.
        if let Some(memory) = self.output.borrow_mut().trade_memory() {
            self.worker.give_output(memory);
        }
    }
}
