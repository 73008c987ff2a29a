//! Starting the shards of a server, and their loop.

use super::accept::{HANDSHAKE, Listener};
use super::balance::{Balance, Gauge, LOOK_EVERY, Member, Place};
use super::counters::Counters;
use super::error::Error;
use super::event::Event;
use super::handle::{GRACE, Handle, Helpers, Inner, Kind, Life, Running};
use super::listen::Listening;
use super::relief::Relief;
use super::service::Service;
use super::worker::Worker;
use crate::rt::cpus;
use crate::rt::deafen;
use crate::rt::driver::{Epoll, Ready};
use crate::rt::shard::{Shard, ShardOptions, Source};
use crate::rt::slab::Key;
use crate::rt::waker::Remote;
use crate::rt::watch::{Watch, Watchdog};
use rustix::fd::OwnedFd;
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, Weak, mpsc};
use std::time::{Duration, Instant};

/// How a server is to run, apart from what it does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) workers: Option<usize>,
    pub(crate) stack_bytes: usize,
    pub(crate) signals: Option<Duration>,
    pub(crate) hold_limit: Duration,
}

/// What other threads have of a shard.
pub(crate) struct Link {
    pub(crate) remote: Arc<Remote>,
    pub(crate) watch: Arc<Watch>,
    pub(crate) counters: Arc<Counters>,
    /// Where it listens, for as long as it does.
    pub(crate) listener: Weak<OwnedFd>,
    /// Whether others hold the same socket.
    pub(crate) shared: bool,
}

impl Link {
    pub(crate) fn drain(&self, until: Instant) {
        // A shard that is held does not hear of it yet, and lets nobody in any more either.
        if let Some(listener) = self.own_listener() {
            deafen(&listener).ok();
        }
        self.remote.call(move |shard| {
            if let Some(worker) = current_worker() {
                Drain::begin(&worker, shard, until);
            }
        });
    }

    /// Where it listens, if nobody else does there.
    fn own_listener(&self) -> Option<Arc<OwnedFd>> {
        if self.shared { None } else { self.listener.upgrade() }
    }

    /// Closes the port of a shard that does not do so itself.
    pub(crate) fn shut(&self) {
        if let Some(listener) = self.own_listener() {
            rustix::net::shutdown(&*listener, rustix::net::Shutdown::Both).ok();
        }
    }
}

thread_local! {
    static WORKER: RefCell<Option<Rc<Worker>>> = const { RefCell::new(None) };
}

pub(super) fn current_worker() -> Option<Rc<Worker>> {
    WORKER.with(|worker| worker.borrow().clone())
}

/// Brings the gauges of a shard up to date.
pub(crate) fn sample(shard: &Rc<Shard>) {
    let Some(worker) = current_worker() else { return };
    let counters = worker.counters();
    counters.coroutines.set(shard.coroutines() as u64);
    counters.suspensions.set(shard.suspensions());
    counters.stacks_peak.set(u64::from(shard.arena().live_peak()));
    counters.stack_high_water_bytes.set(shard.arena().high_water_bytes() as u64);
    counters.busy_thousandths.set(worker.place().map_or(0, Place::busy));
    counters.holds.set(shard.watch().holds());
    counters.longest_hold_ns.set(shard.watch().longest().as_nanos() as u64);
}

/// Starts a server on shards.
pub(crate) fn shards(listening: Listening, plan: Plan, service: Arc<Service>) -> Result<Running, Error> {
    let cpus = cpus::allowed();
    let count = plan.workers.unwrap_or(cpus.len().max(1));
    let (address, shared) = (listening.address(), listening.is_shared());
    let (report, reports) = mpsc::channel();
    let (news, heard) = mpsc::channel();
    let balance = Balance::new(count);
    let (mut threads, mut failure) = (Vec::with_capacity(count), None);
    for (index, socket) in listening.split(count)?.into_iter().enumerate() {
        let (service, report) = (Arc::clone(&service), report.clone());
        let cpu = (cpus.len() == count).then(|| cpus[index]);
        let balance = Arc::clone(&balance);
        let start = Start { index, shards: count, socket, shared, cpu, plan, service, balance };
        let thread = std::thread::Builder::new().name(format!("straightline-{index}"));
        let life = Life::new(&news, index);
        match thread.spawn(move || life.live(|| start.run(report))) {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                failure = Some(error);
                break;
            }
        }
    }
    drop(report);
    let links = collect(reports, failure)?;
    let runtime = format!("{} guards, epoll", crate::rt::guard_kind());
    service.tell(Event::Listening { address, shards: count, runtime });
    let watches = links.iter().map(|link| Arc::clone(&link.watch)).collect();
    let (relief, gauge) = (Relief::from_links(&links), Gauge::new(balance, Instant::now()));
    let inner = Inner { kind: Kind::Shards(links), address, service: Arc::clone(&service), news };
    let handle = Handle { inner: Arc::new(inner) };
    let mut running = Running { handle, threads, news: Mutex::new(heard), helpers: Helpers::default() };
    let helped = running.helpers.watch(watches, relief, gauge, plan.hold_limit, service);
    let helped = helped.and_then(|()| running.listen_for_signals(plan.signals));
    running.unless_failed(helped)
}

