use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// CPU time in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CpuTimes {
    /// All of it, from the process CPU clock (nanosecond resolution, ended threads and children included).
    pub total_ns: u64,
    /// In user mode: the total split by the kernel's tick samples (`/proc/PID/stat`).
    pub user_ns: u64,
    /// In the kernel, likewise.
    pub system_ns: u64,
}

/// TCP counters of the host over a window (`/proc/net/snmp`, `/proc/net/netstat`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TcpCounters {
    /// Segments received.
    pub segments_in: u64,
    /// Segments sent.
    pub segments_out: u64,
    /// Segments sent again.
    pub retransmits: u64,
    /// Connections opened by us.
    pub active_opens: u64,
    /// Connections accepted.
    pub passive_opens: u64,
    /// Connections refused because the accept queue was full.
    pub listen_overflows: u64,
    /// Connections dropped while listening.
    pub listen_drops: u64,
    /// Delayed acknowledgements sent.
    pub delayed_acks: u64,
}

/// What one process group used over a window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// Time between the two readings.
    pub wall_ns: u64,
    /// CPU time.
    pub cpu: CpuTimes,
    /// Time that threads were ready and waited for a CPU (`schedstat`); of threads alive at both ends.
    pub run_wait_ns: u64,
    /// Voluntary context switches; of threads alive at both ends.
    pub voluntary_switches: u64,
    /// Involuntary context switches; of threads alive at both ends.
    pub involuntary_switches: u64,
    /// Minor page faults.
    pub minor_faults: u64,
    /// Major page faults.
    pub major_faults: u64,
    /// Largest resident set so far, summed over processes.
    pub rss_peak_bytes: u64,
    /// Resident set now.
    pub rss_bytes: u64,
    /// Threads at the end.
    pub threads: u32,
    /// Processes at the end.
    pub processes: u32,
    /// CPU time of the busiest single thread alive at both ends.
    pub busiest_thread_ns: u64,
    /// CPU time by the name of the thread, digits at its end left out; of threads alive at both ends.
    #[serde(default)]
    pub threads_ns: BTreeMap<String, u64>,
    /// Threads that began or ended in the window: their switches and waits are missing above.
    pub threads_changed: u32,
    /// Of the CPU time, that of processes that ended in the window and were waited for; known in clock ticks (10 ms).
    #[serde(default)]
    pub ended_processes_ns: u64,
    /// Of the CPU time, that of threads that ended in the window while their process went on.
    #[serde(default)]
    pub ended_threads_ns: u64,
}

/// What a set of CPUs did over a window (`/proc/stat`), and what the host did beside.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostUsage {
    /// Time between the two readings.
    pub wall_ns: u64,
    /// CPUs in the set.
    pub cpus: u32,
    /// User time of the set, nice included.
    pub user_ns: u64,
    /// Kernel time of the set, without interrupts.
    pub system_ns: u64,
    /// Hard interrupts.
    pub irq_ns: u64,
    /// Soft interrupts.
    pub softirq_ns: u64,
    /// Idle and I/O wait.
    pub idle_ns: u64,
    /// Stolen by the hypervisor.
    pub steal_ns: u64,
    /// CPU time of processes that are neither target nor generator nor observer, wherever on the host they ran.
    pub others_ns: u64,
    /// Time that the cgroup was throttled.
    pub throttled_ns: u64,
    /// Lowest and highest frequency seen in kHz, where the kernel says.
    pub frequency_khz: Option<[u64; 2]>,
    /// TCP of the whole host.
    pub tcp: TcpCounters,
}

/// Beginnings of the names of threads that compile, of the JVM and of .NET. Sources: HotSpot, `Thread::name`; the .NET runtime.
const COMPILERS: [&str; 4] = ["C1 Compiler", "C2 Compiler", "JVMCI Compiler", ".NET Tiered Com"];

/// Whether a thread of this name compiles while its server runs.
#[must_use]
pub fn is_compiler(thread: &str) -> bool {
    COMPILERS.iter().any(|name| thread.starts_with(name))
}

