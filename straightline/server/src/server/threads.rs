//! The same handlers on a thread for each connection.

use super::accept::{FULL, HANDSHAKE, PATIENCE, Reserve, WANT, is_want, take_waiting};
use super::conn::{Conn, live, wait};
use super::counters::Counters;
use super::error::Error;
use super::event::Event;
use super::handle::{Handle, Helpers, Inner, Kind, Life, Running};
use super::listen::Listening;
use super::run::Plan;
use super::service::Service;
use super::worker::Worker;
use crate::rt::slab::{Key, Slab};
use crate::rt::waker::unpoisoned;
use crate::rt::{deafen, sys};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

/// How long the acceptor rests when there are no descriptors, threads or room.
const RETRY: Duration = Duration::from_millis(20);

/// What the threads of all connections share.
pub(crate) struct Threads {
    service: Arc<Service>,
    state: Mutex<State>,
    closed: Condvar,
    drain_until: Arc<Until>,
    /// Becomes readable, for good, when the server drains.
    bell: OwnedFd,
}

struct State {
    live: Slab<Arc<Counters>>,
    /// The sum of those that ended.
    ended: Counters,
}

/// Starts a server on threads.
pub(crate) fn start(listening: Listening, plan: Plan, service: Arc<Service>) -> Result<Running, Error> {
    let address = listening.address();
    let threads = Arc::new(Threads {
        service: Arc::clone(&service),
        state: Mutex::new(State { live: Slab::new(), ended: Counters::default() }),
        closed: Condvar::new(),
        drain_until: Arc::new(Until::new()),
        bell: eventfd(0, EventfdFlags::CLOEXEC).map_err(io::Error::from)?,
    });
    let shared = listening.is_shared();
    let socket = listening.split(1)?.remove(0);
    let accepting = Arc::clone(&threads);
    let acceptor = std::thread::Builder::new().name("straightline-accept".into());
    let (news, heard) = mpsc::channel();
    let life = Life::new(&news, 0);
    let live = move || {
        accept(&accepting, &socket);
        // A socket that others hold as well stays open, and its clients are theirs too.
        if !shared && deafen(&socket).is_ok() {
            std::thread::sleep(HANDSHAKE);
        }
        take_waiting(|| sys::accept(&socket), |connection| drop(accepting.take_up(connection)));
        drop(socket);
        accepting.wait_for_end()
    };
    let acceptor = acceptor.spawn(move || life.live(live))?;
    let runtime = "a thread for each connection".to_owned();
    service.tell(Event::Listening { address, shards: 0, runtime });
    let handle = Handle { inner: Arc::new(Inner { kind: Kind::Threads(threads), address, service, news }) };
    let mut running =
        Running { handle, threads: vec![acceptor], news: Mutex::new(heard), helpers: Helpers::default() };
    let listens = running.listen_for_signals(plan.signals);
    running.unless_failed(listens)
}

/// When a server is to have ended, once anyone said so. It only ever comes nearer.
#[derive(Debug)]
pub(crate) struct Until {
    origin: Instant,
    /// Nanoseconds after `origin`; [`NEVER_NS`] as long as nobody said.
    ns: AtomicU64,
}

const NEVER_NS: u64 = u64::MAX;

impl Until {
    fn new() -> Self {
        Self { origin: Instant::now(), ns: AtomicU64::new(NEVER_NS) }
    }

