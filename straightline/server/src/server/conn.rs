//! One connection: what both of its drivers need of it. How it goes on is decided in [`life`]; `coroutine` and `thread`
//! do what is decided; `traffic` moves the bytes.

mod coroutine;
mod life;
mod thread;
mod traffic;

pub(crate) use life::{After, Start};
pub(crate) use thread::{live, wait};

use super::output::Output;
use super::transport::Transport;
use super::worker::Worker;
use crate::rt::driver::{Interest, Ready};
use crate::rt::shard::Shard;
use crate::rt::{net, sys};
use coroutine::OnShard;
use life::{Life, Next, Part, Phase};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// What a call that does not block gave; `Errno::AGAIN` says "not now".
pub(crate) type Io = sys::Result<usize>;

/// Who runs a connection.
enum Driver {
    /// A shard, with a coroutine while it is served and none else.
    Shard(OnShard),
    /// A thread of its own.
    Thread,
}

/// One connection. See the [module](self).
pub(crate) struct Conn {
    worker: Rc<Worker>,
    socket: OwnedFd,
    transport: Transport,
    driver: Driver,
    life: Cell<Life>,
    /// What the socket was reported ready for and was not found exhausted of since.
    seen: Cell<Ready>,
    /// Received bytes that are no whole request, while nobody serves them.
    stash: Cell<Vec<u8>>,
    output: RefCell<Output>,
}

/// What an idle connection takes: with the two counts of its `Rc` all that malloc has in 192 bytes.
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Conn>() <= 168);

impl Conn {
    /// One that the calling thread is to run, by [`live`].
    pub(crate) fn on_thread(worker: Rc<Worker>, socket: OwnedFd, transport: Transport) -> Self {
        Self::new(worker, socket, transport, Driver::Thread)
    }

    fn new(worker: Rc<Worker>, socket: OwnedFd, transport: Transport, driver: Driver) -> Self {
        Self {
            worker,
            socket,
            transport,
            driver,
            life: Cell::new(Life::NEW),
            seen: Cell::new(Ready::NONE),
            stash: Cell::default(),
            output: RefCell::default(),
        }
    }

    /// Has the shard run a connection that was just accepted.
    pub(crate) fn open(worker: &Rc<Worker>, shard: &Rc<Shard>, socket: OwnedFd) -> io::Result<()> {
        let transport = worker.transport()?;
        let driver = Driver::Shard(OnShard::new(Rc::clone(shard)));
        let conn = Rc::new(Self::new(Rc::clone(worker), socket, transport, driver));
        let key = shard.register(conn.socket.as_fd(), Interest::Edges, conn.clone())?;
        if let Driver::Shard(driver) = &conn.driver {
            driver.key.set(Some(key));
        }
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
        self.may_receive() || (self.is_on_thread() && self.is_sent_more())
    }

    /// Whether bytes are there to be received.
    pub(crate) fn is_sent_more(&self) -> bool {
        matches!(sys::peek(&self.socket), Ok(1..))
    }

    /// Whether a thread of its own runs it, which nobody can wake.
    pub(crate) fn is_on_thread(&self) -> bool {
        matches!(self.driver, Driver::Thread)
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

/// What both drivers tell [`Life`], and hear of it.
impl Conn {
    #[inline]
    fn with_life<T>(&self, call: impl FnOnce(&mut Life) -> T) -> T {
        let mut life = self.life.get();
        let result = call(&mut life);
        self.life.set(life);
        result
    }

    #[inline]
    fn part(&self) -> Part {
        Part { of_request: self.has_stash(), of_record: self.transport.is_amid() }
    }

    /// All answers are out.
    #[inline]
    fn sent(&self, after: After) -> Next {
        let part = self.part();
        // A request that is on its way in is still answered.
        let ends = self.worker.is_draining() && !self.is_sent_more();
        self.with_life(|life| life.sent(after, part, ends, self.worker.limits()))
    }

    /// What was waited for did not come in time.
    fn late(&self) -> Next {
        let next = self.life.get().too_late(self.part(), self.worker.limits());
        self.worker.counters().timeouts.add(u64::from(!matches!(next, Next::Within(_) | Next::Nothing)));
        next
    }

    /// The server drains.
    fn draining(&self) -> Next {
        self.life.get().drain(self.part(), self.is_sent_more())
    }

    /// A request was served: whatever comes next is a head of its own.
    #[inline]
    pub(crate) fn served_one(&self) {
        self.with_life(|life| life.amid_head = false);
    }

    pub(crate) fn set_start(&self, start: Start) {
        self.with_life(|life| life.start = start);
    }

    /// What is to be done before bytes are received, asked once.
    #[inline]
    pub(crate) fn take_start(&self) -> Start {
        self.with_life(|life| std::mem::replace(&mut life.start, Start::Usual))
    }

    /// Lets the client see that its answer was cut short, where nothing else would say so.
    pub(crate) fn reset_on_close(&self) {
        self.with_life(|life| life.cut = true);
        rustix::net::sockopt::set_socket_linger(&self.socket, Some(Duration::ZERO)).ok();
    }

    /// The answer whose end is that of the connection is whole, and on its way.
    pub(crate) fn end_in_order(&self) {
        self.with_life(|life| life.cut = false);
        rustix::net::sockopt::set_socket_linger(&self.socket, None).ok();
    }

    /// Whether an answer was cut short, so that nothing is to look like its end.
    pub(crate) fn is_cut(&self) -> bool {
        self.life.get().cut
    }

    /// Tells the client that no more comes.
    pub(crate) fn shut_down(&self) {
        self.transport.say_goodbye(&self.socket);
        rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Write).ok();
    }

    /// Forgets the connection. The socket is closed when the last who uses it lets go.
    pub(crate) fn close(&self) {
        let before = self.with_life(|life| std::mem::replace(&mut life.phase, Phase::Closed));
        if before == Phase::Closed {
            return;
        }
        // The word that ends a TLS stream would say that all of it was sent.
        if !self.is_cut() {
            self.transport.say_goodbye(&self.socket);
        }
        // A connection that has a thread is counted until that ends, which closes the socket before.
        if let Driver::Shard(driver) = &self.driver {
            driver.forget();
            self.worker.closed();
        }
    }
}
