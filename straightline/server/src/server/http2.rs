//! A connection that speaks HTTP/2: one reader without a stack, and a coroutine for each stream's handler.
//!
//! What handlers and the protocol have to send gathers in the output of the connection, and goes out once for all that
//! happened in a turn of the shard.

mod exchange;
mod stream;

pub(crate) use stream::{Came, Stream};

use super::buffer::Input;
use super::conn::Conn;
use super::limits::{Limits, OUTPUT_BYTES};
use crate::rt::driver::Ready;
use crate::rt::shard::Source;
use crate::rt::slab::Key;
use ::http2::{Connection, Event};
use rustix::io::Errno;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

/// Reads of one connection before the others of its shard have their turn.
const READS: usize = 16;
/// How long a client may take to hear that the connection ends, before requests are refused that are on their way: some
/// round trips around the world.
const LAST_CALL_TIME: Duration = Duration::from_secs(1);
/// What a field counts beside its text in a list of HTTP/2, in bytes.
const FIELD_BYTES: u32 = 32;

/// How near a connection is to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Open,
    /// The client was told that the end is near, and may not have heard of it.
    LastCall,
    /// No more requests are taken; it ends with the last stream.
    Ending,
    Closed,
}

/// One connection of HTTP/2. See the [module](self).
pub(crate) struct Session {
    conn: Rc<Conn>,
    core: RefCell<Connection>,
    /// Coroutines that wait for something to happen on their stream.
    waiting: RefCell<Vec<(u32, Key)>>,
    stage: Cell<Stage>,
    /// Whether the turn is under way, which ends with a flush.
    busy: Cell<bool>,
    /// Whether a turn is to come that ends with one.
    called: Cell<bool>,
    /// Whether nothing is read until the client took more of what waits for it.
    held_back: Cell<bool>,
    /// Whether the client has not taken all that was sent.
    blocked: Cell<bool>,
    /// Whether a handler waits for the client to take more.
    wanted: Cell<bool>,
    /// Whether the client sends no more.
    hung_up: Cell<bool>,
    /// Whether the deadline is that of a frame, or of fields, that have begun to come.
    amid: Cell<bool>,
}

/// Goes on with a connection whose client speaks HTTP/2. The stash has what it said so far.
pub(crate) fn begin(conn: &Rc<Conn>) {
    let Some(shard) = conn.worker().shard() else { return };
    conn.ensure_output();
    let limits = limits_of(conn.worker().limits());
    let core = Connection::new(limits, shard.now_ns(), conn.output().borrow_mut().bytes_mut());
    conn.output().borrow_mut().seal();
    let session = Rc::new(Session {
        conn: Rc::clone(conn),
        core: RefCell::new(core),
        waiting: RefCell::default(),
        stage: Cell::new(Stage::Open),
        busy: Cell::new(false),
        called: Cell::new(true),
        held_back: Cell::new(false),
        blocked: Cell::new(false),
        wanted: Cell::new(false),
        hung_up: Cell::new(false),
        amid: Cell::new(true),
    });
    conn.hand_over(session.clone());
    if conn.worker().is_draining() {
        session.call_last();
    }
    shard.come_back(session);
}

fn limits_of(limits: &Limits) -> ::http2::Limits {
    let head = &limits.head;
    let header_list_bytes = u32::from(head.head_bytes) + FIELD_BYTES * u32::from(head.headers);
    ::http2::Limits { streams: limits.streams, header_list_bytes, ..::http2::Limits::DEFAULT }
}

/// Reading.
impl Session {
    /// Deals with whatever happened, and sends what came of it.
    fn turn(self: &Rc<Self>) {
        self.called.set(false);
        if self.stage.get() == Stage::Closed {
            return;
        }
        self.busy.set(true);
        self.conn.ensure_output();
        self.receive();
        self.busy.set(false);
        self.flush();
    }

    fn receive(self: &Rc<Self>) {
        if self.hung_up.get() {
            return;
        }
        let mut input = self.conn.unstash();
        self.held_back.set(false);
        let mut served = 0;
        for reads in 0.. {
            if !self.take_frames(&mut input, &mut served) || !self.conn.may_receive() {
                break;
            }
            if reads == READS {
                self.call_back();
                break;
            }
            input.make_room();
            match self.conn.recv(input.room()) {
                Ok(count @ 1..) => input.add(count),
                Err(Errno::AGAIN) => break,
                Ok(_) => {
                    self.hang_up();
                    break;
                }
                Err(_) => {
                    self.abandon();
                    break;
                }
            }
        }
        self.conn.put_back(input);
    }

    /// Deals with the whole frames of `input`; whether more may be read.
    fn take_frames(self: &Rc<Self>, input: &mut Input, served: &mut u16) -> bool {
        loop {
            if *served == self.conn.worker().limits().pipelined {
                self.call_back();
                return false;
            }
            if self.conn.holds() >= OUTPUT_BYTES {
                self.held_back.set(true);
                return false;
            }
            let now_ns = self.conn.worker().shard().map_or(0, |shard| shard.now_ns());
            let step = self.with_core(|core, out| core.step(input.bytes(), now_ns, out));
            input.consume(step.consumed);
            match step.event {
                Event::Partial => return true,
                Event::Nothing => {}
                Event::Request(id) => {
                    self.serve(id);
                    *served += 1;
                }
                Event::Changed(id) => self.wake(id),
                Event::AllChanged => self.wake_all(),
                Event::LastCallHeard => self.end(),
                Event::Broken(_) => {
                    self.conn.worker().counters().refused.add(1);
                    self.stage.set(Stage::Ending);
                    self.wake_all();
                    return false;
                }
            }
        }
    }

