//! What ended the waits of an arm's threads, per request, where that was seen.

use model::record::{EndedBy, Frame, PassKind, RUBY, WaitLeaf, Waits, Window};

use super::asker::{asker, is_own_of_interpreter, place};
use super::metric::in_window;
use super::observed::IDLE_THREADS;
use super::passes::{PassFindings, is_used};
use super::sheet::Sheet;

/// Parts of the names of functions in which a thread sleeps: of the kernel, and of a runtime that sleeps in a futex.
const SLEEPS: [&str; 2] = ["nanosleep", "JVM_Sleep"];
/// Ruby's own methods that sleep, that wait until somebody sends something, and in which a thread waits for another one to give it something,
/// of whichever class: some of the last sleep meanwhile. Source: CRuby, process.c, io.c, thread.c, thread_sync.c; io/wait; monitor.rb.
const SLEEPS_OF_RUBY: [&str; 1] = ["sleep"];
const SELECTS_OF_RUBY: [&str; 2] = ["select", "wait_readable"];
const CONDITIONS_OF_RUBY: [&str; 10] =
    ["wait", "wait_for_cond", "pop", "shift", "deq", "push", "enq", "<<", "join", "value"];
/// Parts of the names of the kernel's functions in which a call waits for descriptors.
const POLLS: [&str; 2] = ["sys_poll", "select"];
/// Parts of the names of functions that take a lock; a thread that waits for work takes it in others.
const LOCKS: [&str; 9] = [
    "pthread_mutex_lock",
    "pthread_rwlock",
    "lll_lock_wait",
    "Mutex",
    "RwLock",
    "ObjectMonitor::enter",
    "ObjectSynchronizer::enter",
    "PyThread_acquire_lock",
    "AbstractQueuedSynchronizer.acquire",
];
/// Parts of the names of functions that wait for work, and take its lock on the way.
const CONDITIONS: [&str; 7] = [
    "cond",
    "Condvar",
    "ObjectMonitor::wait",
    "Condition.wait",
    "ConditionObject",
    "SimpleQueue_get",
    "BlockingQueue",
];
/// End of the name of the JVM's library.
const JVM: &str = "libjvm.so";
/// Functions of Python that do nothing but take its one lock. They ask for it anew every five milliseconds, so that a timer that
/// ends such a wait is still a wait for the lock.
const INTERPRETER_LOCK: [&str; 4] =
    ["take_gil", "PyEval_RestoreThread", "PyEval_AcquireThread", "PyGILState_Ensure"];

/// In what a thread of Ruby waits, by the methods of Ruby itself that the program's innermost function called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InRuby {
    Sleep,
    /// Until somebody sends something.
    Select,
    /// Until another thread gives it something.
    Condition,
    Other,
}

impl InRuby {
    /// Nothing where what Ruby ran is not known.
    fn of<'a>(frames: impl DoubleEndedIterator<Item = &'a Frame>) -> Option<Self> {
        let mut frames = frames.rev().filter(|frame| frame.module == RUBY).peekable();
        frames.peek()?;
        let called = frames.take_while(|frame| !is_own_of_interpreter(frame));
        let called: Vec<&str> = called.map(|frame| frame.name.as_str()).collect();
        let is_in = |methods: &[&str]| called.iter().any(|name| methods.contains(name));
        Some(match () {
            () if is_in(&CONDITIONS_OF_RUBY) => Self::Condition,
            () if is_in(&SLEEPS_OF_RUBY) => Self::Sleep,
            () if is_in(&SELECTS_OF_RUBY) => Self::Select,
            () => Self::Other,
        })
    }

    /// Whether a thread in it that another one let go on had waited for a lock: one of the program's, or that of the interpreter, which
    /// every method asks for anew that gave it away.
    fn is_in_lock(self) -> bool {
        self != Self::Condition
    }
}

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
    /// Whether it waited until somebody sends something, and nobody did in time.
    pub(crate) is_unasked: bool,
    /// Whether it had begun before watching did: nobody knows where.
    pub(crate) begun_before: bool,
    /// Whether a process waited that none but others of the server ask.
    pub(crate) of_service: bool,
    /// Of each request, in nanoseconds.
    pub(crate) ns: f64,
    /// How many there are of each request.
    pub(crate) count: f64,
}

