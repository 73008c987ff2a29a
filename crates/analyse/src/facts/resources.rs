//! The USE table: of every resource its utilisation, saturation and errors, worst first.
//!
//! Source: Brendan Gregg, "The USE Method: Linux Performance Checklist"; of his list is left out what the kernel does
//! not count without tracing.

use model::record::{HostUsage, Resources, SocketCounters, Usage, Window};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::busy::{set_busy, turned_away};
use super::sheet::Sheet;

/// Whose resource it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UseScope {
    /// The server's process group.
    Target,
    /// The load generator.
    Generator,
    /// The machine.
    Host,
}

/// How urgent a row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UseLevel {
    /// Used up, waited for, or with errors.
    Red,
    /// Half the way there.
    Amber,
    /// Neither.
    Green,
}

/// One resource over the window, or over all windows of an arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UseRow {
    /// How urgent it is.
    pub level: UseLevel,
    /// Whose it is.
    pub scope: UseScope,
    /// Its name.
    pub resource: String,
    /// Share in use, 0 to 1; the median of windows.
    pub utilisation: Option<f64>,
    /// Work that waited for it, in `saturation_unit`; the median of windows.
    pub saturation: Option<f64>,
    /// What saturation is counted in.
    pub saturation_unit: String,
    /// Errors; the sum over windows.
    pub errors: Option<u64>,
}

/// The USE table of one arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ArmResources {
    /// The arm.
    pub arm: String,
    /// Its rows, most urgent first.
    pub rows: Vec<UseRow>,
}

/// What a row is made of.
#[derive(Debug, Clone, Copy)]
pub struct UseInput<'a> {
    /// The server.
    pub target: &'a Usage,
    /// The load generator; absent where the load is someone else's.
    pub generator: Option<&'a Usage>,
    /// The CPUs that the server may use.
    pub server_cpus: &'a HostUsage,
    /// The CPUs that the generator may use.
    pub load_cpus: Option<&'a HostUsage>,
    /// Everything beside CPUs.
    pub resources: Option<&'a Resources>,
}

impl<'a> UseInput<'a> {
    fn from_window(window: &'a Window) -> Self {
        Self {
            target: &window.target,
            generator: Some(&window.generator),
            server_cpus: &window.server_cpus,
            load_cpus: Some(&window.load_cpus),
            resources: window.resources.as_ref(),
        }
    }
}

/// Utilisation, saturation and errors of one resource in one window; what is not known is absent.
#[derive(Debug, Clone, Copy, Default)]
struct UseFigures {
    utilisation: Option<f64>,
    saturation: Option<f64>,
    errors: Option<u64>,
}

impl UseFigures {
    fn new(utilisation: f64, saturation: f64, errors: u64) -> Self {
        Self { utilisation: Some(utilisation), saturation: Some(saturation), errors: Some(errors) }
    }
}

/// A resource: where it is read, and from which values on it is red. Amber begins at half of them.
struct Resource {
    scope: UseScope,
    name: &'static str,
    unit: &'static str,
    /// Red from this utilisation and from this saturation on.
    red: [f64; 2],
    read: fn(&UseInput) -> Option<UseFigures>,
}

/// A value that is never red.
const NEVER: f64 = f64::INFINITY;

const fn resource(
    scope: UseScope,
    name: &'static str,
    unit: &'static str,
    red: [f64; 2],
    read: fn(&UseInput) -> Option<UseFigures>,
) -> Resource {
    Resource { scope, name, unit, red, read }
}

