use std::collections::{BTreeMap, BTreeSet};

use record::{Disk, Files, Memory, Network, Pressure, Resources};

use crate::file::{Reader, optional};
use crate::group::Table;
use crate::host::own_hierarchies;
use crate::sockets::{SocketSnapshot, listeners_on};
use crate::{Group, ObserveError, parse};

/// A limit of a cgroup of version 1 that is none: 2⁶³ rounded down to a page.
const NO_LIMIT_BYTES: u64 = 1 << 62;
const MS_NS: u64 = 1_000_000;

/// Everything that a USE table needs beside CPU times, at one moment.
#[derive(Debug, Clone)]
pub struct ResourceSnapshot {
    memory: Memory,
    pressure: Option<Pressure>,
    network: Network,
    disks: BTreeMap<String, [u64; 2]>,
    files: Files,
    sockets: Option<SocketSnapshot>,
}

impl ResourceSnapshot {
    /// Reads the resources of the host and of `group`; what cannot be read is 0 or absent.
    ///
    /// # Errors
    /// [`ObserveError::Ended`] where the group is gone.
    pub fn read(group: &Group) -> Result<Self, ObserveError> {
        let pids = group.pids()?;
        let open = descriptors(&pids);
        let sockets = pids.first().filter(|pid| same_network(**pid));
        Ok(Self {
            memory: memory(),
            pressure: pressure(),
            network: network(pids.first().copied()),
            disks: parse::disks(&text("/proc/diskstats")),
            files: files(&pids, open.most),
            sockets: sockets.and_then(|_| SocketSnapshot::read(&open.sockets).ok()),
        })
    }

    /// What happened since `earlier`, a snapshot of the same group.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Resources {
        Resources {
            memory: memory_since(&self.memory, &earlier.memory),
            pressure: self.pressure.zip(earlier.pressure).map(|(now, before)| Pressure {
                cpu_us: now.cpu_us.saturating_sub(before.cpu_us),
                memory_us: now.memory_us.saturating_sub(before.memory_us),
                io_us: now.io_us.saturating_sub(before.io_us),
            }),
            network: network_since(&self.network, &earlier.network),
            disk: busiest(&self.disks, &earlier.disks),
            files: self.files,
            sockets: self
                .sockets
                .as_ref()
                .zip(earlier.sockets.as_ref())
                .map(|(now, before)| now.since(before)),
        }
    }
}

fn text(path: &str) -> String {
    optional(path).unwrap_or_default()
}

fn memory() -> Memory {
    let (info, vm) = (text("/proc/meminfo"), text("/proc/vmstat"));
    let bytes = |key| parse::meminfo_bytes(&info, key).unwrap_or(0);
    let count = |key| parse::keyed(&vm, key).unwrap_or(0);
    let mut memory = Memory {
        total_bytes: bytes("MemTotal"),
        available_bytes: bytes("MemAvailable"),
        swapped_in_pages: count("pswpin"),
        swapped_out_pages: count("pswpout"),
        direct_scan_pages: count("pgscan_direct"),
        oom_kills: count("oom_kill"),
        ..Memory::default()
    };
    add_cgroup(&mut memory);
    memory
}

/// The limit of the innermost cgroup that has one. A target that we started is in ours.
fn add_cgroup(memory: &mut Memory) {
    let number = |path: String| optional(path)?.parse::<u64>().ok();
    let hierarchies = own_hierarchies();
    for folder in hierarchies.iter().filter(|own| own.has("memory")).flat_map(parse::Hierarchy::folders) {
        let limit = number(format!("{folder}/memory.max"))
            .or_else(|| number(format!("{folder}/memory.limit_in_bytes")))
            .filter(|limit| *limit < NO_LIMIT_BYTES);
        let used = number(format!("{folder}/memory.current"))
            .or_else(|| number(format!("{folder}/memory.usage_in_bytes")));
        let hits = parse::keyed(&text(&format!("{folder}/memory.events")), "max")
            .or_else(|| number(format!("{folder}/memory.failcnt")));
        if limit.is_some() {
            (memory.cgroup_limit_bytes, memory.cgroup_used_bytes) = (limit, used);
            memory.cgroup_limit_hits = hits.unwrap_or(0);
            return;
        }
    }
}

fn memory_since(now: &Memory, before: &Memory) -> Memory {
    Memory {
        swapped_in_pages: now.swapped_in_pages.saturating_sub(before.swapped_in_pages),
        swapped_out_pages: now.swapped_out_pages.saturating_sub(before.swapped_out_pages),
        direct_scan_pages: now.direct_scan_pages.saturating_sub(before.direct_scan_pages),
        oom_kills: now.oom_kills.saturating_sub(before.oom_kills),
        cgroup_limit_hits: now.cgroup_limit_hits.saturating_sub(before.cgroup_limit_hits),
        ..*now
    }
}