/// What every shard said of its start, in order; a failure, of theirs or of an earlier step, ends all of them.
fn collect(
    reports: mpsc::Receiver<(usize, io::Result<Link>)>,
    mut failure: Option<io::Error>,
) -> Result<Vec<Link>, Error> {
    let mut links: Vec<(usize, Link)> = Vec::new();
    for (index, report) in reports {
        match report {
            Ok(link) => links.push((index, link)),
            Err(error) => failure = Some(error),
        }
    }
    if let Some(error) = failure {
        links.iter().for_each(|(_, link)| link.drain(Instant::now()));
        return Err(error.into());
    }
    links.sort_by_key(|(index, _)| *index);
    Ok(links.into_iter().map(|(_, link)| link).collect())
}

/// One shard that is about to start.
struct Start {
    index: usize,
    /// How many there are.
    shards: usize,
    socket: OwnedFd,
    shared: bool,
    cpu: Option<usize>,
    plan: Plan,
    service: Arc<Service>,
    balance: Arc<Balance>,
}

impl Start {
    /// The whole life of a shard; how much of its work was given up.
    fn run(self, report: mpsc::Sender<(usize, io::Result<Link>)>) -> usize {
        let (index, balance) = (self.index, Arc::clone(&self.balance));
        let (shard, worker) = match self.prepare() {
            Ok(prepared) => prepared,
            Err(error) => {
                report.send((index, Err(error))).ok();
                return 0;
            }
        };
        let entered = shard.enter();
        WORKER.set(Some(Rc::clone(&worker)));
        let socket = Arc::new(self.socket);
        let listener = Arc::downgrade(&socket);
        let opened = Listener::open(socket, self.shared, &worker, &shard, index);
        let link = Link {
            remote: Arc::clone(shard.remote()),
            watch: Arc::clone(shard.watch()),
            counters: worker.counters_shared(),
            listener,
            shared: self.shared,
        };
        // One that does not listen is in nobody's hands, and would wait for ever.
        let listens = opened.is_ok();
        if listens {
            balance.join(index, Member::from_link(&link));
        }
        report.send((index, opened.map(|()| link))).ok();
        // Whoever waits for the reports of all shards waits for the last sender to go.
        drop(report);
        // What another shard handed over at the last moment is still taken up.
        let is_done = || worker.is_finished() && shard.remote().close();
        while listens && !is_done() && shard.turn().is_ok() {}
        let abandoned = shard.coroutines() + worker.counters().open.value() as usize;
        WORKER.set(None);
        drop(entered);
        abandoned
    }

    fn prepare(&self) -> io::Result<(Rc<Shard>, Rc<Worker>)> {
        if let Some(cpu) = self.cpu {
            cpus::pin(cpu);
        }
        // Each connection has at most one handler, and handlers may spawn as many again.
        let stacks = self.service.limits.connections.saturating_mul(2);
        let options = ShardOptions { stack_bytes: self.plan.stack_bytes, stacks, shards: self.shards };
        let shard = Shard::new(Box::new(Epoll::new()?), options)?;
        let place = Place::new(&self.balance, self.index);
        let worker = Worker::on_shard(&shard, Arc::clone(&self.service), place);
        Ok((shard, worker))
    }
}

/// A drain under way on one shard.
struct Drain {
    worker: Rc<Worker>,
    shard: Rc<Shard>,
    key: Cell<Option<Key>>,
    until: Instant,
    next: Cell<Step>,
}

