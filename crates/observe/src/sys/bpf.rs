//! Counting by BPF: one small program for each tracepoint, which adds to a table that is mapped into this process.
//! What the programs do is in [`programs`].
//!
//! A counter of perf events takes some 80 ns for each event and kind of event on top of what reaching the tracepoint
//! takes; an addition takes 5. And the kernel lets go of such a program in 0.2 ms, of a counter in 40, so that
//! counting can pause.

mod programs;

use std::ffi::CStr;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::ptr::NonNull;

use model::units::CpuSet;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use self::programs::Instruction;
use super::perf::{self, With};
use crate::tracefs::Tracefs;

// Source of all constants and layouts: Linux, include/uapi/linux/bpf.h and bpf_common.h.
const MAP_CREATE: libc::c_int = 0;
const MAP_UPDATE: libc::c_int = 2;
const PROG_LOAD: libc::c_int = 5;
const RAW_TRACEPOINT_OPEN: libc::c_int = 17;
const MAP_ARRAY: u32 = 2;
const MAP_LRU_HASH: u32 = 9;
const MAP_MMAPABLE: u32 = 1 << 10;
const PROG_TRACEPOINT: u32 = 5;
const PROG_RAW_TRACEPOINT: u32 = 17;

/// CPUs of which counts can be kept: a mask of them is part of the program.
const CPUS: usize = 64;
/// Counts of one CPU; a power of two.
pub(crate) const SLOTS: usize = 512;
/// Slots below it are system calls by number, the last of them all calls with a higher one.
pub(crate) const CALLS: usize = 504;
/// In a table of time: what went by for those that are timed, in nanoseconds.
pub(crate) const BUSY_NS: usize = 0;
/// In a table of time: how often one of those that are timed left a CPU.
pub(crate) const SWITCHES: usize = 1;
/// In a table of time: up to which moment a CPU's time has been told.
const TOLD_UNTIL: usize = 2;
/// In a table of time: whether that moment was a waking.
const WOKEN: usize = 3;
/// In a table of time: how long ago the thread that a CPU went to last had been woken.
const OWED_NS: usize = 4;
/// What `/proc/self/ns/pid` leads to where process ids are those that the kernel itself uses.
/// Source: Linux, include/uapi/linux/nsfs.h, PID_NS_INIT_INO.
const KERNELS_OWN_IDS: &str = "pid:[4026531836]";
/// Where a process begins another, and the field that names it.
const FORK: [&str; 2] = ["sched", "sched_process_fork"];
const CHILD: &str = "child_pid";
/// Processes and threads that members have begun and that are still told from others, at least: of those longest gone the rest.
const MOST_BEGUN: u32 = 16_384;
const TABLE_BYTES: usize = CPUS * SLOTS * size_of::<u64>();

/// What is counted where a tracepoint is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slot {
    /// The system call whose number is the tracepoint's second argument.
    OfCall,
    /// Always the same slot, from [`CALLS`] on.
    Fixed(usize),
}

/// When time is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// A CPU goes from one thread to another.
    Switch,
    /// A thread is made ready.
    Waking,
    /// Something that comes at least with every tick.
    Tick,
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
struct UpdateAttr {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
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

    /// Prepares counting at a tracepoint, of all processes or of `members`.
    ///
    /// # Errors
    /// Those of bpf(2): `EPERM` without CAP_BPF and CAP_PERFMON.
    pub(crate) fn counter(&self, slot: Slot, members: Option<&Members>) -> io::Result<Program> {
        let members = members.map(|members| members.map.as_fd());
        let instructions = programs::counter(slot, &self.cpus, self.map.as_fd(), members);
        Program::load(&instructions, PROG_RAW_TRACEPOINT)
    }

