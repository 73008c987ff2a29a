//! Sampling by perf events: the system call, its controls, and the ring buffer that the kernel writes samples to.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::parse::USER_REGISTERS;

/// `perf_event_attr` up to `sample_max_stack`, which every kernel since 4.8 knows.
/// Source: Linux, include/uapi/linux/perf_event.h, PERF_ATTR_SIZE_VER5.
#[repr(C)]
#[derive(Default)]
struct Attr {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    bp_addr: u64,
    bp_len: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clock_id: i32,
    sample_regs_intr: u64,
    aux_watermark: u32,
    sample_max_stack: u16,
    reserved: u16,
}

// Source of all constants: Linux, include/uapi/linux/perf_event.h.
const TYPE_SOFTWARE: u32 = 1;
const TYPE_TRACEPOINT: u32 = 2;
const CPU_CLOCK: u64 = 0;
const CONTEXT_SWITCHES: u64 = 3;
const DUMMY: u64 = 9;
const SAMPLE_TID: u64 = 1 << 1;
const SAMPLE_TIME: u64 = 1 << 2;
const SAMPLE_CALLCHAIN: u64 = 1 << 5;
const SAMPLE_RAW: u64 = 1 << 10;
const SAMPLE_REGS_USER: u64 = 1 << 12;
const SAMPLE_STACK_USER: u64 = 1 << 13;
const DISABLED: u64 = 1 << 0;
const INHERIT: u64 = 1 << 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
/// What processes call themselves, when that changes.
const RECORD_NAMES: u64 = 1 << 9;
const RECORD_TASKS: u64 = 1 << 13;
const SAMPLE_ID_ALL: u64 = 1 << 18;
const EXCLUDE_CHAIN_KERNEL: u64 = 1 << 21;
const EXCLUDE_CHAIN_USER: u64 = 1 << 22;
const USE_CLOCK_ID: u64 = 1 << 25;
const RECORD_SWITCHES: u64 = 1 << 26;
const FD_CLOEXEC: libc::c_ulong = 1 << 3;
const IOC_ENABLE: u32 = 0x2400;
const IOC_DISABLE: u32 = 0x2401;
const IOC_SET_OUTPUT: u32 = 0x2405;
const IOC_SET_BPF: u32 = 0x4004_2408;
const IOC_PERIOD: u32 = 0x4008_2404;
/// Bytes of a thread's stack that go with each sample, so that callers are found without frame pointers. Most stacks are shorter.
pub(crate) const STACK_BYTES: u32 = 16 * 1024;
/// Any thread, or any CPU.
const ANY: libc::c_int = -1;
/// Where `data_head` and `data_tail` stand in the first page of a ring.
const HEAD_OFFSET: usize = 1024;
const TAIL_OFFSET: usize = 1032;

/// Data pages of a ring, powers of two: 8 MiB where that is allowed; else, with the page before them, what an ordinary
/// user may lock for each CPU (`kernel.perf_event_mlock_kb`, 516 KiB).
const DATA_PAGES: [usize; 2] = [2048, 128];

/// When a stack is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// After every so many nanoseconds of CPU time.
    CpuTime(u64),
    /// Whenever the thread leaves its CPU; its return is recorded too.
    Switch,
}

/// Whose stacks are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whose {
    /// A thread's, and those of all threads that it begins later.
    Thread(u32),
    /// Those of whoever runs on the CPU; that processes begin others is recorded too.
    Everybody,
}

