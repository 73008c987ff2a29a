//! Taking connections, and not taking them while there is no room.

use super::event::Event;
use super::listen::BACKLOG;
use super::worker::{Worker, take_up};
use crate::rt::driver::{Interest, Ready};
use crate::rt::shard::{Shard, Source};
use crate::rt::slab::Key;
use crate::rt::{deafen, sys};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Connections taken at one time, before those that are served have their turn.
pub(super) const BURST: usize = 64;
/// How often a paused listener looks for room.
const RETRY: Duration = Duration::from_millis(20);
/// How long clients wait for room before one at a time is told that there is none.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// What they are told.
const NO_ROOM: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
    Retry-After: 5\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

/// Why no connection is taken for the time being.
pub(super) const FULL: &str = "as many connections are open as are allowed";
pub(super) const WANT: &str = "no file descriptors or memory are left";

/// How long the listener of a server that drains stays, for those who began to connect before: some round trips within a
/// data centre.
pub(super) const HANDSHAKE: Duration = Duration::from_millis(10);

/// Reads after which a client without room is told nothing more, though it still sends.
const FAREWELL_READS: usize = 16;

/// A listening socket of one shard.
pub(crate) struct Listener {
    /// The only one that keeps it open; see [`relief`](super::relief) for who else takes from it.
    socket: Arc<OwnedFd>,
    worker: Rc<Worker>,
    shard: Rc<Shard>,
    shard_index: usize,
    interest: Interest,
    key: Cell<Option<Key>>,
    /// Since when it takes nothing, in nanoseconds of the shard.
    paused_ns: Cell<Option<u64>>,
    reserve: RefCell<Reserve>,
}

impl Listener {
    /// Begins to take connections.
    pub(crate) fn open(
        socket: Arc<OwnedFd>,
        shared: bool,
        worker: &Rc<Worker>,
        shard: &Rc<Shard>,
        shard_index: usize,
    ) -> io::Result<()> {
        let listener = Rc::new(Self {
            socket,
            worker: Rc::clone(worker),
            shard: Rc::clone(shard),
            shard_index,
            interest: if shared { Interest::LevelShared } else { Interest::Level },
            key: Cell::new(None),
            paused_ns: Cell::new(None),
            reserve: RefCell::new(Reserve::new()),
        });
        let key = shard.register(listener.socket.as_fd(), listener.interest, listener.clone())?;
        listener.key.set(Some(key));
        worker.set_listener(Some(listener));
        Ok(())
    }

    /// Lets nobody begin to connect any more. Those who have begun are still taken.
    pub(crate) fn deafen(&self) {
        // A socket that others hold as well stays open, and its clients are theirs too.
        if self.interest == Interest::Level {
            deafen(&self.socket).ok();
        }
    }

    /// Stops taking connections. Those that wait are taken first, for closing the socket resets them.
    pub(crate) fn close(&self) {
        take_waiting(|| sys::accept(&self.socket), |socket| take_up(&self.worker, &self.shard, socket));
        if let Some(key) = self.key.take() {
            self.shard.unregister(self.socket.as_fd(), key);
        }
        self.worker.set_listener(None);
    }

