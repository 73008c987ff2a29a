//! What ended the waits of an arm's threads, per request, where that was seen.

use model::record::{EndedBy, Frame, PassKind, WaitLeaf, Waits, Window};

use super::asker::{asker, is_own_of_python, place};
use super::metric::in_window;
use super::observed::IDLE_THREADS;
use super::passes::{PassFindings, is_used};
use super::sheet::Sheet;

/// Part of the names of the kernel's functions in which a call sleeps.
const SLEEPS: [&str; 1] = ["nanosleep"];
/// Parts of the names of functions that take a lock; a thread that waits for work takes it in others.
const LOCKS: [&str; 8] = [
    "pthread_mutex_lock",
    "pthread_rwlock",
    "lll_lock_wait",
    "Mutex",
    "RwLock",
    "ObjectMonitor::enter",
    "ObjectSynchronizer::enter",
    "PyThread_acquire_lock",
];
/// Parts of the names of functions that wait for work, and take its lock on the way.
const CONDITIONS: [&str; 5] = ["cond", "Condvar", "ObjectMonitor::wait", "Condition.wait", "SimpleQueue_get"];
/// Functions of Python that do nothing but take its one lock. They ask for it anew every five milliseconds, so that a timer that
/// ends such a wait is still a wait for the lock.
const INTERPRETER_LOCK: [&str; 4] =
    ["take_gil", "PyEval_RestoreThread", "PyEval_AcquireThread", "PyGILState_Ensure"];
/// Waits of one kind in one place.
#[derive(Debug, Clone)]
pub(crate) struct Waited {
    pub(crate) ended_by: EndedBy,
    /// What had ended the last wait of the thread that ended it.
    pub(crate) behind: Option<EndedBy>,
    pub(crate) by: Option<String>,
    /// The function of the program in which it waited, and in which the other one was that let it go on.
    pub(crate) waited_in: Option<Frame>,
    pub(crate) woken_from: Option<Frame>,
    /// Whether the program asked for no more than that time passes.
    pub(crate) is_sleep: bool,
    /// Whether it waits for a lock, and not for work.
    pub(crate) is_in_lock: bool,
    /// Whether a runtime had no work for the thread, and let it go on by itself.
    pub(crate) is_idle: bool,
    /// Of each request, in nanoseconds.
    pub(crate) ns: f64,
    /// How many there are of each request.
    pub(crate) count: f64,
}

impl Waited {
    fn from_leaf(waits: &Waits, leaf: &WaitLeaf, each: impl Fn(u64) -> f64) -> Self {
        let is_in = |names: &[&str]| {
            // A program's own functions in Python may have any name.
            let mut frames = waits.frames_of(&leaf.waited_in).filter(|frame| !is_own_of_python(frame));
            frames.any(|frame| names.iter().any(|name| frame.name.contains(name)))
        };
        let interpreter = is_in(&INTERPRETER_LOCK);
        let asks_anew = interpreter && leaf.ended_by == EndedBy::Timer;
        Self {
            ended_by: if asks_anew { EndedBy::Lock } else { leaf.ended_by },
            behind: leaf.behind,
            by: leaf.by.clone(),
            waited_in: place(|| waits.frames_of(&leaf.waited_in)).cloned(),
            woken_from: place(|| waits.frames_of(&leaf.woken_from)).cloned(),
            is_sleep: leaf.ended_by == EndedBy::Timer && is_in(&SLEEPS),
            is_in_lock: interpreter || is_in(&LOCKS) && !is_in(&CONDITIONS),
            is_idle: is_in(&IDLE_THREADS) && asker(waits.frames_of(&leaf.woken_from)).is_none(),
            ns: each(leaf.ns),
            count: each(leaf.count),
        }
    }

    /// Whether there was no work: a client had sent nothing, to the thread or to the one that gives it work, or a runtime keeps it for later.
    pub(crate) fn is_without_work(&self) -> bool {
        let is_client =
            |ended_by| matches!(ended_by, EndedBy::Client | EndedBy::Connection | EndedBy::Network);
        let by_thread = matches!(self.ended_by, EndedBy::Thread | EndedBy::Lock | EndedBy::Child);
        let for_work = self.is_idle || self.behind.is_some_and(is_client);
        is_client(self.ended_by) || by_thread && !self.is_in_lock && for_work
    }
}

/// All waits of `arm`, where the passes that record them are used.
pub(crate) fn waited(sheet: &Sheet, arm: &str, passes: &[PassFindings]) -> Vec<Waited> {
    if !is_used(passes, arm, PassKind::Waking) {
        return Vec::new();
    }
    let records = sheet.run.diagnostics.iter().filter(|record| record.arm == arm);
    let passes = records.flat_map(|record| &record.passes);
    let watched: Vec<(&Window, &Waits)> =
        passes.filter_map(|pass| Some((&pass.window, pass.waits.as_ref()?))).collect();
    let requests = watched.iter().map(|(window, _)| window.load.requests).sum::<u64>().max(1) as f64;
    let of_pass = |(window, waits): &(&Window, &Waits)| {
        let each = |count: u64| in_window(window, count) / requests;
        waits.leaves.iter().map(|leaf| Waited::from_leaf(waits, leaf, each)).collect::<Vec<_>>()
    };
    watched.iter().flat_map(of_pass).collect()
}

#[cfg(test)]
mod tests {
    use model::record::PYTHON;

    use super::*;

    #[test]
    fn a_thread_of_python_waits_for_a_lock_or_for_work() {
        let python = |name: &str, file: &str| Frame {
            name: name.to_owned(),
            module: PYTHON.to_owned(),
            file: Some(file.to_owned()),
            ..Frame::default()
        };
        let native = |name: &str| Frame { name: name.to_owned(), ..Frame::default() };
        let [take, lock] = [python("seconds_left", "/srv/app.py"), native("PyThread_acquire_lock_timed")];
        let wait = python("Condition.wait", "/usr/lib/python3.12/threading.py");
        for (stack, in_lock) in [
            (vec![take.clone(), lock.clone()], true),
            (vec![take.clone(), wait, lock.clone()], false),
            (vec![take, native("_queue_SimpleQueue_get_impl"), lock], false),
        ] {
            let leaf = WaitLeaf {
                ended_by: EndedBy::Lock,
                behind: None,
                by: None,
                waited_in: (0..3).take(stack.len()).collect(),
                woken_from: Vec::new(),
                count: 1,
                ns: 1,
            };
            let waits = Waits { frames: stack, ..Waits::default() };
            let waited = Waited::from_leaf(&waits, &leaf, |all| all as f64);
            assert_eq!(waited.is_in_lock, in_lock, "{waited:?}");
        }
    }
}
