//! One thread: an epoll loop that carries bytes between sockets and a [`Session`].

mod carrying;
mod connecting;
mod timers;
mod waiting;

use std::net::IpAddr;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;

use rustix::event::epoll;

use super::clock::{now_ns, thread_cpu_ns};
use super::connect::{Opener, Slot};
use super::control::{Control, Handle};
use super::link::Refusal;
use super::prepare::Spoken;
use super::stamps::Stamps;
use crate::histogram::{Latencies, Pool, latencies};
use crate::session::{
    Answers, EventStreams, Feed, Finished, Hopeless, Http1, Http2, Http3, Protocol, SecondTally, Session,
    Span, Spec, WebSocket,
};
use crate::tls::Client;
use crate::{Address, Idle, LoadError};
use timers::Timers;
use waiting::{Lateness, Vain};

/// Bytes of the one read buffer of a worker: several pipelined answers, and little of the second-level cache.
const READ_BYTES: usize = 128 * 1024;
/// Events taken from the kernel at a time; between two of them the schedule is looked at anyway.
const EVENTS: usize = 256;
/// Marks the event of the waker among those of lanes.
const WAKER: u64 = u64::MAX;
/// No window is known.
const UNKNOWN: Span = Span { start_ns: u64::MAX, end_ns: u64::MAX };

/// What workers tell the conductor.
#[derive(Debug)]
pub(crate) enum Message {
    /// Every connection was tried once.
    Ready,
    /// A second of the window is over.
    Second(SecondTally),
    /// The window is over.
    Done(Box<Report>),
    /// The worker cannot go on.
    Failed(LoadError),
}

/// What one worker has to say of its window.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) finished: Finished,
    /// CPU time of its work: what it polled in vain is left out.
    pub(crate) cpu_ns: u64,
    /// Time polled in vain.
    pub(crate) polled_ns: u64,
    /// Connections open when the window began.
    pub(crate) established: u64,
    /// Why the first connection that failed did.
    pub(crate) connect_error: Option<Refusal>,
    /// Of connections opened since the window before it, or since the begin.
    pub(crate) opening: Option<Box<Opening>>,
    pub(crate) ended_ns: u64,
}

/// How long connections took to open; of those that failed nothing is known.
#[derive(Debug)]
pub(crate) struct Opening {
    /// From the first step to a connection.
    pub(crate) connect: Latencies,
    /// From there to the end of the handshake of TLS, where that is spoken.
    pub(crate) tls: Latencies,
}

impl Default for Opening {
    fn default() -> Self {
        Self { connect: latencies(), tls: latencies() }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Opening,
    Ready,
    Warmup,
    Window,
    /// Nothing more is sent, and answers are waited for.
    Draining,
}

/// What one worker is made of.
#[derive(Debug)]
pub(crate) struct Setup<'a> {
    pub(crate) spec: Spec,
    /// Where its requests come from; `None` where they are all the same.
    pub(crate) feed: Option<Box<dyn Feed>>,
    pub(crate) address: Address,
    pub(crate) sources: &'a [IpAddr],
    /// `None` where TLS is not spoken.
    pub(crate) tls: Option<&'a Client>,
    pub(crate) spoken: Spoken,
    pub(crate) idle: Idle,
    pub(crate) control: &'a Control,
    pub(crate) handle: &'a Handle,
    /// Where the histograms of its seconds come from.
    pub(crate) pool: &'a Pool,
    /// Which endpoint it is a worker of.
    pub(crate) crew: usize,
    pub(crate) messages: Sender<(usize, Message)>,
}

/// Runs one worker until the conductor has no window for it any more: its connections stay open until then, so that whoever
/// takes readings finds the server as it was under load. Failures go to the conductor as messages.
pub(crate) fn work(setup: Setup<'_>) {
    match setup.spoken.clone() {
        Spoken::Http1 => speak(setup, Http1),
        Spoken::WebSocket(upgrade) => speak(setup, WebSocket::new(upgrade)),
        Spoken::Events(most) => {
            let streams = EventStreams::new(setup.spec.lanes, most);
            speak(setup, streams);
        }
        Spoken::Http2(streams) => {
            let http2 = http2(&setup, streams, None);
            speak(setup, http2);
        }
        Spoken::Http3(streams) => {
            let alike = setup.feed.is_none().then_some(setup.spec.request.as_slice());
            let http3 = Http3::new(setup.spec.lanes, streams, alike);
            speak(setup, http3);
        }
        Spoken::Grpc(streams, answers) => {
            let grpc = http2(&setup, streams, Some(answers));
            speak(setup, grpc);
        }
    }
}

fn http2(setup: &Setup<'_>, streams: u32, grpc: Option<Answers>) -> Http2 {
    let alike = setup.feed.is_none().then_some(setup.spec.request.as_slice());
    Http2::new(setup.spec.lanes, streams, alike, setup.tls.is_some(), grpc)
}

