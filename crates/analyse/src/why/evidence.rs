//! What is known of one arm, per request: pooled over its valid rounds, and over the diagnostic passes that count.

use std::collections::BTreeMap;

use record::{DiagnosticRecord, PassKind, Window};

use super::shape::Shape;
use super::{Material, is_used};
use crate::findings::CpuPerRequest;
use crate::gates::server_busy;
use crate::metric::in_window;
use crate::sheet::Sheet;

/// A server this busy has nothing left to wait for.
const FULL: f64 = 0.95;

/// Functions of the kernel in which a thread waits for the next request or connection.
const FOR_REQUESTS: [&str; 7] = [
    "ep_poll",
    "do_epoll_wait",
    "do_sys_poll",
    "do_select",
    "inet_csk_accept",
    "sk_wait_data",
    "io_cqring_wait",
];
/// Beginnings of the file names of libraries that wait only because they are asked to.
const LIBC: [&str; 4] = ["libc.", "libc-", "libpthread", "ld-"];
/// Functions that are named as the place of a wait.
const WAITS_NAMED: usize = 2;

/// One arm per request; times in nanoseconds.
pub(crate) struct Evidence {
    pub(crate) name: String,
    pub(crate) cpu: CpuPerRequest,
    /// CPU time of the server's set that was not used.
    pub(crate) idle_ns: f64,
    /// Whether the CPUs, or one thread, were full.
    pub(crate) full: bool,
    /// Whether the generator may have been the limit.
    pub(crate) generator_limits: bool,
    /// Voluntary and involuntary switches.
    pub(crate) switches: [f64; 2],
    pub(crate) minor_faults: f64,
    /// Bytes of an answer.
    pub(crate) answer_bytes: f64,
    /// Segments of the whole host, both sides of the connections.
    pub(crate) segments: f64,
    pub(crate) delayed_acks: f64,
    /// Connections refused or dropped because too many waited to be accepted.
    pub(crate) refused: f64,
    /// Connections accepted.
    pub(crate) accepted: f64,
    /// Share of the connections that waited to be accepted, 0 to 1.
    pub(crate) waiting_to_be_accepted: f64,
    /// Time between request and answer of one connection.
    pub(crate) response_ns: f64,
    /// CPU time by the name of the thread.
    pub(crate) threads_ns: BTreeMap<String, f64>,
    /// What was counted by perf events, where a pass counts.
    pub(crate) counted: Option<Counted>,
    pub(crate) shape: Shape,
    /// The program's functions in which its threads waited for something other than requests, longest first.
    pub(crate) waits_in: Vec<String>,
}

/// Counts per request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counted {
    pub(crate) events: BTreeMap<String, f64>,
    pub(crate) syscalls: BTreeMap<String, f64>,
}

impl Evidence {
    /// What is known of `arm`; nothing where it has no valid round.
    pub(crate) fn of(sheet: &Sheet, arm: &str, material: &Material) -> Option<Self> {
        let index = sheet.main;
        let windows = sheet.windows(arm, index);
        let pooled = |count: fn(&Window) -> u64| sheet.pooled(arm, index, count);
        let cpu = crate::arms::cpu(pooled)?;
        let offered = pooled(|window| window.target.wall_ns * u64::from(window.server_cpus.cpus.max(1)))?;
        let tcp = |count: fn(&record::TcpCounters) -> u64| {
            sheet.pooled(arm, index, |window| count(&window.server_cpus.tcp)).unwrap_or(0.0)
        };
        let median =
            |figure: &dyn Fn(&Window) -> Option<f64>| sheet.median(arm, index, figure).unwrap_or(0.0);
        let of_arm: Vec<&DiagnosticRecord> =
            sheet.run.diagnostics.iter().filter(|record| record.arm == arm).collect();
        Some(Self {
            name: arm.to_owned(),
            idle_ns: (offered - cpu.total).max(0.0),
            full: median(&|window| Some(server_busy(window))) >= FULL,
            generator_limits: material
                .gates
                .iter()
                .any(|gate| gate.id == "generator" && !gate.ok && gate.arm.as_deref() == Some(arm)),
            switches: [
                pooled(|window| window.target.voluntary_switches)?,
                pooled(|window| window.target.involuntary_switches)?,
            ],
            minor_faults: pooled(|window| window.target.minor_faults)?,
            answer_bytes: median(&|window| {
                Some(window.load.bytes_read as f64 / window.load.requests.max(1) as f64)
            }),
            segments: tcp(|tcp| tcp.segments_out),
            delayed_acks: tcp(|tcp| tcp.delayed_acks),
            refused: tcp(|tcp| tcp.listen_overflows.max(tcp.listen_drops)),
            accepted: tcp(|tcp| tcp.passive_opens),
            waiting_to_be_accepted: mean(&windows, waiting_to_be_accepted),
            response_ns: median(&|window| Some(window.load.response_ns.mean)),
            threads_ns: threads(&windows),
            counted: best_counted(
                [PassKind::Counting, PassKind::Tracing]
                    .into_iter()
                    .filter(|kind| is_used(material.passes, arm, *kind))
                    .filter_map(|kind| counted(&of_arm, kind))
                    .collect(),
            ),
            shape: Shape::of(&windows),
            waits_in: match is_used(material.passes, arm, PassKind::Waiting) {
                true => waits_in(&of_arm),
                false => Vec::new(),
            },
            cpu,
        })
    }