fn pressure() -> Option<Pressure> {
    let us = |name: &str| parse::pressure_us(&optional(format!("/proc/pressure/{name}"))?);
    Some(Pressure { cpu_us: us("cpu")?, memory_us: us("memory")?, io_us: us("io")? })
}

/// The interfaces that the target sees; its own files tell, whatever its namespace.
fn network(pid: Option<u32>) -> Network {
    let own = pid.and_then(|pid| optional(format!("/proc/{pid}/net/dev")));
    let [backlog_drops, squeezes] = parse::softnet(&text("/proc/net/softnet_stat"));
    Network { backlog_drops, squeezes, ..parse::interfaces(&own.unwrap_or_default()) }
}

fn network_since(now: &Network, before: &Network) -> Network {
    Network {
        in_bytes: now.in_bytes.saturating_sub(before.in_bytes),
        out_bytes: now.out_bytes.saturating_sub(before.out_bytes),
        drops: now.drops.saturating_sub(before.drops),
        errors: now.errors.saturating_sub(before.errors),
        backlog_drops: now.backlog_drops.saturating_sub(before.backlog_drops),
        squeezes: now.squeezes.saturating_sub(before.squeezes),
    }
}

fn busiest(now: &BTreeMap<String, [u64; 2]>, before: &BTreeMap<String, [u64; 2]>) -> Disk {
    let grown = now.iter().map(|(name, now)| {
        let before = before.get(name).unwrap_or(&[0; 2]);
        let ns = |place: usize| now[place].saturating_sub(before[place]) * MS_NS;
        Disk { name: name.clone(), busy_ns: ns(0), waiting_ns: ns(1) }
    });
    grown.max_by_key(|disk| disk.busy_ns).unwrap_or_default()
}

fn files(pids: &[u32], open: u64) -> Files {
    let limits = pids.first().map(|pid| text(&format!("/proc/{pid}/limits"))).unwrap_or_default();
    let host = text("/proc/sys/fs/file-nr");
    let mut host = host.split_ascii_whitespace().map(|word| word.parse().unwrap_or(0));
    Files {
        open,
        open_limit: parse::limit(&limits, "Max open files").unwrap_or(0),
        host_open: host.next().unwrap_or(0),
        host_limit: host.nth(1).unwrap_or(0),
        thread_limit: parse::limit(&limits, "Max processes"),
    }
}

/// The descriptors of some processes.
#[derive(Default)]
pub(crate) struct Descriptors {
    /// Those of the process that has most.
    most: u64,
    /// Inodes of all sockets among them.
    pub(crate) sockets: BTreeSet<u32>,
}

/// Reads `/proc/PID/fd`, which is for the same user and root: of others nothing is found.
pub(crate) fn descriptors(pids: &[u32]) -> Descriptors {
    let mut found = Descriptors::default();
    for pid in pids {
        let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { continue };
        let mut count = 0;
        for entry in entries.flatten() {
            count += 1;
            let link = std::fs::read_link(entry.path()).unwrap_or_default();
            let name = link.to_string_lossy();
            let inode = name.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']'));
            found.sockets.extend(inode.and_then(|inode| inode.parse::<u32>().ok()));
        }
        found.most = found.most.max(count);
    }
    found
}

/// Whether a process is in our network namespace: the kernel tells us of sockets there only.
pub(crate) fn same_network(pid: u32) -> bool {
    let namespace = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/net")).ok();
    namespace(&pid.to_string()).is_some_and(|theirs| namespace("self") == Some(theirs))
}

/// The process that listens on a port; of several, the one that the others descend from.
///
/// # Errors
/// [`ObserveError::NoListener`] where there is none, or where its descriptors are hidden from this user.
pub fn listening_process(port: u16) -> Result<u32, ObserveError> {
    let none = || ObserveError::NoListener(port);
    let inodes = listeners_on(port).map_err(|_| none())?;
    let table = Table::read(&mut Reader::new())?;
    let has = |pid: u32| !descriptors(&[pid]).sockets.is_disjoint(&inodes);
    let found: BTreeSet<u32> = table.pids().filter(|pid| has(*pid)).collect();
    let first = found.iter().find(|pid| !table.parent(**pid).is_some_and(|parent| found.contains(&parent)));
    first.copied().ok_or_else(none)
}