const TABLE: [Resource; 20] = [
    resource(UseScope::Target, "CPU", "of run time waiting", [0.95, 0.2], |input| {
        Some(cpu(input.target, input.server_cpus.cpus))
    }),
    resource(UseScope::Target, "busiest thread", "", [0.95, NEVER], |input| Some(thread(input.target))),
    resource(UseScope::Target, "CPU limit", "of time throttled", [NEVER, 0.01], |input| {
        Some(saturated(share(input.server_cpus.throttled_ns, input.server_cpus.wall_ns)))
    }),
    resource(UseScope::Target, "memory", "major faults/s", [0.9, 10.0], target_memory),
    resource(UseScope::Target, "descriptors", "", [0.9, NEVER], |input| {
        let files = input.resources?.files;
        (files.open_limit > 0).then(|| used(share(files.open, files.open_limit)))
    }),
    resource(UseScope::Target, "threads", "", [0.9, NEVER], |input| {
        Some(used(share(u64::from(input.target.threads), input.resources?.files.thread_limit?)))
    }),
    resource(UseScope::Target, "accept queue", "connections waiting", [0.5, NEVER], accept_queue),
    resource(UseScope::Target, "connections", "of sending time held up", [NEVER, 0.5], |input| {
        Some(connections(&input.resources?.sockets.as_ref()?.server))
    }),
    resource(UseScope::Generator, "CPU", "of run time waiting", [0.95, 0.2], |input| {
        Some(cpu(input.generator?, input.load_cpus?.cpus))
    }),
    resource(UseScope::Generator, "busiest thread", "", [0.95, NEVER], |input| {
        Some(thread(input.generator?))
    }),
    resource(UseScope::Generator, "connections", "of sending time held up", [NEVER, 0.5], |input| {
        input.generator?;
        Some(connections(&input.resources?.sockets.as_ref()?.clients))
    }),
    resource(UseScope::Host, "server CPUs", "of time some task waited", [0.95, 0.5], |input| {
        let pressure = input.resources.and_then(|resources| resources.pressure);
        let waited = pressure.map(|pressure| share(pressure.cpu_us * 1000, input.server_cpus.wall_ns));
        Some(UseFigures { utilisation: Some(set_busy(input.server_cpus)), saturation: waited, errors: None })
    }),
    resource(UseScope::Host, "generator CPUs", "", [0.95, NEVER], |input| {
        Some(used(set_busy(input.load_cpus?)))
    }),
    resource(UseScope::Host, "CPUs, hypervisor", "of time stolen", [NEVER, 0.01], |input| {
        let all = input.server_cpus.wall_ns * u64::from(input.server_cpus.cpus);
        Some(saturated(share(input.server_cpus.steal_ns, all)))
    }),
    resource(UseScope::Host, "memory", "pages swapped or searched/s", [0.95, 1.0], host_memory),
    resource(UseScope::Host, "interfaces", "", [NEVER, NEVER], |input| {
        let network = input.resources?.network;
        Some(UseFigures { errors: Some(network.drops + network.errors), ..UseFigures::default() })
    }),
    resource(UseScope::Host, "packet queue", "budgets used up/s", [NEVER, 10.0], |input| {
        let network = input.resources?.network;
        let squeezes = per_s(network.squeezes, input.server_cpus.wall_ns);
        Some(UseFigures {
            utilisation: None,
            saturation: Some(squeezes),
            errors: Some(network.backlog_drops),
        })
    }),
    resource(UseScope::Host, "TCP", "segments sent again/s", [NEVER, 10.0], |input| {
        let tcp = input.server_cpus.tcp;
        Some(saturated(per_s(tcp.retransmits, input.server_cpus.wall_ns)))
    }),
    resource(UseScope::Host, "busiest disk", "requests waiting", [0.9, 2.0], |input| {
        let (disk, wall_ns) = (&input.resources?.disk, input.server_cpus.wall_ns);
        let (busy, waiting) = (share(disk.busy_ns, wall_ns), share(disk.waiting_ns, wall_ns));
        Some(UseFigures { utilisation: Some(busy), saturation: Some(waiting), errors: None })
    }),
    resource(UseScope::Host, "open files", "", [0.9, NEVER], |input| {
        let files = input.resources?.files;
        Some(used(share(files.host_open, files.host_limit)))
    }),
];

fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

fn per_s(count: u64, wall_ns: u64) -> f64 {
    count as f64 * 1e9 / wall_ns.max(1) as f64
}

fn used(utilisation: f64) -> UseFigures {
    UseFigures { utilisation: Some(utilisation), ..UseFigures::default() }
}

fn saturated(saturation: f64) -> UseFigures {
    UseFigures { saturation: Some(saturation), ..UseFigures::default() }
}

fn cpu(usage: &Usage, cpus: u32) -> UseFigures {
    let all = usage.wall_ns * u64::from(cpus);
    // A generator that only polled has no run time of its own.
    let waiting = (usage.cpu.total_ns > 0).then(|| share(usage.run_wait_ns, usage.cpu.total_ns));
    UseFigures { utilisation: Some(share(usage.cpu.total_ns, all)), saturation: waiting, errors: None }
}

fn thread(usage: &Usage) -> UseFigures {
    used(share(usage.busiest_thread_ns, usage.wall_ns))
}

