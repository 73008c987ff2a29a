//! What a shard wants of the kernel: to be told which descriptors are ready, and to be woken.

use super::slab::Key;
use rustix::event::{Timespec, epoll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::io;
use std::time::Duration;

/// What a descriptor became ready for since it was last reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ready(u8);

impl Ready {
    pub(crate) const NONE: Self = Self(0);
    /// There may be something to receive.
    pub(crate) const READ: Self = Self(1);
    /// There may be room to send.
    pub(crate) const WRITE: Self = Self(2);
    /// The peer stopped sending; it may still receive.
    pub(crate) const ENDED: Self = Self(4);
    /// The connection is gone, both ways.
    pub(crate) const GONE: Self = Self(8);

    pub(crate) const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether anything of `other` is in it.
    pub(crate) const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// One report of the kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) key: Key,
    pub(crate) ready: Ready,
}

/// How often a descriptor is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interest {
    /// Once per change, for receiving and sending: registered once, never touched again.
    Edges,
    /// As long as there is something to receive: for listeners, which are left and taken up again.
    Level,
    /// As [`Interest::Level`], where one of several waiting shards is enough: for a listener they share.
    LevelShared,
    /// Not at all, for the time being.
    Paused,
}

/// A source of events. One implementation today, on epoll; io_uring gave nothing on small loopback requests.
pub(crate) trait Driver {
    /// Begins to report on `fd` under `key`, the state it is in included.
    fn add(&self, fd: BorrowedFd<'_>, key: Key, interest: Interest) -> io::Result<()>;

    /// Changes how `fd` is reported.
    fn change(&self, fd: BorrowedFd<'_>, key: Key, interest: Interest) -> io::Result<()>;

    /// Reports no more on `fd`. Closing the last descriptor of a socket does so by itself.
    fn remove(&self, fd: BorrowedFd<'_>) -> io::Result<()>;

    /// Waits until something is ready or `timeout` passes, and appends the reports.
    fn wait(&mut self, timeout: Option<Duration>, into: &mut Vec<Event>) -> io::Result<()>;
}

/// The driver on epoll.
pub(crate) struct Epoll {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
}

/// Reports taken by one system call: enough that a busy shard makes few, little enough that the first is still
/// warm when the last is served.
const EVENTS: usize = 256;

impl Epoll {
    pub(crate) fn new() -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Self { epoll, events: Vec::with_capacity(EVENTS) })
    }
}

fn flags(interest: Interest) -> epoll::EventFlags {
    use epoll::EventFlags as Flags;
    match interest {
        Interest::Edges => Flags::IN | Flags::OUT | Flags::RDHUP | Flags::ET,
        Interest::Level => Flags::IN,
        Interest::LevelShared => Flags::IN | Flags::EXCLUSIVE,
        Interest::Paused => Flags::empty(),
    }
}

fn ready(flags: epoll::EventFlags) -> Ready {
    use epoll::EventFlags as Flags;
    let mut ready = Ready::NONE;
    for (flag, means) in [
        (Flags::IN, Ready::READ),
        (Flags::OUT, Ready::WRITE),
        (Flags::RDHUP, Ready::READ.with(Ready::ENDED)),
        (Flags::HUP | Flags::ERR, Ready::READ.with(Ready::WRITE).with(Ready::ENDED).with(Ready::GONE)),
    ] {
        if flags.intersects(flag) {
            ready = ready.with(means);
        }
    }
    ready
}

impl Driver for Epoll {
    fn add(&self, fd: BorrowedFd<'_>, key: Key, interest: Interest) -> io::Result<()> {
        let data = epoll::EventData::new_u64(key.to_bits());
        Ok(epoll::add(&self.epoll, fd, data, flags(interest))?)
    }

    fn change(&self, fd: BorrowedFd<'_>, key: Key, interest: Interest) -> io::Result<()> {
        if interest == Interest::LevelShared {
            // The kernel cannot change to or from an exclusive interest.
            self.remove(fd)?;
            return self.add(fd, key, interest);
        }
        let data = epoll::EventData::new_u64(key.to_bits());
        match epoll::modify(&self.epoll, fd, data, flags(interest)) {
            Err(rustix::io::Errno::INVAL) => {
                self.remove(fd)?;
                self.add(fd, key, interest)
            }
            other => Ok(other?),
        }
    }

    fn remove(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, fd.as_fd())?)
    }

    fn wait(&mut self, timeout: Option<Duration>, into: &mut Vec<Event>) -> io::Result<()> {
        let timeout = timeout.map(|timeout| Timespec {
            tv_sec: timeout.as_secs() as i64,
            tv_nsec: timeout.subsec_nanos().into(),
        });
        self.events.clear();
        let room = rustix::buffer::spare_capacity(&mut self.events);
        match epoll::wait(&self.epoll, room, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        into.extend(self.events.iter().map(|event| {
            let (flags, data) = (event.flags, event.data);
            Event { key: Key::from_bits(data.u64()), ready: ready(flags) }
        }));
        Ok(())
    }
}
