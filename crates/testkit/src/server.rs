use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, recv, send, sockopt};
use rustix::time::{ClockId, clock_gettime};

use crate::wire::{Heads, Wire};
use crate::{Behaviour, Model, NEVER};

/// The answer of a server that answers well.
pub const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\nHello, World!";

/// Longest wait before the server looks whether it is to stop.
const STOP_CHECK_NS: u64 = 20_000_000;
/// Marks the listener among connections.
const LISTENER: u64 = u64::MAX;

/// Now on the monotonic clock in nanoseconds; all processes of a machine share it.
#[must_use]
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// What is written for one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Whether the connection is closed after them.
    pub close: bool,
}

impl Reply {
    /// [`ANSWER`], and the connection stays.
    #[must_use]
    pub fn good() -> Self {
        Self { bytes: ANSWER.to_vec(), close: false }
    }
}

/// What a server does.
#[derive(Debug, Clone)]
pub struct ServerSpec {
    /// When it answers.
    pub behaviour: Behaviour,
    /// What it answers to request k: the element k modulo the length.
    pub replies: Vec<Reply>,
    /// What is spoken on each connection.
    pub wire: fn() -> Box<dyn Wire>,
    /// How long after it listens it begins to accept.
    pub accept_after: Duration,
    /// Where it listens.
    pub address: Ipv4Addr,
}

impl ServerSpec {
    /// A server on loopback that accepts at once and answers well.
    #[must_use]
    pub fn new(behaviour: Behaviour) -> Self {
        let (accept_after, address) = (Duration::ZERO, Ipv4Addr::LOCALHOST);
        let wire: fn() -> Box<dyn Wire> = || Box::<Heads>::default();
        Self { behaviour, replies: vec![Reply::good()], wire, accept_after, address }
    }
}

/// One request as the server saw it; instants as [`now_ns`] gives them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Connection, counted from 0 in the order of acceptance.
    pub connection: u32,
    /// When its last byte was read.
    pub received_ns: u64,
    /// When its answer was about to be written; [`NEVER`] if it was not.
    pub answered_ns: u64,
}

/// What a server did, in the order in which it received.
#[derive(Debug, Clone, Default)]
pub struct Log {
    /// One for each request.
    pub entries: Vec<Entry>,
    /// Connections accepted.
    pub connections: u32,
}

/// A server on a port of its own, on a thread of its own, until it is finished or dropped.
#[derive(Debug)]
pub struct Server {
    /// Where it listens.
    pub address: SocketAddr,
    stop: Arc<AtomicBool>,
    asked: Arc<AtomicBool>,
    thread: Option<JoinHandle<io::Result<Log>>>,
}

impl Server {
    /// Starts it.
    ///
    /// # Panics
    /// Where the machine has no free port: no test can go on then.
    #[must_use]
    pub fn start(spec: ServerSpec) -> Self {
        let listener = TcpListener::bind((spec.address, 0)).expect("a test needs a free port");
        let address = listener.local_addr().expect("a listener has an address");
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::new(AtomicBool::new(false));
        let (flag, seen) = (Arc::clone(&stop), Arc::clone(&asked));
        let thread = std::thread::spawn(move || Loop::new(spec, listener.into())?.run(&flag, &seen));
        Self { address, stop, asked, thread: Some(thread) }
    }

