//! What one system call, write, switch … costs on this host, measured in less than three seconds.

use std::hint::black_box;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::time::Instant;

use model::record::UnitCosts;
use rustix::event::{EventfdFlags, eventfd};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Batches of which the median counts: one that was interrupted does not.
const BATCHES: usize = 31;
/// System calls, allocations or copies in a batch: about a millisecond.
const CALLS: u32 = 4000;
/// Writes in a batch: what a socket holds without its reader.
const WRITES: u32 = 64;
/// Bytes of a small answer.
const ANSWER_BYTES: usize = 160;
/// Hand-overs between two threads in a batch.
const HANDOVERS: u32 = 1000;
/// Pages touched in a batch: 4 MiB, which every machine has to spare.
const PAGES: usize = 1024;
const PAGE_BYTES: usize = 4096;
/// Memory of which only [`PAGES`] are touched: more than what an allocator keeps for itself when it is given back.
/// Source: glibc, malloc.c, DEFAULT_MMAP_THRESHOLD_MAX (32 MiB).
const FRESH_BYTES: usize = 64 << 20;
/// A copy that stays in the first cache.
const COPY_BYTES: usize = 8 * 1024;
/// A common size of a small object.
const OBJECT_BYTES: usize = 64;

/// Measures the unit costs on one CPU of the caller's set, in a thread of its own.
///
/// # Errors
/// Where this host refuses sockets, event descriptors or the CPU set.
pub fn unit_costs() -> io::Result<UnitCosts> {
    std::thread::spawn(|| {
        stay_on_one_cpu()?;
        let (loopback_write_ns, loopback_read_ns) = loopback()?;
        let context_switch_ns = (handover(&EventPair::new()?)? - event_calls()?).max(0.0);
        Ok(UnitCosts {
            syscall_ns: each(CALLS, || {
                black_box(rustix::process::getppid());
            }),
            loopback_write_ns,
            loopback_read_ns,
            futex_wake_ns: parking(),
            context_switch_ns,
            minor_fault_ns: fault(),
            malloc_free_ns: each(CALLS, || drop(black_box(Box::new([0_u8; OBJECT_BYTES])))),
            memcpy_kib_ns: copy(),
        })
    })
    .join()
    .expect("measuring does not panic")
}

/// Both sides of a hand-over have to share a CPU, or waiting for the other one would be counted.
fn stay_on_one_cpu() -> io::Result<()> {
    let allowed = sched_getaffinity(None)?;
    let cpu = (0..CpuSet::MAX_CPU).rev().find(|cpu| allowed.is_set(*cpu)).unwrap_or(0);
    let mut one = CpuSet::new();
    one.set(cpu);
    Ok(sched_setaffinity(None, &one)?)
}

/// Nanoseconds of one `work`: the median over batches of `times`.
fn each(times: u32, mut work: impl FnMut()) -> f64 {
    median(|| {
        let begin = Instant::now();
        (0..times).for_each(|_| work());
        begin.elapsed().as_nanos() as f64 / f64::from(times)
    })
}

fn median(mut batch: impl FnMut() -> f64) -> f64 {
    let mut values: Vec<f64> = (0..BATCHES).map(|_| batch()).collect();
    values.sort_by(f64::total_cmp);
    values[BATCHES / 2]
}

/// One write and one read of a small answer over a loopback connection whose other end has not to be woken.
fn loopback() -> io::Result<(f64, f64)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut writer = TcpStream::connect(listener.local_addr()?)?;
    let (mut reader, _) = listener.accept()?;
    writer.set_nodelay(true)?;
    let mut answer = [7; ANSWER_BYTES];
    let mut reads = Vec::new();
    let mut failed = None;
    let write_ns = median(|| {
        let begin = Instant::now();
        let wrote = (0..WRITES).try_for_each(|_| writer.write_all(&answer));
        let written = Instant::now();
        let read = (0..WRITES).try_for_each(|_| reader.read_exact(&mut answer));
        reads.push(written.elapsed().as_nanos() as f64 / f64::from(WRITES));
        failed = wrote.and(read).err().or(failed.take());
        (written - begin).as_nanos() as f64 / f64::from(WRITES)
    });
    reads.sort_by(f64::total_cmp);
    failed.map_or(Ok((write_ns, reads[reads.len() / 2])), Err)
}