/// Opens a disabled event that samples stacks on `cpu` at every such moment; in user mode only where `kernel` is false.
///
/// # Errors
/// Those of perf_event_open(2): `EACCES` and `EPERM` where it is not allowed, `ESRCH` where there is no such thread.
pub(crate) fn open_sampling(whose: Whose, cpu: u32, moment: Moment, kernel: bool) -> io::Result<OwnedFd> {
    let cpu = libc::c_int::try_from(cpu).map_err(io::Error::other)?;
    let (config, sample_period, more) = match moment {
        Moment::CpuTime(period_ns) => (CPU_CLOCK, period_ns, 0),
        Moment::Switch => (CONTEXT_SWITCHES, 1, RECORD_SWITCHES),
    };
    // A copy at every switch would cost more than the switch.
    let copies = matches!(moment, Moment::CpuTime(_)) && !USER_REGISTERS.is_empty();
    let (copied, stack) = if copies { (SAMPLE_REGS_USER | SAMPLE_STACK_USER, STACK_BYTES) } else { (0, 0) };
    let mode = if kernel { 0 } else { EXCLUDE_KERNEL };
    let (tid, heirs) = match whose {
        Whose::Thread(tid) => (thread(tid)?, INHERIT),
        Whose::Everybody => (ANY, RECORD_TASKS),
    };
    let attr = Attr {
        kind: TYPE_SOFTWARE,
        config,
        sample_period,
        sample_type: SAMPLE_TID | SAMPLE_TIME | SAMPLE_CALLCHAIN | copied,
        sample_regs_user: if copies { user_registers() } else { 0 },
        sample_stack_user: stack,
        flags: DISABLED
            | EXCLUDE_HYPERVISOR
            | RECORD_NAMES
            | SAMPLE_ID_ALL
            | USE_CLOCK_ID
            | heirs
            | mode
            | more,
        // One clock for all CPUs, as threads move between them.
        clock_id: libc::CLOCK_MONOTONIC,
        ..Attr::default()
    };
    open(attr, tid, cpu)
}

/// What is recorded with the fields of a tracepoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum With {
    Nothing,
    /// Where it was reached, and that threads begin.
    Stack,
    /// The same, and the registers of user mode.
    StackAndRegisters,
}

/// Opens a disabled event that records a tracepoint whenever it is reached on `cpu`, by whomever.
///
/// # Errors
/// Those of perf_event_open(2): `EACCES` and `EPERM` where it is not allowed.
pub(crate) fn open_tracepoint(id: u64, cpu: u32, with: With) -> io::Result<OwnedFd> {
    let cpu = libc::c_int::try_from(cpu).map_err(io::Error::other)?;
    let mode = if with == With::Nothing { EXCLUDE_CHAIN_KERNEL | EXCLUDE_CHAIN_USER } else { RECORD_TASKS };
    let registers = if with == With::StackAndRegisters { user_registers() } else { 0 };
    let more = if registers == 0 { 0 } else { SAMPLE_REGS_USER };
    let attr = Attr {
        kind: TYPE_TRACEPOINT,
        config: id,
        sample_period: 1,
        sample_type: SAMPLE_TID | SAMPLE_TIME | SAMPLE_CALLCHAIN | SAMPLE_RAW | more,
        sample_regs_user: registers,
        flags: DISABLED | SAMPLE_ID_ALL | USE_CLOCK_ID | mode,
        // One clock for all CPUs, as threads move between them.
        clock_id: libc::CLOCK_MONOTONIC,
        ..Attr::default()
    };
    open(attr, ANY, cpu)
}

/// Opens an event that counts nothing and that no thread inherits: while it is there, the events of thread `tid` stay its own.
///
/// Where one thread gives its CPU to another whose events are all inherited from it, or the other way round, the kernel
/// exchanges their events instead of stopping and starting them. A thread that begins others all the time would be given
/// theirs, which have run for no time yet, and so never come to a sample.
///
/// # Errors
/// As [`open_sampling`].
pub(crate) fn open_anchor(tid: u32) -> io::Result<OwnedFd> {
    let flags = DISABLED | EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR;
    open(Attr { kind: TYPE_SOFTWARE, config: DUMMY, flags, ..Attr::default() }, thread(tid)?, ANY)
}

/// A bit for each of them.
fn user_registers() -> u64 {
    USER_REGISTERS.iter().map(|register| 1 << register).sum()
}

fn thread(tid: u32) -> io::Result<libc::pid_t> {
    libc::pid_t::try_from(tid).map_err(io::Error::other)
}

