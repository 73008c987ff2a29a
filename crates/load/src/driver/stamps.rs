//! When the kernel received an answer.
//!
//! The time at which an answer is read has in it how long this thread took to wake. With the kernel's stamp it does not
//! matter when an answer is read, so that a worker need not wake for it: it reads when the next request is due. On a
//! virtual machine, where a wake-up costs more than a request, that halves the price of an open loop.

use std::io::IoSliceMut;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
use nix::sys::time::TimeSpec;

use super::clock::{SECOND_NS, now_ns, wall_ns};
use super::socket::Moved;

/// A read of more than this is of an answer that could fill the socket's buffer, and make its server wait, unless it is
/// read as it comes.
const SMALL_BYTES: usize = 16 * 1024;
/// Change of the wall clock against ours within one turn that is a step. Both are slewed alike: they part only when one
/// is set, or when this thread loses its CPU between reading the one and the other.
const STEP_NS: u64 = 1_000_000;

/// The stamps of one worker's connections.
#[derive(Debug)]
pub(super) struct Stamps {
    control: Vec<u8>,
    /// The wall clock, by which the kernel stamps, less ours.
    ahead_ns: u64,
    /// When the last step of the wall clock was seen: what was stamped before is worth nothing.
    since_ns: u64,
    /// Whether the last read bore a stamp.
    stamped: bool,
    /// Whether every answer was small and had a read of its own.
    whole: bool,
}

impl Stamps {
    pub(super) fn new() -> Self {
        let control = nix::cmsg_space!(TimeSpec);
        Self { control, ahead_ns: 0, since_ns: u64::MAX, stamped: false, whole: true }
    }

    /// Has the kernel stamp what `socket` receives, or no more. Where it does not, reads say so.
    pub(super) fn ask(socket: &OwnedFd, stamped: bool) {
        let _ = setsockopt(socket, sockopt::ReceiveTimestampns, &stamped);
    }

    /// Whether answers may be read later than they come.
    #[inline]
    pub(super) fn may_wait(&self) -> bool {
        self.stamped && self.whole
    }

    /// An answer came in several reads, or ended with its connection: unless each part is read as it comes, the next may
    /// wait for it, or its end goes by unstamped.
    #[cold]
    pub(super) fn note_parts(&mut self) {
        self.whole = false;
    }

    /// The worker has waited: how far the wall clock is ahead is read anew, for it may have been set meanwhile.
    #[inline]
    pub(super) fn turn(&mut self) {
        // In this order a pause between the two makes stamps late, which the time of the read mends, and never early.
        let wall_ns = wall_ns();
        self.compare(wall_ns, now_ns());
    }

    #[inline]
    fn compare(&mut self, wall_ns: u64, now_ns: u64) {
        let ahead_ns = wall_ns.wrapping_sub(now_ns);
        if ahead_ns.abs_diff(self.ahead_ns) >= STEP_NS {
            self.since_ns = now_ns;
        }
        self.ahead_ns = ahead_ns;
    }

    /// An instant of the wall clock on ours; nothing where it may be from before a step.
    #[inline]
    fn monotonic(&self, wall_ns: u64) -> Option<u64> {
        Some(wall_ns.wrapping_sub(self.ahead_ns)).filter(|at| *at >= self.since_ns)
    }

