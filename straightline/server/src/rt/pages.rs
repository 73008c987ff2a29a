//! Memory that is taken page by page, as it is touched.

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::alloc::{Layout, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Bytes, zero at first, in pages of their own: of a large buffer that holds little, only the first page takes memory.
/// An allocator would clear more, and put its own notes among them.
#[derive(Debug)]
pub(crate) struct Pages {
    start: NonNull<u8>,
    length: usize,
}

impl Pages {
    /// So many bytes. Without memory the process ends, as with any other allocation.
    pub(crate) fn new(length: usize) -> Self {
        // SAFETY: A fresh mapping at an address of the kernel's choice touches no memory that exists.
        let start = unsafe {
            let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
            mmap_anonymous(std::ptr::null_mut(), length, ProtFlags::READ | ProtFlags::WRITE, flags)
        };
        let Some(start) = start.ok().and_then(|start| NonNull::new(start.cast::<u8>())) else {
            handle_alloc_error(Layout::from_size_align(length, 1).unwrap_or(Layout::new::<u8>()))
        };
        // SAFETY: The range is the mapping just made. The advice changes only how its pages are backed: neighbours
        // together could be given one huge page.
        unsafe { madvise(start.as_ptr().cast(), length, Advice::LinuxNoHugepage) }.ok();
        Self { start, length }
    }
}

impl Deref for Pages {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: The mapping is so long, initialised (with zeros), ours alone, and lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl DerefMut for Pages {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: As in `deref`; `self` is borrowed for as long, so that nobody else has the bytes.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: Whoever had the bytes borrowed this value, so nobody does any more; the mapping is ours alone.
        unsafe { munmap(self.start.as_ptr().cast(), self.length) }.ok();
    }
}

#[cfg(test)]
mod tests {
    use super::Pages;

    #[test]
    fn bytes_are_zero_and_stay_what_they_are_set_to() {
        let (mut pages, others) = (Pages::new(64 * 1024), Pages::new(64 * 1024));
        assert!(pages.len() == 64 * 1024 && pages.iter().all(|&byte| byte == 0));
        pages.fill(7);
        assert!(pages.iter().all(|&byte| byte == 7) && others.iter().all(|&byte| byte == 0));
    }
}
