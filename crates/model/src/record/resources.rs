use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Memory of the host over a window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Memory {
    /// All of it.
    pub total_bytes: u64,
    /// What could be had without swapping, at the end.
    pub available_bytes: u64,
    /// Pages read from swap.
    pub swapped_in_pages: u64,
    /// Pages written to swap.
    pub swapped_out_pages: u64,
    /// Pages that tasks had to look through themselves to find free ones.
    pub direct_scan_pages: u64,
    /// Processes killed for want of memory.
    pub oom_kills: u64,
    /// Limit of the cgroup; absent where there is none.
    pub cgroup_limit_bytes: Option<u64>,
    /// What the cgroup used at the end.
    pub cgroup_used_bytes: Option<u64>,
    /// How often the cgroup met its limit.
    pub cgroup_limit_hits: u64,
}

/// Time in which some task waited for a resource, in microseconds over the window (`/proc/pressure`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pressure {
    /// For a CPU.
    pub cpu_us: u64,
    /// For memory.
    pub memory_us: u64,
    /// For a disk.
    pub io_us: u64,
}

/// All interfaces of the target's network namespace over a window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Network {
    /// Bytes received.
    pub in_bytes: u64,
    /// Bytes sent.
    pub out_bytes: u64,
    /// Packets dropped on the way in or out.
    pub drops: u64,
    /// Packets damaged on the way in or out.
    pub errors: u64,
    /// Packets dropped because the host's own input queue was full (`net.core.netdev_max_backlog`).
    pub backlog_drops: u64,
    /// How often the kernel stopped taking packets because its time was up (`net.core.netdev_budget`).
    pub squeezes: u64,
}

/// The busiest disk over a window.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Disk {
    /// Its name; empty where there is none.
    pub name: String,
    /// Time with at least one request in it.
    pub busy_ns: u64,
    /// Time of all requests together.
    pub waiting_ns: u64,
}

/// Descriptors and threads at the end of a window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Files {
    /// Descriptors that the process with most of them has open.
    pub open: u64,
    /// How many it may have open.
    pub open_limit: u64,
    /// Open files of the host.
    pub host_open: u64,
    /// How many there may be.
    pub host_limit: u64,
    /// Processes and threads that the user may have; absent where there is no limit.
    pub thread_limit: Option<u64>,
}

/// A listening socket of the target at the end of a window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Listener {
    /// Its port.
    pub port: u16,
    /// Connections that wait to be accepted.
    pub queued: u32,
    /// How many may wait.
    pub backlog: u32,
    /// Connections that it turned away in the window, nearly always because too many waited; absent in runs of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped: Option<u64>,
}

/// What TCP itself knows of a side of the connections, over a window (`TCP_INFO`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SocketCounters {
    /// Connections open at the end.
    pub connections: u32,
    /// Segments with data received.
    pub data_segments_in: u64,
    /// Segments with data sent.
    pub data_segments_out: u64,
    /// All segments received, bare acknowledgements included.
    pub segments_in: u64,
    /// All segments sent.
    pub segments_out: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent and acknowledged.
    pub bytes_out: u64,
    /// Segments sent again.
    pub retransmits: u64,
    /// Time with data on the way, in microseconds, summed over connections.
    pub busy_us: u64,
    /// Part of it in which the other side's window was full.
    pub receive_window_limited_us: u64,
    /// Part of it in which the own send buffer was full.
    pub send_buffer_limited_us: u64,
}

/// The target's sockets; of connections that ended in the window what they did since its begin is missing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Sockets {
    /// Where it listens.
    pub listeners: Vec<Listener>,
    /// The target's side of its connections.
    pub server: SocketCounters,
    /// The other side, where it is on this host.
    pub clients: SocketCounters,
    /// The target's own connections to others, also to processes of its own; absent in runs of earlier versions, in which those are among
    /// the two above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<SocketCounters>,
}

/// Resources that are neither CPU time nor a thread's own, over a window: with [`crate::record::Usage`] and
/// [`crate::record::HostUsage`] what a USE table is made of.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Resources {
    /// Memory.
    pub memory: Memory,
    /// Pressure, where the kernel tells (CONFIG_PSI).
    pub pressure: Option<Pressure>,
    /// Interfaces.
    pub network: Network,
    /// The busiest disk.
    pub disk: Disk,
    /// Descriptors and threads.
    pub files: Files,
    /// Sockets; absent where they cannot be seen: another network namespace, or a kernel without `tcp_diag`.
    pub sockets: Option<Sockets>,
}
