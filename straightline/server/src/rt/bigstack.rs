//! Large stacks for single deep calls, kept for the next one.

use super::arena::{GUARD_BYTES, PAGE_BYTES};
use super::guard::{guard, kind};
use super::overflow;
use corosensei::stack::{Stack, StackPointer};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// Largest stack to be borrowed, in bytes: what a thread may have on common systems, eight times over.
pub const BIG_STACK_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A large stack. There are few, and they are never unmapped: the handler of a stack overflow may look at the list
/// of them at any time.
struct Big {
    start: usize,
    stack_bytes: usize,
    taken: AtomicBool,
    next: *const Big,
}

static STACKS: AtomicPtr<Big> = AtomicPtr::new(std::ptr::null_mut());

fn all() -> impl Iterator<Item = &'static Big> {
    let mut at = STACKS.load(Ordering::Acquire).cast_const();
    std::iter::from_fn(move || {
        // SAFETY: The list holds null at its end and otherwise leaked values that are never changed but for `taken`.
        let big = unsafe { at.as_ref() }?;
        at = big.next;
        Some(big)
    })
}

/// The size of the large stack whose guard `address` lies in. Safe to call from a signal handler.
pub(crate) fn guarded(address: usize) -> Option<usize> {
    all().find(|big| (big.start..big.start + GUARD_BYTES).contains(&address)).map(|big| big.stack_bytes)
}

/// A large stack for one call.
struct Borrowed(&'static Big);

impl Borrowed {
    fn new(bytes: usize) -> io::Result<Self> {
        let fits = |big: &&Big| {
            big.stack_bytes >= bytes
                && big.stack_bytes < 2 * bytes
                && !big.taken.swap(true, Ordering::Acquire)
        };
        match all().find(fits) {
            Some(big) => Ok(Self(big)),
            None => map(bytes).map(Self),
        }
    }
}

fn map(stack_bytes: usize) -> io::Result<&'static Big> {
    // A program without a shard has nobody else who would see to it.
    overflow::prepare();
    let bytes = stack_bytes + GUARD_BYTES;
    // SAFETY: A fresh mapping at an address of the kernel's choice touches no memory that exists.
    let start = unsafe {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, flags)?
    };
    if let Err(error) = guard(start.cast(), GUARD_BYTES, kind()) {
        // SAFETY: It was mapped above, and nobody else knows of it.
        unsafe { munmap(start, bytes) }.ok();
        return Err(error);
    }
    let mut next = STACKS.load(Ordering::Acquire);
    let big =
        Box::leak(Box::new(Big { start: start as usize, stack_bytes, taken: AtomicBool::new(true), next }));
    let pointer: *mut Big = big;
    while let Err(newer) = STACKS.compare_exchange(next, pointer, Ordering::AcqRel, Ordering::Acquire) {
        next = newer;
        // SAFETY: The value is not in the list yet, so nobody else sees it.
        unsafe { (*pointer).next = next };
    }
    // SAFETY: It was leaked above, so it lives for good.
    Ok(unsafe { &*pointer })
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        // SAFETY: The range is this stack above its guard; its call is over, so nothing refers to its bytes.
        unsafe {
            let bottom = self.0.start + GUARD_BYTES;
            madvise(bottom as *mut _, self.0.stack_bytes - PAGE_BYTES, Advice::LinuxDontNeed).ok();
        }
        self.0.taken.store(false, Ordering::Release);
    }
}

// SAFETY: The stack is the caller's alone while `taken`, has a guard at its low end, and is never unmapped.
unsafe impl Stack for Borrowed {
    fn base(&self) -> StackPointer {
        let top = self.0.start + GUARD_BYTES + self.0.stack_bytes;
        StackPointer::new(top).expect("the kernel maps nothing at address zero")
    }

    fn limit(&self) -> StackPointer {
        StackPointer::new(self.0.start).expect("the kernel maps nothing at address zero")
    }
}

/// Calls `deep` on a stack of at least `bytes`, and goes on with the caller's own afterwards.
///
/// The call may wait like any other code of a handler.
///
/// # Errors
///
/// If `bytes` is over [`BIG_STACK_BYTES_MAX`], or the kernel gives no memory.
pub fn with_big_stack<R>(bytes: usize, deep: impl FnOnce() -> R) -> io::Result<R> {
    if bytes > BIG_STACK_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the stack asked for is over 64 MiB"));
    }
    let mut stack = Borrowed::new(bytes.max(PAGE_BYTES * 4).next_multiple_of(PAGE_BYTES))?;
    Ok(corosensei::on_stack(&mut stack, deep))
}
