//! What can be measured here, and what would allow the rest.

use std::path::Path;

use rustix::io::Errno;

use crate::counting;
use crate::error::{PERF, below_filter, likely_reason};
use crate::file::optional;
use crate::host::own_hierarchies;
use crate::tracefs::Tracefs;
use crate::{parse, profile, sockets, sys};

/// Something that can be observed here, or why it cannot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capability {
    /// Stable name.
    pub id: &'static str,
    /// Whether it is there.
    pub ok: bool,
    /// What it gives, or what is missing and what would allow it: one or two sentences.
    pub text: String,
}

impl Capability {
    fn new(id: &'static str, ok: bool, good: &str, bad: &str) -> Self {
        Self { id, ok, text: if ok { good } else { bad }.to_owned() }
    }
}

/// CPUs from which server and generator each have their own.
const CPUS: u64 = 2;
/// Accept queue that a burst of connections of a test does not fill. Source: Linux's default since 5.4.
const BACKLOG: u64 = 4096;
/// Descriptors that a test of ten thousand connections needs, with some to spare.
const DESCRIPTORS: u64 = 16_384;
/// Local ports, likewise.
const PORTS: u64 = 16_384;
/// Rights by their number in a mask. Source: Linux, include/uapi/linux/capability.h.
pub(crate) const SYS_PTRACE: u32 = 19;
const SYS_ADMIN: u32 = 21;
const PERFMON: u32 = 38;
const BPF: u32 = 39;

type Check = fn() -> Capability;

/// In the order in which they are listed: what figures rest on, what explains them, what the host allows.
const CHECKS: [Check; 25] = [
    cpu_time,
    run_wait,
    tcp_counters,
    sock_diag,
    throttling,
    pressure,
    steal,
    frequency,
    others,
    sampling,
    sampling_kernel,
    kernel_symbols,
    jvm_log,
    tracepoints,
    calls_in_slices,
    hardware_counters,
    bpftrace,
    btf,
    tracing,
    cpus,
    descriptors,
    backlog,
    ports,
    swap,
    cgroup,
];

/// What can be observed on this host by this user.
#[must_use]
pub fn capabilities() -> Vec<Capability> {
    CHECKS.iter().map(|check| check()).collect()
}

fn there(path: &str) -> bool {
    Path::new(path).exists()
}

fn readable(path: &str) -> bool {
    optional(path).is_some()
}

