//! ptrace(2) of threads that go on running: seized, not attached to, so that none is stopped by a signal.

use std::io;

/// What stops a thread of a traced process, beside signals: its calls, threads and processes that it begins, and another
/// program that it becomes. `PTRACE_O_EXITKILL` is not among them: a tracer that dies leaves the server running.
const OPTIONS: libc::c_int = libc::PTRACE_O_TRACESYSGOOD
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACEEXEC;

/// Added to SIGTRAP where a thread stops at a system call. Source: ptrace(2), PTRACE_O_TRACESYSGOOD.
const AT_CALL: libc::c_int = 0x80;
/// A stop that is asked for, or a stop of the whole process, or the first one of a new thread.
/// Source: Linux, include/uapi/linux/ptrace.h, PTRACE_EVENT_STOP.
const EVENT_STOP: libc::c_int = 128;

/// The architecture whose numbers of system calls the names of ours belong to.
/// Source: Linux, include/uapi/linux/audit.h.
const NATIVE: u32 = if cfg!(target_arch = "aarch64") { 0xC000_00B7 } else { 0xC000_003E };

/// What has become of a traced thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// It enters or leaves a system call.
    Call,
    /// It is about to receive this signal.
    Signal(i32),
    /// It began a thread or a process.
    Began,
    /// It became another program.
    Became,
    /// It stops because it was asked to, or because it is new.
    Asked,
    /// It stops with its whole process, which a signal stopped.
    Halted,
    /// It has ended.
    Ended,
}

/// One end of a system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    /// It begins: its number and arguments.
    Entered(u64, [u64; 6]),
    /// It is over: what it returns, negative where it failed.
    Left(i64),
    /// One of another architecture begins.
    Foreign,
    /// The kernel knows of none.
    Unknown,
}

/// Begins to trace a thread, which runs on.
///
/// # Errors
/// Those of ptrace(2): `EPERM` where it is not allowed or the thread is traced already, `ESRCH` where it is gone.
pub(crate) fn seize(tid: u32) -> io::Result<()> {
    request(libc::PTRACE_SEIZE, tid, OPTIONS as usize)
}

/// Asks a traced thread to stop.
///
/// # Errors
/// `ESRCH` where it is gone.
pub(crate) fn interrupt(tid: u32) -> io::Result<()> {
    request(libc::PTRACE_INTERRUPT, tid, 0)
}

/// Lets a stopped thread run until it enters or leaves a system call, and gives it a signal, where that is not 0.
///
/// # Errors
/// `ESRCH` where it is not stopped, or gone.
pub(crate) fn run_to_call(tid: u32, signal: i32) -> io::Result<()> {
    request(libc::PTRACE_SYSCALL, tid, signal.unsigned_abs() as usize)
}

/// Leaves a thread stopped whose process a signal stopped, until another one wakes that.
///
/// # Errors
/// `ESRCH` where it is not stopped, or gone.
pub(crate) fn leave_halted(tid: u32) -> io::Result<()> {
    request(libc::PTRACE_LISTEN, tid, 0)
}

/// Lets a stopped thread go, with a signal where that is not 0.
///
/// # Errors
/// `ESRCH` where it is not stopped, or gone.
pub(crate) fn let_go(tid: u32, signal: i32) -> io::Result<()> {
    request(libc::PTRACE_DETACH, tid, signal.unsigned_abs() as usize)
}

/// The thread that a thread has just begun, or the number that it had before it became another program.
///
/// # Errors
/// `ESRCH` where it is not stopped, or gone.
pub(crate) fn message(tid: u32) -> io::Result<u32> {
    let mut message: libc::c_ulong = 0;
    // SAFETY: the kernel writes one unsigned long, which outlives the call; the address that it takes is not used.
    let done = unsafe {
        libc::ptrace(
            libc::PTRACE_GETEVENTMSG,
            thread(tid)?,
            std::ptr::null_mut::<libc::c_void>(),
            &raw mut message,
        )
    };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    u32::try_from(message).map_err(io::Error::other)
}

