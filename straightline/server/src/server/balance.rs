//! A new connection goes to another shard where that is clearly less busy than the one at whose listener it came.
//!
//! The kernel shares connections out by a hash of their addresses, and knows nothing of who is at work. How busy a shard
//! is, its loop says: by the share of its time that it does not wait. So connections that rest do not count, and a
//! heavy handler counts as much as many light ones.

use super::accept::BURST;
use super::counters::Counters;
use super::run::{Link, current_worker};
use super::worker::take_up;
use crate::rt::shard::Shard;
use crate::rt::waker::{Call, Remote};
use crate::rt::watch::Watch;
use rustix::fd::OwnedFd;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// How often it is looked how busy the shards are.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(12);
/// Over how long a time a shard's busyness is averaged: one slow request makes no shard busy, and one that becomes busy is
/// found out before many more have connected.
const MEMORY: Duration = Duration::from_millis(50);
/// How busy a shard is that never waits: busyness is counted in thousandths.
const FULL: i64 = 1_000;
/// So much less busy another shard must be: between two that are nearly alike a connection is not worth moving.
const MARGIN: i64 = 125;
/// What a connection that was handed over is thought to bring, until looks tell what it does bring: of many that come between
/// two looks, not all go to one shard.
const STEP: i64 = 15;

/// What the shards of a server know of each other.
pub(super) struct Balance(Box<[Seat]>);

/// One shard, as the others see it.
#[derive(Default)]
struct Seat {
    /// In thousandths of its time, with a [`STEP`] for each connection that was handed to it of late.
    busy: AtomicI64,
    /// Connections that were handed to it and that it has not taken up.
    coming: AtomicU64,
    /// Whether it is about to end.
    leaves: AtomicBool,
    /// Empty until it listens.
    member: OnceLock<Member>,
}

pub(super) struct Member {
    remote: Arc<Remote>,
    watch: Arc<Watch>,
    counters: Arc<Counters>,
}

impl Member {
    pub(super) fn from_link(link: &Link) -> Self {
        let (remote, watch) = (Arc::clone(&link.remote), Arc::clone(&link.watch));
        Self { remote, watch, counters: Arc::clone(&link.counters) }
    }
}

impl Balance {
    pub(super) fn new(shards: usize) -> Arc<Self> {
        Arc::new(Self((0..shards).map(|_| Seat::default()).collect()))
    }

    /// A shard listens: from now on it may be handed connections.
    pub(super) fn join(&self, index: usize, member: Member) {
        self.0[index].member.set(member).ok();
    }
}

impl Seat {
    fn busy(&self) -> i64 {
        self.busy.load(Ordering::Relaxed)
    }

    /// Whether it may be handed a connection: in a while it must still have room for all that others hand to it at the same time,
    /// and for those that it accepts itself.
    fn has_room(&self, limit: u32) -> bool {
        let Some(member) = self.member.get() else { return false };
        let taken = member.counters.open.value() + self.coming.load(Ordering::Relaxed);
        !self.leaves.load(Ordering::Relaxed) && taken + BURST as u64 <= u64::from(limit)
    }

    /// A look found it at work for this share of the time that passed since the last one.
    fn note(&self, share: i64, passed: Duration) {
        let busy = self.busy();
        let (weight, all) = (passed.min(MEMORY).as_micros() as i64, MEMORY.as_micros() as i64);
        // Added, and not stored: others may add their steps meanwhile.
        self.busy.fetch_add((share - busy) * weight / all, Ordering::Relaxed);
    }
}

/// A shard's own place among the others.
pub(crate) struct Place {
    balance: Arc<Balance>,
    index: usize,
}

impl Place {
    pub(super) fn new(balance: &Arc<Balance>, index: usize) -> Self {
        Self { balance: Arc::clone(balance), index }
    }

    fn seat(&self) -> &Seat {
        &self.balance.0[self.index]
    }

    /// How busy the shard is, in thousandths of its time.
    pub(super) fn busy(&self) -> u64 {
        u64::try_from(self.seat().busy()).unwrap_or(0)
    }

    /// Connections that others handed over and that are not taken up.
    pub(super) fn coming(&self) -> u64 {
        self.seat().coming.load(Ordering::Relaxed)
    }

    /// The shard is about to end: it is handed nothing any more, and hands nothing over.
    pub(super) fn leave(&self) {
        self.seat().leaves.store(true, Ordering::Relaxed);
    }

