/// What is used of `/proc/PID/stat`. Times are in clock ticks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) pid: u32,
    pub(crate) state: char,
    pub(crate) parent: u32,
    pub(crate) group: u32,
    pub(crate) flags: u64,
    pub(crate) minor_faults: u64,
    pub(crate) child_minor_faults: u64,
    pub(crate) major_faults: u64,
    pub(crate) child_major_faults: u64,
    pub(crate) user: u64,
    pub(crate) system: u64,
    pub(crate) child_user: u64,
    pub(crate) child_system: u64,
    pub(crate) threads: u32,
    /// When it began, since boot: with the pid it names a process for ever.
    pub(crate) start: u64,
}

impl Stat {
    /// Whether it is a thread of the kernel, such as `ksoftirqd`, that only looks like a process.
    pub(crate) fn is_kernel_thread(&self) -> bool {
        /// Source: Linux, include/linux/sched.h.
        const PF_KTHREAD: u64 = 0x0020_0000;
        self.flags & PF_KTHREAD != 0
    }
}

/// Reads `/proc/PID/stat`. The name stands in brackets and may hold anything, brackets too, so that fields are counted
/// from the last one. Source: proc_pid_stat(5).
pub(crate) fn stat(text: &str) -> Option<Stat> {
    let (pid, rest) = text.split_once(' ')?;
    // Field 3 of the documentation is the first one here.
    let fields: Vec<&str> = rest.rsplit_once(')')?.1.split_ascii_whitespace().take(20).collect();
    let field = |number: usize| fields.get(number - 3).copied();
    let count = |number: usize| field(number)?.parse::<u64>().ok();
    let small = |number: usize| field(number)?.parse::<u32>().ok();
    Some(Stat {
        pid: pid.parse().ok()?,
        state: field(3)?.chars().next()?,
        parent: small(4)?,
        group: small(5)?,
        flags: count(9)?,
        minor_faults: count(10)?,
        child_minor_faults: count(11)?,
        major_faults: count(12)?,
        child_major_faults: count(13)?,
        user: count(14)?,
        system: count(15)?,
        child_user: count(16)?,
        child_system: count(17)?,
        threads: small(20)?,
        start: count(22)?,
    })
}

/// What is used of `/proc/PID/status` and `/proc/PID/task/TID/status`; what a kernel thread or a zombie lacks is 0.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) rss_peak_bytes: u64,
    pub(crate) rss_bytes: u64,
    pub(crate) voluntary_switches: u64,
    pub(crate) involuntary_switches: u64,
    pub(crate) allowed_cpus: String,
    pub(crate) name: String,
}

/// Reads a `status` file. Source: proc_pid_status(5).
pub(crate) fn status(text: &str) -> Status {
    let mut found = Status::default();
    for (key, value) in text.lines().filter_map(|line| line.split_once(':')) {
        let number = || value.split_ascii_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0);
        match key {
            "Name" => value.trim().clone_into(&mut found.name),
            "VmHWM" => found.rss_peak_bytes = number() * 1024,
            "VmRSS" => found.rss_bytes = number() * 1024,
            "voluntary_ctxt_switches" => found.voluntary_switches = number(),
            "nonvoluntary_ctxt_switches" => found.involuntary_switches = number(),
            "Cpus_allowed_list" => value.trim().clone_into(&mut found.allowed_cpus),
            _ => {}
        }
    }
    found
}

/// `/proc/PID/task/TID/schedstat`: time on a CPU, and time ready to run but waiting, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Schedstat {
    pub(crate) run_ns: u64,
    pub(crate) wait_ns: u64,
}

/// Reads a `schedstat` file. Source: Linux, Documentation/scheduler/sched-stats.rst.
pub(crate) fn schedstat(text: &str) -> Option<Schedstat> {
    let mut words = text.split_ascii_whitespace().map(str::parse);
    Some(Schedstat { run_ns: words.next()?.ok()?, wait_ns: words.next()?.ok()? })
}

/// The stack pointer of a thread that waits in a system call or because of a fault, in `/proc/PID/task/TID/syscall`; nothing of one that
/// runs. Source: proc_pid_syscall(5).
pub(crate) fn waiting_stack(text: &str) -> Option<u64> {
    // Number and arguments of the call, or -1; then stack pointer and place.
    let mut words = text.split_ascii_whitespace().rev();
    let (_place, stack, _before) = (words.next()?, words.next()?, words.next()?);
    u64::from_str_radix(stack.strip_prefix("0x")?, 16).ok()
}