    /// Whether it was asked anything yet.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// The URL of its root.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Stops it and returns what it did.
    ///
    /// # Panics
    /// Where its thread failed.
    #[must_use]
    pub fn finish(mut self) -> Log {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("only this takes it");
        thread.join().expect("a server does not panic").expect("a server's sockets work")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

struct Connection {
    socket: Option<OwnedFd>,
    wire: Box<dyn Wire>,
    last_due_ns: u64,
    /// Bytes that the socket did not take yet.
    unsent: Vec<u8>,
    close: bool,
}

struct Loop {
    spec: ServerSpec,
    model: Model,
    listener: OwnedFd,
    accept_ns: u64,
    accepting: bool,
    epoll: OwnedFd,
    connections: Vec<Connection>,
    /// Answers that are not due yet: when, and to which request.
    due: BinaryHeap<Reverse<(u64, usize)>>,
    /// On which stream of its connection each request came.
    streams: Vec<u32>,
    log: Log,
}

impl Loop {
    fn new(spec: ServerSpec, listener: OwnedFd) -> io::Result<Self> {
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        // The standard library listens with a backlog of 128; a client may open more at once.
        rustix::net::listen(&listener, 4096)?;
        rustix::io::ioctl_fionbio(&listener, true)?;
        Ok(Self {
            model: Model::new(spec.behaviour),
            accept_ns: now_ns() + u64::try_from(spec.accept_after.as_nanos()).unwrap_or(NEVER),
            spec,
            listener,
            accepting: false,
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            connections: Vec::new(),
            due: BinaryHeap::new(),
            streams: Vec::new(),
            log: Log::default(),
        })
    }

    fn run(mut self, stop: &AtomicBool, asked: &AtomicBool) -> io::Result<Log> {
        let mut events = Vec::with_capacity(256);
        while !stop.load(Ordering::Relaxed) {
            self.accept_in_time()?;
            self.answer_due(now_ns());
            events.clear();
            let timeout = Timespec { tv_sec: 0, tv_nsec: self.wait_ns() as i64 };
            match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&timeout)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            for event in &events {
                match event.data.u64() {
                    LISTENER => self.accept()?,
                    index => self.handle(index as usize),
                }
            }
            asked.store(!self.log.entries.is_empty(), Ordering::Relaxed);
        }
        self.log.connections = self.connections.len() as u32;
        Ok(self.log)
    }

    fn wait_ns(&self) -> u64 {
        let due_ns = self.due.peek().map_or(NEVER, |Reverse((due, _))| *due);
        let accept_ns = if self.accepting { NEVER } else { self.accept_ns };
        due_ns.min(accept_ns).saturating_sub(now_ns()).min(STOP_CHECK_NS)
    }

    fn accept_in_time(&mut self) -> io::Result<()> {
        if !self.accepting && now_ns() >= self.accept_ns {
            self.accepting = true;
            let data = epoll::EventData::new_u64(LISTENER);
            epoll::add(&self.epoll, &self.listener, data, epoll::EventFlags::IN)?;
        }
        Ok(())
    }

    fn accept(&mut self) -> io::Result<()> {
        loop {
            match accept_with(&self.listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                Ok(socket) => self.add(socket)?,
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::CONNABORTED | Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn add(&mut self, socket: OwnedFd) -> io::Result<()> {
        sockopt::set_tcp_nodelay(&socket, true)?;
        let data = epoll::EventData::new_u64(self.connections.len() as u64);
        let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
        epoll::add(&self.epoll, &socket, data, flags)?;
        self.connections.push(Connection {
            socket: Some(socket),
            wire: (self.spec.wire)(),
            last_due_ns: 0,
            unsent: Vec::new(),
            close: false,
        });
        Ok(())
    }

    fn handle(&mut self, index: usize) {
        self.flush(index);
        let mut buf = [0u8; 16 * 1024];
        loop {
            let Some(socket) = &self.connections[index].socket else { return };
            match recv(socket, &mut buf, RecvFlags::empty()) {
                Ok((0, _)) => self.connections[index].socket = None,
                Ok((bytes, _)) => self.read(index, &buf[..bytes]),
                Err(Errno::AGAIN) => return,
                Err(_) => self.connections[index].socket = None,
            }
        }
    }

    fn read(&mut self, index: usize, bytes: &[u8]) {
        let now = now_ns();
        let Connection { wire, unsent, .. } = &mut self.connections[index];
        for stream in wire.read(bytes, unsent) {
            self.request(index, stream, now);
        }
        self.flush(index);
        self.answer_due(now);
    }

    fn request(&mut self, index: usize, stream: u32, now: u64) {
        let connection = &mut self.connections[index];
        let mut due = self.model.due(now);
        if connection.wire.is_ordered() {
            due = due.max(connection.last_due_ns);
            connection.last_due_ns = due;
        }
        self.streams.push(stream);
        if due != NEVER {
            self.due.push(Reverse((due, self.log.entries.len())));
        }
        self.log.entries.push(Entry { connection: index as u32, received_ns: now, answered_ns: NEVER });
    }

    fn answer_due(&mut self, now: u64) {
        while self.due.peek().is_some_and(|Reverse((due, _))| *due <= now) {
            let Some(Reverse((_, number))) = self.due.pop() else { return };
            let reply = &self.spec.replies[number % self.spec.replies.len()];
            let index = self.log.entries[number].connection as usize;
            let connection = &mut self.connections[index];
            connection.wire.answer(self.streams[number], &reply.bytes, &mut connection.unsent);
            connection.close |= reply.close;
            self.log.entries[number].answered_ns = now_ns();
            // Answers to a pipelined batch that are due together leave together.
            let same = |next: &Reverse<(u64, usize)>| {
                next.0.0 <= now && self.log.entries[next.0.1].connection as usize == index
            };
            if connection.close || !self.due.peek().is_some_and(same) {
                self.flush(index);
            }
        }
    }

    fn flush(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        let Some(socket) = &connection.socket else { return };
        while !connection.unsent.is_empty() {
            match send(socket, &connection.unsent, SendFlags::NOSIGNAL) {
                Ok(bytes) => {
                    connection.unsent.drain(..bytes);
                }
                Err(Errno::AGAIN) => return,
                Err(_) => connection.unsent.clear(),
            }
        }
        if connection.close {
            connection.socket = None;
        }
    }
}