    /// Reads once, and says when the last byte of it was received, on the monotonic clock.
    #[inline]
    pub(super) fn read(&mut self, socket: &OwnedFd, buf: &mut [u8]) -> (Moved, Option<u64>) {
        let mut parts = [IoSliceMut::new(buf)];
        let received =
            recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut self.control), MsgFlags::empty());
        let message = match received {
            Ok(message) => message,
            Err(nix::errno::Errno::EAGAIN | nix::errno::Errno::EINTR) => return (Moved::Later, None),
            Err(_) => return (Moved::Broken, None),
        };
        if message.bytes == 0 {
            return (Moved::End, None);
        }
        let stamp = message.cmsgs().ok().and_then(|mut all| {
            all.find_map(|one| match one {
                ControlMessageOwned::ScmTimestampns(at) => Some(at),
                _ => None,
            })
        });
        let bytes = message.bytes;
        self.stamped = stamp.is_some();
        self.whole &= bytes <= SMALL_BYTES;
        let at = stamp.and_then(|at| self.monotonic(at.tv_sec() as u64 * SECOND_NS + at.tv_nsec() as u64));
        (Moved::Bytes(bytes), at)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::time::{Duration, Instant};

    use super::*;

    const MILLI: u64 = 1_000_000;

    #[test]
    fn what_was_stamped_before_the_wall_clock_was_set_is_worth_nothing() {
        let wall = 1_700_000_000 * SECOND_NS;
        for step in [-3600 * i64::try_from(SECOND_NS).unwrap(), -5_000_000, 5_000_000, 3_600_000_000_000] {
            let mut stamps = Stamps::new();
            stamps.compare(wall, SECOND_NS);
            assert_eq!(stamps.monotonic(wall + MILLI), Some(SECOND_NS + MILLI));
            assert_eq!(stamps.monotonic(wall - MILLI), None, "from before the first look at the clocks");
            // 0.1 ms less is no step but a pause between the two clocks.
            stamps.compare(wall + SECOND_NS - MILLI / 10, 2 * SECOND_NS);
            assert_eq!(stamps.monotonic(wall + SECOND_NS), Some(2 * SECOND_NS + MILLI / 10));

            let stepped = wall.wrapping_add_signed(step);
            stamps.compare(stepped + 2 * SECOND_NS, 3 * SECOND_NS);
            let before = stamps.monotonic(wall + 2 * SECOND_NS - MILLI);
            // Where it is not refused it lies ahead, and the time of the read takes its place.
            assert!(before.is_none_or(|at| at >= 3 * SECOND_NS), "{step}: {before:?}");
            assert_eq!(
                stamps.monotonic(stepped + 2 * SECOND_NS + MILLI),
                Some(3 * SECOND_NS + MILLI),
                "{step}"
            );
        }
    }

    /// The two ends of a connection over loopback.
    fn connection(host: &str) -> (OwnedFd, TcpStream) {
        let listener = TcpListener::bind((host, 0)).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        server.set_nodelay(true).unwrap();
        (client.into(), server)
    }

    #[test]
    fn an_answer_is_as_old_as_its_arrival_however_late_it_is_read() {
        for host in ["127.0.0.1", "::1"] {
            let (client, mut server) = connection(host);
            let (mut stamps, mut buf) = (Stamps::new(), vec![0; 64 * 1024]);
            Stamps::ask(&client, true);
            let begun = Instant::now();
            // The kernel begins to stamp a little after it was asked to.
            while !stamps.may_wait() {
                assert!(begun.elapsed() < Duration::from_secs(20), "{host}: nothing is stamped");
                server.write_all(b"x").unwrap();
                let _ = stamps.read(&client, &mut buf);
            }
            stamps.turn();
            let before_ns = now_ns();
            server.write_all(b"answer").unwrap();
            let after_ns = now_ns();
            std::thread::sleep(Duration::from_millis(200));
            stamps.turn();
            let (moved, at) = stamps.read(&client, &mut buf);
            assert!(matches!(moved, Moved::Bytes(6)), "{host}");
            // Where the thread lost its CPU between the two clocks, stamps are late by as long.
            let at = at.unwrap();
            assert!((before_ns..after_ns + 100 * MILLI).contains(&at), "{host}: {before_ns} {at} {after_ns}");
        }
    }

    #[test]
    fn answers_that_are_large_or_come_in_parts_are_read_as_they_come() {
        let (client, mut server) = connection("127.0.0.1");
        let mut buf = vec![0; 64 * 1024];
        let mut stamps = Stamps { stamped: true, ..Stamps::new() };
        server.write_all(&[0; SMALL_BYTES + 1]).unwrap();
        assert!(
            matches!(stamps.read(&client, &mut buf), (Moved::Bytes(bytes), _) if bytes == SMALL_BYTES + 1)
        );
        stamps.stamped = true;
        assert!(!stamps.may_wait());
        let mut stamps = Stamps { stamped: true, ..Stamps::new() };
        assert!(stamps.may_wait());
        stamps.note_parts();
        assert!(!stamps.may_wait());
    }
}
