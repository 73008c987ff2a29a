//! The runtime under the server: coroutines that wait without holding up their thread.
//!
//! A *shard* is a thread with its own descriptors, timers and stacks. Coroutines are born on a shard, run only there
//! and end there. Every call here also works on a plain thread, where it blocks that thread; so the same handler runs
//! on a thread per connection.
//!
//! Rules for code in coroutines, each of which the [watchdog](crate::Event::ShardHeld) or a test watches:
//!
//! - Work that takes the CPU for long goes to [`blocking`], and so do calls that block the thread.
//! - A `std::sync::Mutex` or a `RefCell` borrow is not held over a call that waits; [`Mutex`] may be.
//! - A call that waits fails, with an error that [`is_cancelled`] knows, when the coroutine is cancelled, when the time
//!   of its handler is over ([`Limits::handler_time`](crate::Limits::handler_time)), and while it unwinds from a panic.

// The only modules with unsafe code, each block with its reason.
#[allow(unsafe_code)]
mod arena;
#[allow(unsafe_code)]
mod bigstack;
pub(crate) mod cpus;
#[allow(unsafe_code)]
mod deaf;
#[allow(unsafe_code)]
pub(crate) mod driver;
#[allow(unsafe_code)]
mod guard;
#[allow(unsafe_code)]
mod handover;
pub(crate) mod net;
#[allow(unsafe_code)]
mod overflow;
#[allow(unsafe_code)]
pub(crate) mod pages;
#[allow(unsafe_code)]
pub(crate) mod shard;
pub(crate) mod slab;
mod sync;
pub(crate) mod sys;
mod task;
pub(crate) mod time_limit;
pub(crate) mod waker;
#[allow(unsafe_code)]
pub(crate) mod watch;
mod wheel;

pub(crate) use deaf::deafen;
pub(crate) use handover::handed_over;
pub(crate) use task::TURN_BYTES;
pub(crate) use wheel::TimerKey;

pub use arena::{STACK_BYTES, STACK_BYTES_MAX, STACK_BYTES_MIN};
pub use bigstack::{BIG_STACK_BYTES_MAX, with_big_stack};
pub use net::TcpStream;
pub use sync::{Condvar, Mutex, MutexGuard, Receiver, Sender, channel};
pub use task::{JoinHandle, blocking, run, sleep, spawn, yield_now};
pub use waker::{Cancelled, is_cancelled};

/// How the stacks of this process are guarded, in words.
pub(crate) fn guard_kind() -> &'static str {
    match guard::kind() {
        guard::GuardKind::Markers => "page-table",
        guard::GuardKind::Protect => "mprotect",
    }
}
