//! TCP connections whose calls suspend the coroutine, not the thread.

use super::driver::{Interest, Ready};
use super::shard::{Resume, Shard, Source, current, current_coroutine};
use super::slab::Key;
use super::sys;
use super::task::{TURN_BYTES, yield_now};
use super::waker::{Remote, deadline_in, unpoisoned};
use rustix::event::PollFlags;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, sockopt};
use std::cell::{Cell, RefCell};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, ToSocketAddrs};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A TCP connection.
///
/// Reading and writing wait as those of `std::net::TcpStream` do, in a coroutine without holding up the shard, on a
/// plain thread by blocking it. Where a coroutine need not wait, it lets the others run after every 256 KiB. `&TcpStream` reads
/// and writes too, so that two coroutines can share one.
#[derive(Debug)]
pub struct TcpStream {
    fd: OwnedFd,
    /// The shards that report on it, and under which key. Nearly always at most one.
    homes: Mutex<Vec<(Arc<Remote>, Key)>>,
    timeouts: Mutex<Timeouts>,
    /// Bytes moved since somebody last waited here.
    unbroken: AtomicU64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Timeouts {
    read: Option<Duration>,
    write: Option<Duration>,
}

/// The part of a stream that its shard keeps: who waits for it.
struct Waiters {
    /// What the socket was reported ready for and was not found exhausted of since; all of it at first.
    seen: Cell<Ready>,
    waiting: RefCell<Vec<(Ready, Key)>>,
    shard: Rc<Shard>,
}

impl Source for Waiters {
    fn ready(self: Rc<Self>, ready: Ready) {
        self.seen.set(self.seen.get().with(ready));
        self.waiting.borrow_mut().retain(|(wanted, key)| {
            let called = ready.has(*wanted);
            if called {
                self.shard.wake(*key);
            }
            !called
        });
    }

    fn wait(&self, wanted: Ready, key: Key) {
        let mut waiting = self.waiting.borrow_mut();
        waiting.retain(|(_, other)| *other != key);
        waiting.push((wanted, key));
    }

    fn exhaust(&self, exhausted: Ready) {
        // The end takes a read of its own, and is reported once.
        if !self.seen.get().has(Ready::ENDED) {
            self.seen.set(self.seen.get().without(exhausted));
        }
    }

    fn may(&self, wanted: Ready) -> bool {
        self.seen.get().has(wanted)
    }

    fn leave(&self, key: Key) {
        self.waiting.borrow_mut().retain(|(_, other)| *other != key);
    }
}

impl TcpStream {
    /// Connects to `address`; the kernel decides how long it tries.
    ///
    /// # Errors
    ///
    /// Those of connecting; or if the coroutine is cancelled.
    pub fn connect(address: SocketAddr) -> io::Result<Self> {
        Self::connect_to(address, None)
    }

    /// [`TcpStream::connect`] within `timeout`.
    ///
    /// # Errors
    ///
    /// As [`TcpStream::connect`], and `TimedOut`.
    pub fn connect_timeout(address: SocketAddr, timeout: Duration) -> io::Result<Self> {
        Self::connect_to(address, Some(deadline_in(timeout)))
    }

    /// Resolves `host`, such as `example.com:80`, on a helper thread, and connects to the first address that answers.
    ///
    /// # Errors
    ///
    /// As [`TcpStream::connect`], and those of resolving.
    pub fn connect_host(host: &str) -> io::Result<Self> {
        let name = host.to_owned();
        let addresses: Vec<SocketAddr> =
            super::blocking(move || name.to_socket_addrs().map(Iterator::collect))??;
        let mut outcome = Err(io::Error::new(io::ErrorKind::NotFound, format!("{host} has no address")));
        for address in addresses {
            outcome = Self::connect(address);
            if outcome.is_ok() {
                break;
            }
        }
        outcome
    }

    fn connect_to(address: SocketAddr, deadline: Option<Instant>) -> io::Result<Self> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let fd = rustix::net::socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
        let stream = Self::over(fd);
        match rustix::net::connect(&stream.fd, &address) {
            Err(Errno::INPROGRESS | Errno::INTR) => stream.until_connected(deadline)?,
            outcome => outcome?,
        }
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    fn until_connected(&self, deadline: Option<Instant>) -> io::Result<()> {
        loop {
            self.wait(Ready::WRITE, deadline)?;
            sockopt::socket_error(&self.fd)??;
            // A coroutine may be woken for something else, and then there is no peer yet.
            match rustix::net::getpeername(&self.fd) {
                Err(Errno::NOTCONN) => {}
                outcome => return Ok(outcome.map(|_| ())?),
            }
        }
    }

    /// A stream over a connected socket that does not block.
    fn over(fd: OwnedFd) -> Self {
        Self { fd, homes: Mutex::default(), timeouts: Mutex::default(), unbroken: AtomicU64::new(0) }
    }

    /// Sends small writes at once (`true`, as connected) or gathers them.
    ///
    /// # Errors
    ///
    /// Those of the system call.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        Ok(sockopt::set_tcp_nodelay(&self.fd, nodelay)?)
    }

