//! What is checked before the first round, so that a shortage is reported and not measured.

use anyhow::bail;
use model::plan::Plan;
use rustix::process::{Resource, getrlimit};

/// Descriptors that generator and server need beside one for each connection: logs, epoll, listeners, libraries.
const SPARE_DESCRIPTORS: u64 = 64;
/// Ports of one source address that others may be using.
const SPARE_PORTS: u64 = 256;
/// The kernel's default range, used where its setting cannot be read.
const DEFAULT_PORTS: (u64, u64) = (32_768, 60_999);

/// Refuses a plan for which this machine has too few descriptors or ports.
pub(crate) fn check(plan: &Plan) -> anyhow::Result<()> {
    let connections = u64::from(plan.workload.job.connections);
    let hard = descriptor_limit();
    if connections + SPARE_DESCRIPTORS > hard {
        bail!(
            "{connections} connections need {} file descriptors, the hard limit is {hard}: lower --connections or raise \
             it (ulimit -Hn)",
            connections + SPARE_DESCRIPTORS
        );
    }
    let ports = local_ports();
    if connections + SPARE_PORTS > ports {
        bail!(
            "{connections} connections need as many local ports, there are {ports}: lower --connections or widen \
             net.ipv4.ip_local_port_range"
        );
    }
    Ok(())
}

/// File descriptors that the generator needs for all arms of `plan` at once, and those that it may have.
pub(crate) fn descriptors(plan: &Plan) -> (u64, u64) {
    let connections = u64::from(plan.workload.job.connections) * plan.arms.len() as u64;
    (connections + SPARE_DESCRIPTORS, descriptor_limit())
}

/// File descriptors that one process may have. The generator raises its soft limit; the hard one binds, for it as for
/// the server, each a process of its own.
pub(crate) fn descriptor_limit() -> u64 {
    getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX)
}

/// Local ports of one address.
pub(crate) fn local_ports() -> u64 {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut numbers = text.split_whitespace().filter_map(|word| word.parse::<u64>().ok());
    let (low, high) = numbers.next().zip(numbers.next()).unwrap_or(DEFAULT_PORTS);
    high.saturating_sub(low) + 1
}
