//! A connection on a shard: it hears of its socket as a source of events, and is served in a coroutine.

use super::life::{After, Next, Phase, Start};
use super::{Conn, Driver};
use crate::rt::TimerKey;
use crate::rt::driver::Ready;
use crate::rt::shard::{Resume, Shard, Source};
use crate::rt::slab::Key;
use crate::rt::sys;
use crate::server::turn::{refuse, serve};
use rustix::io::Errno;
use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// What a shard keeps of a connection.
pub(super) struct OnShard {
    shard: Rc<Shard>,
    pub(super) key: Cell<Option<Key>>,
    /// The coroutine that waits for the socket.
    waiting: Cell<Option<(Ready, Key)>>,
    /// When the present phase has taken too long.
    deadline_ns: Cell<u64>,
    /// When its timer looks at that.
    timer: Cell<Option<(TimerKey, u64)>>,
}

impl OnShard {
    pub(super) fn new(shard: Rc<Shard>) -> Self {
        Self {
            shard,
            key: Cell::new(None),
            waiting: Cell::new(None),
            deadline_ns: Cell::new(u64::MAX),
            timer: Cell::new(None),
        }
    }

    pub(super) fn forget(&self) {
        if let Some((timer, _)) = self.timer.take() {
            self.shard.cancel_alarm(timer);
        }
        if let Some(key) = self.key.take() {
            self.shard.forget(key);
        }
    }

    /// Suspends the coroutine until the socket may be ready; whether that was in time.
    pub(super) fn wait(&self, wanted: Ready, deadline: Option<Instant>) -> io::Result<bool> {
        self.waiting.set(Some((wanted, self.shard.running_key())));
        let why = self.shard.suspend(deadline.map(|at| self.shard.to_ns(at)));
        self.waiting.set(None);
        Ok(why? != Resume::Deadline)
    }

    #[inline]
    fn set_deadline(&self, time: Duration) {
        let Some(key) = self.key.get() else { return };
        let at_ns = self.shard.now_ns() + time.as_nanos() as u64;
        self.deadline_ns.set(at_ns);
        // A timer that comes early looks at the deadline and is set again; so most requests set none.
        match self.timer.get() {
            Some((_, timer_ns)) if timer_ns <= at_ns => return,
            Some((timer, _)) => drop(self.shard.cancel_alarm(timer)),
            None => {}
        }
        self.timer.set(Some((self.shard.alarm(at_ns, key), at_ns)));
    }

    fn is_too_late(&self) -> bool {
        self.timer.set(None);
        let Some(key) = self.key.get() else { return false };
        let deadline_ns = self.deadline_ns.get();
        if self.shard.now_ns() >= deadline_ns {
            return true;
        }
        self.timer.set(Some((self.shard.alarm(deadline_ns, key), deadline_ns)));
        false
    }
}

/// For whoever hears of what happens in place of the connection.
impl Conn {
    #[inline]
    fn on_shard(&self) -> Option<&OnShard> {
        match &self.driver {
            Driver::Shard(driver) => Some(driver),
            Driver::Thread => None,
        }
    }

    /// Allows the present phase so much time from now on.
    #[inline]
    pub(crate) fn set_deadline(&self, time: Duration) {
        if let Some(driver) = self.on_shard() {
            driver.set_deadline(time);
        }
    }

    /// Whether the deadline passed, when the timer expired; it is set again if not.
    pub(crate) fn is_too_late(&self) -> bool {
        self.on_shard().is_some_and(OnShard::is_too_late)
    }

    /// Lets another source hear of what happens.
    pub(crate) fn hand_over(&self, source: Rc<dyn Source>) {
        if let Some(driver) = self.on_shard()
            && let Some(key) = driver.key.get()
        {
            driver.shard.replace(key, source);
        }
    }

    /// Comes back in the next turn to whoever hears of what happens.
    pub(crate) fn call_back(&self) {
        if let Some(driver) = self.on_shard()
            && let Some(source) = driver.key.get().and_then(|key| driver.shard.source(key))
        {
            driver.shard.come_back(source);
        }
    }

    /// Says that no more comes, and waits until the client has seen it.
    pub(crate) fn linger(self: &Rc<Self>) {
        let next = self.with_life(super::Life::linger);
        self.go_on(next);
    }
}