fn speak<P: Protocol>(setup: Setup<'_>, protocol: P) {
    let (messages, crew) = (setup.messages.clone(), setup.crew);
    if let Err(error) = Worker::new(setup, protocol).and_then(Worker::run) {
        // Nobody listens any more only when another worker has failed before.
        let _ = messages.send((crew, Message::Failed(error)));
    }
}

struct Worker<'a, P> {
    protocol: P,
    setup: Setup<'a>,
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
    slots: Vec<Slot>,
    opener: Opener,
    session: Session,
    buf: Box<[u8]>,
    /// When answers were received, where that is to be had and each answer has a read of its own.
    stamps: Option<Stamps>,
    /// Connections whose last read filled the buffer.
    unread: Vec<u32>,
    timers: Timers,
    phase: Phase,
    /// The window that was ready for or begun last, and the last one that has ended, by their numbers.
    window: u64,
    ended_window: u64,
    span: Span,
    /// Until when answers are read: the end of the window, or of the time in which they are waited for after it.
    last_ns: u64,
    drain_ns: Option<u64>,
    idle: Idle,
    cpu_before_ns: u64,
    vain: Vain,
    lateness: Lateness,
    established: u64,
    opening: Option<Box<Opening>>,
    /// Why no connection will ever be any good.
    hopeless: Option<LoadError>,
}

impl<'a, P: Protocol> Worker<'a, P> {
    fn new(mut setup: Setup<'a>, protocol: P) -> Result<Self, LoadError> {
        // A kernel without it keeps its 50 µs, and the send lag shows it.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let epoll =
            epoll::create(epoll::CreateFlags::CLOEXEC).map_err(LoadError::system("create an epoll"))?;
        epoll::add(&epoll, &setup.handle.waker, epoll::EventData::new_u64(WAKER), epoll::EventFlags::IN)
            .map_err(LoadError::system("watch an eventfd"))?;
        let connections = setup.spec.lanes / protocol.lanes();
        let stamps = waiting::is_stamped::<P>(&setup, &setup.spec.pace, setup.idle).then(Stamps::new);
        let mut session = match setup.feed.take() {
            None => Session::new(setup.spec.clone()),
            Some(feed) => Session::fed(setup.spec.clone(), feed),
        };
        session.lend(setup.pool.take());
        let (idle, window) = (setup.idle, setup.control.number());
        Ok(Self {
            protocol,
            epoll,
            events: Vec::with_capacity(EVENTS),
            slots: (0..connections).map(|_| Slot::default()).collect(),
            opener: Opener::new(connections, setup.spec.timeout_ns),
            session,
            buf: vec![0; READ_BYTES].into(),
            stamps,
            unread: Vec::new(),
            timers: Timers::default(),
            phase: Phase::Opening,
            window,
            ended_window: 0,
            span: UNKNOWN,
            last_ns: u64::MAX,
            drain_ns: None,
            idle,
            cpu_before_ns: 0,
            vain: Vain::default(),
            lateness: Lateness::default(),
            established: 0,
            opening: None,
            hopeless: None,
            setup,
        })
    }

    fn run(mut self) -> Result<(), LoadError> {
        loop {
            let now = now_ns();
            self.vain.turn(now);
            self.publish_progress();
            self.follow_control(now);
            self.check_feed()?;
            if now > self.span.end_ns || self.is_done() {
                self.near_end(now)?;
            }
            if self.setup.control.is_over() {
                return Ok(());
            }
            self.housekeep(now);
            self.transmit(now);
            self.tend();
            self.wait()?;
            self.handle_events();
            if let Some(error) = self.hopeless.take().or_else(|| self.unspoken()) {
                return Err(error);
            }
        }
    }

    /// Why the protocol can do nothing here.
    #[inline]
    fn unspoken(&mut self) -> Option<LoadError> {
        Some(match self.protocol.take_hopeless()? {
            Hopeless::NotSpoken(protocol) => {
                LoadError::Foreign { address: self.setup.address.to_string(), protocol }
            }
            Hopeless::Refused(why) => {
                LoadError::Unanswered { address: self.setup.address.to_string(), why: why.to_string() }
            }
            Hopeless::Unsendable => LoadError::Request("what is to be sent is not a request of HTTP/1.1"),
        })
    }

    fn is_done(&self) -> bool {
        self.phase == Phase::Window && (self.session.is_exhausted() || self.session.is_over())
    }

    /// The window is over, or only waits for answers.
    fn near_end(&mut self, now: u64) -> Result<(), LoadError> {
        if self.phase != Phase::Draining {
            self.read_last()?;
        }
        if self.phase == Phase::Window && self.drain_ns.is_some() && !self.session.is_drained() {
            self.session.drain();
            self.phase = Phase::Draining;
        }
        if self.phase != Phase::Draining || self.session.is_drained() || now > self.last_ns {
            self.finish(now);
        }
        Ok(())
    }

    #[inline]
    fn check_feed(&mut self) -> Result<(), LoadError> {
        match self.session.take_failure() {
            None => Ok(()),
            Some(error) => Err(LoadError::Feed { error, after: self.session.has_sent() }),
        }
    }

