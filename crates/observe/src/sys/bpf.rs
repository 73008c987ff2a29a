//! Counting by BPF: one small program for each tracepoint, which adds to a table that is mapped into this process.
//!
//! A counter of perf events takes some 80 ns for each event and kind of event on top of what reaching the tracepoint
//! takes; an addition takes 5. And the kernel lets go of such a program in 0.2 ms, of a counter in 40, so that
//! counting can pause.

use std::ffi::CStr;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use units::CpuSet;

// Source of all constants and layouts: Linux, include/uapi/linux/bpf.h and bpf_common.h.
const MAP_CREATE: libc::c_int = 0;
const PROG_LOAD: libc::c_int = 5;
const RAW_TRACEPOINT_OPEN: libc::c_int = 17;
const MAP_ARRAY: u32 = 2;
const MAP_MMAPABLE: u32 = 1 << 10;
const PROG_RAW_TRACEPOINT: u32 = 17;
const CURRENT_CPU: i32 = 8;
const MAP_VALUE: u8 = 2;

/// CPUs of which counts can be kept: a mask of them is part of the program.
const CPUS: usize = 64;
/// Counts of one CPU; a power of two.
pub(crate) const SLOTS: usize = 512;
/// Slots below it are system calls by number, the last of them all calls with a higher one.
pub(crate) const CALLS: usize = 504;
const TABLE_BYTES: usize = CPUS * SLOTS * size_of::<u64>();

/// What is counted where a tracepoint is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slot {
    /// The system call whose number is the tracepoint's second argument.
    OfCall,
    /// Always the same slot, from [`CALLS`] on.
    Fixed(usize),
}

#[repr(C)]
#[derive(Default)]
struct MapAttr {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries: u32,
    flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct ProgramAttr {
    kind: u32,
    count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
}

#[repr(C)]
#[derive(Default)]
struct OpenAttr {
    name: u64,
    program: u32,
    padding: u32,
}

/// One instruction. Source: Linux, Documentation/bpf/standardization/instruction-set.rst.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Instruction {
    code: u8,
    registers: u8,
    offset: i16,
    immediate: i32,
}

/// A table of counts that the kernel adds to and that can be read at any time.
#[derive(Debug)]
pub(crate) struct Table {
    map: OwnedFd,
    base: NonNull<u8>,
    cpus: CpuSet,
}

// SAFETY: the mapping is only read, in whole words that the kernel writes at once, and goes with this value.
unsafe impl Send for Table {}
// SAFETY: likewise; reading changes nothing.
unsafe impl Sync for Table {}

impl Table {
    /// A table for what happens on these CPUs.
    ///
    /// # Errors
    /// Those of bpf(2) and mmap(2): `EPERM` without CAP_BPF; `EINVAL` where a CPU has a number above 63.
    pub(crate) fn new(cpus: &CpuSet) -> io::Result<Self> {
        if cpus.iter().any(|cpu| cpu as usize >= CPUS) {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let value_bytes = u32::try_from(TABLE_BYTES).expect("a quarter of a MiB");
        let attr = MapAttr { kind: MAP_ARRAY, key_bytes: 4, value_bytes, entries: 1, flags: MAP_MMAPABLE };
        let map = bpf(MAP_CREATE, &attr)?;
        // SAFETY: a new mapping at a place that the kernel chooses overlaps nothing of ours.
        let base = unsafe {
            mmap(std::ptr::null_mut(), TABLE_BYTES, ProtFlags::READ, MapFlags::SHARED, map.as_fd(), 0)?
        };
        let base = NonNull::new(base.cast::<u8>()).expect("the kernel maps nothing at zero unasked");
        Ok(Self { map, base, cpus: cpus.clone() })
    }

    /// Prepares counting at a tracepoint.
    ///
    /// # Errors
    /// Those of bpf(2): `EPERM` without CAP_BPF and CAP_PERFMON.
    pub(crate) fn program(&self, slot: Slot) -> io::Result<Program> {
        let instructions = instructions(slot, &self.cpus, self.map.as_fd());
        let attr = ProgramAttr {
            kind: PROG_RAW_TRACEPOINT,
            count: u32::try_from(instructions.len()).expect("some twenty"),
            instructions: instructions.as_ptr() as u64,
            // Says that no function is called that asks for another licence.
            license: c"Dual MIT/GPL".as_ptr() as u64,
            ..ProgramAttr::default()
        };
        bpf(PROG_LOAD, &attr).map(Program)
    }

    /// What was counted in a slot so far, on all CPUs together.
    pub(crate) fn count(&self, slot: usize) -> u64 {
        assert!(slot < SLOTS, "a slot of the table");
        let of_cpu = |cpu: u32| {
            let index = cpu as usize * SLOTS + slot;
            // SAFETY: the word lies in the mapping, for `new` takes no higher CPU, and is aligned; the mapping lives as long
            // as `self`. The kernel writes whole words, at any time, and so each read is one of its own.
            unsafe { self.base.as_ptr().cast::<u64>().add(index).read_volatile() }
        };
        self.cpus.iter().map(of_cpu).sum()
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `new` made, nothing borrows from it any more, and it is unmapped once.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), TABLE_BYTES) };
        debug_assert!(unmapped.is_ok(), "a mapping of ours can be unmapped");
    }
}

