//! When a script must have ended: what stops it then, and the end of the program where nothing does.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use script::Limit;

use crate::exit::Exit;

/// How long a script may take before the first request, and again to sum up: a large file of paths is read in less.
pub(super) const ALONE: Duration = Duration::from_secs(60);
/// How long after the window a call may end that began in it: what has not ended by then does not end.
const GRACE: Duration = Duration::from_secs(1);
/// How long after its deadline the program ends without a script. The hook stops one within a millisecond of its thread's
/// having a CPU, but does not reach into a single call such as `string.find`, whose pattern may backtrack for years.
const LAST_GRACE: Duration = Duration::from_secs(3);
/// How often that is looked at: seldom for a core that is shared with a worker.
const LOOK: Duration = Duration::from_millis(500);

/// What a script is stopped for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Why {
    Begin,
    Window,
    Sum,
}

/// In the order of [`Why`].
const WHY: [&str; 3] =
    ["it took 60s before the first request", "the window is over", "it took 60s to sum up"];

/// When a script must have ended, and what to say where it has not.
#[derive(Debug)]
pub(crate) struct Deadline {
    file: String,
    since: Instant,
    after_ns: AtomicU64,
    why: AtomicU8,
    calls: Mutex<Vec<Calls>>,
}

/// Whether a script is being called on one thread.
#[derive(Debug, Clone, Default)]
pub(super) struct Calls(Arc<Inside>);

/// On cache lines that it shares with nobody: it is written to twice for a request.
///
/// Source: Intel, "Optimization Reference Manual", 3.7.3: lines are fetched in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Inside(AtomicBool);

impl Calls {
    /// Calls the script.
    #[inline]
    pub(super) fn mark<T>(&self, call: impl FnOnce() -> T) -> T {
        self.0.0.store(true, Ordering::Relaxed);
        let returned = call();
        self.0.0.store(false, Ordering::Relaxed);
        returned
    }
}

impl Deadline {
    /// None yet; watched from now on until it is dropped.
    pub(super) fn watched(file: &Path) -> Arc<Self> {
        let deadline = Arc::new(Self {
            file: file.display().to_string(),
            since: Instant::now(),
            after_ns: AtomicU64::new(u64::MAX),
            why: AtomicU8::new(0),
            calls: Mutex::default(),
        });
        let watched = Arc::downgrade(&deadline);
        std::thread::spawn(move || {
            while watched.upgrade().is_some_and(|deadline| deadline.is_kept()) {
                std::thread::sleep(LOOK);
            }
        });
        deadline
    }

    pub(super) fn set(&self, why: Why, left: Duration) {
        let after = self.since.elapsed().saturating_add(left);
        self.why.store(why as u8, Ordering::Relaxed);
        self.after_ns.store(u64::try_from(after.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(super) fn lift(&self) {
        self.after_ns.store(u64::MAX, Ordering::Relaxed);
    }

    /// The calls of one more thread.
    pub(super) fn calls(&self) -> Calls {
        let calls = Calls::default();
        // A list of flags is whole whoever panicked beside it.
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).push(calls.clone());
        calls
    }

    pub(super) fn limit(self: &Arc<Self>) -> Limit {
        let own = Arc::clone(self);
        Arc::new(move || own.is_past(Duration::ZERO).then(|| own.why()))
    }

    /// Follows the run: from the begin of its window on, a script has until its end.
    pub(crate) fn follow(&self, event: &load::Event<'_>, window: Duration) {
        match event {
            load::Event::WindowStart { .. } => self.set(Why::Window, window.saturating_add(GRACE)),
            load::Event::WindowEnd { .. } | load::Event::Failed => self.set(Why::Window, GRACE),
            _ => {}
        }
    }

    fn why(&self) -> &'static str {
        WHY[usize::from(self.why.load(Ordering::Relaxed))]
    }

    /// Whether the deadline was so long ago.
    fn is_past(&self, ago: Duration) -> bool {
        let after_ns = u128::from(self.after_ns.load(Ordering::Relaxed));
        self.since.elapsed().as_nanos() > after_ns + ago.as_nanos()
    }

    fn is_inside(&self) -> bool {
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.iter().any(|calls| calls.0.0.load(Ordering::Relaxed))
    }

    /// Ends the program where it is not: the threads wait for each other, and so for a script that does not come back.
    fn is_kept(&self) -> bool {
        if self.is_past(LAST_GRACE) && self.is_inside() {
            let (file, why) = (&self.file, self.why());
            crate::say(&format!(
                "error: {file}: {why}, and {}s later it is still in one call that cannot be interrupted, such as a string.find that backtracks: there are no figures; shorten what it searches",
                LAST_GRACE.as_secs()
            ));
            let begun = self.why.load(Ordering::Relaxed) != Why::Begin as u8;
            std::process::exit(if begun { Exit::Failed } else { Exit::Usage } as i32);
        }
        true
    }
}