impl Conn {
    /// Serves what can be received, in a coroutine.
    #[inline]
    fn begin(self: &Rc<Self>) {
        let Some(driver) = self.on_shard() else { return };
        self.with_life(|life| life.phase = Phase::Serve);
        let served = self.clone();
        driver.shard.start(self.worker.name(), Some(self.clone()), move || {
            let after = serve(&served);
            served.settle(after);
        });
    }

    /// Sends what was answered, and goes on once that is out.
    #[inline]
    fn settle(self: &Rc<Self>, after: After) {
        match self.try_flush() {
            Ok(true) => self.go_on_after(after),
            Ok(false) => {
                self.take_moved();
                let next = self.with_life(|life| life.held_up(after, self.worker.limits()));
                self.go_on(next);
            }
            Err(_) => self.close(),
        }
    }

    #[inline]
    fn go_on_after(self: &Rc<Self>, after: After) {
        self.release_output();
        match self.sent(after) {
            Next::Await(time) => self.await_bytes(time),
            next => self.go_on(next),
        }
    }

    #[inline]
    fn await_bytes(self: &Rc<Self>, time: Option<Duration>) {
        if let Some(time) = time {
            self.set_deadline(time);
        }
        // An edge that came while the coroutine ran is not reported again.
        if self.may_receive() {
            self.come_back();
        }
    }

    /// Does what was decided. What nearly every answer is followed by is not among it.
    #[cold]
    fn go_on(self: &Rc<Self>, next: Next) {
        match next {
            Next::Nothing => {}
            Next::Within(time) => self.set_deadline(time),
            Next::Await(time) => self.await_bytes(time),
            Next::Again => self.come_back(),
            Next::Refuse => {
                refuse(self, 408, "the head came too slowly");
                self.settle(After::Linger);
            }
            Next::Linger => {
                self.shut_down();
                self.set_deadline(self.worker.limits().linger_time);
                self.discard();
            }
            Next::Close => self.close(),
            Next::Reset => {
                self.reset_on_close();
                self.close();
            }
            Next::Http2 => crate::server::http2::begin(self),
        }
    }

    fn come_back(self: &Rc<Self>) {
        if let Some(driver) = self.on_shard() {
            driver.shard.come_back(self.clone());
        }
    }

    fn continue_flush(self: &Rc<Self>, after: After) {
        match self.try_flush() {
            Ok(true) => self.go_on_after(after),
            // What the client sends meanwhile buys it no time.
            Ok(false) if self.take_moved() => self.set_deadline(self.worker.limits().write_stall),
            Ok(false) => {}
            Err(_) => self.close(),
        }
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

    /// Wakes the coroutine that waits for the socket, if it waits for what `is_due` says.
    #[inline]
    fn wake(&self, is_due: impl FnOnce(Ready) -> bool) {
        if let Some(driver) = self.on_shard()
            && let Some((wanted, key)) = driver.waiting.get()
            && is_due(wanted)
        {
            driver.shard.wake(key);
        }
    }
}

impl Source for Conn {
    #[inline]
    fn ready(self: Rc<Self>, ready: Ready) {
        self.mark(ready);
        let life = self.life.get();
        match life.phase {
            Phase::Receive if self.may_receive() || life.start == Start::Again => self.begin(),
            Phase::Receive | Phase::Closed => {}
            Phase::Serve => self.wake(|wanted| ready.has(wanted)),
            Phase::Flush(after) => self.continue_flush(after),
            Phase::Linger => self.discard(),
        }
    }

    fn expired(self: Rc<Self>) {
        if self.is_too_late() {
            let next = self.late();
            self.go_on(next);
        }
    }

    fn drain(&self) {
        match self.draining() {
            Next::Close => self.close(),
            Next::Within(time) => self.set_deadline(time),
            _ => {}
        }
        // What is not HTTP any more has its own way to end, and waits for the client until it is told.
        if self.life.get().phase == Phase::Serve {
            self.wake(|_| true);
        }
    }

    fn cut_off(&self) {
        // Where the end of the stream is that of the answer, it is reset instead: by dissolving the connection, for
        // the coroutine that is left behind keeps the descriptor.
        if !self.is_cut() || rustix::net::connect_unspec(&self.socket).is_err() {
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