    /// Calls the protocol, with the output of the connection.
    fn with_core<T>(&self, call: impl FnOnce(&mut Connection, &mut Vec<u8>) -> T) -> T {
        let mut output = self.conn.output().borrow_mut();
        let result = call(&mut self.core.borrow_mut(), output.bytes_mut());
        output.seal();
        result
    }

    fn serve(self: &Rc<Self>, id: u32) {
        let Some(shard) = self.conn.worker().shard() else { return };
        let (session, name) = (Rc::clone(self), self.conn.worker().name());
        shard.start(name, Some(self.clone()), move || exchange::serve(session, id));
    }
}

/// Waking.
impl Session {
    fn wake(&self, id: u32) {
        let Some(shard) = self.conn.worker().shard() else { return };
        for (other, key) in self.waiting.borrow().iter() {
            if *other == id {
                shard.wake(*key);
            }
        }
    }

    fn wake_all(&self) {
        let Some(shard) = self.conn.worker().shard() else { return };
        self.waiting.borrow().iter().for_each(|(_, key)| shard.wake(*key));
    }

    /// Has a turn come, soon.
    fn call_back(&self) {
        if self.stage.get() != Stage::Closed && !self.called.replace(true) {
            self.conn.call_back();
        }
    }

    /// Has what was appended to the output sent, together with what else comes in this turn.
    fn flush_soon(&self) {
        if !self.busy.get() {
            self.call_back();
        }
    }
}

/// Sending, and the end.
impl Session {
    fn flush(self: &Rc<Self>) {
        if self.stage.get() == Stage::Closed {
            return;
        }
        match self.conn.try_flush() {
            Ok(true) => self.blocked.set(false),
            Ok(false) if !self.blocked.replace(true) || self.conn.take_moved() => {
                self.conn.set_deadline(self.conn.worker().limits().write_stall);
            }
            Ok(false) => {}
            Err(_) => return self.abandon(),
        }
        if self.conn.holds() < OUTPUT_BYTES / 2 {
            if self.wanted.take() {
                self.wake_all();
            }
            if self.held_back.get() {
                self.call_back();
            }
        }
        if !self.blocked.get() {
            self.conn.release_output();
            self.rest();
        }
    }

    /// Everything went out: the connection waits, or has come to its end.
    fn rest(self: &Rc<Self>) {
        let core = self.core.borrow();
        let (streams, broken, amid_fields) = (core.streams(), core.is_broken(), core.is_amid_fields());
        drop(core);
        if self.stage.get() == Stage::Ending && (streams == 0 || broken) {
            return self.finish();
        }
        let amid = amid_fields || (streams == 0 && self.conn.has_stash());
        let limits = self.conn.worker().limits();
        match (amid, self.amid.replace(amid)) {
            (true, true) => {}
            (true, false) => self.conn.set_deadline(limits.head_time),
            (false, _) if self.stage.get() == Stage::LastCall => {}
            (false, _) => self.conn.set_deadline(limits.idle_time),
        }
    }

    /// Closes the connection in a way that lets the client read why.
    fn finish(self: &Rc<Self>) {
        self.stage.set(Stage::Closed);
        self.conn.hand_over(self.conn.clone());
        self.conn.linger();
    }

    /// Answers what was asked, as far as that needs nothing more of the client.
    fn hang_up(&self) {
        self.hung_up.set(true);
        self.core.borrow_mut().hang_up();
        self.end();
        self.wake_all();
    }

    /// Closes the connection at once; every handler hears of it.
    fn abandon(&self) {
        if self.stage.replace(Stage::Closed) == Stage::Closed {
            return;
        }
        self.core.borrow_mut().abandon();
        self.wake_all();
        // Handlers that are still at work keep the socket, and the client is not to wait for them.
        rustix::net::shutdown(self.conn.fd(), rustix::net::Shutdown::Both).ok();
        self.conn.close();
    }

    /// Tells the client that the end is near, so that no request is lost that is on its way.
    fn call_last(&self) {
        if self.stage.get() == Stage::Open {
            self.stage.set(Stage::LastCall);
            self.conn.ensure_output();
            self.with_core(Connection::call_last);
            self.conn.set_deadline(LAST_CALL_TIME);
        }
    }

    /// Takes no more requests.
    fn end(&self) {
        if self.stage.get() < Stage::Ending {
            self.stage.set(Stage::Ending);
            self.conn.ensure_output();
            self.with_core(Connection::close);
        }
    }

    fn too_late(self: &Rc<Self>) {
        let streams = self.core.borrow().streams();
        let counters = self.conn.worker().counters();
        if self.blocked.get() {
            counters.timeouts.add(1);
            self.conn.reset_on_close();
            return self.abandon();
        }
        if self.stage.get() == Stage::LastCall {
            self.end();
        } else if self.amid.get() || streams == 0 {
            counters.timeouts.add(1);
            self.end();
        }
        self.flush();
    }
}

impl Source for Session {
    fn ready(self: Rc<Self>, ready: Ready) {
        self.conn.mark(ready);
        self.turn();
    }

    fn expired(self: Rc<Self>) {
        if self.conn.is_too_late() && self.stage.get() != Stage::Closed {
            self.too_late();
        }
    }

    fn drain(&self) {
        self.call_last();
        self.call_back();
    }

    fn cut_off(&self) {
        rustix::net::shutdown(self.conn.fd(), rustix::net::Shutdown::Both).ok();
    }
}
