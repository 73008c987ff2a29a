use crate::file::optional;

/// Something that can be observed here, or why it cannot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capability {
    /// Stable name.
    pub id: &'static str,
    /// Whether it is there.
    pub ok: bool,
    /// What it gives, or what is missing and what would allow it: one sentence.
    pub text: String,
}

impl Capability {
    pub(crate) fn new(id: &'static str, ok: bool, good: &str, bad: &str) -> Self {
        Self { id, ok, text: if ok { good } else { bad }.to_owned() }
    }
}

/// What can be observed on this host by this user.
#[must_use]
pub fn capabilities() -> Vec<Capability> {
    let there = |path: &str| optional(path).is_some();
    vec![
        Capability::new(
            "cpu_time",
            crate::sys::process_cpu_ns(std::process::id()).is_ok(),
            "CPU time of processes in nanoseconds.",
            "The kernel gives no CPU clock of other processes: nothing can be compared.",
        ),
        Capability::new(
            "run_wait",
            there("/proc/self/schedstat"),
            "Run-queue wait of threads.",
            "No run-queue wait: the kernel lacks CONFIG_SCHED_INFO, and figures of it read 0.",
        ),
        Capability::new(
            "tcp_counters",
            there("/proc/net/snmp") && there("/proc/net/netstat"),
            "TCP counters of the host.",
            "No TCP counters: /proc/net is hidden, and figures of it read 0.",
        ),
        Capability::new(
            "throttling",
            !crate::host::own_hierarchies().is_empty(),
            "Throttling by cgroups.",
            "No cgroup file system is mounted: throttling would not be seen.",
        ),
        Capability::new(
            "frequency",
            there("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq"),
            "CPU frequency.",
            "No CPU frequency: the kernel does not govern it here, as in most virtual machines.",
        ),
    ]
}
