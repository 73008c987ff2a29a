//! The stacks of one shard: one reserved stretch of address space, cut into slots.
//!
//! ```text
//! low addresses                                                        high addresses
//! | guard 0 |      stack 0 <- grows | guard 1 |      stack 1 <- grows | guard 2 | ...
//! ```
//!
//! Memory comes only with use. A slot is handed out again last freed first, so that a handler which never suspends
//! always runs on the same warm stack.

use super::guard::{GuardKind, guard};
use corosensei::stack::{Stack, StackPointer};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::cell::{Cell, RefCell};
use std::io;
use std::ptr::NonNull;
use std::rc::Rc;

/// Size of a stack unless the server says otherwise, in bytes: deep enough for a JSON or TLS library.
pub const STACK_BYTES: usize = 128 * 1024;
/// Smallest stack, in bytes: what formatting a panic message takes, with room to spare.
pub const STACK_BYTES_MIN: usize = 64 * 1024;
/// Largest stack, in bytes: above it, [`with_big_stack`](super::with_big_stack) borrows one for the deep call only.
pub const STACK_BYTES_MAX: usize = 1024 * 1024;
/// Guard below each stack, in bytes: larger than the frame of nearly every function that does not probe its stack.
pub(crate) const GUARD_BYTES: usize = 64 * 1024;
/// Memory kept by a free stack that is not in use, in bytes: what the next handler touches first.
const RESIDENT_BYTES: usize = 8 * 1024;
pub(crate) const PAGE_BYTES: usize = 4096;
/// Stacks asked about or trimmed at a time: each is a system call, and between coroutines nobody watches how long the
/// shard takes.
const AT_A_TIME: u32 = 256;

/// Address space for stacks, and which of them are free.
#[derive(Debug)]
pub(crate) struct Arena {
    start: NonNull<u8>,
    stack_bytes: usize,
    slots: u32,
    kind: GuardKind,
    free: RefCell<Vec<u32>>,
    /// Slots from here on have never been used and have no guard yet.
    fresh: Cell<u32>,
    /// Fewest free slots since the last trim: so many were not needed in that time.
    idle: Cell<usize>,
    /// So many of the longest-free slots gave their memory back already.
    trimmed: Cell<usize>,
    live_peak: Cell<u32>,
    /// Which stack is looked at next, and the most memory found in this round and in the last whole one, in bytes.
    looked: Cell<u32>,
    deepest: Cell<(usize, usize)>,
}