/// Two event descriptors: one that says "go", one that says "done".
struct EventPair {
    go: OwnedFd,
    done: OwnedFd,
}

impl EventPair {
    fn new() -> io::Result<Self> {
        let new = || eventfd(0, EventfdFlags::CLOEXEC);
        Ok(Self { go: new()?, done: new()? })
    }
}

fn signal(event: &OwnedFd) -> rustix::io::Result<()> {
    rustix::io::write(event, &1_u64.to_ne_bytes()).map(drop)
}

fn wait(event: &OwnedFd) -> rustix::io::Result<()> {
    rustix::io::read(event, &mut [0; 8]).map(drop)
}

/// Nanoseconds of one hand-over to another thread on this CPU: a write, a read that waits, and a switch.
fn handover(events: &EventPair) -> io::Result<f64> {
    let rounds = BATCHES as u32 * HANDOVERS;
    std::thread::scope(|scope| {
        let other = scope
            .spawn(|| (0..rounds).try_for_each(|_| wait(&events.go).and_then(|()| signal(&events.done))));
        let mut failed = Ok(());
        let pair_ns = each(HANDOVERS, || {
            failed = failed.and(signal(&events.go).and_then(|()| wait(&events.done)));
        });
        failed.and(other.join().expect("passing events does not panic"))?;
        Ok(pair_ns / 2.0)
    })
}

/// Nanoseconds of the calls of one hand-over, without one.
fn event_calls() -> io::Result<f64> {
    let events = EventPair::new()?;
    let mut failed = Ok(());
    let ns = each(CALLS, || failed = failed.and(signal(&events.go).and_then(|()| wait(&events.go))));
    failed?;
    Ok(ns)
}

/// Nanoseconds of waking a parked thread on this CPU and its parking again, the switch included.
fn parking() -> f64 {
    use std::sync::atomic::{AtomicU32, Ordering};
    let (turn, main) = (AtomicU32::new(0), std::thread::current());
    let rounds = BATCHES as u32 * HANDOVERS;
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            for round in 0..rounds {
                while turn.load(Ordering::Acquire) != 2 * round + 1 {
                    std::thread::park();
                }
                turn.store(2 * round + 2, Ordering::Release);
                main.unpark();
            }
        });
        let mut round = 0;
        let pair_ns = each(HANDOVERS, || {
            turn.store(2 * round + 1, Ordering::Release);
            other.thread().unpark();
            while turn.load(Ordering::Acquire) != 2 * round + 2 {
                std::thread::park();
            }
            round += 1;
        });
        pair_ns / 2.0
    })
}

/// Nanoseconds of the first touch of a page. Huge pages are left out where that is allowed: they would be 512 at once.
fn fault() -> f64 {
    let before = rustix::thread::transparent_huge_pages_are_disabled().unwrap_or(false);
    // Children inherit the setting, so it is put back; where it may not be changed, huge pages make faults look cheap.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    let ns = median(|| {
        // Zeroed memory of this size comes fresh from the kernel, without its pages.
        let mut memory = vec![0_u8; FRESH_BYTES];
        let begin = Instant::now();
        memory.iter_mut().step_by(PAGE_BYTES).take(PAGES).for_each(|byte| *byte = 1);
        black_box(&memory);
        begin.elapsed().as_nanos() as f64 / PAGES as f64
    });
    let _ = rustix::thread::disable_transparent_huge_pages(before);
    ns
}

fn copy() -> f64 {
    let (from, mut to) = (vec![7_u8; COPY_BYTES], vec![0_u8; COPY_BYTES]);
    let ns = each(CALLS, || {
        to.copy_from_slice(black_box(&from));
        black_box(&mut to);
    });
    ns / (COPY_BYTES / 1024) as f64
}