impl Usage {
    /// CPU time of the threads that compile, in nanoseconds.
    #[must_use]
    pub fn compiling_ns(&self) -> u64 {
        self.threads_ns.iter().filter(|(thread, _)| is_compiler(thread)).map(|(_, ns)| ns).sum()
    }

    /// Adds what the same group used in a later stretch of time: counters add up, levels are those of the later one.
    pub fn add_later(&mut self, later: &Self) {
        self.wall_ns += later.wall_ns;
        self.cpu.total_ns += later.cpu.total_ns;
        self.cpu.user_ns += later.cpu.user_ns;
        self.cpu.system_ns += later.cpu.system_ns;
        self.run_wait_ns += later.run_wait_ns;
        self.voluntary_switches += later.voluntary_switches;
        self.involuntary_switches += later.involuntary_switches;
        self.minor_faults += later.minor_faults;
        self.major_faults += later.major_faults;
        self.rss_peak_bytes = self.rss_peak_bytes.max(later.rss_peak_bytes);
        self.rss_bytes = later.rss_bytes;
        self.threads = later.threads;
        self.processes = later.processes;
        self.busiest_thread_ns += later.busiest_thread_ns;
        for (name, ns) in &later.threads_ns {
            *self.threads_ns.entry(name.clone()).or_default() += ns;
        }
        self.threads_changed += later.threads_changed;
        self.ended_processes_ns += later.ended_processes_ns;
        self.ended_threads_ns += later.ended_threads_ns;
    }

    /// Adds what another group used in the same stretch of time: the busiest thread is that of either.
    pub fn add_beside(&mut self, other: &Self) {
        let wall_ns = self.wall_ns.max(other.wall_ns);
        let busiest_thread_ns = self.busiest_thread_ns.max(other.busiest_thread_ns);
        let [peak, now] = [self.rss_peak_bytes + other.rss_peak_bytes, self.rss_bytes + other.rss_bytes];
        let (threads, processes) = (self.threads + other.threads, self.processes + other.processes);
        self.add_later(other);
        (self.wall_ns, self.busiest_thread_ns) = (wall_ns, busiest_thread_ns);
        (self.rss_peak_bytes, self.rss_bytes) = (peak, now);
        (self.threads, self.processes) = (threads, processes);
    }
}

impl HostUsage {
    /// Adds what the same CPUs did in a later stretch of time.
    pub fn add_later(&mut self, later: &Self) {
        self.wall_ns += later.wall_ns;
        self.cpus = later.cpus;
        self.user_ns += later.user_ns;
        self.system_ns += later.system_ns;
        self.irq_ns += later.irq_ns;
        self.softirq_ns += later.softirq_ns;
        self.idle_ns += later.idle_ns;
        self.steal_ns += later.steal_ns;
        self.others_ns += later.others_ns;
        self.throttled_ns += later.throttled_ns;
        self.frequency_khz = match (self.frequency_khz, later.frequency_khz) {
            (Some([low, high]), Some([later_low, later_high])) => {
                Some([low.min(later_low), high.max(later_high)])
            }
            (before, now) => before.or(now),
        };
        self.tcp.add(&later.tcp);
    }

    /// Adds what other CPUs did in the same stretch of time.
    pub fn add_beside(&mut self, other: &Self) {
        let (wall_ns, cpus) = (self.wall_ns.max(other.wall_ns), self.cpus + other.cpus);
        self.add_later(other);
        (self.wall_ns, self.cpus) = (wall_ns, cpus);
    }
}

impl TcpCounters {
    fn add(&mut self, more: &Self) {
        self.segments_in += more.segments_in;
        self.segments_out += more.segments_out;
        self.retransmits += more.retransmits;
        self.active_opens += more.active_opens;
        self.passive_opens += more.passive_opens;
        self.listen_overflows += more.listen_overflows;
        self.listen_drops += more.listen_drops;
        self.delayed_acks += more.delayed_acks;
    }
}