/// A number in a file; 0 where there is none.
fn number(path: &str) -> u64 {
    optional(path).and_then(|text| text.split_ascii_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Whether a program of this name is on the path.
fn program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

/// What the kernel tells of this thread under `key`; rights and filters belong to threads.
pub(crate) fn own_status(key: &str) -> Option<String> {
    let text = optional("/proc/thread-self/status")?;
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find_map(|(found, value)| (found == key).then(|| value.trim().to_owned()))
}

/// Whether this thread has a right. In a container root lacks most of them, and whoever was given one need not be root.
pub(crate) fn has(right: u32) -> bool {
    let mask = own_status("CapEff").and_then(|mask| u64::from_str_radix(&mask, 16).ok());
    mask.is_some_and(|mask| mask >> right & 1 == 1)
}

fn cpu_time() -> Capability {
    Capability::new(
        "cpu_time",
        sys::process_cpu_ns(std::process::id()).is_ok(),
        "CPU time of processes in nanoseconds.",
        "The kernel gives no CPU clock of other processes: nothing can be compared.",
    )
}

fn run_wait() -> Capability {
    Capability::new(
        "run_wait",
        readable("/proc/self/schedstat"),
        "Run-queue wait of threads.",
        "No run-queue wait: the kernel lacks CONFIG_SCHED_INFO, and figures of it read 0.",
    )
}

fn tcp_counters() -> Capability {
    Capability::new(
        "tcp_counters",
        readable("/proc/net/snmp") && readable("/proc/net/netstat"),
        "TCP counters of the host.",
        "No TCP counters: /proc/net is hidden, and figures of it read 0.",
    )
}

fn sock_diag() -> Capability {
    Capability::new(
        "sock_diag",
        sockets::all().is_ok(),
        "Accept queues, segments and retransmits of single connections (sock_diag).",
        "No accept queues and no segments per request: the kernel lacks tcp_diag (modprobe tcp_diag), or a filter of system \
         calls (a container's seccomp) refuses netlink sockets.",
    )
}

fn throttling() -> Capability {
    Capability::new(
        "throttling",
        !own_hierarchies().is_empty(),
        "Throttling by cgroups.",
        "No cgroup file system is mounted: throttling would not be seen.",
    )
}

fn pressure() -> Capability {
    Capability::new(
        "pressure",
        readable("/proc/pressure/cpu"),
        "Time that tasks waited for CPU, memory and disk (pressure stall information).",
        "No pressure stall information: boot with psi=1 (CONFIG_PSI).",
    )
}

fn steal() -> Capability {
    let text = optional("/proc/stat").unwrap_or_default();
    let steal: u64 = parse::cpu_lines(&text).map(|(_, ticks)| ticks.steal).sum();
    let guest = optional("/proc/cpuinfo").is_some_and(|text| text.contains(" hypervisor"));
    Capability::new(
        "steal",
        !guest || steal > 0,
        "Time stolen by a hypervisor, where there is one.",
        "A virtual machine whose hypervisor has told of no stolen time so far: it has stolen none, or does not tell.",
    )
}

fn frequency() -> Capability {
    Capability::new(
        "frequency",
        readable("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq"),
        "CPU frequency.",
        "No CPU frequency: the kernel does not govern it here, as in most virtual machines.",
    )
}

fn others() -> Capability {
    Capability::new(
        "others",
        has(SYS_PTRACE) || readable("/proc/1/syscall"),
        "Processes of other users.",
        "Processes of other users are seen by their CPU time only: run as root, or give CAP_SYS_PTRACE.",
    )
}

fn sampling() -> Capability {
    let advice = "set kernel.perf_event_paranoid to 2 or below, or give CAP_PERFMON";
    Capability::new(
        "sampling",
        profile::permitted(false),
        "Profiles of user code (perf events).",
        &format!("No profiles: {}.", below_filter(PERF, advice)),
    )
}

fn sampling_kernel() -> Capability {
    let advice = "set kernel.perf_event_paranoid to 1 or below, or give CAP_PERFMON";
    // A filter that lets the one sampling pass is not what refuses the other.
    let advice = if profile::permitted(false) { advice.to_owned() } else { below_filter(PERF, advice) };
    Capability::new(
        "sampling_kernel",
        profile::permitted(true),
        "Profiles of time in the kernel, and of where threads wait.",
        &format!("Profiles without the kernel, and none of where threads wait: {advice}."),
    )
}

fn kernel_symbols() -> Capability {
    Capability::new(
        "kernel_symbols",
        profile::kernel_symbols(),
        "Names of the kernel's functions.",
        "The kernel's functions have no names: set kernel.kptr_restrict to 0, or give CAP_SYSLOG.",
    )
}

fn jvm_log() -> Capability {
    Capability::new(
        "jvm_log",
        program("jcmd"),
        "Pauses and collections of Java virtual machines (jcmd, JDK 17 or later).",
        "Pauses and collections of Java virtual machines are not seen: install a JDK (jcmd).",
    )
}

fn tracepoints() -> Capability {
    let id = Tracefs::open().and_then(|tracefs| tracefs.id("raw_syscalls", "sys_enter"));
    let bad = match id.map(counting::try_tracepoint) {
        Some(Ok(())) => String::new(),
        Some(Err(error)) => format!(
            "No counts of system calls: tracepoints can be read, but a counter of one is refused ({error}): {}.",
            likely_reason(&error, PERF, counting::ADVICE)
        ),
        None => "No counts of system calls: as root, mount -t tracefs nodev /sys/kernel/tracing (then for other users \
                 mount -o remount,gid=GROUP,mode=0750)."
            .to_owned(),
    };
    Capability::new(
        "tracepoints",
        bad.is_empty(),
        "System calls by name, wakeups and TCP events counted (tracepoints).",
        &bad,
    )
}

fn calls_in_slices() -> Capability {
    let bad = counting::try_slices()
        .err()
        .map_or_else(String::new, |error| format!("No slices: {}.", counting::without_slices(&error)));
    Capability::new(
        "calls_in_slices",
        bad.is_empty(),
        "System calls counted in slices, which costs a server next to nothing (BPF).",
        &bad,
    )
}

fn hardware_counters() -> Capability {
    let tried = counting::try_instructions();
    let refused = [Errno::ACCESS, Errno::PERM, Errno::NOSYS];
    let bad = match &tried {
        // What is forbidden may be there or not; anything else is the kernel's word that there is none.
        Err(error) if Errno::from_io_error(error).is_some_and(|errno| refused.contains(&errno)) => format!(
            "No instructions, cycles and misses: a counter is refused ({error}): {}.",
            likely_reason(error, PERF, counting::ADVICE)
        ),
        _ => "No instructions, cycles and misses: this machine shows no performance counters, as most virtual machines."
            .to_owned(),
    };
    Capability::new("hardware_counters", tried.is_ok(), "Instructions, cycles and cache misses.", &bad)
}

fn bpftrace() -> Capability {
    // It finds tracepoints only where they are mounted for all to see.
    let mounted =
        ["/sys/kernel/tracing/events", "/sys/kernel/debug/tracing/events"].iter().any(|path| there(path));
    // It refuses whoever is not root by itself, the kernel whoever lacks the rights.
    let root = rustix::process::geteuid().is_root();
    let allowed = root && (has(SYS_ADMIN) || (has(BPF) && has(PERFMON)));
    Capability::new(
        "bpftrace",
        program("bpftrace") && allowed && mounted,
        "Tracing by hand beyond what whyslow does itself (bpftrace).",
        "No tracing by hand: install bpftrace, mount -t tracefs nodev /sys/kernel/tracing, and run as root with CAP_BPF \
         and CAP_PERFMON, or CAP_SYS_ADMIN. whyslow itself needs none of it.",
    )
}

fn btf() -> Capability {
    Capability::new(
        "btf",
        there("/sys/kernel/btf/vmlinux"),
        "Types of the kernel for BPF programs.",
        "BPF programs do not know the kernel's types: it lacks CONFIG_DEBUG_INFO_BTF. whyslow itself needs none of it.",
    )
}

/// How far Yama restricts who may trace whom; 0 also where there is no Yama.
///
/// Source: Linux, Documentation/admin-guide/LSM/Yama.rst.
pub(crate) fn yama_scope() -> u64 {
    number("/proc/sys/kernel/yama/ptrace_scope")
}

/// A server that whyslow starts descends from it, so that it may be traced where Yama asks for that.
fn tracing() -> Capability {
    let everybody = has(SYS_PTRACE);
    let bad = match yama_scope() {
        _ if crate::tracer::is_filtered() => {
            "a seccomp filter refuses ptrace: allow it there (containers have one)"
        }
        0 | 1 => "",
        2 if everybody => "",
        2 => "set kernel.yama.ptrace_scope to 1 or 0, or give CAP_SYS_PTRACE",
        _ => "kernel.yama.ptrace_scope is 3, which lasts until the next boot",
    };
    let whose = if everybody { "" } else { " of servers of this user" };
    Capability::new(
        "call_tracing",
        bad.is_empty(),
        &format!(
            "System calls{whose} counted one by one at a low rate (ptrace), where tracepoints are forbidden."
        ),
        &format!("System calls cannot be counted one by one: {bad}."),
    )
}

fn cpus() -> Capability {
    let status = parse::status(&optional("/proc/self/status").unwrap_or_default());
    let count = status.allowed_cpus.parse::<model::units::CpuSet>().map_or(0, |cpus| cpus.len() as u64);
    Capability::new(
        "cpus",
        count >= CPUS,
        "Server and generator on CPUs of their own.",
        "One CPU only: server and generator share it, and each figure has both in it.",
    )
}

fn descriptors() -> Capability {
    let hard = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum.unwrap_or(u64::MAX);
    Capability::new(
        "descriptors",
        hard >= DESCRIPTORS,
        "Descriptors for ten thousand connections.",
        "Few descriptors: thousands of connections need a higher hard limit (ulimit -Hn).",
    )
}

fn backlog() -> Capability {
    Capability::new(
        "backlog",
        number("/proc/sys/net/core/somaxconn") >= BACKLOG,
        "Accept queues as long as servers ask for.",
        "Accept queues are cut short: set net.core.somaxconn to 4096.",
    )
}

fn ports() -> Capability {
    let text = optional("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut ends = text.split_ascii_whitespace().map(|word| word.parse::<u64>().unwrap_or(0));
    let (low, high) = (ends.next().unwrap_or(0), ends.next().unwrap_or(0));
    Capability::new(
        "ports",
        high.saturating_sub(low) >= PORTS,
        "Local ports for ten thousand connections.",
        "Few local ports: widen net.ipv4.ip_local_port_range (\"16384 65000\").",
    )
}

fn swap() -> Capability {
    let info = optional("/proc/meminfo").unwrap_or_default();
    Capability::new(
        "no_swap",
        parse::meminfo_bytes(&info, "SwapTotal").unwrap_or(0) == 0,
        "No swap: memory that is short is an error, not a delay.",
        "Swap is on: watch paging in the resources, or switch it off (swapoff -a).",
    )
}

fn cgroup() -> Capability {
    let hierarchies = own_hierarchies();
    let second = hierarchies.iter().any(|hierarchy| hierarchy.controllers.is_empty() && has_cpu(hierarchy));
    let first = hierarchies.iter().any(|hierarchy| hierarchy.controllers.iter().any(|name| name == "cpu"));
    let good = if second {
        "Limits and usage of cgroups, version 2."
    } else {
        "Limits and usage of cgroups, version 1."
    };
    Capability::new(
        "cgroup",
        first || second,
        good,
        "No cgroup of ours has a CPU controller: limits would not be seen.",
    )
}

/// Whether a hierarchy of version 2 has the CPU controller, and not only processes.
fn has_cpu(hierarchy: &parse::Hierarchy) -> bool {
    hierarchy.folders().iter().any(|folder| there(&format!("{folder}/cpu.stat")))
}