    fn come_nearer(&self, at: Instant) {
        let ns = at.saturating_duration_since(self.origin).as_nanos();
        self.ns.fetch_min(u64::try_from(ns).unwrap_or(NEVER_NS - 1), Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> Option<Instant> {
        let ns = self.ns.load(Ordering::Relaxed);
        (ns != NEVER_NS).then(|| self.origin + Duration::from_nanos(ns))
    }
}

impl Threads {
    pub(crate) fn drain(&self, until: Instant) {
        self.drain_until.come_nearer(until);
        // Whoever waits for the end looked at the deadline under the lock, and would sleep past an earlier one.
        drop(unpoisoned(&self.state));
        self.closed.notify_all();
        rustix::io::write(&self.bell, &1u64.to_ne_bytes()).ok();
    }

    /// All counters together.
    pub(crate) fn sum(&self) -> Counters {
        let state = unpoisoned(&self.state);
        let sum = Counters::default();
        sum.absorb(&state.ended);
        state.live.iter().for_each(|(_, counters)| sum.absorb(counters));
        sum
    }

    fn is_full(&self) -> bool {
        unpoisoned(&self.state).live.len() >= self.service.limits.connections as usize
    }

    /// Takes a connection that waits, if one does; or says why there is no room for it.
    fn take_one(self: &Arc<Self>, socket: &OwnedFd) -> Result<bool, &'static str> {
        if self.is_full() {
            return Err(FULL);
        }
        match sys::accept(socket) {
            Ok(connection) => self.take_up(connection).map(|()| true).map_err(|_| "no threads are left"),
            Err(Errno::AGAIN) => Ok(false),
            Err(error) if is_want(error) => Err(WANT),
            // The others say that the one connection broke before it was taken.
            Err(_) => Ok(true),
        }
    }

    /// Tells when accepting is paused, and when it goes on.
    fn tell_of_pause(&self, paused: &mut Option<Instant>, reason: Option<&'static str>) {
        if paused.is_some() == reason.is_some() {
            return;
        }
        *paused = reason.map(|_| Instant::now());
        self.service.tell(match reason {
            Some(reason) => {
                unpoisoned(&self.state).ended.accept_pauses.add(1);
                Event::AcceptPaused { shard: 0, reason }
            }
            None => Event::AcceptResumed { shard: 0 },
        });
    }

    /// Tells one client that there is no room.
    fn turn_one_away(&self, reserve: &mut Reserve, socket: &OwnedFd) {
        if reserve.turn_one_away(socket, self.service.is_plain()) {
            unpoisoned(&self.state).ended.refused.add(1);
        }
    }

    fn take_up(self: &Arc<Self>, socket: OwnedFd) -> io::Result<()> {
        let counters = Arc::new(Counters::default());
        let key = unpoisoned(&self.state).live.insert(Arc::clone(&counters));
        let threads = Arc::clone(self);
        let thread = std::thread::Builder::new().name("straightline-conn".into());
        let spawned = thread.spawn(move || {
            let until = Arc::clone(&threads.drain_until);
            let worker = Worker::on_thread(Arc::clone(&threads.service), counters, until);
            worker.opened();
            if let Ok(transport) = worker.transport() {
                live(&Conn::on_thread(worker, socket, transport), &threads.bell);
            }
            threads.end(key);
        });
        if spawned.is_err() {
            self.end(key);
        }
        spawned.map(|_| ())
    }

    fn end(&self, key: Key) {
        let mut state = unpoisoned(&self.state);
        if let Some(counters) = state.live.remove(key) {
            counters.open.set(0);
            state.ended.absorb(&counters);
        }
        drop(state);
        self.closed.notify_all();
    }

    /// Waits for the connections to end, not past the deadline; how many did not.
    fn wait_for_end(&self) -> usize {
        let mut state = unpoisoned(&self.state);
        while state.live.len() > 0 {
            let until = self.drain_until.get().unwrap_or_else(Instant::now);
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self.closed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.live.len()
    }
}

/// Takes connections until the server drains.
fn accept(threads: &Arc<Threads>, socket: &OwnedFd) {
    let (mut paused, mut reserve) = (None, Reserve::new());
    while threads.drain_until.get().is_none() {
        let taken = threads.take_one(socket);
        threads.tell_of_pause(&mut paused, taken.as_ref().err().copied());
        match taken {
            Ok(true) => continue,
            Ok(false) if wait(socket.as_fd(), &threads.bell, None).is_ok() => continue,
            Err(_) if paused.is_some_and(|since| since.elapsed() > PATIENCE) => {
                threads.turn_one_away(&mut reserve, socket);
            }
            _ => {}
        }
        std::thread::sleep(RETRY);
    }
}