    /// Prepares timing: wherever a tracepoint is reached, the time since the last one on that CPU is told as that of the
    /// process that runs there, if it is one of `members`. From any other a CPU goes to another thread at the moment in which
    /// that is woken. A switch is also counted as one.
    ///
    /// # Errors
    /// As [`Table::counter`].
    pub(crate) fn stopwatch(&self, members: &Members, moment: Moment) -> io::Result<Program> {
        let instructions = programs::stopwatch(moment, &self.cpus, self.map.as_fd(), members.map.as_fd());
        Program::load(&instructions, PROG_RAW_TRACEPOINT)
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

/// The processes of a group, which programs can tell from others: those that there are, and those that they begin.
#[derive(Debug)]
pub(crate) struct Members {
    map: OwnedFd,
    /// Keeps the program where it is that takes in those that begin.
    _follows: OwnedFd,
}

impl Members {
    /// These processes, and from now on those that they begin; `cpu` is one that there is.
    ///
    /// # Errors
    /// Those of bpf(2) and perf_event_open(2): `EPERM` without CAP_BPF; `Unsupported` in a container that numbers processes anew, or
    /// where the tracepoint of processes that begin cannot be found.
    pub(crate) fn of_group(pids: &[u32], cpu: u32) -> io::Result<Self> {
        if std::fs::read_link("/proc/self/ns/pid")? != Path::new(KERNELS_OWN_IDS) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let tracefs = Tracefs::open().ok_or(io::ErrorKind::Unsupported)?;
        let id = tracefs.id(FORK[0], FORK[1]).ok_or(io::ErrorKind::Unsupported)?;
        let child = tracefs.field(FORK[0], FORK[1], CHILD).ok_or(io::ErrorKind::Unsupported)?;
        let map = hash_map(pids)?;
        let program = Program::load(&programs::follow(map.as_fd(), child), PROG_TRACEPOINT)?;
        // Once attached it runs on all CPUs.
        let event = perf::open_tracepoint(id, cpu, With::Nothing)?;
        perf::run(&event, &program.0)?;
        Ok(Self { map, _follows: event })
    }
}

/// A map with these keys. What has not been looked at for longest gives way where there is no room.
fn hash_map(keys: &[u32]) -> io::Result<OwnedFd> {
    let entries = u32::try_from(keys.len()).map_err(io::Error::other)?.saturating_add(MOST_BEGUN);
    let map =
        bpf(MAP_CREATE, &MapAttr { kind: MAP_LRU_HASH, key_bytes: 4, value_bytes: 4, entries, flags: 0 })?;
    let known = 1u32;
    for key in keys {
        let attr = UpdateAttr {
            map: number(&map),
            key: std::ptr::from_ref(key) as u64,
            value: std::ptr::from_ref(&known) as u64,
            ..UpdateAttr::default()
        };
        call(MAP_UPDATE, &attr)?;
    }
    Ok(map)
}

/// A program that waits to be attached.
#[derive(Debug)]
pub(crate) struct Program(OwnedFd);

impl Program {
    fn load(instructions: &[Instruction], kind: u32) -> io::Result<Self> {
        let attr = ProgramAttr {
            kind,
            count: u32::try_from(instructions.len()).expect("some dozens"),
            instructions: instructions.as_ptr() as u64,
            // Says that no function is called that asks for another licence.
            license: c"Dual MIT/GPL".as_ptr() as u64,
            ..ProgramAttr::default()
        };
        bpf(PROG_LOAD, &attr).map(Self)
    }

    /// Runs at a tracepoint until what is returned is dropped.
    ///
    /// # Errors
    /// Those of bpf(2): `ENOENT` where the kernel has no such tracepoint.
    pub(crate) fn attach(&self, tracepoint: &CStr) -> io::Result<OwnedFd> {
        let program = number(&self.0);
        bpf(RAW_TRACEPOINT_OPEN, &OpenAttr { name: tracepoint.as_ptr() as u64, program, padding: 0 })
    }
}

fn number(descriptor: &OwnedFd) -> u32 {
    u32::try_from(descriptor.as_raw_fd()).expect("descriptors are not negative")
}

/// A call that gives a descriptor.
fn bpf<T>(command: libc::c_int, attr: &T) -> io::Result<OwnedFd> {
    let fd = call(command, attr)?;
    // SAFETY: the kernel has just given us this descriptor, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn call<T>(command: libc::c_int, attr: &T) -> io::Result<libc::c_int> {
    // SAFETY: `attr` is valid for its size, which is told, and outlives the call, as does what its addresses point to; the
    // kernel takes fields that it is not told of as zero, and writes to none of them.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attr), size_of::<T>()) };
    let result = libc::c_int::try_from(result).map_err(io::Error::other)?;
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
