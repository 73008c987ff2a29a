//! Guards below stacks: a touch of one is a fault at once, never a write into the neighbour.

use rustix::mm::{MprotectFlags, mprotect};
use std::io;

/// How a guard is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GuardKind {
    /// Markers in the page table: no split of the mapping, however many there are.
    Markers,
    /// No access to the pages: two mappings more for each guard, of which a process has few.
    Protect,
}

/// `MADV_GUARD_INSTALL`, Linux 6.13 and later.
///
/// Source: `include/uapi/asm-generic/mman-common.h`.
const MADV_GUARD_INSTALL: libc::c_int = 102;
/// Mappings that a process may have where the kernel does not say.
///
/// Source: `DEFAULT_MAX_MAP_COUNT` in `include/linux/mm.h`.
const MAP_COUNT_DEFAULT: u32 = 65_530;

/// Makes a guard of `bytes` at `start`, which must be memory of the caller's that nothing refers to.
pub(crate) fn guard(start: *mut u8, bytes: usize, kind: GuardKind) -> io::Result<()> {
    match kind {
        GuardKind::Markers => {
            // SAFETY: The caller owns the range and keeps nothing there; the kernel checks that it is mapped.
            let outcome = unsafe { libc::madvise(start.cast(), bytes, MADV_GUARD_INSTALL) };
            if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
        }
        // SAFETY: As above.
        GuardKind::Protect => Ok(unsafe { mprotect(start.cast(), bytes, MprotectFlags::empty()) }?),
    }
}

/// The best kind of guard that this kernel makes.
pub(crate) fn kind() -> GuardKind {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
    const PROBE_BYTES: usize = super::arena::PAGE_BYTES;
    // SAFETY: A fresh mapping at an address of the kernel's choice touches no memory that exists.
    let page = unsafe {
        mmap_anonymous(
            std::ptr::null_mut(),
            PROBE_BYTES,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE,
        )
    };
    let Ok(page) = page else { return GuardKind::Protect };
    let works = guard(page.cast(), PROBE_BYTES, GuardKind::Markers).is_ok();
    // SAFETY: The page was mapped above and nothing refers to it.
    unsafe { munmap(page, PROBE_BYTES) }.ok();
    if works { GuardKind::Markers } else { GuardKind::Protect }
}

/// How many stacks one shard may guard by [`GuardKind::Protect`]: two mappings each, from a quarter of what the
/// process may have, so that two shards leave half to everything else.
pub(crate) fn protect_budget() -> u32 {
    let limit = std::fs::read_to_string("/proc/sys/vm/max_map_count")
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(MAP_COUNT_DEFAULT);
    limit / 4 / 2
}