/// The system call at which a thread is stopped.
///
/// # Errors
/// `ESRCH` where it is not stopped, or gone; `EIO` before Linux 5.3, which cannot tell.
pub(crate) fn call(tid: u32) -> io::Result<Call> {
    // SAFETY: all of its fields are integers, for which zero is a value.
    let mut info: libc::ptrace_syscall_info = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes at most as many bytes as it is told there is room for, into `info`, which outlives the call.
    let done = unsafe {
        libc::ptrace(
            libc::PTRACE_GET_SYSCALL_INFO,
            thread(tid)?,
            size_of::<libc::ptrace_syscall_info>(),
            &raw mut info,
        )
    };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(match info.op {
        libc::PTRACE_SYSCALL_INFO_ENTRY if info.arch == NATIVE => {
            // SAFETY: `op` says that the kernel wrote this member, and all of it are integers.
            let entry = unsafe { info.u.entry };
            Call::Entered(entry.nr, entry.args)
        }
        libc::PTRACE_SYSCALL_INFO_ENTRY => Call::Foreign,
        libc::PTRACE_SYSCALL_INFO_EXIT => {
            // SAFETY: as above.
            Call::Left(unsafe { info.u.exit }.sval)
        }
        _ => Call::Unknown,
    })
}

/// The next thing that became of a thread which the calling thread traces; nothing where nothing did. The children of the
/// process, which others wait for, are not waited for.
///
/// # Errors
/// `ECHILD` where it traces none.
pub(crate) fn next() -> io::Result<Option<(u32, Change)>> {
    let mut status = 0;
    // SAFETY: `status` is a valid int that outlives the call, which writes nothing else.
    let tid = unsafe { libc::waitpid(-1, &mut status, libc::__WALL | libc::__WNOTHREAD | libc::WNOHANG) };
    match u32::try_from(tid) {
        Err(_) => Err(io::Error::last_os_error()),
        Ok(0) => Ok(None),
        Ok(tid) => Ok(Some((tid, change(status)))),
    }
}

/// Source: ptrace(2), "Stopped states".
fn change(status: libc::c_int) -> Change {
    if !libc::WIFSTOPPED(status) {
        return Change::Ended;
    }
    let signal = libc::WSTOPSIG(status);
    match status >> 16 {
        0 if signal == libc::SIGTRAP | AT_CALL => Change::Call,
        0 => Change::Signal(signal),
        libc::PTRACE_EVENT_EXEC => Change::Became,
        libc::PTRACE_EVENT_CLONE | libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK => Change::Began,
        EVENT_STOP if signal != libc::SIGTRAP => Change::Halted,
        _ => Change::Asked,
    }
}

fn thread(tid: u32) -> io::Result<libc::pid_t> {
    libc::pid_t::try_from(tid).map_err(io::Error::other)
}

/// A request with a number, and without an address.
fn request(what: libc::c_uint, tid: u32, data: usize) -> io::Result<()> {
    // SAFETY: none of the requests that take a number reads or writes memory of ours.
    let done = unsafe { libc::ptrace(what, thread(tid)?, std::ptr::null_mut::<libc::c_void>(), data) };
    if done != 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stops_are_told_apart() {
        let stopped = |signal: i32, event: i32| event << 16 | signal << 8 | 0x7f;
        for (status, expected) in [
            (stopped(libc::SIGTRAP | AT_CALL, 0), Change::Call),
            (stopped(libc::SIGUSR1, 0), Change::Signal(libc::SIGUSR1)),
            // Signals of the real-time range are signals as any.
            (stopped(40, 0), Change::Signal(40)),
            (stopped(libc::SIGTRAP, libc::PTRACE_EVENT_CLONE), Change::Began),
            (stopped(libc::SIGTRAP, libc::PTRACE_EVENT_EXEC), Change::Became),
            (stopped(libc::SIGTRAP, EVENT_STOP), Change::Asked),
            (stopped(libc::SIGSTOP, EVENT_STOP), Change::Halted),
            (0x100, Change::Ended),
            (libc::SIGKILL, Change::Ended),
        ] {
            assert_eq!(change(status), expected, "{status:#x}");
        }
    }
}