/// A program that waits to be attached.
#[derive(Debug)]
pub(crate) struct Program(OwnedFd);

impl Program {
    /// Counts at a tracepoint until what is returned is dropped.
    ///
    /// # Errors
    /// Those of bpf(2): `ENOENT` where the kernel has no such tracepoint.
    pub(crate) fn attach(&self, tracepoint: &CStr) -> io::Result<OwnedFd> {
        let program = u32::try_from(self.0.as_raw_fd()).expect("descriptors are not negative");
        bpf(RAW_TRACEPOINT_OPEN, &OpenAttr { name: tracepoint.as_ptr() as u64, program, padding: 0 })
    }
}

/// What is done at a tracepoint: where it is reached on one of the CPUs, one is added to that CPU's slot. A CPU adds to
/// words of its own, and the kernel moves it to no other meanwhile, so that nothing has to be locked.
fn instructions(slot: Slot, cpus: &CpuSet, map: BorrowedFd<'_>) -> Vec<Instruction> {
    // Names of operations as the instruction set's manual has them.
    const LDXDW: u8 = 0x79;
    const STXDW: u8 = 0x7b;
    const LDDW: u8 = 0x18;
    const MOV: u8 = 0xb7;
    const ADD: u8 = 0x07;
    const ADD_REGISTER: u8 = 0x0f;
    const AND: u8 = 0x57;
    const LSH: u8 = 0x67;
    const RSH_REGISTER: u8 = 0x7f;
    const JEQ: u8 = 0x15;
    const JGT: u8 = 0x25;
    const JLE: u8 = 0xb5;
    const CALL: u8 = 0x85;
    const EXIT: u8 = 0x95;
    let one = |code, [to, from]: [u8; 2], offset, immediate| Instruction {
        code,
        registers: from << 4 | to,
        offset,
        immediate,
    };
    let mask = cpus.iter().fold(0u64, |mask, cpu| mask | 1 << cpu);
    let last_call = CALLS as i32 - 1;
    let (first, second) = match slot {
        Slot::OfCall => (one(LDXDW, [7, 1], 8, 0), one(JLE, [7, 0], 1, last_call)),
        Slot::Fixed(slot) => (one(MOV, [7, 0], 0, slot as i32), one(JLE, [7, 0], 1, SLOTS as i32 - 1)),
    };
    // Distances of jumps are counted from the next instruction; both of the longer ones lead to the last but one.
    vec![
        first,
        second,
        one(MOV, [7, 0], 0, last_call),
        one(CALL, [0, 0], 0, CURRENT_CPU),
        one(JGT, [0, 0], 14, CPUS as i32 - 1),
        one(LDDW, [1, 0], 0, mask as u32 as i32),
        one(0, [0, 0], 0, (mask >> 32) as u32 as i32),
        one(RSH_REGISTER, [1, 0], 0, 0),
        one(AND, [1, 0], 0, 1),
        one(JEQ, [1, 0], 9, 0),
        one(LSH, [0, 0], 0, SLOTS.trailing_zeros() as i32),
        one(ADD_REGISTER, [0, 7], 0, 0),
        one(LSH, [0, 0], 0, size_of::<u64>().trailing_zeros() as i32),
        one(LDDW, [1, MAP_VALUE], 0, map.as_raw_fd()),
        one(0, [0, 0], 0, 0),
        one(ADD_REGISTER, [1, 0], 0, 0),
        one(LDXDW, [2, 1], 0, 0),
        one(ADD, [2, 0], 0, 1),
        one(STXDW, [1, 2], 0, 0),
        one(MOV, [0, 0], 0, 0),
        one(EXIT, [0, 0], 0, 0),
    ]
}

fn bpf<T>(command: libc::c_int, attr: &T) -> io::Result<OwnedFd> {
    // SAFETY: `attr` is valid for its size, which is told, and outlives the call, as does what its addresses point to; the
    // kernel takes fields that it is not told of as zero, and writes to none of them.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attr), size_of::<T>()) };
    let fd = libc::c_int::try_from(fd).map_err(io::Error::other)?;
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given us this descriptor, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