    /// Reports the window and waits for the next one.
    fn finish(&mut self, now: u64) {
        let polled_ns = self.vain.polled_ns;
        let cpu_ns = (thread_cpu_ns() - self.cpu_before_ns).saturating_sub(polled_ns);
        let ended_ns = now.min(self.last_ns);
        let given_up: Vec<u32> =
            if self.drain_ns.is_some() { self.session.unanswered().collect() } else { Vec::new() };
        let mut finished = self.session.finish(ended_ns);
        given_up.into_iter().for_each(|lane| self.let_go(lane, now));
        for second in finished.tally.full.drain(..) {
            self.send(Message::Second(second));
        }
        let lanes = finished.answers_per_lane.chunks(self.protocol.lanes() as usize);
        finished.answers_per_lane = lanes.map(|lanes| lanes.iter().sum()).collect();
        self.phase = Phase::Ready;
        self.ended_window = self.window;
        self.span = UNKNOWN;
        if self.drain_ns.is_some() {
            // Between windows a server may close a connection, which is opened again.
            self.last_ns = u64::MAX;
        }
        let report = Report {
            finished,
            cpu_ns,
            polled_ns,
            established: self.established,
            connect_error: self.opener.first_error.take(),
            opening: self.opening.take(),
            ended_ns,
        };
        self.send(Message::Done(Box::new(report)));
    }

    /// An answer that was waited for in vain is not to come in the next window.
    #[cold]
    fn let_go(&mut self, lane: u32, now: u64) {
        self.session.give_up(lane, now);
        self.give_up(lane, now);
    }

    fn send(&self, message: Message) {
        // Nobody listens any more only when another worker has failed before.
        let _ = self.setup.messages.send((self.setup.crew, message));
    }

    #[inline]
    fn publish_progress(&self) {
        let progress = &self.setup.handle.progress;
        progress.completed.store(self.session.completed(), Ordering::Relaxed);
        progress.established.store(self.opener.established, Ordering::Relaxed);
        progress.opened.store(self.opener.opened, Ordering::Relaxed);
    }

    /// Enters the phase that the conductor has set for this moment.
    #[inline]
    fn follow_control(&mut self, now: u64) {
        if self.phase == Phase::Opening && self.opener.untried == 0 {
            self.phase = Phase::Ready;
            self.send(Message::Ready);
        }
        if self.phase == Phase::Draining || !self.is_called() {
            return;
        }
        self.span = self.setup.control.window();
        self.last_ns = self.span.end_ns.saturating_add(self.drain_ns.unwrap_or(0));
        // The conductor need not wait for every connection.
        if self.phase < Phase::Warmup && now >= self.setup.control.warmup_ns() {
            self.phase = Phase::Warmup;
            self.session.begin_warmup(now);
        }
        if self.phase != Phase::Window && now >= self.span.start_ns {
            self.phase = Phase::Window;
            self.established = self.opener.established;
            self.cpu_before_ns = thread_cpu_ns();
            self.vain.polled_ns = 0;
            self.session.begin_window(self.span);
        }
    }

    /// Whether there is a window that has not ended; makes ready for it where it is another one.
    #[inline]
    fn is_called(&mut self) -> bool {
        let number = self.setup.control.number();
        if number == self.ended_window {
            return false;
        }
        if number != self.window {
            self.make_ready(number);
        }
        true
    }

    #[cold]
    fn make_ready(&mut self, number: u64) {
        self.window = number;
        let Some(order) = self.setup.control.order() else { return };
        let requests = order.requests.map(|all| self.setup.spec.part.share(all));
        let stamped = waiting::is_stamped::<P>(&self.setup, &order.pace, order.idle);
        if stamped != self.stamps.is_some() {
            self.stamps = stamped.then(Stamps::new);
            self.slots.iter().filter_map(|slot| slot.link.as_ref()).for_each(|link| link.stamp(stamped));
        }
        self.session.prepare(order.pace, order.seed, requests);
        self.session.lend(self.setup.pool.take());
        self.idle = order.idle;
        self.drain_ns = Some(order.drain_ns);
    }

    /// What is done at every turn rather than for every request.
    #[inline]
    fn housekeep(&mut self, now: u64) {
        let mut reported = false;
        for second in self.session.take_seconds(now) {
            reported = true;
            let _ = self.setup.messages.send((self.setup.crew, Message::Second(second)));
        }
        if reported {
            self.session.lend(self.setup.pool.take());
        }
        let mut given_up = Vec::new();
        self.session.expire(now, |lane| given_up.push(lane));
        given_up.into_iter().for_each(|lane| self.give_up(lane, now));
        self.end_attempts(now);
        self.tick(now);
        while let Some(lane) = self.opener.next(now) {
            self.open(lane, now);
        }
    }

    /// The session has given up the request of `lane`.
    #[cold]
    fn give_up(&mut self, lane: u32, now: u64) {
        let fate = self.protocol.gave_up(&mut self.session, lane);
        self.settle(lane / self.protocol.lanes(), fate, now);
    }
}
