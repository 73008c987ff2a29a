use std::io;
use std::path::PathBuf;

use rustix::io::Errno;

use crate::capability::own_status;

/// How the kernel tells that a seccomp filter decides on system calls. Source: Linux, Documentation/filesystems/proc.rst.
pub(crate) const FILTERED: &str = "2";

/// Why something cannot be observed; each display is one sentence.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObserveError {
    /// The process is not there.
    #[error(
        "there is no process {0} that this user can see: check the number, or look as its own user or as root"
    )]
    NoProcess(u32),
    /// The process was there when watching began and is not there any more.
    #[error("process {0} has ended")]
    Ended(u32),
    /// A file that every Linux has cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause. Written raw it is no source of the error: a chain of errors would tell it a second time.
        r#source: io::Error,
    },
    /// Nobody listens on a port, or somebody whom this user may not look at.
    #[error(
        "no process that this user can see listens on port {0}: check the port, or look as the server's own user or as root"
    )]
    NoListener(u16),
    /// No cgroup has this name.
    #[error("there is no cgroup '{0}' below /sys/fs/cgroup: give the name of a unit or of a cgroup's folder")]
    NoUnit(String),
    /// Stacks cannot be sampled.
    #[error("stacks cannot be sampled ({source}): {hint}")]
    Sampling {
        /// The cause, raw as above.
        r#source: io::Error,
        /// What would allow it.
        hint: String,
    },
    /// What ends waits cannot be seen.
    #[error(
        "what ends waits cannot be seen: run as root, or give CAP_PERFMON, CAP_SYSLOG and the right to read \
         /sys/kernel/tracing"
    )]
    NoTracepoints,
    /// More threads than events can be had for.
    #[error("stacks cannot be sampled: {found} threads, at most {most} can be watched on so many CPUs")]
    TooManyThreads {
        /// Threads found.
        found: usize,
        /// Threads that can be watched.
        most: usize,
    },
    /// The system calls of a process cannot be traced.
    #[error("thread {pid} cannot be traced: {reason}")]
    Untraceable {
        /// The thread that refused, or its process.
        pid: u32,
        /// Why, and what would allow it.
        reason: Untraceable,
    },
    /// A file reads otherwise than its documentation says.
    #[error("{} does not read as documented", .0.display())]
    Damaged(PathBuf),
}

/// Why a process cannot be traced; each display says what would allow it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Untraceable {
    /// Another thread, whose number this is, traces it, and there can be one tracer only.
    #[error("{0} traces it already (a debugger, or strace): end that first")]
    Traced(u32),
    /// The kernel lets processes be traced by those that they descend from.
    #[error(
        "kernel.yama.ptrace_scope is 1, so that only what whyslow started itself may be traced: set it to 0, or give \
         CAP_SYS_PTRACE"
    )]
    DescendantsOnly,
    /// The kernel lets nobody trace who has no special right.
    #[error("kernel.yama.ptrace_scope is 2: set it to 1 or 0, or give CAP_SYS_PTRACE")]
    PrivilegedOnly,
    /// The kernel lets nobody trace until it is booted anew.
    #[error(
        "kernel.yama.ptrace_scope is 3, which lasts until the next boot: set it lower in /etc/sysctl.d and boot"
    )]
    Nobody,
    /// A filter of system calls is above us.
    #[error("a seccomp filter refuses ptrace ({0}): allow it there (containers have one)")]
    Filtered(io::Error),
    /// It is another user's, or has more rights than we.
    #[error(
        "it is another user's, or has more rights than we ({0}): run as that user, or give CAP_SYS_PTRACE"
    )]
    Refused(io::Error),
}

impl ObserveError {
    /// What a refused perf event means.
    pub(crate) fn sampling(source: io::Error) -> Self {
        let hint = match Errno::from_io_error(&source) {
            Some(Errno::ACCESS | Errno::PERM) => {
                "it takes the same user and kernel.perf_event_paranoid of 2 or below, or CAP_PERFMON and CAP_SYS_PTRACE"
            }
            Some(Errno::MFILE | Errno::NFILE) => {
                "each thread takes one descriptor for each CPU: raise the limit (ulimit -n)"
            }
            Some(Errno::NOSYS | Errno::NOENT | Errno::OPNOTSUPP | Errno::NODEV) => {
                "this kernel has no perf events (CONFIG_PERF_EVENTS)"
            }
            _ => "the kernel refused a perf event",
        };
        let hint = likely_reason(&source, PERF, hint);
        Self::Sampling { source, hint }
    }
}

/// The system call that opens perf events.
pub(crate) const PERF: &str = "perf_event_open";

/// `advice` for a system call that was refused with `error`, after the filter that may have refused it: filters answer
/// EPERM or ENOSYS, while the kernel's own rules for perf events answer EACCES.
pub(crate) fn likely_reason(error: &io::Error, call: &str, advice: &str) -> String {
    match Errno::from_io_error(error) {
        Some(Errno::PERM | Errno::NOSYS) => below_filter(call, advice),
        _ => advice.to_owned(),
    }
}

/// `advice` for a system call that was refused, after the filter that this thread is below, where it is below one.
pub(crate) fn below_filter(call: &str, advice: &str) -> String {
    if own_status("Seccomp").as_deref() == Some(FILTERED) {
        format!(
            "a seccomp filter is a likely reason, so allow {call} in it (containers have one); else {advice}"
        )
    } else {
        advice.to_owned()
    }
}
