//! The system calls that have no safe wrapper.
#![allow(unsafe_code)]

pub(crate) mod bpf;
pub(crate) mod code;
pub(crate) mod perf;
pub(crate) mod ptrace;

use std::io;

/// Kind of CPU clock that counts the time the scheduler gave, in nanoseconds.
/// Source: Linux, include/linux/posix-timers_types.h, CPUCLOCK_SCHED.
const CPUCLOCK_SCHED: libc::clockid_t = 2;

/// Largest process id, which a clock id has room for. Source: Linux, include/linux/threads.h, PID_MAX_LIMIT.
const MAX_PID: u32 = 1 << 22;

/// CPU time of a process in nanoseconds: all its threads, ended ones included, children not.
///
/// A thread that runs at this moment counts up to its last scheduler tick, so that at most one tick (1 to 10 ms) of
/// each running thread is missing.
///
/// # Errors
/// Those of clock_gettime(2): `EINVAL` where there is no such process.
pub(crate) fn process_cpu_ns(pid: u32) -> io::Result<u64> {
    // A pid of 0, or one that is cut off, would name our own clock.
    let pid = libc::clockid_t::try_from(pid).ok().filter(|_| (1..=MAX_PID).contains(&pid));
    let pid = pid.ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?;
    // Source: Linux, include/linux/posix-timers_types.h, make_process_cpuclock.
    let clock = (!pid << 3) | CPUCLOCK_SCHED;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec that outlives the call, which writes nothing else; any clock id may be asked.
    if unsafe { libc::clock_gettime(clock, &mut time) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let seconds = u64::try_from(time.tv_sec).map_err(io::Error::other)?;
    let nanoseconds = u64::try_from(time.tv_nsec).map_err(io::Error::other)?;
    Ok(seconds * 1_000_000_000 + nanoseconds)
}

/// Puts the calling thread into the class that runs only where no other thread wants to.
///
/// # Errors
/// Those of sched_setscheduler(2); no right is needed for this class.
pub(crate) fn become_idle_class() -> io::Result<()> {
    // SAFETY: all of its fields are integers, for which zero is a value; the class knows no other priority.
    let parameter: libc::sched_param = unsafe { std::mem::zeroed() };
    // SAFETY: 0 names the calling thread, and `parameter` is valid for the call, which reads nothing else.
    if unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &parameter) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_clock_agrees_with_the_standard_one() {
        let ours = process_cpu_ns(std::process::id()).unwrap();
        let standard = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        let standard = u64::try_from(standard.tv_sec).unwrap() * 1_000_000_000
            + u64::try_from(standard.tv_nsec).unwrap();
        assert!(ours <= standard && standard - ours < 100_000_000, "{ours} and {standard}");
    }

    #[test]
    fn no_process_is_an_error() {
        for pid in [0, MAX_PID, MAX_PID + 1, u32::MAX >> 1, u32::MAX] {
            assert_eq!(process_cpu_ns(pid).unwrap_err().raw_os_error(), Some(libc::EINVAL), "{pid}");
        }
    }
}