/// What a drain does when its timer next expires.
#[derive(Clone, Copy)]
enum Step {
    /// Closes the listener and what is idle.
    Close,
    /// Cancels what is not done.
    Cancel,
    /// Gives up what does not listen to that.
    GiveUp,
}

impl Drain {
    fn begin(worker: &Rc<Worker>, shard: &Rc<Shard>, until: Instant) {
        worker.drain_until(until);
        if let Some(place) = worker.place() {
            place.leave();
        }
        if let Some(listener) = worker.listener() {
            listener.deafen();
        }
        let drain = Rc::new(Self {
            worker: Rc::clone(worker),
            shard: Rc::clone(shard),
            key: Cell::new(None),
            until,
            next: Cell::new(Step::Close),
        });
        drain.key.set(Some(shard.add_source(drain.clone())));
        drain.then(Step::Close, until.min(Instant::now() + HANDSHAKE));
    }

    fn then(&self, step: Step, at: Instant) {
        self.next.set(step);
        if let Some(key) = self.key.get() {
            self.shard.alarm(self.shard.to_ns(at), key);
        }
    }

    fn close(&self) {
        if let Some(listener) = self.worker.listener() {
            listener.close();
        }
        self.shard.sources().iter().for_each(|source| source.drain());
    }
}

impl Source for Drain {
    fn ready(self: Rc<Self>, _: Ready) {}

    fn expired(self: Rc<Self>) {
        match self.next.get() {
            Step::Close => {
                self.close();
                self.then(Step::Cancel, self.until);
            }
            Step::Cancel => {
                self.shard.cancel_all();
                self.then(Step::GiveUp, Instant::now() + GRACE);
            }
            Step::GiveUp => {
                // What does not listen keeps its connection, and so the descriptor, for good.
                self.shard.sources().iter().for_each(|source| source.cut_off());
                self.worker.abandon();
            }
        }
    }
}

impl Helpers {
    /// Starts the thread that looks for coroutines which hold their shard.
    fn watch(
        &mut self,
        watches: Vec<Arc<Watch>>,
        mut relief: Relief,
        mut gauge: Gauge,
        limit: Duration,
        service: Arc<Service>,
    ) -> Result<(), Error> {
        let now = Instant::now();
        let mut dogs: Vec<Watchdog> =
            watches.into_iter().map(|watch| Watchdog::new(watch, limit, now)).collect();
        let stop = Arc::clone(&self.stop);
        let thread = std::thread::Builder::new().name("straightline-watchdog".into()).spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                // Two looks within the limit find every hold of one and a half times the limit.
                std::thread::park_timeout(LOOK_EVERY.min(limit / 2));
                gauge.look(Instant::now());
                for (shard, dog) in dogs.iter_mut().enumerate() {
                    if let Some((handler, held)) = dog.look(Instant::now()) {
                        service.tell(Event::ShardHeld { shard, handler, held });
                    }
                }
                relief.come(|shard| dogs[shard].is_held());
            }
        })?;
        self.watchdog = Some(thread.thread().clone());
        Ok(())
    }
}

impl Running {
    /// The server, if what was left of its start succeeded; what runs already is ended if not.
    pub(crate) fn unless_failed(self, outcome: Result<(), Error>) -> Result<Self, Error> {
        match outcome {
            Ok(()) => Ok(self),
            Err(error) => {
                self.drain(Duration::ZERO);
                Err(error)
            }
        }
    }

    /// Starts the thread that turns signals into what they ask for.
    pub(crate) fn listen_for_signals(&mut self, deadline: Option<Duration>) -> Result<(), Error> {
        use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};
        let Some(deadline) = deadline else { return Ok(()) };
        let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGUSR1])?;
        self.helpers.signals = Some(signals.handle());
        let handle = self.handle();
        std::thread::Builder::new().name("straightline-signals".into()).spawn(move || {
            let mut drains = false;
            for signal in signals.forever() {
                match signal {
                    SIGUSR1 => {
                        let stacks = handle.stacks();
                        handle.inner.service.tell(Event::Stacks(stacks));
                    }
                    // Who asks twice waits no longer.
                    _ => handle.drain(if std::mem::replace(&mut drains, true) {
                        Duration::ZERO
                    } else {
                        deadline
                    }),
                }
            }
        })?;
        Ok(())
    }
}