impl Arena {
    /// Reserves `slots` stacks of `stack_bytes` each.
    pub(crate) fn new(stack_bytes: usize, slots: u32, kind: GuardKind) -> io::Result<Rc<Self>> {
        let bytes = (stack_bytes + GUARD_BYTES) * slots as usize;
        // SAFETY: A fresh mapping at an address of the kernel's choice touches no memory that exists.
        let start = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )?
        };
        let arena = Self {
            start: NonNull::new(start.cast()).expect("the kernel maps nothing at address zero"),
            stack_bytes,
            slots,
            kind,
            free: RefCell::new(Vec::new()),
            fresh: Cell::new(0),
            idle: Cell::new(0),
            trimmed: Cell::new(0),
            live_peak: Cell::new(0),
            looked: Cell::new(0),
            deepest: Cell::default(),
        };
        // SAFETY: The range is the mapping just made. The advice changes only how its pages are backed: a huge page
        // would make each first touch of a stack cost 2 MiB.
        unsafe { madvise(start, bytes, Advice::LinuxNoHugepage) }.ok();
        Ok(Rc::new(arena))
    }

    fn stride(&self) -> usize {
        self.stack_bytes + GUARD_BYTES
    }

    /// Takes a free stack; `None` when all are in use, or the kernel refuses another guard.
    pub(crate) fn take(self: &Rc<Self>) -> Option<Slot> {
        let recycled = {
            let mut free = self.free.borrow_mut();
            let index = free.pop();
            self.idle.set(self.idle.get().min(free.len()));
            self.trimmed.set(self.trimmed.get().min(free.len()));
            index
        };
        let index = recycled.or_else(|| self.fresh_slot())?;
        self.live_peak.set(self.live_peak.get().max(self.live()));
        Some(Slot { arena: Rc::clone(self), index })
    }

    #[cold]
    fn fresh_slot(&self) -> Option<u32> {
        let index = self.fresh.get();
        if index == self.slots {
            return None;
        }
        guard(self.address(index) as *mut u8, GUARD_BYTES, self.kind).ok()?;
        self.fresh.set(index + 1);
        Some(index)
    }

    /// Lowest address of a slot, which is where its guard begins.
    fn address(&self, index: u32) -> usize {
        self.start.as_ptr() as usize + index as usize * self.stride()
    }

    /// Stacks in use now.
    pub(crate) fn live(&self) -> u32 {
        self.fresh.get() - self.free.borrow().len() as u32
    }

    /// Most stacks in use at one time so far.
    pub(crate) fn live_peak(&self) -> u32 {
        self.live_peak.get()
    }

    pub(crate) fn stack_bytes(&self) -> usize {
        self.stack_bytes
    }

    /// The range of addresses of all slots, and the distance from one to the next.
    pub(crate) fn layout(&self) -> (std::ops::Range<usize>, usize) {
        let start = self.address(0);
        (start..start + self.stride() * self.slots as usize, self.stride())
    }

    /// Gives the memory of stacks back that were not needed since the last trim, but for the top of each; whether more
    /// are left than are done at a time, for another call soon.
    pub(crate) fn trim(&self) -> bool {
        let free = self.free.borrow();
        let (trimmed, idle) = (self.trimmed.get(), self.idle.get());
        let end = idle.min(trimmed + AT_A_TIME as usize);
        for &index in free.get(trimmed..end).unwrap_or_default() {
            let bottom = self.address(index) + GUARD_BYTES;
            // SAFETY: The range lies in this arena, in a slot that is free: nothing refers to its bytes, and the next
            // tenant writes before it reads. The guard below it is not touched.
            unsafe {
                madvise(bottom as *mut _, self.stack_bytes - RESIDENT_BYTES, Advice::LinuxDontNeed).ok();
            }
        }
        self.trimmed.set(trimmed.max(end));
        let more = end < idle;
        if !more {
            self.idle.set(free.len());
        }
        more
    }

    /// The most memory that one stack holds, in bytes: how deep the deepest handler went since its last trim. Where
    /// there are many stacks, each call looks at some of them.
    pub(crate) fn high_water_bytes(&self) -> usize {
        let (start, used) = (self.looked.get(), self.fresh.get());
        let end = used.min(start + AT_A_TIME);
        let (deepest, before) = self.deepest.get();
        let found = (start..end).map(|index| self.resident_bytes(index)).max().unwrap_or(0);
        let deepest = deepest.max(found);
        if end < used {
            self.looked.set(end);
            self.deepest.set((deepest, before));
            return deepest.max(before);
        }
        self.looked.set(0);
        self.deepest.set((0, deepest));
        deepest
    }

    /// Bytes from the lowest page of a stack that has memory up to its top.
    fn resident_bytes(&self, index: u32) -> usize {
        let mut resident = [0u8; STACK_BYTES_MAX / PAGE_BYTES];
        let pages = self.stack_bytes / PAGE_BYTES;
        let bottom = self.address(index) + GUARD_BYTES;
        // SAFETY: The range lies in this arena, and `resident` has a byte for each of its pages.
        let outcome = unsafe { libc::mincore(bottom as *mut _, self.stack_bytes, resident.as_mut_ptr()) };
        if outcome != 0 {
            return 0;
        }
        let untouched = resident[..pages].iter().take_while(|&&page| page & 1 == 0).count();
        (pages - untouched) * PAGE_BYTES
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let (range, _) = self.layout();
        // SAFETY: Each slot in use holds the arena, so none is; the mapping is ours alone.
        unsafe { munmap(range.start as *mut _, range.len()) }.ok();
    }
}

/// One stack, given back when dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    arena: Rc<Arena>,
    index: u32,
}

// SAFETY: A slot is written by its tenant alone, has a guard at its low end from the time it is first handed out, and
// is at least `STACK_BYTES_MIN` long. The mapping lives as long as the slot does, for the slot holds the arena.
unsafe impl Stack for Slot {
    #[inline]
    fn base(&self) -> StackPointer {
        let top = self.arena.address(self.index) + self.arena.stride();
        StackPointer::new(top).expect("the kernel maps nothing at address zero")
    }

    #[inline]
    fn limit(&self) -> StackPointer {
        StackPointer::new(self.arena.address(self.index)).expect("the kernel maps nothing at address zero")
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.arena.free.borrow_mut().push(self.index);
    }
}

