//! Says which handler overflowed its stack, and then lets the signal do what it does by default.

use super::arena::{Arena, GUARD_BYTES};
use super::bigstack;
use super::watch::Watch;
use std::cell::Cell;
use std::mem::MaybeUninit;
use std::sync::{Arc, Once};

/// Stack on which the signal is handled where the thread brings none, in bytes: the handler formats one line.
const SIGNAL_STACK_BYTES: usize = 64 * 1024;
const SIGNALS: [libc::c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// Where the stacks of a thread lie. Plain numbers and a pointer, so that the signal handler can read it.
#[derive(Clone, Copy)]
struct Watched {
    start: usize,
    end: usize,
    stride: usize,
    stack_bytes: usize,
    watch: *const Watch,
}

thread_local! {
    static WATCHED: Cell<Option<Watched>> = const { Cell::new(None) };
}

/// Watches for overflows on this thread until [`forget`]; both must outlive that.
pub(crate) fn watch_for(arena: &Arena, watch: &Arc<Watch>) {
    prepare();
    ensure_signal_stack();
    let (range, stride) = arena.layout();
    let (start, end, stack_bytes) = (range.start, range.end, arena.stack_bytes());
    WATCHED.set(Some(Watched { start, end, stride, stack_bytes, watch: Arc::as_ptr(watch) }));
}

/// Sees to it that overflows are told of.
pub(crate) fn prepare() {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(install);
}

pub(crate) fn forget() {
    WATCHED.set(None);
}

/// The actions that were there before ours, in the order of [`SIGNALS`].
static mut PREVIOUS: [MaybeUninit<libc::sigaction>; 2] = [MaybeUninit::uninit(), MaybeUninit::uninit()];

fn install() {
    for (place, signal) in SIGNALS.into_iter().enumerate() {
        // SAFETY: All zeros is a valid `sigaction`; the pointers are to live values. `install` runs once, before any
        // signal can reach `on_fault`, so nothing else touches `PREVIOUS`.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_fault as extern "C" fn(_, _, _) as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            let previous = (&raw mut PREVIOUS[place]).cast::<libc::sigaction>();
            libc::sigaction(signal, std::ptr::null(), previous);
            libc::sigaction(signal, &action, std::ptr::null_mut());
        }
    }
}

/// Threads of the standard library have a signal stack; threads of others may not.
fn ensure_signal_stack() {
    // SAFETY: All zeros is a valid `stack_t`, filled in by the kernel.
    let mut stack: libc::stack_t = unsafe { std::mem::zeroed() };
    // SAFETY: The pointer is to a live value; a null new stack changes nothing.
    unsafe { libc::sigaltstack(std::ptr::null(), &mut stack) };
    if stack.ss_flags & libc::SS_DISABLE == 0 {
        return;
    }
    // The thread may take a signal at any time until it ends, so its stack is never freed.
    let memory = Box::leak(vec![0u8; SIGNAL_STACK_BYTES].into_boxed_slice());
    stack = libc::stack_t { ss_sp: memory.as_mut_ptr().cast(), ss_flags: 0, ss_size: memory.len() };
    // SAFETY: The memory lives for good and serves nothing else.
    unsafe { libc::sigaltstack(&stack, std::ptr::null_mut()) };
}

/// The size of the stack whose guard `address` hits, and the name of its handler, which a plain thread does not know.
fn overflowed(address: usize) -> Option<(usize, Option<&'static str>)> {
    let watched = WATCHED.get();
    // SAFETY: The watch lives until `forget`, which clears `WATCHED` on this same thread.
    let name = watched.map(|watched| unsafe { &*watched.watch }.name().text());
    // Plain threads borrow large stacks too.
    if let Some(bytes) = bigstack::guarded(address) {
        return Some((bytes, name));
    }
    let watched = watched?;
    let in_arena = (watched.start..watched.end).contains(&address);
    let in_guard = in_arena && (address - watched.start) % watched.stride < GUARD_BYTES;
    in_guard.then_some((watched.stack_bytes, name))
}

extern "C" fn on_fault(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: The kernel passes a valid `siginfo_t` to a handler with `SA_SIGINFO`.
    let address = unsafe { (*info).si_addr() } as usize;
    if let Some((bytes, name)) = overflowed(address) {
        report(bytes, name);
        return default_action(signal);
    }
    // SAFETY: `PREVIOUS` was filled in before this handler was installed and is never written again.
    let previous = unsafe {
        let place = usize::from(signal != SIGNALS[0]);
        (&raw const PREVIOUS[place]).cast::<libc::sigaction>().read()
    };
    match previous.sa_sigaction {
        libc::SIG_DFL | libc::SIG_IGN => default_action(signal),
        handler if previous.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: With `SA_SIGINFO` the stored number is a function of this type.
            let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                unsafe { std::mem::transmute(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: Without `SA_SIGINFO` the stored number is a function of this type.
            let handler: extern "C" fn(libc::c_int) = unsafe { std::mem::transmute(handler) };
            handler(signal);
        }
    }
}

/// The faulting instruction runs again after the handler, and this time the signal ends the process.
fn default_action(signal: libc::c_int) {
    // SAFETY: All zeros is a valid `sigaction`: the default action, no flags.
    unsafe {
        let action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, &action, std::ptr::null_mut());
    }
}

/// One line to the standard error stream, by one system call and without memory from the heap.
fn report(bytes: usize, name: Option<&str>) {
    let mut line = Line { text: [0; 1024], length: 0 };
    line.push("straightline: the stack of ");
    line.push_number(bytes / 1024);
    line.push(" KiB of ");
    match name {
        Some(name) => {
            line.push("handler `");
            line.push(name);
            line.push("`");
        }
        None => line.push("a plain thread"),
    }
    line.push(" overflowed; give it more by `stack_bytes`, or wrap the deep call in `rt::with_big_stack`\n");
    rustix::io::write(rustix::stdio::stderr(), &line.text[..line.length]).ok();
}

struct Line {
    text: [u8; 1024],
    length: usize,
}

impl Line {
    fn push(&mut self, text: &str) {
        let room = &mut self.text[self.length..];
        let taken = text.len().min(room.len());
        room[..taken].copy_from_slice(&text.as_bytes()[..taken]);
        self.length += taken;
    }

    fn push_number(&mut self, mut number: usize) {
        let mut digits = [0u8; 20];
        let mut start = digits.len();
        loop {
            start -= 1;
            digits[start] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                break;
            }
        }
        self.push(std::str::from_utf8(&digits[start..]).unwrap_or("?"));
    }
}
