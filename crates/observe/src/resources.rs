use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;

use model::record::{Disk, Files, Memory, Network, Pressure, Resources};

use crate::file::{Reader, optional};
use crate::group::Table;
use crate::host::Cgroups;
use crate::sockets::{SocketSnapshot, listeners_on, takers_on};
use crate::{Group, ObserveError, parse};

/// A limit of a cgroup of version 1 that is none: 2⁶³ rounded down to a page.
const NO_LIMIT_BYTES: u64 = 1 << 62;
const MS_NS: u64 = 1_000_000;
/// The first process of a system or a container.
const INIT: u32 = 1;

/// Everything that a USE table needs beside CPU times, at one moment.
#[derive(Debug, Clone)]
pub struct ResourceSnapshot {
    memory: Memory,
    pressure: Option<Pressure>,
    network: Network,
    disks: BTreeMap<String, [u64; 2]>,
    files: Files,
    sockets: Option<SocketSnapshot>,
    unseen: Unseen,
}

/// What cannot be read from here of the processes, as far as it takes a right or another place to read it.
#[derive(Debug, Clone, Copy, Default)]
struct Unseen {
    /// A process whose descriptors cannot be counted.
    descriptors: Option<u32>,
    /// A process whose sockets cannot be told from those of others.
    sockets: Option<u32>,
    /// A process in another network namespace.
    network: Option<u32>,
    /// A process whose cgroup is not mounted here.
    limits: Option<u32>,
    /// Whether the kernel refused to tell of sockets.
    refused: bool,
}

impl ResourceSnapshot {
    /// Reads the resources of the host and of `group`; what cannot be read is 0 or absent.
    ///
    /// # Errors
    /// [`ObserveError::Ended`] where the group is gone.
    pub fn read(group: &Group) -> Result<Self, ObserveError> {
        let mut pids = group.pids()?;
        // The first one stands for all in what is read once, and that is the process that was named.
        pids.sort_by_key(|pid| *pid != group.root());
        Ok(Self::read_of(&pids))
    }

    /// As [`ResourceSnapshot::read`], of processes that are known already.
    pub(crate) fn read_of(pids: &[u32]) -> Self {
        let open = descriptors(pids);
        let first = pids.first().copied();
        let cgroups = first.map_or_else(Cgroups::own, Cgroups::for_process);
        let network_is_ours = first.and_then(same_network);
        let sockets = network_is_ours.filter(|ours| *ours).map(|_| SocketSnapshot::read(&open.sockets));
        let unseen = Unseen {
            descriptors: open.uncounted,
            sockets: open.unnamed,
            network: first.filter(|_| network_is_ours == Some(false)),
            limits: first.filter(|_| !(cgroups.sees("cpu") && cgroups.sees("memory"))),
            refused: matches!(sockets, Some(Err(_))),
        };
        Self {
            memory: memory(&cgroups),
            pressure: pressure(),
            network: network(first),
            disks: parse::disks(&text("/proc/diskstats")),
            files: files(first, &open),
            sockets: sockets.and_then(Result::ok),
            unseen,
        }
    }

    /// What could not be read from here, and what would allow it: one sentence each.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let unseen = &self.unseen;
        let hidden = match (unseen.descriptors, unseen.sockets) {
            (Some(pid), _) => Some(("descriptors and sockets", pid)),
            (None, Some(pid)) => Some(("sockets", pid)),
            (None, None) => None,
        };
        let hidden = hidden
            .map(|(what, pid)| format!("The {what} of process {pid} are hidden from us: {}.", who_sees(pid)));
        let elsewhere = unseen.network.map(|pid| {
            format!(
                "Process {pid} is in another network namespace, and the kernel tells us of sockets in ours only: its accept \
                 queue and its connections are not seen; 'nsenter -t {pid} -n whyslow watch {pid}' sees them."
            )
        });
        let refused = unseen.refused.then(|| {
            "The kernel does not tell of sockets here (sock_diag): accept queue and connections are not seen.".to_owned()
        });
        let limits = unseen.limits.map(|pid| {
            format!(
                "The cgroup of process {pid} is not seen from here: its limits are not known, and its memory is weighed \
                 against that of the host."
            )
        });
        [hidden, elsewhere, refused, limits].into_iter().flatten().collect()
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
                .map(|(now, before)| now.since(before))
                // Where some are hidden, and its listeners among them, nothing is known, and not that it is 0.
                .filter(|sockets| self.unseen.sockets.is_none() || !sockets.listeners.is_empty()),
        }
    }
}

fn text(path: &str) -> String {
    optional(path).unwrap_or_default()
}

fn memory(cgroups: &Cgroups) -> Memory {
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
    add_cgroup(&mut memory, cgroups);
    memory
}

/// Memory that this process and those it starts can have, in bytes, without taking any from what runs: of the machine, and of each
/// cgroup around it that has a limit.
#[must_use]
pub fn available_bytes() -> u64 {
    let machine = parse::meminfo_bytes(&text("/proc/meminfo"), "MemAvailable").unwrap_or(u64::MAX);
    let cgroups = Cgroups::own();
    cgroups.folders("memory").filter_map(|folder| left_in(&folder)).fold(machine, u64::min)
}

