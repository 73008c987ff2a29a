use std::collections::BTreeMap;

use model::record::Host;
use model::units::CpuSet;

use crate::file::optional;
use crate::host::own_hierarchies;

/// Kernel settings that change how servers and loopback behave.
const SYSCTLS: [&str; 27] = [
    "fs.file-max",
    "fs.nr_open",
    "kernel.kptr_restrict",
    "kernel.numa_balancing",
    "kernel.perf_event_paranoid",
    "kernel.randomize_va_space",
    "kernel.sched_autogroup_enabled",
    "kernel.sched_rt_runtime_us",
    "net.core.busy_poll",
    "net.core.default_qdisc",
    "net.core.netdev_budget",
    "net.core.netdev_max_backlog",
    "net.core.rmem_max",
    "net.core.somaxconn",
    "net.core.wmem_max",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_autocorking",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_max_tw_buckets",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_tw_reuse",
    "net.ipv4.tcp_wmem",
    "vm.overcommit_memory",
];

/// cgroup files that limit us, by controller, of both versions.
const LIMITS: [(&str, &[&str]); 4] = [
    ("cpu", &["cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.weight", "cpu.shares"]),
    ("cpuset", &["cpuset.cpus.effective", "cpuset.effective_cpus"]),
    ("memory", &["memory.max", "memory.high", "memory.limit_in_bytes"]),
    ("pids", &["pids.max"]),
];

/// The facts of this machine that figures depend on. What cannot be read is left out or empty.
#[must_use]
pub fn fingerprint() -> Host {
    let cpuinfo = optional("/proc/cpuinfo").unwrap_or_default();
    Host {
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        cpu_model: cpu_model(&cpuinfo),
        cpus: std::fs::read_to_string("/sys/devices/system/cpu/online")
            .ok()
            .and_then(|list| list.trim().parse::<CpuSet>().ok())
            .map_or(0, |cpus| u32::try_from(cpus.len()).unwrap_or(u32::MAX)),
        allowed_cpus: allowed_cpus(),
        memory_bytes: memory_bytes(&optional("/proc/meminfo").unwrap_or_default()),
        kernel: optional("/proc/sys/kernel/osrelease").unwrap_or_default(),
        governor: optional("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        hypervisor: hypervisor(&cpuinfo),
        mitigations: mitigations(),
        cgroup: cgroup_limits(),
        sysctls: sysctls(),
        descriptors: rustix::process::getrlimit(rustix::process::Resource::Nofile)
            .maximum
            .unwrap_or(u64::MAX),
        unit_costs: None,
        loopback_bytes_per_s: None,
        link: None,
    }
}

/// `model name` on x86; on ARM the implementer and part numbers, which name the core.
fn cpu_model(cpuinfo: &str) -> String {
    let field = |name: &str| {
        let line = cpuinfo.lines().find(|line| line.split(':').next().map(str::trim) == Some(name))?;
        line.split_once(':').map(|(_, value)| value.trim().to_owned())
    };
    let arm = || Some(format!("{} part {}", field("CPU implementer")?, field("CPU part")?));
    field("model name").or_else(arm).unwrap_or_default()
}

fn allowed_cpus() -> String {
    let status = optional("/proc/self/status").unwrap_or_default();
    crate::parse::status(&status).allowed_cpus
}

fn memory_bytes(meminfo: &str) -> u64 {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    line.and_then(|rest| rest.split_ascii_whitespace().next()?.parse::<u64>().ok())
        .map_or(0, |kib| kib * 1024)
}

/// The name where the machine gives one, else that there is one: the CPU flag is set by every common hypervisor.
fn hypervisor(cpuinfo: &str) -> Option<String> {
    let flagged = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("flags"))
        .is_some_and(|flags| flags.split_ascii_whitespace().any(|flag| flag == "hypervisor"));
    let product = || flagged.then(|| optional("/sys/class/dmi/id/product_name")).flatten();
    optional("/sys/hypervisor/type").or_else(product).or_else(|| flagged.then(|| "unnamed".to_owned()))
}

fn mitigations() -> BTreeMap<String, String> {
    let Ok(entries) = std::fs::read_dir("/sys/devices/system/cpu/vulnerabilities") else {
        return BTreeMap::new();
    };
    entries
        .filter_map(Result::ok)
        .filter_map(|entry| Some((entry.file_name().into_string().ok()?, optional(entry.path())?)))
        .collect()
}

/// The limits that are set in our cgroups and those above, by file; a limit that is none is left out.
fn cgroup_limits() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for hierarchy in own_hierarchies() {
        let names = || {
            LIMITS.iter().filter(|(controller, _)| hierarchy.has(controller)).flat_map(|(_, names)| *names)
        };
        for path in
            hierarchy.folders().iter().flat_map(|folder| names().map(move |name| format!("{folder}/{name}")))
        {
            if let Some(value) = optional(&path).filter(|value| value != "max" && !value.is_empty()) {
                found.insert(path, value);
            }
        }
    }
    found
}

fn sysctls() -> BTreeMap<String, String> {
    let read = |name: &&str| {
        let value = optional(format!("/proc/sys/{}", name.replace('.', "/")))?;
        Some(((*name).to_owned(), value.replace('\t', " ")))
    };
    SYSCTLS.iter().filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_read_on_both_architectures() {
        let x86 =
            "processor\t: 0\nmodel\t\t: 85\nmodel name\t: Intel(R) Xeon(R)\nflags\t\t: fpu hypervisor\n";
        assert_eq!(cpu_model(x86), "Intel(R) Xeon(R)");
        assert_eq!(cpu_model("CPU implementer\t: 0x41\nCPU part\t: 0xd0c\n"), "0x41 part 0xd0c");
        assert_eq!(cpu_model(""), "");
    }

    #[test]
    fn memory_is_read_in_bytes() {
        assert_eq!(memory_bytes("MemFree: 1 kB\nMemTotal:       16 kB\n"), 16384);
        assert_eq!(memory_bytes("nothing"), 0);
    }
}