impl Waited {
    fn from_leaf(waits: &Waits, leaf: &WaitLeaf, each: impl Fn(u64) -> f64) -> Self {
        let telling = telling(waits.frames_of(&leaf.waited_in));
        let is_in =
            |names: &[&str]| telling.iter().any(|frame| names.iter().any(|name| frame.name.contains(name)));
        let in_ruby = InRuby::of(waits.frames_of(&leaf.waited_in));
        let interpreter = is_in(&INTERPRETER_LOCK);
        let asks_anew = interpreter && leaf.ended_by == EndedBy::Timer;
        let is_in_lock_of_ruby = leaf.ended_by == EndedBy::Lock && in_ruby.is_some_and(InRuby::is_in_lock);
        Self {
            ended_by: if asks_anew { EndedBy::Lock } else { leaf.ended_by },
            behind: leaf.behind,
            by: leaf.by.clone(),
            waited_in: place(|| waits.frames_of(&leaf.waited_in)).cloned(),
            woken_from: place(|| waits.frames_of(&leaf.woken_from)).cloned(),
            is_sleep: leaf.ended_by == EndedBy::Timer && (is_in(&SLEEPS) || in_ruby == Some(InRuby::Sleep)),
            is_in_lock: interpreter || is_in_lock_of_ruby || is_in(&LOCKS) && !is_in(&CONDITIONS),
            is_unasked: leaf.ended_by == EndedBy::Timer && in_ruby == Some(InRuby::Select) && is_in(&POLLS),
            is_idle: is_in(&IDLE_THREADS) && asker(waits.frames_of(&leaf.woken_from)).is_none(),
            begun_before: leaf.waited_in.is_empty(),
            of_service: leaf.of_service,
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
        is_client(self.ended_by) || self.is_unasked || by_thread && !self.is_in_lock && for_work
    }
}

/// The functions of a stack, outermost first, whose names say what kind of wait it is.
fn telling<'a>(frames: impl Iterator<Item = &'a Frame>) -> Vec<&'a Frame> {
    let mut in_jvm = false;
    let tells = |frame: &&Frame| {
        in_jvm |= frame.module.ends_with(JVM);
        // The JVM waits for whatever it is in a condition of the C library, and a program's own functions in Python or Ruby may have any name.
        let is_means = in_jvm && !frame.kernel && !frame.module.ends_with(JVM);
        !is_means && frame.module != RUBY && !is_own_of_interpreter(frame)
    };
    frames.filter(tells).collect()
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

    fn leaf(ended_by: EndedBy, stack: &[Frame]) -> WaitLeaf {
        WaitLeaf {
            ended_by,
            behind: None,
            by: None,
            of_service: false,
            waited_in: (0..).take(stack.len()).collect(),
            woken_from: Vec::new(),
            count: 1,
            ns: 1,
        }
    }

    fn waited_in(ended_by: EndedBy, stack: Vec<Frame>) -> Waited {
        let leaf = leaf(ended_by, &stack);
        Waited::from_leaf(&Waits { frames: stack, ..Waits::default() }, &leaf, |all| all as f64)
    }

    #[test]
    fn a_thread_of_ruby_sleeps_or_waits_for_a_lock_or_for_work() {
        let own = |name: &str| (name.to_owned(), "/srv/app.rb");
        let of_c = |name: &str| (name.to_owned(), "/usr/lib/x86_64-linux-gnu/libruby-3.1.so.3.1.2");
        for (ended_by, methods, is_sleep, in_lock) in [
            (EndedBy::Timer, vec![own("rest"), of_c("sleep")], true, false),
            // It would have been woken.
            (EndedBy::Timer, vec![own("rest"), of_c("wait"), of_c("sleep")], false, false),
            (EndedBy::Timer, vec![own("sleep"), of_c("select")], false, false),
            (EndedBy::Lock, vec![own("bill"), of_c("synchronize")], false, true),
            (EndedBy::Lock, vec![own("bill"), of_c("pop")], false, false),
            (
                EndedBy::Lock,
                vec![own("bill"), of_c("synchronize"), own("wait"), of_c("wait"), of_c("sleep")],
                false,
                false,
            ),
            // The lock of the interpreter, after a system call.
            (EndedBy::Lock, vec![own("pop"), of_c("read_nonblock")], false, true),
            (EndedBy::Thread, vec![own("bill"), of_c("read_nonblock")], false, false),
        ] {
            let frame = |(name, file): &(String, &str)| Frame {
                name: name.clone(),
                module: RUBY.to_owned(),
                resolved: true,
                file: Some((*file).to_owned()),
                ..Frame::default()
            };
            let native = |name: &str| Frame { name: name.to_owned(), ..Frame::default() };
            let asked = methods.iter().rfind(|(_, file)| file.ends_with(".rb")).unwrap().0.clone();
            let waited =
                waited_in(ended_by, methods.iter().map(frame).chain([native("__futex_wait")]).collect());
            assert_eq!((waited.is_sleep, waited.is_in_lock), (is_sleep, in_lock), "{methods:?}");
            assert_eq!(waited.waited_in.map(|frame| frame.name), Some(asked), "{methods:?}");
        }
    }

    #[test]
    fn who_waits_in_vain_for_a_request_is_without_work() {
        for (own, method, call, without_work) in [
            ("/srv/puma/client.rb", "select", "do_sys_poll", true),
            ("/srv/puma/client.rb", "select", "do_select", true),
            // Of no descriptors: it sleeps.
            ("/srv/app.rb", "select", "futex_wait", false),
            ("/srv/app.rb", "sleep", "do_sys_poll", false),
        ] {
            let ruby = |name: &str, file: &str| Frame {
                name: name.to_owned(),
                module: RUBY.to_owned(),
                file: Some(file.to_owned()),
                ..Frame::default()
            };
            let kernel = Frame { name: call.to_owned(), kernel: true, ..Frame::default() };
            let stack = vec![ruby("reset", own), ruby(method, "/usr/lib/libruby-3.1.so.3.1"), kernel];
            let waited = waited_in(EndedBy::Timer, stack);
            assert_eq!(waited.is_without_work(), without_work, "{waited:?}");
        }
    }

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
            let waited = waited_in(EndedBy::Lock, stack);
            assert_eq!(waited.is_in_lock, in_lock, "{waited:?}");
        }
    }

    #[test]
    fn a_thread_of_java_sleeps_or_waits_for_a_lock_or_for_work() {
        let [acquire, take] = ["AbstractQueuedSynchronizer.acquire", "LinkedBlockingQueue.take"]
            .map(|name| format!("java.util.concurrent.{name}"));
        for (ended_by, own, jvm, is_sleep, in_lock) in [
            (EndedBy::Timer, "java.lang.Thread.sleep", "JVM_Sleep", true, false),
            (EndedBy::Lock, &acquire, "Unsafe_Park", false, true),
            (EndedBy::Lock, &take, "Unsafe_Park", false, false),
            (EndedBy::Lock, "com.shop.Cart.load", "ObjectMonitor::enter(JavaThread*)", false, true),
            (EndedBy::Lock, "com.shop.Cart.load", "ObjectMonitor::wait(long, bool)", false, false),
        ] {
            let frame = |name: &str, module: &str| Frame {
                name: name.to_owned(),
                module: module.to_owned(),
                ..Frame::default()
            };
            let kernel = Frame { kernel: true, ..frame("futex_wait", "[kernel]") };
            let [jvm, condition] =
                [frame(jvm, "/usr/lib/jvm/libjvm.so"), frame("___pthread_cond_wait", "libc.so.6")];
            let waited = waited_in(ended_by, vec![frame(own, "[jit]"), jvm, condition, kernel]);
            assert_eq!((waited.is_sleep, waited.is_in_lock), (is_sleep, in_lock), "{waited:?}");
        }
    }
}
