//! What a shard wants of the kernel: to be told which descriptors are ready, and to be woken.

use super::slab::Key;
use super::sys;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
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
    /// Whether `epoll_pwait2` is there, which alone sleeps for less than a millisecond: since Linux 5.11, but neither
    /// under valgrind 3.19 nor under some filters of system calls.
    precise: bool,
}

/// Reports taken by one system call: enough that a busy shard makes few, little enough that the first is still
/// warm when the last is served.
const EVENTS: usize = 256;

impl Epoll {
    pub(crate) fn new() -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Self { epoll, events: Vec::with_capacity(EVENTS), precise: true })
    }

    /// Waits until something is ready or `timeout` passes, and notes what is.
    fn look(&mut self, timeout: Option<&Timespec>) -> sys::Result<()> {
        if self.precise {
            let room = rustix::buffer::spare_capacity(&mut self.events);
            match epoll::wait(&self.epoll, room, timeout) {
                Err(Errno::NOSYS) => self.precise = false,
                outcome => return outcome.map(|_| ()),
            }
        }
        self.look_in_two_steps(timeout)
    }

    /// The same by two calls that every kernel has: the first sleeps as exactly, and the second takes what is there.
    fn look_in_two_steps(&mut self, timeout: Option<&Timespec>) -> sys::Result<()> {
        const { assert!(size_of::<epoll::Event>() == size_of::<libc::epoll_event>()) };
        poll(&mut [PollFd::new(&self.epoll, PollFlags::IN)], timeout)?;
        let room = self.events.spare_capacity_mut();
        let (events, most) = (room.as_mut_ptr().cast(), room.len() as libc::c_int);
        // SAFETY: The kernel writes at most as many events as there is room for, each laid out as rustix has it.
        let taken = unsafe { libc::epoll_wait(self.epoll.as_raw_fd(), events, most, 0) };
        let Ok(taken) = usize::try_from(taken) else {
            return Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO));
        };
        // SAFETY: So many were written behind those that were there.
        unsafe { self.events.set_len(self.events.len() + taken) };
        Ok(())
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
            Err(Errno::INVAL) => {
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
        match self.look(timeout.as_ref()) {
            Ok(()) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        into.extend(self.events.iter().map(|event| {
            let (flags, data) = (event.flags, event.data);
            Event { key: Key::from_bits(data.u64()), ready: ready(flags) }
        }));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Driver, Epoll, Interest, Key};
    use crate::rt::deaf::program;
    use rustix::event::{EventfdFlags, eventfd};
    use rustix::fd::AsFd;
    use std::time::{Duration, Instant};

    /// Makes `epoll_pwait2` fail on this thread, and on those that it starts, as on a kernel that has no such call.
    fn forget_epoll_pwait2() {
        const NUMBER: (u32, u32) = (libc::BPF_W, 0);
        let is_it = (libc::BPF_JEQ, libc::SYS_epoll_pwait2 as u32);
        let no_such_call = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
        let mut steps = program(NUMBER, is_it, no_such_call, libc::SECCOMP_RET_ALLOW);
        let filter = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
        rustix::thread::set_no_new_privs(true).unwrap();
        // SAFETY: The kernel copies the filter, which is whole as long as the call takes.
        let outcome =
            unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) };
        assert_eq!(outcome, 0, "{}", std::io::Error::last_os_error());
    }

    /// On a thread of its own, for a filter of system calls is there for good.
    fn without_epoll_pwait2(check: impl FnOnce() + Send + 'static) {
        let thread = std::thread::spawn(|| {
            forget_epoll_pwait2();
            check();
        });
        thread.join().unwrap();
    }

    /// What is ready is reported, and what is not is waited for, for as long as was said and hardly longer.
    fn check(mut driver: Epoll, precise: bool) {
        const PATIENCE: Duration = Duration::from_micros(300);
        let bell = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
        let key = Key::from_bits(7);
        driver.add(bell.as_fd(), key, Interest::Level).unwrap();
        let mut events = Vec::new();
        let best = (0..20)
            .map(|_| {
                let start = Instant::now();
                driver.wait(Some(PATIENCE), &mut events).unwrap();
                start.elapsed()
            })
            .inspect(|took| assert!(*took >= PATIENCE, "{took:?}"))
            .min();
        assert!(best.unwrap() < Duration::from_millis(1), "{best:?}: a timer of whole milliseconds?");
        assert!(events.is_empty());
        rustix::io::write(&bell, &1u64.to_ne_bytes()).unwrap();
        for timeout in [None, Some(Duration::ZERO), Some(PATIENCE)] {
            driver.wait(timeout, &mut events).unwrap();
            assert_eq!(events.drain(..).map(|event| event.key).collect::<Vec<_>>(), [key]);
        }
        assert_eq!(driver.precise, precise);
    }

    #[test]
    fn readiness_is_reported_with_epoll_pwait2_and_without() {
        check(Epoll::new().unwrap(), true);
        without_epoll_pwait2(|| check(Epoll::new().unwrap(), false));
    }

    #[test]
    fn coroutines_wait_and_wake_without_epoll_pwait2() {
        use crate::rt;
        without_epoll_pwait2(|| {
            let sum = rt::run(|| {
                let children = [1, 2, 3]
                    .map(|ms| rt::spawn(move || rt::sleep(Duration::from_millis(ms)).map(|()| ms).unwrap()));
                children.into_iter().map(|child| child.join().unwrap()).sum::<u64>()
            });
            assert_eq!(sum.unwrap(), 6);
        });
    }
}
