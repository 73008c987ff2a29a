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

/// How many stacks each of so many shards may guard.
pub(crate) fn most(kind: GuardKind, shards: usize) -> u32 {
    match kind {
        GuardKind::Markers => u32::MAX,
        GuardKind::Protect => most_protected(map_count_max(), shards),
    }
}

/// Mappings that the process may have.
fn map_count_max() -> u32 {
    let limit = std::fs::read_to_string("/proc/sys/vm/max_map_count").ok();
    limit.and_then(|text| text.trim().parse().ok()).unwrap_or(MAP_COUNT_DEFAULT)
}

/// Each guard takes two mappings, and all shards together take half of them: the other half is left to everything else.
fn most_protected(mappings: u32, shards: usize) -> u32 {
    let shards = u32::try_from(shards.max(1)).unwrap_or(u32::MAX);
    mappings / 2 / 2 / shards
}

#[cfg(test)]
mod tests {
    use super::{MAP_COUNT_DEFAULT, most_protected};

    #[test]
    fn guards_of_all_shards_leave_half_of_the_mappings() {
        for shards in [1, 2, 3, 64] {
            let taken = 2 * most_protected(MAP_COUNT_DEFAULT, shards) as usize * shards;
            let half = MAP_COUNT_DEFAULT as usize / 2;
            assert!(taken <= half && taken > half - 4 * shards, "{taken} with {shards} shards");
        }
    }
}
