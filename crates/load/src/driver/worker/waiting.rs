//! How a worker waits: for events, or where answers bear stamps until the next request is due; and how it is not late
//! where the timers are.

use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::thread::{ClockId, NanosleepRelativeResult, clock_nanosleep_relative};

use super::{EVENTS, Phase, Setup, WAKER, Worker};
use crate::driver::clock::{SECOND_NS, now_ns, timespec};
use crate::driver::stamps::Stamps;
use crate::schedule::Pace;
use crate::session::Protocol;
use crate::{Address, Idle, LoadError};

/// How long before an arrival [`Idle::Spin`] stops to sleep: above the wake-up times seen (19 µs at p99.9).
const SPIN_NS: u64 = 50_000;
/// Share of sleeps that are to end before their time, and what is learned from one sleep at most: a thousand of them teach
/// 16 µs.
const EARLY: f64 = 0.25;
const LESSON_NS: f64 = 64.0;
/// What is forgotten at each turn without a sleep: who polls would never learn that sleeps have become better.
const FORGOTTEN_NS: f64 = 0.1;
/// Longest time before an arrival that is polled and not slept. Timers of virtual machines were seen to be late by 2 to
/// 20 µs; what takes longer is not the timer but somebody else on this CPU, who would be kept from it by polling.
const MOST_AHEAD_NS: f64 = 40_000.0;
/// Most that is learned: so much above the former that it is not crossed by chance.
const MOST_LEARNED_NS: f64 = 2.0 * MOST_AHEAD_NS;
/// Longest time for which answers are left unread, or the slack where that is longer: a connection that the server closes is
/// missed for no longer.
const UNREAD_NS: u64 = 500_000;

/// Whether answers are timed by when the kernel received them: in an open loop over plain TCP, one request in flight on
/// each connection, all alike, and written at once.
pub(super) fn is_stamped<P: Protocol>(setup: &Setup<'_>, pace: &Pace, idle: Idle) -> bool {
    let plain = setup.tls.is_none() && P::STAMPED && matches!(setup.address, Address::Tcp(_));
    let single = setup.spec.depth == 1 && setup.feed.is_none() && setup.spec.hold.is_none();
    plain && single && *pace != Pace::Closed && idle == Idle::Sleep
}

/// Time that a worker polls in which nothing is to be done: the CPU is used, and would be as well by nobody.
#[derive(Debug, Default)]
pub(super) struct Vain {
    pub(super) polled_ns: u64,
    /// When the present turn began, unless something was done in it.
    since_ns: Option<u64>,
}

impl Vain {
    /// Another turn begins.
    #[inline]
    pub(super) fn turn(&mut self, now: u64) {
        self.polled_ns += self.since_ns.map_or(0, |since| now - since);
        self.since_ns = Some(now);
    }

    /// The present turn is not in vain.
    #[inline]
    pub(super) fn useful(&mut self) {
        self.since_ns = None;
    }
}

/// How much later than asked for sleeps end, at the least: on a virtual machine it is some 15 µs. One that is to end in time
/// is asked for so much earlier, and what is shorter than this is polled, for a sleep would take as long and the CPU too.
#[derive(Debug, Default)]
pub(super) struct Lateness {
    /// The quantile [`EARLY`] of what was seen.
    ns: f64,
}

impl Lateness {
    /// How long to sleep for something that is `left_ns` away.
    #[inline]
    pub(super) fn ahead(&self, left_ns: u64) -> u64 {
        if self.ns < MOST_AHEAD_NS { left_ns.saturating_sub(self.ns as u64) } else { left_ns }
    }

    /// A sleep that was to end at `due_ns` has ended.
    #[inline]
    fn learn(&mut self, due_ns: u64) {
        self.learn_from(now_ns().saturating_sub(due_ns));
    }

    /// However late it was, it counts as one.
    #[inline]
    fn learn_from(&mut self, late_ns: u64) {
        let step = if (late_ns as f64) < self.ns { EARLY - 1.0 } else { EARLY };
        self.ns = (self.ns + step * LESSON_NS).clamp(0.0, MOST_LEARNED_NS);
    }

    #[inline]
    fn forget(&mut self) {
        self.ns = (self.ns - FORGOTTEN_NS).max(0.0);
    }
}

