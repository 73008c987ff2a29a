//! Which coroutine a shard is running and how long it has worked, for others to see: the watchdog, and the handler of a
//! stack overflow.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A name that lives as long as the program, behind one thin pointer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Name(&'static str);

impl Name {
    /// The one `Name` of `text`. Names are few (handlers and places that spawn), so they are kept for good.
    pub(crate) fn intern(text: &'static str) -> &'static Self {
        Self::of(text, || text)
    }

    fn of(text: &str, kept: impl FnOnce() -> &'static str) -> &'static Self {
        static NAMES: std::sync::Mutex<Vec<&'static Name>> = std::sync::Mutex::new(Vec::new());
        let mut names = NAMES.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(name) = names.iter().find(|name| name.0 == text) {
            return name;
        }
        let name = Box::leak(Box::new(Self(kept())));
        names.push(name);
        name
    }

    /// The one `Name` of a text that was made up at run time: that of a route.
    #[cfg(feature = "router")]
    pub(crate) fn keep(text: &str) -> &'static Self {
        Self::of(text, || Box::leak(text.into()))
    }

    pub(crate) fn text(&self) -> &'static str {
        self.0
    }
}

/// What one shard runs: written by the shard with plain stores, read by anyone.
#[derive(Debug)]
pub(crate) struct Watch {
    /// Odd while a coroutine runs; every change is a switch.
    switches: AtomicU64,
    name: AtomicPtr<Name>,
    /// Set by the watchdog when it has reported the present run, so that the shard says how long it was in the end.
    overrun: AtomicBool,
    holds: AtomicU64,
    longest_ns: AtomicU64,
    /// Of a shard that waits, twice the nanoseconds that it has worked in all; of one that works, twice those that it has
    /// waited in all, and one. In one number, so that no reader sees half of a change; the clock gives the rest.
    pace: AtomicU64,
    origin: Instant,
}

impl Watch {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            pace: AtomicU64::new(1),
            origin: Instant::now(),
            switches: AtomicU64::new(0),
            name: AtomicPtr::new(std::ptr::from_ref(Name::intern("")).cast_mut()),
            overrun: AtomicBool::new(false),
            holds: AtomicU64::new(0),
            longest_ns: AtomicU64::new(0),
        })
    }

    /// A coroutine begins to run, or runs on.
    #[inline]
    pub(crate) fn enter(&self, name: &'static Name) {
        self.rename(name);
        let switches = self.switches.load(Ordering::Relaxed);
        self.switches.store(switches + 1, Ordering::Release);
    }

    /// What runs goes by another name from now on.
    #[inline]
    pub(crate) fn rename(&self, name: &'static Name) {
        self.name.store(std::ptr::from_ref(name).cast_mut(), Ordering::Relaxed);
    }

    /// It gave the thread back.
    #[inline]
    pub(crate) fn leave(&self) {
        let switches = self.switches.load(Ordering::Relaxed);
        self.switches.store(switches + 1, Ordering::Release);
        if self.overrun.load(Ordering::Relaxed) {
            self.overrun.store(false, Ordering::Relaxed);
        }
    }

    /// The name of what runs now, or ran last.
    pub(crate) fn name(&self) -> &'static Name {
        // SAFETY: Only references to names that live for good are ever stored.
        unsafe { &*self.name.load(Ordering::Relaxed) }
    }

    /// Whether the watchdog has found the present run too long.
    pub(crate) fn is_held(&self) -> bool {
        self.overrun.load(Ordering::Relaxed)
    }

    /// When the clock of the shard began.
    pub(crate) fn origin(&self) -> Instant {
        self.origin
    }

    /// The shard begins to wait, having worked so long in all.
    #[inline]
    pub(crate) fn waits(&self, worked_ns: u64) {
        self.pace.store(worked_ns << 1, Ordering::Relaxed);
    }

    /// The shard begins to work, having waited so long in all.
    #[inline]
    pub(crate) fn works(&self, waited_ns: u64) {
        self.pace.store(waited_ns << 1 | 1, Ordering::Relaxed);
    }

    /// How long the shard has worked up to `now`, all that it did not wait for something to happen, in nanoseconds.
    pub(crate) fn worked_ns(&self, now: Instant) -> u64 {
        let pace = self.pace.load(Ordering::Relaxed);
        match pace & 1 {
            0 => pace >> 1,
            _ => (now.saturating_duration_since(self.origin).as_nanos() as u64).saturating_sub(pace >> 1),
        }
    }

    /// How often a coroutine was found to hold the shard too long.
    pub(crate) fn holds(&self) -> u64 {
        self.holds.load(Ordering::Relaxed)
    }

    /// The longest time that the watchdog saw a coroutine hold the shard.
    pub(crate) fn longest(&self) -> Duration {
        Duration::from_nanos(self.longest_ns.load(Ordering::Relaxed))
    }
}