    /// System calls per request whose names are in `names`; absent where none are counted by name.
    pub(crate) fn calls(&self, names: &[&str]) -> Option<f64> {
        let counted = self.counted.as_ref().filter(|counted| !counted.syscalls.is_empty())?;
        Some(names.iter().filter_map(|name| counted.syscalls.get(*name)).sum())
    }

    /// Switches of both kinds.
    pub(crate) fn all_switches(&self) -> f64 {
        self.switches.iter().sum()
    }
}

/// Share of the connections that waited to be accepted at the end of a window.
fn waiting_to_be_accepted(window: &Window) -> f64 {
    let sockets = window.resources.as_ref().and_then(|resources| resources.sockets.as_ref());
    let queued: u32 = sockets.map_or(0, |sockets| sockets.listeners.iter().map(|one| one.queued).sum());
    (f64::from(queued) / window.load.connections.requested.max(1) as f64).min(1.0)
}

fn mean(windows: &[&Window], figure: fn(&Window) -> f64) -> f64 {
    windows.iter().map(|window| figure(window)).sum::<f64>() / windows.len().max(1) as f64
}

/// The first that knows system calls by name; where perf events may not be counted, their pass has counts of nothing.
fn best_counted(mut all: Vec<Counted>) -> Option<Counted> {
    let named = all.iter().position(|one| !one.syscalls.is_empty());
    (!all.is_empty()).then(|| all.swap_remove(named.unwrap_or(0)))
}

/// Counts of all passes of one kind over their requests.
fn counted(records: &[&DiagnosticRecord], kind: PassKind) -> Option<Counted> {
    let (mut sums, mut requests) = (Counted::default(), 0.0);
    for pass in records.iter().flat_map(|record| &record.passes).filter(|pass| pass.kind == kind) {
        let Some(counts) = &pass.counts else { continue };
        requests += pass.window.load.requests as f64;
        let add = |to: &mut BTreeMap<String, f64>, from: &BTreeMap<String, u64>| {
            for (name, count) in from {
                *to.entry(name.clone()).or_default() += in_window(&pass.window, *count);
            }
        };
        add(&mut sums.events, &counts.events);
        add(&mut sums.syscalls, &counts.syscalls);
    }
    let per_request = |count: &mut f64| *count /= requests;
    sums.events.values_mut().for_each(per_request);
    sums.syscalls.values_mut().for_each(per_request);
    (requests > 0.0).then_some(sums)
}

/// The innermost functions of the program itself in the stacks that waited, longest first. Those that waited to be told
/// of requests are left out: a server that has nothing to do waits there.
fn waits_in(records: &[&DiagnosticRecord]) -> Vec<String> {
    let passes = records.iter().flat_map(|record| &record.passes);
    let profiles =
        passes.filter(|pass| pass.kind == PassKind::Waiting).filter_map(|pass| pass.profile.as_ref());
    let mut waited: BTreeMap<&str, u64> = BTreeMap::new();
    for profile in profiles {
        for stack in &profile.stacks {
            let for_requests = profile
                .frames_of(stack)
                .any(|frame| frame.kernel && FOR_REQUESTS.iter().any(|part| frame.name.contains(part)));
            let own = profile.frames_of(stack).rev().find(|frame| {
                !frame.kernel && frame.resolved && !LIBC.iter().any(|module| frame.module.starts_with(module))
            });
            if let Some(frame) = own.filter(|_| !for_requests) {
                *waited.entry(&frame.name).or_default() += stack.samples;
            }
        }
    }
    let mut waited: Vec<(&str, u64)> = waited.into_iter().collect();
    waited.sort_by_key(|(name, time)| (std::cmp::Reverse(*time), *name));
    waited.into_iter().take(WAITS_NAMED).map(|(name, _)| name.to_owned()).collect()
}

/// CPU time per request by the name of the thread.
fn threads(windows: &[&Window]) -> BTreeMap<String, f64> {
    let requests: u64 = windows.iter().map(|window| window.load.requests).sum();
    let mut sums: BTreeMap<String, f64> = BTreeMap::new();
    for window in windows {
        for (name, ns) in &window.target.threads_ns {
            *sums.entry(name.clone()).or_default() += in_window(window, *ns) / requests.max(1) as f64;
        }
    }
    sums
}