fn open(attr: Attr, tid: libc::pid_t, cpu: libc::c_int) -> io::Result<OwnedFd> {
    let size = u32::try_from(size_of::<Attr>()).expect("a hundred and twelve");
    let mut attr = Attr { size, ..attr };
    let no_group: libc::c_int = -1;
    // SAFETY: `attr` is valid for the size that it declares and outlives the call, which may write its size only.
    let fd =
        unsafe { libc::syscall(libc::SYS_perf_event_open, &raw mut attr, tid, cpu, no_group, FD_CLOEXEC) };
    let fd = libc::c_int::try_from(fd).map_err(io::Error::other)?;
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given us this descriptor, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Lets an event, and those that threads inherited from it, count.
///
/// # Errors
/// Those of ioctl(2).
pub(crate) fn enable(event: &OwnedFd) -> io::Result<()> {
    control(event, IOC_ENABLE, 0)
}

/// Stops it, likewise.
///
/// # Errors
/// Those of ioctl(2).
pub(crate) fn disable(event: &OwnedFd) -> io::Result<()> {
    control(event, IOC_DISABLE, 0)
}

/// Has `event` take its samples after so many nanoseconds from now on.
///
/// # Errors
/// Those of ioctl(2).
pub(crate) fn set_period(event: &OwnedFd, mut period_ns: u64) -> io::Result<()> {
    // SAFETY: this request reads a word of 64 bits, which outlives the call.
    if unsafe { libc::ioctl(event.as_raw_fd(), IOC_PERIOD as _, &raw mut period_ns) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Has `event` write its samples into the ring of `leader`, an event on the same CPU.
///
/// # Errors
/// Those of ioctl(2).
pub(crate) fn redirect(event: &OwnedFd, leader: &OwnedFd) -> io::Result<()> {
    control(event, IOC_SET_OUTPUT, leader.as_raw_fd())
}

/// Runs a program of BPF wherever the tracepoint of `event` is reached, on any CPU, until `event` goes.
///
/// # Errors
/// Those of ioctl(2).
pub(crate) fn run(event: &OwnedFd, program: &OwnedFd) -> io::Result<()> {
    control(event, IOC_SET_BPF, program.as_raw_fd())
}

fn control(event: &OwnedFd, request: u32, argument: libc::c_int) -> io::Result<()> {
    // SAFETY: these requests of perf events take a number and touch no memory of ours.
    if unsafe { libc::ioctl(event.as_raw_fd(), request as _, argument) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// The memory that kernel and reader share: one page of positions, then the data.
#[derive(Debug)]
pub(crate) struct Ring {
    base: NonNull<u8>,
    page_bytes: usize,
    data_bytes: usize,
}

// SAFETY: the mapping belongs to this value alone, and no thread but the one that has it touches it.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps the ring of an event.
    ///
    /// # Errors
    /// Those of mmap(2): `EPERM` where this user may not lock so much memory.
    pub(crate) fn map(event: &OwnedFd) -> io::Result<Self> {
        let [most, least] = DATA_PAGES;
        Self::map_pages(event, most).or_else(|_| Self::map_pages(event, least))
    }

    fn map_pages(event: &OwnedFd, pages: usize) -> io::Result<Self> {
        let page_bytes = rustix::param::page_size();
        let (length, access) = (page_bytes * (pages + 1), ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: a new mapping at a place that the kernel chooses overlaps nothing of ours.
        let base = unsafe { mmap(std::ptr::null_mut(), length, access, MapFlags::SHARED, event.as_fd(), 0)? };
        let base = NonNull::new(base.cast::<u8>()).expect("the kernel maps nothing at zero unasked");
        Ok(Self { base, page_bytes, data_bytes: page_bytes * pages })
    }

    /// Appends what the kernel has written since the last call, and gives the room back.
    pub(crate) fn drain(&mut self, out: &mut Vec<u8>) {
        let size = self.data_bytes;
        let place = |position: u64| usize::try_from(position % size as u64).expect("below the size");
        let head = self.position(HEAD_OFFSET).load(Ordering::Acquire);
        let tail = self.position(TAIL_OFFSET).load(Ordering::Relaxed);
        let waiting = usize::try_from(head.wrapping_sub(tail)).map_or(size, |bytes| bytes.min(size));
        let begin = place(tail);
        let first = waiting.min(size - begin);
        out.extend_from_slice(self.data(begin, first));
        out.extend_from_slice(self.data(0, waiting - first));
        self.position(TAIL_OFFSET).store(head, Ordering::Release);
    }

    fn position(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the offset lies in the first page and is aligned, the mapping lives as long as `self`, and kernel and
        // reader both use this word atomically only.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(offset).cast()) }
    }

    fn data(&self, begin: usize, count: usize) -> &[u8] {
        debug_assert!(begin + count <= self.data_bytes, "within the ring");
        // SAFETY: the bytes lie in the data pages of a mapping that lives as long as `self`; what is asked for lies
        // between tail and head, where the kernel writes only after the tail has moved on, which the one caller
        // does after it has copied them.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(self.page_bytes + begin), count) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        let length = self.page_bytes + self.data_bytes;
        // SAFETY: this is the mapping that `map` made, nothing borrows from it any more, and it is unmapped once.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), length) };
        debug_assert!(unmapped.is_ok(), "a mapping of ours can be unmapped");
    }
}
