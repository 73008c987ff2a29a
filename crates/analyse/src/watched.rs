//! A running server under someone else's load: its ledger and its resources, by the second and by the request.

use model::record::{HostUsage, Profile, ProfileKind, Resources, Usage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::attribution::profile::{self, ArmProfile, ProfileDifference};
use crate::attribution::tree::gap_nodes::{TreeNode, nodes};
use crate::attribution::tree::{AttributionRow, Place, of_one};
use crate::facts::observed::sampled_ns;
use crate::facts::passes;
use crate::facts::resources::{UseInput, UseRow, UseScope, use_table};
use crate::findings::FINDINGS_SCHEMA;

mod notes;

pub use notes::{WatchNote, WhyUncounted};

/// Clock ticks from which on they tell how CPU time divides: with 50, a share is right to within some 7 %.
const FEW_TICKS: u64 = 50;

/// What was seen of a server in one window.
#[derive(Debug, Clone, Default)]
pub struct WatchedWindow {
    /// What its group used.
    pub usage: Usage,
    /// Clock ticks that divide its CPU time into user and kernel.
    pub ticks: u64,
    /// The CPUs that it may use.
    pub cpus: HostUsage,
    /// Everything else.
    pub resources: Resources,
    /// The server's own counter of requests at both ends, if one was given.
    pub counted: Option<[u64; 2]>,
}

/// Everything that was seen of a server.
#[derive(Debug, Clone, Default)]
pub struct WatchInput {
    /// The process.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Whether its cgroup cannot be seen from here; then nobody knows how long it was throttled.
    pub limits_hidden: bool,
    /// The window in which no profile was taken.
    pub plain: WatchedWindow,
    /// Its profiles, each with the window in which it was taken.
    pub profiles: Vec<(Profile, WatchedWindow)>,
    /// What could not be seen, one sentence each.
    pub notes: Vec<String>,
}

/// One line of the ledger.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LedgerRow {
    /// What is counted.
    pub name: String,
    /// `ns`, `bytes`, or empty for a plain count.
    pub unit: String,
    /// For each second.
    pub per_s: f64,
    /// For each request, if requests are known.
    pub per_request: Option<f64>,
}

/// One leaf of the tree of CPU time: every sample is in one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WatchedLeaf {
    /// Names of the nodes from `user` or `kernel` down to the leaf.
    pub path: Vec<String>,
    /// Nanoseconds per request, or per second where requests are not known.
    pub ns: f64,
    /// Where it is, or where the program's own code asked for it.
    #[serde(rename = "where", skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// The function of the program's own code from which most of it came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
}

/// A running server over a window of time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Watched {
    /// Schema version.
    pub schema: u32,
    /// The process.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Length of the window in nanoseconds.
    pub window_ns: u64,
    /// Requests in the window, where they are known.
    pub requests: Option<u64>,
    /// How requests were counted: `counter` (by the server itself) or `segments` (incoming TCP segments with data, each taken
    /// for one request).
    pub requests_from: Option<String>,
    /// Requests per second.
    pub rate_per_s: Option<f64>,
    /// Cores that it kept busy.
    pub busy_cores: f64,
    /// Resident memory at the end in bytes.
    pub rss_bytes: u64,
    /// Threads at the end.
    pub threads: u32,
    /// What it spent.
    pub ledger: Vec<LedgerRow>,
    /// The USE table, most urgent first.
    pub resources: Vec<UseRow>,
    /// The leaves of the tree of its CPU time, largest first, which sum to it; empty where it was not sampled.
    #[serde(default)]
    pub tree: Vec<WatchedLeaf>,
    /// Its profile: in nanoseconds per request, or per second where requests are not known.
    pub profile: Option<ProfileDifference>,
    /// Where its threads wait, likewise; in microseconds instead of samples.
    pub waits: Option<ProfileDifference>,
    /// What the reader must know.
    pub notes: Vec<String>,
    /// What these sentences are made from.
    #[serde(skip)]
    pub noted: Vec<WatchNote>,
}

impl Watched {
    /// The nodes of its tree, the whole first, each above those below it; those below `least`, a share of the CPU time, are one node.
    #[must_use]
    pub fn nodes(&self, least: f64) -> Vec<TreeNode> {
        let row = |leaf: &WatchedLeaf| AttributionRow {
            path: leaf.path.clone(),
            arm_ns: leaf.ns,
            delta_ns: leaf.ns,
            place: leaf.place.clone(),
            ..AttributionRow::default()
        };
        let rows: Vec<AttributionRow> = self.tree.iter().map(row).collect();
        let mut nodes = nodes(&rows.iter().collect::<Vec<_>>(), least);
        if let Some(whole) = nodes.first_mut().filter(|_| self.requests.is_none()) {
            "a second".clone_into(&mut whole.name);
        }
        nodes
    }
}

/// Draws the conclusions from what was seen.
#[must_use]
pub fn watched(input: &WatchInput) -> Watched {
    let seen = &input.plain;
    let (requests, from) = requests(seen);
    let seconds = seconds(seen);
    Watched {
        schema: FINDINGS_SCHEMA,
        pid: input.pid,
        name: input.name.clone(),
        window_ns: seen.usage.wall_ns,
        requests,
        requests_from: from.map(str::to_owned),
        rate_per_s: requests.map(|requests| requests as f64 / seconds),
        busy_cores: seen.usage.cpu.total_ns as f64 / seen.usage.wall_ns.max(1) as f64,
        rss_bytes: seen.usage.rss_bytes,
        threads: seen.usage.threads,
        ledger: ledger(seen, seconds, requests),
        resources: resources(input),
        tree: tree(input),
        profile: profile(input, ProfileKind::Cpu),
        waits: profile(input, ProfileKind::OffCpu),
        notes: Vec::new(),
        noted: notes::notes(input),
    }
}