    /// A seat at a shard that is clearly less busy and has room for more, if there is one.
    pub(super) fn elsewhere(&self, limit: u32) -> Option<Reserved> {
        let own = self.seat().busy();
        if own < MARGIN || self.seat().leaves.load(Ordering::Relaxed) {
            return None;
        }
        let seats = self.balance.0.iter().enumerate();
        let others = seats.filter(|(index, seat)| *index != self.index && seat.has_room(limit));
        let (index, least) = others.min_by_key(|(_, seat)| seat.busy())?;
        if least.busy() + MARGIN > own {
            return None;
        }
        least.busy.fetch_add(STEP, Ordering::Relaxed);
        least.coming.fetch_add(1, Ordering::Relaxed);
        Some(Reserved { balance: Arc::clone(&self.balance), index })
    }
}

/// A connection's seat at another shard, until it is taken up there.
pub(super) struct Reserved {
    balance: Arc<Balance>,
    index: usize,
}

impl Reserved {
    /// Hands the connection over. A shard that has ended gives back what is to be called on one that has not.
    pub(super) fn give(self, socket: OwnedFd) -> Result<(), Call> {
        let (balance, index) = (Arc::clone(&self.balance), self.index);
        let taking_up: Call = Box::new(move |shard| {
            arrive(shard, socket);
            drop(self);
        });
        match balance.0[index].member.get() {
            Some(member) => member.remote.offer(taking_up),
            None => Err(taking_up),
        }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.balance.0[self.index].coming.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Takes up a connection that another shard accepted.
fn arrive(shard: &Rc<Shard>, socket: OwnedFd) {
    let Some(worker) = current_worker() else { return };
    take_up(&worker, shard, socket);
    // A drain that has asked all connections to end has not asked this one.
    if worker.is_draining() && worker.listener().is_none() {
        shard.sources().iter().for_each(|source| source.drain());
    }
}

/// Looks from time to time how busy the shards are.
pub(super) struct Gauge {
    balance: Arc<Balance>,
    /// How long each had worked at the last look, in nanoseconds.
    worked_ns: Vec<u64>,
    at: Instant,
}

impl Gauge {
    pub(super) fn new(balance: Arc<Balance>, now: Instant) -> Self {
        let worked_ns = balance.0.iter().map(|seat| worked_ns(seat, now)).collect();
        Self { balance, worked_ns, at: now }
    }

    pub(super) fn look(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.at);
        if passed < LOOK_EVERY {
            return;
        }
        self.at = now;
        for (seat, before_ns) in self.balance.0.iter().zip(&mut self.worked_ns) {
            let now_ns = worked_ns(seat, now);
            let worked = Duration::from_nanos(now_ns.saturating_sub(*before_ns));
            *before_ns = now_ns;
            seat.note(share(worked, passed), passed);
        }
    }
}

fn worked_ns(seat: &Seat, now: Instant) -> u64 {
    seat.member.get().map_or(0, |member| member.watch.worked_ns(now))
}

/// In thousandths.
fn share(worked: Duration, passed: Duration) -> i64 {
    let share = worked.as_secs_f64() / passed.as_secs_f64();
    (share.min(1.0) * FULL as f64) as i64
}

#[cfg(test)]
mod tests {
    use super::{Balance, FULL, Gauge, LOOK_EVERY, MARGIN, MEMORY, Member, Place, Remote, STEP, Watch};
    use rustix::fd::OwnedFd;
    use std::io::{ErrorKind, Read};
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    const LIMIT: u32 = 1_000;

    /// Shards that are so busy, in thousandths.
    fn shards(busy: &[i64]) -> Arc<Balance> {
        let balance = Balance::new(busy.len());
        for (index, &busy) in busy.iter().enumerate() {
            let remote = Arc::new(Remote::new().unwrap());
            balance.join(index, Member { remote, watch: Watch::new(), counters: Arc::default() });
            balance.0[index].busy.store(busy, Ordering::Relaxed);
        }
        balance
    }

    fn elsewhere(balance: &Arc<Balance>) -> Option<usize> {
        Place::new(balance, 0).elsewhere(LIMIT).map(|seat| seat.index)
    }