    /// Longest that one read waits; `None` for ever.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) {
        unpoisoned(&self.timeouts).read = timeout;
    }

    /// Longest that one write waits; `None` for ever.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) {
        unpoisoned(&self.timeouts).write = timeout;
    }

    /// Closes one direction or both.
    ///
    /// # Errors
    ///
    /// Those of the system call.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        let how = match how {
            Shutdown::Read => rustix::net::Shutdown::Read,
            Shutdown::Write => rustix::net::Shutdown::Write,
            Shutdown::Both => rustix::net::Shutdown::Both,
        };
        Ok(rustix::net::shutdown(&self.fd, how)?)
    }

    /// The address of the other end.
    ///
    /// # Errors
    ///
    /// Those of the system call.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        address(rustix::net::getpeername(&self.fd)?)
    }

    /// Waits until the socket may be ready as `wanted`.
    fn wait(&self, wanted: Ready, deadline: Option<Instant>) -> io::Result<()> {
        let in_time = match current_coroutine() {
            Some(shard) => {
                let (home, key) = (self.home(&shard)?, shard.running_key());
                home.wait(wanted, key);
                let why = shard.suspend(deadline.map(|at| shard.to_ns(at)));
                // What becomes ready later is nothing to a coroutine that gave up: it may wait for something else.
                home.leave(key);
                why? != Resume::Deadline
            }
            None => {
                let flags = if wanted == Ready::READ { PollFlags::IN } else { PollFlags::OUT };
                sys::wait(self.fd.as_fd(), flags, deadline)?
            }
        };
        if in_time { Ok(()) } else { Err(io::ErrorKind::TimedOut.into()) }
    }

    /// What the present shard keeps of this stream, if a coroutine runs on it and has waited for the stream before.
    fn known_home(&self) -> Option<Rc<dyn Source>> {
        let shard = current_coroutine()?;
        let homes = unpoisoned(&self.homes);
        let (_, key) = homes.iter().find(|(remote, _)| Arc::ptr_eq(remote, shard.remote()))?;
        shard.source(*key)
    }

    /// What `shard` keeps of this stream.
    fn home(&self, shard: &Rc<Shard>) -> io::Result<Rc<dyn Source>> {
        let mut homes = unpoisoned(&self.homes);
        let known = homes.iter().find(|(remote, _)| Arc::ptr_eq(remote, shard.remote()));
        if let Some(source) = known.and_then(|(_, key)| shard.source(*key)) {
            return Ok(source);
        }
        let source: Rc<dyn Source> = Rc::new(Waiters {
            seen: Cell::new(Ready::READ.with(Ready::WRITE)),
            waiting: RefCell::default(),
            shard: Rc::clone(shard),
        });
        let key = shard.register(self.fd.as_fd(), Interest::Edges, Rc::clone(&source))?;
        homes.push((Arc::clone(shard.remote()), key));
        Ok(source)
    }

    /// Repeats a call that does not block until it does not say "not now". Whoever asks for an answer that cannot be there
    /// yet waits before the first call.
    fn until_ready(
        &self,
        wanted: Ready,
        timeout: Option<Duration>,
        mut call: impl FnMut() -> sys::Result<usize>,
    ) -> io::Result<usize> {
        if self.unbroken.load(Ordering::Relaxed) >= TURN_BYTES {
            self.unbroken.store(0, Ordering::Relaxed);
            yield_now()?;
        }
        let mut deadline = None;
        let home = self.known_home();
        let mut hopeless = home.as_ref().is_some_and(|home| !home.may(wanted));
        loop {
            if !std::mem::take(&mut hopeless) {
                match call() {
                    Err(Errno::AGAIN) => home.iter().for_each(|home| home.exhaust(wanted)),
                    outcome => {
                        let count = outcome?;
                        // Two that move bytes at once may lose some of them here, which is nothing to count.
                        let moved = self.unbroken.load(Ordering::Relaxed) + count as u64;
                        self.unbroken.store(moved, Ordering::Relaxed);
                        return Ok(count);
                    }
                }
            }
            if deadline.is_none() {
                deadline = timeout.map(deadline_in);
            }
            self.wait(wanted, deadline)?;
            self.unbroken.store(0, Ordering::Relaxed);
        }
    }

    /// A read that did not fill its buffer took all there was.
    fn note_short(&self, count: usize, room: usize) {
        if 0 < count && count < room {
            self.known_home().iter().for_each(|home| home.exhaust(Ready::READ));
        }
    }
}

/// The address of a TCP peer.
pub(crate) fn address(address: Option<rustix::net::SocketAddrAny>) -> io::Result<SocketAddr> {
    let address = address.ok_or(io::ErrorKind::NotConnected)?;
    SocketAddr::try_from(address).map_err(|_| io::ErrorKind::Unsupported.into())
}

impl TryFrom<std::net::TcpStream> for TcpStream {
    type Error = io::Error;

    fn try_from(stream: std::net::TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self::over(stream.into()))
    }
}

impl AsFd for TcpStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Read for &TcpStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let timeout = unpoisoned(&self.timeouts).read;
        let room = into.len();
        let count = self.until_ready(Ready::READ, timeout, || sys::recv(&self.fd, into))?;
        self.note_short(count, room);
        Ok(count)
    }
}

impl Write for &TcpStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let timeout = unpoisoned(&self.timeouts).write;
        self.until_ready(Ready::WRITE, timeout, || sys::send(&self.fd, bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for TcpStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        (&*self).read(into)
    }
}

impl Write for TcpStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for TcpStream {
    fn drop(&mut self) {
        for (remote, key) in std::mem::take(&mut *unpoisoned(&self.homes)) {
            match current() {
                Some(shard) if Arc::ptr_eq(shard.remote(), &remote) => shard.forget(key),
                _ => remote.call(move |shard| shard.forget(key)),
            }
        }
    }
}