fn seconds(seen: &WatchedWindow) -> f64 {
    seen.usage.wall_ns.max(1) as f64 / 1e9
}

/// The profile of a kind, in nanoseconds per request of its own window, or per second where requests are not known.
fn profile(input: &WatchInput, kind: ProfileKind) -> Option<ProfileDifference> {
    let (taken, seen) = input.profiles.iter().find(|(profile, _)| profile.kind == kind)?;
    let each = each(seen);
    // Samples of CPU time divide what was counted, as far as they stand for it; waits were timed themselves.
    let time_ns = match kind {
        ProfileKind::Cpu => {
            let cpu = seen.usage.cpu;
            let divides = passes::divides(coverage(taken, seen))?;
            sampled_ns(&[taken], cpu.total_ns as f64, cpu.user_ns as f64)? * divides
        }
        ProfileKind::OffCpu => taken.time_ns() as f64,
    };
    let arm = ArmProfile { name: &input.name, profiles: vec![taken], cpu_ns: time_ns / each };
    profile::alone(&arm).map(ProfileDifference::shortened)
}

/// The tree of CPU time, of a request or of a second.
fn tree(input: &WatchInput) -> Vec<WatchedLeaf> {
    let of_cpu = input.profiles.iter().find(|(profile, _)| profile.kind == ProfileKind::Cpu);
    let sampled =
        of_cpu.and_then(|(taken, seen)| Some((taken, seen, passes::divides(coverage(taken, seen))?)));
    let Some((taken, seen, divides)) = sampled else { return Vec::new() };
    let (each, cpu) = (each(seen), seen.usage.cpu);
    let cpu_ns = [cpu.user_ns, cpu.total_ns.saturating_sub(cpu.user_ns)].map(|ns| ns as f64 / each);
    let leaf =
        |row: AttributionRow| WatchedLeaf { path: row.path, ns: row.arm_ns, place: row.place, via: row.via };
    of_one(&input.name, taken, cpu_ns, divides).into_iter().map(leaf).collect()
}

/// What times of a window are divided by: its requests, or its seconds where requests are not known.
fn each(seen: &WatchedWindow) -> f64 {
    requests(seen).0.map_or_else(|| seconds(seen), |requests| requests as f64)
}

/// Share of the CPU time that the samples stand for.
fn coverage(taken: &Profile, seen: &WatchedWindow) -> Option<f64> {
    let (sampled_ns, used_ns) = passes::stands_for(taken, &seen.usage);
    (used_ns > 0.0 && taken.samples > 0).then(|| sampled_ns / used_ns)
}

/// The USE table, without what could not be seen.
fn resources(input: &WatchInput) -> Vec<UseRow> {
    let mut rows = use_table(&UseInput {
        target: &input.plain.usage,
        generator: None,
        server_cpus: &input.plain.cpus,
        load_cpus: None,
        resources: Some(&input.plain.resources),
    });
    let is_limit = |row: &UseRow| row.scope == UseScope::Target && row.resource == "CPU limit";
    rows.retain(|row| !(input.limits_hidden && is_limit(row)));
    rows
}

fn requests(seen: &WatchedWindow) -> (Option<u64>, Option<&'static str>) {
    if let Some([before, now]) = seen.counted {
        return (now.checked_sub(before).filter(|count| *count > 0), Some("counter"));
    }
    let segments = seen.resources.sockets.as_ref().map_or(0, |sockets| sockets.server.data_segments_in);
    if segments > 0 { (Some(segments), Some("segments")) } else { (None, None) }
}

fn ledger(seen: &WatchedWindow, seconds: f64, requests: Option<u64>) -> Vec<LedgerRow> {
    let (usage, resources) = (&seen.usage, &seen.resources);
    let told_apart = seen.ticks >= FEW_TICKS;
    let server = resources.sockets.as_ref().map(|sockets| sockets.server);
    let rows = [
        ("CPU", "ns", Some(usage.cpu.total_ns)),
        ("CPU, its own code", "ns", told_apart.then_some(usage.cpu.user_ns)),
        ("CPU, the kernel for it", "ns", told_apart.then_some(usage.cpu.system_ns)),
        ("soft interrupts on its CPUs", "ns", Some(seen.cpus.softirq_ns)),
        ("waiting for a CPU", "ns", Some(usage.run_wait_ns)),
        ("voluntary switches", "", Some(usage.voluntary_switches)),
        ("involuntary switches", "", Some(usage.involuntary_switches)),
        ("minor faults", "", Some(usage.minor_faults)),
        ("major faults", "", Some(usage.major_faults)),
        ("segments with data in", "", server.map(|server| server.data_segments_in)),
        ("segments with data out", "", server.map(|server| server.data_segments_out)),
        ("all segments in", "", server.map(|server| server.segments_in)),
        ("all segments out", "", server.map(|server| server.segments_out)),
        ("bytes in", "bytes", server.map(|server| server.bytes_in)),
        ("bytes out", "bytes", server.map(|server| server.bytes_out)),
    ];
    rows.into_iter()
        .filter_map(|(name, unit, count)| {
            let count = count? as f64;
            Some(LedgerRow {
                name: name.to_owned(),
                unit: unit.to_owned(),
                per_s: count / seconds,
                per_request: requests.map(|requests| count / requests.max(1) as f64),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests;
