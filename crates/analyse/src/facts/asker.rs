//! The function that waits, or lets another go on, and not what it does so with: the innermost frame outside of runtimes and of what
//! their libraries have for threads that wait for each other. One table for all languages.

use model::record::{Frame, is_interpreted};

use super::functions::{called, is_of_standard_library};

/// Beginnings of the file names of libraries that wait only because they are asked to: of C and C++.
const OF_C: [&str; 6] = ["libc.", "libc-", "libpthread", "ld-", "libstdc++", "libc++"];
/// The same of the runtimes of Java, Python, Node, Ruby and PHP.
const RUNTIMES: [&str; 12] = [
    "libjvm",
    "libjava.",
    "libnio.",
    "libnet.",
    "libpython",
    "python3",
    "libuv",
    "libruby",
    "ruby",
    "libphp",
    "php8",
    "php-",
];

/// Beginnings of the names of such functions, by language. Source: glibc, nptl; GCC, gthr-posix.h; Go, runtime/proc.go, sync,
/// golang.org/x/sync; OpenJDK, java.base; Rust, library/std; parking_lot; tokio.
const FUNCTIONS: [&[&str]; 5] = [
    // C and C++
    &[
        "pthread_",
        "lll_",
        "sem_wait",
        "sem_timedwait",
        "sem_clockwait",
        "new_sem_",
        "futex",
        "do_futex_wait",
        "GI_",
        "syscall",
        "nanosleep",
        "clock_nanosleep",
        "gthread_",
        "gthrw_",
        "clone",
        "start_thread",
        "libc_start",
        "libc_start_main",
        "std::",
    ],
    // Go: what a program imports has a host in its path, as golang.org/x/sync has.
    &[
        "runtime.",
        "runtime/",
        "sync.",
        "sync/",
        "internal/",
        "syscall.",
        "time.Sleep",
        "time.goFunc",
        "golang.org/x/sync/",
        // What passes bytes on; `net.` and `io.` begin names of Java, too.
        "net.(*",
        "net/",
        "io.(*",
        "io.Read",
        "io.copy",
        "bufio.(*",
        "crypto/tls.",
    ],
    // Java
    &["java.", "jdk.", "sun.", "Interpreter", "StubRoutines", "call_stub", "complete_monitor_locking_"],
    // Rust
    &[
        "core::",
        "alloc::",
        "parking_lot",
        "lock_api::",
        "tokio::",
        "mio::",
        "futures_util::",
        "futures_core::",
        "futures_channel::",
        "crossbeam",
    ],
    // Node
    &["uv_", "node::", "v8::", "Builtins_"],
];

/// Go's ways into a system call, which are of no more use as a place than those of the C library.
const CALLS_OF_GO: [&str; 3] = ["internal/runtime/syscall", "runtime/internal/syscall", "syscall."];

/// The innermost function that asked to wait; nothing where only runtimes and their libraries are seen.
pub(crate) fn asker<'a>(frames: impl DoubleEndedIterator<Item = &'a Frame>) -> Option<&'a Frame> {
    user(frames).find(|frame| !only_waits(frame))
}

/// The same, or else the innermost function of what it asked, outside of the C library and of runtimes if there is one.
pub(crate) fn place<'a, Frames>(frames: impl Fn() -> Frames) -> Option<&'a Frame>
where
    Frames: DoubleEndedIterator<Item = &'a Frame>,
{
    let is_of_c = |frame: &Frame| is_of(&OF_C, frame) || is_named(FUNCTIONS[0], frame);
    let tells =
        |frame: &&Frame| !is_of_c(frame) && !is_of(&RUNTIMES, frame) && !is_named(&CALLS_OF_GO, frame);
    asker(frames()).or_else(|| user(frames()).find(tells)).or_else(|| user(frames()).next())
}

fn user<'a>(frames: impl DoubleEndedIterator<Item = &'a Frame>) -> impl Iterator<Item = &'a Frame> {
    frames.rev().filter(|frame| !frame.kernel && frame.resolved)
}

fn only_waits(frame: &Frame) -> bool {
    is_of(&OF_C, frame)
        || is_of(&RUNTIMES, frame)
        || is_of_interpreters_library(frame)
        || FUNCTIONS.iter().any(|names| is_named(names, frame))
}

/// Whether a function is a program's own or a package's, in Python, Ruby or PHP.
pub(super) fn is_own_of_interpreter(frame: &Frame) -> bool {
    is_interpreted(&frame.module) && !is_of_interpreters_library(frame)
}

/// Whether a function is of what comes with Python, Ruby or PHP: `queue`, `threading`, `socket`; a method of Ruby or a function of PHP
/// that is written in C, of which the latter has no file.
fn is_of_interpreters_library(frame: &Frame) -> bool {
    is_interpreted(&frame.module) && frame.file.as_deref().is_none_or(is_of_standard_library)
}

fn is_of(libraries: &[&str], frame: &Frame) -> bool {
    libraries.iter().any(|begin| frame.module.starts_with(begin))
}

fn is_named(names: &[&str], frame: &Frame) -> bool {
    let name = called(&frame.name).trim_start_matches(['<', '&', '*', '(', '_']);
    names.iter().any(|begin| name.starts_with(begin))
}

#[cfg(test)]
mod tests {
    use model::record::{PHP, PYTHON, RUBY};

    use super::*;