#[cfg(test)]
mod tests {
    use super::{
        AT_A_TIME, Arena, GUARD_BYTES, GuardKind, PAGE_BYTES, RESIDENT_BYTES, STACK_BYTES, STACK_BYTES_MIN,
    };
    use corosensei::stack::Stack;

    const KINDS: [GuardKind; 2] = [GuardKind::Markers, GuardKind::Protect];

    #[test]
    fn the_last_stack_freed_is_the_next_one_used() {
        for kind in KINDS {
            let arena = Arena::new(STACK_BYTES, 3, kind).unwrap();
            let (first, second) = (arena.take().unwrap(), arena.take().unwrap());
            assert_eq!(first.base().get() - first.limit().get(), STACK_BYTES + GUARD_BYTES);
            let warm = first.base();
            drop(first);
            assert_eq!(arena.live(), 1);
            assert_eq!(arena.take().unwrap().base(), warm, "{kind:?}");
            drop(second);
            assert_eq!((arena.live(), arena.live_peak()), (0, 2));
        }
    }

    /// Whether the kernel may read a byte there.
    fn is_there(address: usize) -> bool {
        let (_reader, writer) = std::io::pipe().unwrap();
        // SAFETY: The kernel looks whether the byte may be read, and says EFAULT where it may not.
        unsafe { libc::write(std::os::fd::AsRawFd::as_raw_fd(&writer), address as *const _, 1) == 1 }
    }

    #[test]
    fn below_each_stack_nothing_can_be_touched() {
        for kind in KINDS {
            let arena = Arena::new(STACK_BYTES, 2, kind).unwrap();
            let slots = [arena.take().unwrap(), arena.take().unwrap()];
            for slot in &slots {
                let bottom = slot.limit().get() + GUARD_BYTES;
                assert!(is_there(bottom) && is_there(slot.base().get() - 1), "{kind:?}");
                assert!(!is_there(bottom - 1) && !is_there(slot.limit().get()), "{kind:?}");
            }
        }
    }

    #[test]
    fn no_more_stacks_than_reserved() {
        let arena = Arena::new(STACK_BYTES, 2, GuardKind::Markers).unwrap();
        let taken = [arena.take(), arena.take()];
        assert!(taken.iter().all(Option::is_some));
        assert!(arena.take().is_none());
    }

    #[test]
    fn of_many_stacks_some_are_dealt_with_at_a_time() {
        let count = AT_A_TIME as usize + 1;
        let arena = Arena::new(STACK_BYTES_MIN, AT_A_TIME + 1, GuardKind::Markers).unwrap();
        let slots: Vec<_> = (0..count).map_while(|_| arena.take()).collect();
        assert_eq!(slots.len(), count);
        for slot in &slots {
            let deep = slot.base().get() - 4 * PAGE_BYTES;
            // SAFETY: The address lies in the slot, above its guard, and nothing else uses the slot.
            unsafe { (deep as *mut u8).write_volatile(1) };
        }
        let last = slots[count - 1].base().get() - 5 * PAGE_BYTES;
        // SAFETY: As above.
        unsafe { (last as *mut u8).write_volatile(1) };
        for pages in [4, 5, 5, 5] {
            assert_eq!(arena.high_water_bytes(), pages * PAGE_BYTES);
        }
        drop(slots);
        let deep =
            || (0..AT_A_TIME + 1).filter(|&index| arena.resident_bytes(index) > RESIDENT_BYTES).count();
        for (more, left) in [(false, count), (true, 1), (false, 0)] {
            assert_eq!((arena.trim(), deep()), (more, left));
        }
    }

    #[test]
    fn memory_of_an_unused_stack_goes_back() {
        let arena = Arena::new(STACK_BYTES, 1, GuardKind::Markers).unwrap();
        let slot = arena.take().unwrap();
        let deep = slot.base().get() - 10 * PAGE_BYTES;
        // SAFETY: The address lies in the slot, above its guard, and nothing else uses the slot.
        unsafe { (deep as *mut u8).write_volatile(1) };
        assert_eq!(arena.high_water_bytes(), 10 * PAGE_BYTES);
        drop(slot);
        arena.trim();
        assert_eq!(arena.high_water_bytes(), 10 * PAGE_BYTES, "it was in use since the last trim");
        arena.trim();
        assert!(arena.high_water_bytes() <= RESIDENT_BYTES);
    }
}
