//! A protected page and a generator of random numbers.

pub(crate) use guarded::Guarded;

/// A mapping with a page after it that cannot be read.
#[cfg(not(miri))]
mod guarded {
    use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
    use std::ptr::{NonNull, null_mut};

    /// Size of a page, in bytes, at least as large as on any platform the tests run on.
    const PAGE_BYTES: usize = 64 * 1024;

    /// Bytes in front of a page that cannot be read: a parser that reads one byte too many crashes.
    pub(crate) struct Guarded {
        start: NonNull<u8>,
        room: usize,
    }

    impl Guarded {
        pub(crate) fn new(room: usize) -> Self {
            let room = room.next_multiple_of(PAGE_BYTES);
            let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
            // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no memory in use.
            let start = unsafe { mmap_anonymous(null_mut(), room + PAGE_BYTES, protection, flags) }.unwrap();
            // SAFETY: the range is the last page of the mapping made above, and nothing refers to it.
            unsafe { mprotect(start.byte_add(room), PAGE_BYTES, MprotectFlags::empty()) }.unwrap();
            Self { start: NonNull::new(start.cast()).unwrap(), room }
        }

        /// A copy of `bytes` whose last byte is the last that can be read.
        pub(crate) fn copy<'g>(&'g mut self, bytes: &[u8]) -> &'g [u8] {
            assert!(bytes.len() <= self.room, "the input is larger than the guarded room");
            // SAFETY: the first `room` bytes of the mapping can be read and written for as long as `self` lives, and
            // `&mut self` keeps any other slice of them away.
            let room = unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.room) };
            let flush = &mut room[self.room - bytes.len()..];
            flush.copy_from_slice(bytes);
            flush
        }
    }

    impl Drop for Guarded {
        fn drop(&mut self) {
            // SAFETY: the mapping was made by `new` with this size, and no slice of it outlives `self`.
            unsafe { munmap(self.start.as_ptr().cast(), self.room + PAGE_BYTES) }.unwrap();
        }
    }
}

/// The same under Miri, which has no mappings and needs none: it knows where each allocation ends.
#[cfg(miri)]
mod guarded {
    pub(crate) struct Guarded(Box<[u8]>);

    impl Guarded {
        pub(crate) fn new(_: usize) -> Self {
            Self(Box::default())
        }

        pub(crate) fn copy(&mut self, bytes: &[u8]) -> &[u8] {
            self.0 = bytes.into();
            &self.0
        }
    }
}

/// Random numbers that are the same for the same seed.
///
/// Source: S. Vigna, `splitmix64.c`.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`, which is not 0.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// True once in `times`.
    pub(crate) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub(crate) fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }
}