/// What a cgroup has left of its limit. Pages of files that nobody uses count as used there, and are given back when asked for.
fn left_in(folder: &str) -> Option<u64> {
    let (limit, used) = (limit_of(folder)?, used_in(folder)?);
    let given_back = parse::keyed(&text(&format!("{folder}/memory.stat")), "inactive_file").unwrap_or(0);
    Some(limit.saturating_sub(used.saturating_sub(given_back)))
}

/// The limit of a cgroup's memory, in version 2 or version 1, where it has one.
fn limit_of(folder: &str) -> Option<u64> {
    number(format!("{folder}/memory.max"))
        .or_else(|| number(format!("{folder}/memory.limit_in_bytes")))
        .filter(|limit| *limit < NO_LIMIT_BYTES)
}

fn used_in(folder: &str) -> Option<u64> {
    number(format!("{folder}/memory.current")).or_else(|| number(format!("{folder}/memory.usage_in_bytes")))
}

fn number(path: String) -> Option<u64> {
    optional(path)?.parse().ok()
}

/// The limit of the innermost cgroup that has one.
fn add_cgroup(memory: &mut Memory, cgroups: &Cgroups) {
    for folder in cgroups.folders("memory") {
        let (limit, used) = (limit_of(&folder), used_in(&folder));
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

fn files(pid: Option<u32>, open: &Descriptors) -> Files {
    let limits = pid.map(|pid| text(&format!("/proc/{pid}/limits"))).unwrap_or_default();
    // A limit of 0 is that of nobody: it says that how many are open is not known either.
    let open_limit = parse::limit(&limits, "Max open files").filter(|_| open.uncounted.is_none());
    let host = text("/proc/sys/fs/file-nr");
    let mut host = host.split_ascii_whitespace().map(|word| word.parse().unwrap_or(0));
    Files {
        open: open_limit.map_or(0, |_| open.most),
        open_limit: open_limit.unwrap_or(0),
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
    /// A process that does not let us count its descriptors.
    uncounted: Option<u32>,
    /// A process that does not let us see what they are.
    unnamed: Option<u32>,
}

/// Reads `/proc/PID/fd`, which is for the same user and root: of others nothing is found. Root without CAP_SYS_PTRACE
/// may count them, and not see what they are.
pub(crate) fn descriptors(pids: &[u32]) -> Descriptors {
    let mut found = Descriptors::default();
    for pid in pids {
        match std::fs::read_dir(format!("/proc/{pid}/fd")) {
            Ok(entries) => found.add(*pid, entries),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                found.uncounted.get_or_insert(*pid);
                found.unnamed.get_or_insert(*pid);
            }
            // It has ended meanwhile.
            Err(_) => {}
        }
    }
    found
}

impl Descriptors {
    fn add(&mut self, pid: u32, entries: std::fs::ReadDir) {
        let mut count = 0;
        for entry in entries.flatten() {
            count += 1;
            match std::fs::read_link(entry.path()) {
                Ok(link) => self.sockets.extend(socket_inode(&link.to_string_lossy())),
                Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                    self.unnamed.get_or_insert(pid);
                }
                // It was closed meanwhile.
                Err(_) => {}
            }
        }
        self.most = self.most.max(count);
    }
}

fn socket_inode(name: &str) -> Option<u32> {
    name.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// Who sees what a process hides from us.
fn who_sees(pid: u32) -> String {
    let owner = std::fs::metadata(format!("/proc/{pid}")).map_or(0, |file| file.uid());
    match owner {
        _ if rustix::process::geteuid().is_root() => "root sees them with CAP_SYS_PTRACE".to_owned(),
        0 => "root sees them".to_owned(),
        owner => format!("user {owner} or root sees them"),
    }
}

/// Whether a process is in our network namespace, as the kernel tells us of sockets there only; nothing where it hides it.
fn same_network(pid: u32) -> Option<bool> {
    let namespace = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/net")).ok();
    Some(namespace(&pid.to_string())? == namespace("self")?)
}

/// The process that listens on a port, or takes datagrams there where nobody listens; of several, the one that the others descend from.
///
/// # Errors
/// [`ObserveError::NoListener`] where there is none, or where its descriptors are hidden from this user.
pub fn listening_process(port: u16) -> Result<u32, ObserveError> {
    let none = || ObserveError::NoListener(port);
    let mut reader = Reader::new();
    let mut inodes = listeners_on(port).unwrap_or_default();
    if inodes.is_empty() {
        inodes = takers_on(port, &mut reader);
    }
    let table = Table::read(&mut reader)?;
    let has = |pid: u32| !descriptors(&[pid]).sockets.is_disjoint(&inodes);
    let mut found: BTreeSet<u32> = table.pids().filter(|pid| has(*pid)).collect();
    // Whoever starts all services may hold their sockets for them.
    if found.len() > 1 {
        found.remove(&INIT);
    }
    let first = found.iter().find(|pid| !table.parent(**pid).is_some_and(|parent| found.contains(&parent)));
    first.copied().ok_or_else(none)
}