    /// Takes what waits; whether there was room for all of it.
    fn accept(&self) -> Result<(), &'static str> {
        for _ in 0..BURST {
            if self.worker.is_full() {
                return Err(FULL);
            }
            match sys::accept(&self.socket) {
                Ok(socket) => self.place(socket),
                Err(Errno::AGAIN) => return Ok(()),
                Err(error) if is_want(error) => return Err(WANT),
                // The others say that the one connection broke before it was taken.
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// Has a connection taken up, by another shard where that is clearly less busy.
    fn place(&self, socket: OwnedFd) {
        let limit = self.worker.limits().connections;
        let Some(seat) = self.worker.place().and_then(|place| place.elsewhere(limit)) else {
            return take_up(&self.worker, &self.shard, socket);
        };
        match seat.give(socket) {
            Ok(()) => self.worker.counters().handed_over.add(1),
            // That shard has ended.
            Err(taking_up) => taking_up(&self.shard),
        }
    }

    fn pause(&self, reason: &'static str) {
        let Some(key) = self.key.get() else { return };
        if self.paused_ns.get().is_none() {
            self.paused_ns.set(Some(self.shard.now_ns()));
            self.worker.counters().accept_pauses.add(1);
            self.shard.change(self.socket.as_fd(), key, Interest::Paused).ok();
            self.worker.tell(Event::AcceptPaused { shard: self.shard_index, reason });
        }
        self.shard.alarm(self.shard.now_ns() + RETRY.as_nanos() as u64, key);
    }

    fn resume(&self) {
        let Some(key) = self.key.get() else { return };
        if self.paused_ns.take().is_some() {
            self.shard.change(self.socket.as_fd(), key, self.interest).ok();
            self.worker.tell(Event::AcceptResumed { shard: self.shard_index });
        }
    }
}

/// A descriptor that is given up to tell a client that there are no more.
pub(super) struct Reserve(Option<OwnedFd>);

impl Reserve {
    pub(super) fn new() -> Self {
        Self(std::fs::File::open("/dev/null").ok().map(OwnedFd::from))
    }

    /// Tells one client that there is no room, in place of the descriptor kept for that; whether one waited.
    pub(super) fn turn_one_away(&mut self, listener: &OwnedFd, plain: bool) -> bool {
        drop(self.0.take());
        let turned_away = sys::accept(listener).map(|socket| {
            // Amid a handshake there are no words for it.
            if plain {
                say_no_room(&socket);
            }
        });
        *self = Self::new();
        turned_away.is_ok()
    }
}

/// Whether accepting failed for want of something, so that the next try would fail as well.
pub(super) fn is_want(error: Errno) -> bool {
    matches!(error, Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)
}

/// Takes the connections that wait at a listener, before it is left.
pub(super) fn take_waiting(
    mut accept: impl FnMut() -> sys::Result<OwnedFd>,
    mut take_up: impl FnMut(OwnedFd),
) {
    // No more can have waited when this began, and at a listener that others hold as well there is always another.
    for _ in 0..=BACKLOG {
        match accept() {
            Ok(socket) => take_up(socket),
            Err(error) if error == Errno::AGAIN || is_want(error) => return,
            // The others say that the one connection broke before it was taken.
            Err(_) => {}
        }
    }
}

/// Tells a client that there is no room, in a way that lets it read that.
fn say_no_room(socket: &OwnedFd) {
    sys::send(socket, NO_ROOM).ok();
    rustix::net::shutdown(socket, rustix::net::Shutdown::Write).ok();
    // To close a socket with unread bytes resets the connection, and may take the answer with it.
    let mut scrap = [0; 4096];
    for _ in 0..FAREWELL_READS {
        if !matches!(sys::recv(socket, &mut scrap), Ok(1..)) {
            return;
        }
    }
}

impl Source for Listener {
    fn ready(self: Rc<Self>, _: Ready) {
        if let Err(reason) = self.accept() {
            self.pause(reason);
        }
    }

    fn expired(self: Rc<Self>) {
        match self.accept() {
            Ok(()) => self.resume(),
            Err(reason) => {
                let since_ns = self.paused_ns.get().unwrap_or(self.shard.now_ns());
                if self.shard.now_ns() - since_ns > PATIENCE.as_nanos() as u64
                    && self.reserve.borrow_mut().turn_one_away(&self.socket, self.worker.is_plain())
                {
                    self.worker.counters().refused.add(1);
                }
                self.pause(reason);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Errno, NO_ROOM, OwnedFd, Reserve, say_no_room, sys, take_waiting};
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_connection_that_broke_does_not_end_the_taking_of_those_behind_it() {
        let socket = || Ok(Reserve::new().0.unwrap());
        let cases: [(Vec<sys::Result<OwnedFd>>, usize); 3] = [
            (vec![socket(), Err(Errno::AGAIN), socket()], 1),
            (vec![Err(Errno::CONNABORTED), socket(), Err(Errno::PROTO), socket(), Err(Errno::AGAIN)], 2),
            (vec![socket(), Err(Errno::MFILE), socket()], 1),
        ];
        for (outcomes, wanted) in cases {
            let (mut outcomes, mut taken) = (outcomes.into_iter(), 0);
            take_waiting(|| outcomes.next().unwrap_or(Err(Errno::AGAIN)), |_| taken += 1);
            assert_eq!(taken, wanted);
        }
    }

    #[test]
    fn a_client_that_sent_its_request_can_read_that_there_is_no_room() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.write_all(&[b'x'; 10_000]).unwrap();
        let socket = sys::accept(&listener).unwrap();
        say_no_room(&socket);
        drop(socket);
        let mut said = Vec::new();
        client.read_to_end(&mut said).unwrap();
        assert_eq!(said, NO_ROOM);
    }
}