    /// Frames, outermost first and with `;` between them: a name, or a name and the library that it is of, or its file of Python or Ruby.
    fn frames(stack: &str) -> Vec<Frame> {
        let frame = |name: &str| {
            let (name, module) = name.split_once(" @ ").unwrap_or((name, "server"));
            let language = match module {
                _ if module.ends_with(".py") => Some(PYTHON),
                _ if module.ends_with(".php") => Some(PHP),
                _ if module.ends_with(".rb") || module.starts_with("/usr/lib/libruby") => Some(RUBY),
                _ => None,
            };
            let file = language.map(|_| module.to_owned());
            let module = language.unwrap_or(module);
            let kernel = module == "[kernel]";
            let (name, module) = (name.to_owned(), module.to_owned());
            Frame { name, module, kernel, resolved: true, file, line: None }
        };
        stack.split(';').map(frame).collect()
    }

    fn name(frame: Option<&Frame>) -> Option<&str> {
        frame.map(|frame| frame.name.as_str())
    }

    #[test]
    fn who_waits_is_the_nearest_outside_of_what_waiting_is_made_of_in_every_language() {
        for (stack, expected) in [
            ("main.handle;sync.(*Mutex).Lock;internal/sync.(*Mutex).lockSlow;runtime.gopark", "main.handle"),
            (
                "main.handle;database/sql.(*DB).conn;runtime.selectgo;runtime.gopark",
                "database/sql.(*DB).conn",
            ),
            (
                "main.(*Conn).ask;bufio.(*Reader).ReadString;net.(*netFD).Read;runtime.gopark",
                "main.(*Conn).ask",
            ),
            ("net.sf.shop.Cart.load;java.util.concurrent.locks.ReentrantLock.lock", "net.sf.shop.Cart.load"),
            ("main.limit;golang.org/x/sync/semaphore.(*Weighted).Acquire;runtime.chanrecv1", "main.limit"),
            (
                "com.shop.Cart.load;java.util.concurrent.locks.ReentrantLock.lock;Parker::park @ libjvm.so",
                "com.shop.Cart.load",
            ),
            (
                "com.shop.Cart.load;_complete_monitor_locking_Java;ObjectMonitor::enter(JavaThread*) @ libjvm.so",
                "com.shop.Cart.load",
            ),
            (
                "com.shop.Pool.borrow;boolean java.util.concurrent.SynchronousQueue.poll(long);Unsafe_Park @ libjvm.so",
                "com.shop.Pool.borrow",
            ),
            ("take;acquire_timed @ python3.12;sem_clockwait @ libc.so.6", "take"),
            (
                "run @ /usr/lib/python3.12/threading.py;bill @ /srv/app.py;Queue.get @ /usr/lib/python3.12/queue.py;sem_wait @ libc.so.6",
                "bill",
            ),
            (
                "(main) @ /srv/index.php;App\\Bill::load @ /srv/src/Bill.php;fgets @ [php];php_sockop_read @ php-fpm8.2;poll @ libc.so.6",
                "App\\Bill::load",
            ),
            ("send @ /srv/lib/python3.12/site-packages/redis/client.py;recv @ libc.so.6", "send"),
            (
                "spawn @ /usr/lib/ruby/vendor_ruby/puma/thread_pool.rb;bill @ /srv/app.rb;synchronize @ /usr/lib/libruby-3.1.so.3.1;main @ ruby3.1;futex_wait @ libc.so.6",
                "bill",
            ),
            (
                "bill @ /srv/app.rb;mon_synchronize @ /usr/lib/ruby/3.1.0/monitor.rb;synchronize @ /usr/lib/libruby-3.1.so.3.1;futex_wait @ libc.so.6",
                "bill",
            ),
            (
                "bill @ /srv/app.rb;checkout @ /usr/lib/ruby/gems/3.1.0/gems/connection_pool-2.4.1/lib/connection_pool.rb;wait @ /usr/lib/libruby-3.1.so.3.1;futex_wait @ libc.so.6",
                "checkout",
            ),
            (
                "shop::Pool::take;<parking_lot::raw_mutex::RawMutex as lock_api::mutex::RawMutex>::lock",
                "shop::Pool::take",
            ),
            (
                "<shop::Take as core::future::Future>::poll;tokio::sync::Semaphore::acquire;std::sync::Mutex<T>::lock",
                "<shop::Take as core::future::Future>::poll",
            ),
            ("take_place;pthread_mutex_lock;__lll_lock_wait;futex_wait @ [kernel]", "take_place"),
            ("take_place;std::mutex::lock();__gthread_mutex_lock(pthread_mutex_t*)", "take_place"),
        ] {
            let frames = frames(stack);
            assert_eq!(name(asker(frames.iter())), Some(expected), "{stack}");
            assert_eq!(name(place(|| frames.iter())), Some(expected), "{stack}");
        }
    }

    #[test]
    fn where_only_a_runtime_is_seen_nobody_asked_and_the_place_is_in_it() {
        for (stack, expected) in [
            ("runtime.mcall;runtime.park_m;runtime.stopm;futex_wait @ [kernel]", "runtime.stopm"),
            (
                "runtime.findRunnable;runtime.netpoll;internal/runtime/syscall/linux.EpollWait;internal/runtime/syscall/linux.Syscall6",
                "runtime.netpoll",
            ),
            (
                "start_thread @ libc.so.6;mio::poll::Poll::poll;epoll_wait @ libc.so.6",
                "mio::poll::Poll::poll",
            ),
            ("JavaCalls::call_helper @ libjvm.so;futex @ libc.so.6", "futex"),
            (
                "Thread.run @ /usr/lib/python3.12/threading.py;_worker @ /usr/lib/python3.12/concurrent/futures/thread.py;sem_wait @ libc.so.6",
                "_worker",
            ),
            ("read @ libc.so.6;ksys_read @ [kernel]", "read"),
        ] {
            let frames = frames(stack);
            assert_eq!(name(asker(frames.iter())), None, "{stack}");
            assert_eq!(name(place(|| frames.iter())), Some(expected), "{stack}");
        }
    }
}