impl<P: Protocol> Worker<'_, P> {
    pub(super) fn wait(&mut self) -> Result<(), LoadError> {
        let wait_ns = self.timeout_ns();
        if wait_ns == 0 {
            self.lateness.forget();
        }
        if !self.may_leave_unread(wait_ns) {
            return self.poll(wait_ns);
        }
        self.vain.useful();
        let due_ns = now_ns() + wait_ns;
        let slept = clock_nanosleep_relative(ClockId::Monotonic, &timespec(wait_ns));
        // A signal only makes a sleep short, and teaches nothing.
        if matches!(slept, NanosleepRelativeResult::Ok) {
            self.lateness.learn(due_ns);
        }
        self.poll(0)
    }

    /// Whether to sleep until the next request is due, whatever is answered in the meantime: no request waits for an
    /// answer.
    #[inline]
    fn may_leave_unread(&self, wait_ns: u64) -> bool {
        (1..=UNREAD_NS.max(self.setup.spec.slack_ns)).contains(&wait_ns)
            && self.stamps.as_ref().is_some_and(Stamps::may_wait)
            && self.session.has_spare()
    }

    /// Reads what was received before the window ended, on every connection once.
    pub(super) fn read_last(&mut self) -> Result<(), LoadError> {
        if self.stamps.is_none() {
            return Ok(());
        }
        self.read_unread();
        // As often as every connection takes: one that a server fills without end would never be read to its own.
        for _ in 0..=self.slots.len() / EVENTS {
            self.poll(0)?;
            for index in 0..self.events.len() {
                if let Some(lane) = self.open_lane(self.events[index]) {
                    self.read_all(lane, false);
                }
            }
        }
        Ok(())
    }

    /// The lane of an event, if it is of a connection that is still there and open.
    fn open_lane(&self, event: epoll::Event) -> Option<u32> {
        let data = event.data.u64();
        let (lane, generation) = (data as u32, (data >> 32) as u32);
        let slot = self.slots.get(lane as usize).filter(|_| data != WAKER)?;
        (slot.generation == generation && !slot.connecting && slot.link.is_some()).then_some(lane)
    }

    /// Takes events from the kernel, waiting for the first as long as that.
    fn poll(&mut self, wait_ns: u64) -> Result<(), LoadError> {
        self.events.clear();
        let timeout = timespec(wait_ns);
        let due_ns = if wait_ns > 0 { now_ns() + wait_ns } else { 0 };
        let waited = epoll::wait(&self.epoll, spare_capacity(&mut self.events), Some(&timeout));
        if wait_ns > 0 && waited == Ok(0) {
            self.lateness.learn(due_ns);
        }
        // Whoever sleeps uses no CPU.
        if wait_ns > 0 || !self.events.is_empty() {
            self.vain.useful();
        }
        if let Some(stamps) = &mut self.stamps {
            stamps.turn();
        }
        match waited {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(LoadError::system("wait for events")(error)),
        }
    }

    /// How long to wait in the kernel for something to happen.
    fn timeout_ns(&self) -> u64 {
        /// Longest wait: whatever is overlooked is seen then.
        const LONGEST_NS: u64 = SECOND_NS;
        let edge_ns = match self.phase {
            Phase::Opening | Phase::Ready => self.setup.control.warmup_ns().min(self.span.start_ns),
            Phase::Warmup => self.span.start_ns,
            Phase::Window => self.span.end_ns.saturating_add(1),
            Phase::Draining => self.last_ns.saturating_add(1),
        };
        let wake_ns =
            self.session.wake_ns().min(edge_ns).min(self.opener.wake_ns()).min(self.timers.wake_ns());
        if !self.unread.is_empty() || wake_ns == 0 {
            return 0;
        }
        let left_ns = wake_ns.saturating_sub(now_ns());
        // Between windows nobody is kept waiting.
        let idle = if self.phase == Phase::Ready { Idle::Sleep } else { self.idle };
        match idle {
            Idle::Spin => left_ns.saturating_sub(SPIN_NS),
            Idle::Sleep => self.lateness.ahead(left_ns),
            Idle::Poll => 0,
        }
        .min(LONGEST_NS)
    }

    /// Answers may be left unread only where each is what one read brings.
    #[inline]
    pub(super) fn note_answer(&mut self, came: bool, answered: bool) {
        if let Some(stamps) = self.stamps.as_mut().filter(|_| came != answered) {
            stamps.note_parts();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Lateness, Vain};

    #[test]
    fn only_turns_in_which_nothing_is_done_are_in_vain() {
        let mut vain = Vain::default();
        vain.turn(100);
        vain.turn(130);
        assert_eq!(vain.polled_ns, 30);
        vain.useful();
        vain.turn(180);
        assert_eq!(vain.polled_ns, 30, "something was done between 130 and 180");
        vain.turn(190);
        assert_eq!(vain.polled_ns, 40);
    }

    #[test]
    fn a_sleep_is_asked_for_as_much_earlier_as_three_of_four_are_late() {
        let mut lateness = Lateness::default();
        assert_eq!(lateness.ahead(40_000), 40_000);
        let seen = [14_000, 15_000, 16_000, 90_000_000];
        (0..4_000).for_each(|turn| lateness.learn_from(seen[turn % seen.len()]));
        let left = lateness.ahead(40_000);
        assert!((24_900..=26_100).contains(&left), "between the first and the second of four: {left}");
        assert_eq!(lateness.ahead(10_000), 0, "a sleep would be longer");
        (0..8_000).for_each(|_| lateness.learn_from(900_000));
        assert_eq!(
            lateness.ahead(10_000),
            10_000,
            "it is somebody else on this CPU, who is not kept from it"
        );
    }
}