    #[test]
    fn the_least_busy_shard_takes_it_if_that_is_clearly_less_busy() {
        for (busy, wanted) in [
            (&[FULL][..], None),
            (&[0, 0], None),
            (&[0, FULL], None),
            (&[MARGIN - 1, 0], None),
            (&[MARGIN, 0], Some(1)),
            (&[700, 700 - MARGIN + 1], None),
            (&[700, 700 - MARGIN], Some(1)),
            (&[FULL, 300, 200, 400], Some(2)),
        ] {
            assert_eq!(elsewhere(&shards(busy)), wanted, "{busy:?}");
        }
    }

    #[test]
    fn of_a_storm_between_two_looks_no_more_goes_to_a_shard_than_it_can_bear() {
        let balance = shards(&[900, 0, 300]);
        let moved: Vec<usize> = std::iter::from_fn(|| elsewhere(&balance)).collect();
        let to = |shard: usize| moved.iter().filter(|&&other| other == shard).count() as i64;
        assert_eq!(to(1), (900 - MARGIN) / STEP + 1);
        assert_eq!(to(2), (900 - MARGIN - 300) / STEP + 1);
        assert_eq!(moved[0], 1, "the least busy one first");
    }

    #[test]
    fn a_shard_that_does_not_listen_ends_or_is_nearly_full_takes_none() {
        let balance = Balance::new(2);
        balance.0[0].busy.store(FULL, Ordering::Relaxed);
        assert_eq!(elsewhere(&balance), None, "it does not listen yet");
        let balance = shards(&[FULL, 0]);
        balance.0[1].member.get().unwrap().counters.open.set(u64::from(LIMIT) - 64);
        let seat = Place::new(&balance, 0).elsewhere(LIMIT);
        assert!(seat.is_some(), "there is room for a burst");
        assert_eq!(elsewhere(&balance), None, "the one that comes counts");
        drop(seat);
        assert_eq!(elsewhere(&balance), Some(1));
        Place::new(&balance, 1).leave();
        assert_eq!(elsewhere(&balance), None, "it is about to end");
        let balance = shards(&[FULL, 0]);
        Place::new(&balance, 0).leave();
        assert_eq!(elsewhere(&balance), None, "who is about to end looks after its own");
    }

    #[test]
    fn a_shard_that_has_ended_gives_the_connection_back() {
        let balance = shards(&[FULL, 0]);
        assert!(balance.0[1].member.get().unwrap().remote.close());
        let (mut client, socket) = UnixStream::pair().unwrap();
        client.set_nonblocking(true).unwrap();
        let seat = Place::new(&balance, 0).elsewhere(LIMIT).unwrap();
        let given_back = seat.give(OwnedFd::from(socket)).err().unwrap();
        let read = client.read(&mut [0]).unwrap_err();
        assert_eq!(read.kind(), ErrorKind::WouldBlock, "the connection is open");
        assert_eq!(balance.0[1].coming.load(Ordering::Relaxed), 1);
        drop(given_back);
        assert_eq!(client.read(&mut [0]).unwrap(), 0);
        assert_eq!(balance.0[1].coming.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn how_busy_a_shard_is_comes_to_what_its_loop_says() {
        let balance = shards(&[0, 0]);
        let watches: [Arc<Watch>; 2] =
            std::array::from_fn(|index| Arc::clone(&balance.0[index].member.get().unwrap().watch));
        let start = watches[1].origin();
        let mut gauge = Gauge::new(Arc::clone(&balance), start);
        let busy = |shard: usize| balance.0[shard].busy();
        // The first waits; the second is held by one piece of work.
        watches[0].waits(0);
        gauge.look(start + LOOK_EVERY / 2);
        assert_eq!([busy(0), busy(1)], [0, 0], "too soon for a look");
        gauge.look(start + LOOK_EVERY);
        let first = busy(1);
        assert!(busy(0) == 0 && (200..=300).contains(&first), "{first}");
        gauge.look(start + LOOK_EVERY + MEMORY);
        assert_eq!([busy(0), busy(1)], [0, FULL]);
        // A connection that was handed over and brings nothing is forgotten.
        balance.0[0].busy.fetch_add(STEP, Ordering::Relaxed);
        gauge.look(start + LOOK_EVERY + 2 * MEMORY);
        assert_eq!(busy(0), 0);
        // Half of the time at work.
        let worked = LOOK_EVERY + 2 * MEMORY + MEMORY / 2;
        watches[1].waits(worked.as_nanos() as u64);
        gauge.look(start + LOOK_EVERY + 3 * MEMORY);
        assert!(busy(1).abs_diff(FULL / 2) <= 1, "{}", busy(1));
    }
}