fn target_memory(input: &UseInput) -> Option<UseFigures> {
    let memory = input.resources?.memory;
    let limit = memory.cgroup_limit_bytes.unwrap_or(memory.total_bytes);
    let faults = per_s(input.target.major_faults, input.target.wall_ns);
    // A limit holds for all that its cgroup has, page cache included; what a process had before it came there is not of it.
    let charged = memory.cgroup_limit_bytes.and(memory.cgroup_used_bytes).unwrap_or(0);
    let used = charged.max(input.target.rss_bytes);
    Some(UseFigures::new(share(used, limit), faults, memory.cgroup_limit_hits))
}

fn host_memory(input: &UseInput) -> Option<UseFigures> {
    let memory = input.resources?.memory;
    let used = share(memory.total_bytes.saturating_sub(memory.available_bytes), memory.total_bytes);
    let pages = memory.swapped_in_pages + memory.swapped_out_pages + memory.direct_scan_pages;
    Some(UseFigures::new(used, per_s(pages, input.server_cpus.wall_ns), memory.oom_kills))
}

/// The fullest queue of the target at the end, and connections that were turned away.
fn accept_queue(input: &UseInput) -> Option<UseFigures> {
    let listeners = input.resources?.sockets.as_ref().map(|sockets| sockets.listeners.as_slice());
    let fullest = listeners.unwrap_or_default().iter().max_by_key(|listener| listener.queued);
    Some(UseFigures {
        utilisation: fullest.map(|listener| f64::from(listener.queued) / f64::from(listener.backlog.max(1))),
        saturation: fullest.map(|listener| f64::from(listener.queued)),
        errors: Some(turned_away(&input.server_cpus.tcp, input.resources)),
    })
}

/// One side of the connections: how long a full window or a full buffer held it up.
fn connections(side: &SocketCounters) -> UseFigures {
    let held = side.receive_window_limited_us + side.send_buffer_limited_us;
    UseFigures {
        utilisation: None,
        saturation: Some(share(held, side.busy_us)),
        errors: Some(side.retransmits),
    }
}

/// The USE table of one window, most urgent first.
#[must_use]
pub fn use_table(input: &UseInput) -> Vec<UseRow> {
    rows(std::slice::from_ref(input))
}

/// The USE tables of all arms at the main condition.
pub(crate) fn all(sheet: &Sheet) -> Vec<ArmResources> {
    let table = |name: &str| {
        let windows = sheet.windows(name, sheet.main);
        let inputs: Vec<UseInput> = windows.into_iter().map(UseInput::from_window).collect();
        ArmResources { arm: name.to_owned(), rows: rows(&inputs) }
    };
    sheet.plan().arms.iter().map(|arm| table(&arm.name)).filter(|arm| !arm.rows.is_empty()).collect()
}

fn rows(inputs: &[UseInput]) -> Vec<UseRow> {
    let mut rows: Vec<UseRow> = TABLE.iter().filter_map(|resource| row(resource, inputs)).collect();
    // Within a level the order of the table stays.
    rows.sort_by_key(|row| row.level);
    rows
}

fn row(resource: &Resource, inputs: &[UseInput]) -> Option<UseRow> {
    let seen: Vec<UseFigures> = inputs.iter().filter_map(|input| (resource.read)(input)).collect();
    if seen.is_empty() {
        return None;
    }
    let median = |figure: fn(&UseFigures) -> Option<f64>| {
        stats::descriptive::median(&seen.iter().filter_map(figure).collect::<Vec<_>>())
    };
    let (utilisation, saturation) = (median(|seen| seen.utilisation), median(|seen| seen.saturation));
    let errors = seen.iter().filter_map(|seen| seen.errors).reduce(|sum, errors| sum + errors);
    let above = |part: f64| {
        utilisation.is_some_and(|value| value >= resource.red[0] * part)
            || saturation.is_some_and(|value| value >= resource.red[1] * part)
    };
    let level = match () {
        () if above(1.0) || errors.is_some_and(|errors| errors > 0) => UseLevel::Red,
        () if above(0.5) => UseLevel::Amber,
        () => UseLevel::Green,
    };
    let (scope, resource, saturation_unit) =
        (resource.scope, resource.name.to_owned(), resource.unit.to_owned());
    Some(UseRow { level, scope, resource, utilisation, saturation, saturation_unit, errors })
}