/// Watches one shard from outside: fed with the time at regular looks, it says who holds the shard too long.
#[derive(Debug)]
pub(crate) struct Watchdog {
    watch: Arc<Watch>,
    limit: Duration,
    seen: u64,
    since: Instant,
}

impl Watchdog {
    pub(crate) fn new(watch: Arc<Watch>, limit: Duration, now: Instant) -> Self {
        Self { watch, limit, seen: 0, since: now }
    }

    /// Looks at the shard; the name of a coroutine and its time so far, once for each run that is over the limit.
    pub(crate) fn look(&mut self, now: Instant) -> Option<(&'static str, Duration)> {
        let switches = self.watch.switches.load(Ordering::Acquire);
        if switches != self.seen || switches.is_multiple_of(2) {
            (self.seen, self.since) = (switches, now);
            return None;
        }
        let held = now - self.since;
        if held < self.limit {
            return None;
        }
        self.watch.longest_ns.fetch_max(held.as_nanos() as u64, Ordering::Relaxed);
        if self.watch.overrun.swap(true, Ordering::Relaxed) {
            return None;
        }
        self.watch.holds.fetch_add(1, Ordering::Relaxed);
        Some((self.watch.name().text(), held))
    }

    /// Whether the last look found the shard held too long.
    pub(crate) fn is_held(&self) -> bool {
        self.watch.is_held()
    }
}

#[cfg(test)]
mod tests {
    use super::{Name, Watch, Watchdog};
    use std::time::{Duration, Instant};

    const LIMIT: Duration = Duration::from_millis(25);

    #[test]
    fn a_long_run_is_named_once() {
        let (watch, start) = (Watch::new(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        let mut dog = Watchdog::new(watch.clone(), LIMIT, start);
        watch.enter(Name::intern("slow"));
        assert_eq!(dog.look(at(10)), None, "seen for the first time");
        assert_eq!(dog.look(at(20)), None);
        assert_eq!(dog.look(at(36)), Some(("slow", Duration::from_millis(26))));
        assert_eq!(dog.look(at(50)), None, "reported already");
        assert!(dog.is_held());
        watch.leave();
        assert!(!dog.is_held());
        assert_eq!((watch.holds(), watch.longest()), (1, Duration::from_millis(40)));
    }

    #[test]
    fn a_shard_works_when_it_does_not_wait() {
        let watch = Watch::new();
        let worked_ms = |ms| watch.worked_ns(watch.origin() + Duration::from_millis(ms)) / 1_000_000;
        assert_eq!(worked_ms(5), 5, "it begins with work");
        watch.waits(10_000_000);
        assert_eq!([worked_ms(10), worked_ms(90)], [10, 10]);
        watch.works(70_000_000);
        assert_eq!([worked_ms(80), worked_ms(100)], [10, 30], "also in the midst of it");
        watch.waits(30_000_000);
        assert_eq!(worked_ms(500), 30);
    }

    #[test]
    fn short_runs_and_idleness_are_no_news() {
        let (watch, start) = (Watch::new(), Instant::now());
        let mut dog = Watchdog::new(watch.clone(), LIMIT, start);
        for ms in (0..1_000).step_by(30) {
            assert_eq!(dog.look(start + Duration::from_millis(ms)), None);
            watch.enter(Name::intern("quick"));
            if ms % 60 == 0 {
                watch.leave();
                watch.enter(Name::intern("quick"));
            }
            watch.leave();
        }
    }
}
