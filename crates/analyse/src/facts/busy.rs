//! How busy a server and its generator were, and whether the one took what the other sent: each asked in one way by every
//! stage.

use model::record::{GENERATOR_BUSY, HostUsage, MIN_RATE_RATIO, Resources, TcpCounters, Window};

/// CPUs or a thread this busy have nothing left.
pub(crate) const FULL: f64 = 0.95;
/// CPUs that are full have nothing left for a server that keeps them this busy itself, whatever little else runs there.
pub(crate) const NEARLY_ALL: f64 = 0.90;
/// CPUs less busy than this are not what is short, even if some of the rest is lost to waking and sleeping.
pub(crate) const IDLE: f64 = 0.80;
/// Refused connections per request that show: each keeps its client away for a second.
pub(crate) const REFUSED: f64 = 0.0005;

/// Cores that the target kept busy in a window.
pub(crate) fn busy_cores(window: &Window) -> f64 {
    window.target.cpu.total_ns as f64 / window.target.wall_ns.max(1) as f64
}

/// Share of the window in which the busiest thread ran.
pub(crate) fn busiest_thread(window: &Window) -> f64 {
    window.target.busiest_thread_ns as f64 / window.target.wall_ns.max(1) as f64
}

/// Share of its CPUs that the server keeps busy, or that of its busiest thread where that is larger.
pub(crate) fn server_busy(window: &Window) -> f64 {
    with_interrupts(window).max(busiest_thread(window))
}

/// Share of its CPUs that the server and the interrupts there keep busy. What others do on these CPUs is not the server's.
pub(crate) fn with_interrupts(window: &Window) -> f64 {
    let cpus = &window.server_cpus;
    let wall = window.target.wall_ns.max(1) as f64 * f64::from(cpus.cpus.max(1));
    let own = window.target.cpu.total_ns as f64 / wall;
    // Some kernels charge interrupts to whom they interrupt: all together are no more than the CPUs were busy.
    own.max((own + (cpus.irq_ns + cpus.softirq_ns) as f64 / wall).min(set_busy(cpus)))
}

/// Busy share of the generator's CPUs, or of its busiest thread where that is larger.
pub(crate) fn generator_busy(window: &Window) -> f64 {
    let wall = window.generator.wall_ns.max(1) as f64;
    let set = window.generator.cpu.total_ns as f64 / wall / f64::from(window.load_cpus.cpus.max(1));
    set.max(window.load.busiest_thread)
}

/// Busy share of a set of CPUs, interrupts included, from the kernel's idle time.
pub(crate) fn set_busy(usage: &HostUsage) -> f64 {
    let capacity = usage.wall_ns as f64 * f64::from(usage.cpus.max(1));
    let busy = usage.user_ns + usage.system_ns + usage.irq_ns + usage.softirq_ns;
    if capacity == 0.0 { 0.0 } else { (busy as f64 / capacity).min(1.0) }
}

/// Requests per second by which the backlog of an open loop grows; nothing where the schedule was kept, or where the
/// generator was too busy to tell whose backlog it is.
pub(crate) fn backlog_per_s(window: &Window) -> Option<f64> {
    let (rate_per_s, ratio) = (window.load.schedule.rate_per_s?, window.load.rate_ratio?);
    let servers = ratio < MIN_RATE_RATIO && generator_busy(window) <= GENERATOR_BUSY;
    servers.then_some(rate_per_s * (1.0 - ratio))
}

/// Connections turned away because too many waited to be accepted: by the server's own listeners where each of them tells, otherwise by
/// all of the host.
pub(crate) fn turned_away(tcp: &TcpCounters, resources: Option<&Resources>) -> u64 {
    let sockets = resources.and_then(|resources| resources.sockets.as_ref());
    let own = sockets.filter(|sockets| !sockets.listeners.is_empty());
    let own = own.and_then(|sockets| sockets.listeners.iter().map(|listener| listener.dropped).sum());
    own.unwrap_or_else(|| tcp.listen_overflows.max(tcp.listen_drops))
}

/// The same in a window.
pub(crate) fn refused(window: &Window) -> u64 {
    turned_away(&window.server_cpus.tcp, window.resources.as_ref())
}

/// Segments sent again on the server's connections, by both sides; where these are not seen, on all of the host.
pub(crate) fn sent_again(window: &Window) -> u64 {
    let sockets = window.resources.as_ref().and_then(|resources| resources.sockets.as_ref());
    let own = sockets.filter(|sockets| sockets.server.connections > 0);
    own.map_or(window.server_cpus.tcp.retransmits, |own| own.server.retransmits + own.clients.retransmits)
}
