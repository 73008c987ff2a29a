//! What is known of one arm, per request: pooled over its valid rounds, and over the diagnostic passes that count.

use std::collections::BTreeMap;

use model::record::{MachineLog, Pass, PassKind, Pieces, Profile, Stack, Window};

use super::gap::SURE;
use super::shape::Shape;
use super::{Material, PassFindings, is_used};
use crate::findings::{CpuPerRequest, Stalls};
use crate::gates::{server_busy, set_busy};
use crate::limiter::{self, REFUSED, busiest_thread};
use crate::metric::in_window;
use crate::sheet::Sheet;

/// A server this busy has nothing left to wait for.
pub(super) const FULL: f64 = 0.95;

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
/// Functions in which the idle threads of a runtime wait, whatever for. Source: Go, runtime/proc.go.
const IDLE_THREADS: [&str; 5] =
    ["runtime.findRunnable", "runtime.stopm", "runtime.sysmon", "runtime.mPark", "runtime.stoplockedm"];
/// What a thread without a CPU waits for, by parts of the names of the kernel's functions in its stack; the first row
/// that fits counts. Source: Linux, kernel/time/hrtimer.c, kernel/futex, fs/sync.c, fs/jbd2, mm/filemap.c.
const BLOCKED: [(Blocked, &[&str]); 3] = [
    (Blocked::Sleep, &["nanosleep"]),
    (Blocked::Disk, &["fsync", "sync_file", "generic_write_sync", "jbd2_", "io_schedule", "writeback"]),
    (Blocked::Lock, &["futex"]),
];
/// Beginnings of the file names of libraries that wait only because they are asked to.
const LIBC: [&str; 4] = ["libc.", "libc-", "libpthread", "ld-"];
/// Functions that are named as the place of a wait.
const WAITS_NAMED: usize = 2;

/// What threads without a CPU wait for, beside requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Blocked {
    /// A time to pass.
    Sleep,
    /// A disk.
    Disk,
    /// Another thread.
    Lock,
}

/// One arm per request; times in nanoseconds.
pub(crate) struct Evidence {
    pub(crate) name: String,
    pub(crate) cpu: CpuPerRequest,
    /// CPU time of the server's set that was not used.
    pub(crate) idle_ns: f64,
    /// Whether the CPUs, or one thread, were full.
    pub(crate) full: bool,
    /// Whether one thread was full while the CPUs were not.
    pub(crate) one_thread_full: bool,
    /// CPUs that it may use.
    pub(crate) cpus: f64,
    /// CPUs that it kept busy.
    pub(crate) busy_cores: f64,
    /// Whether the generator may have been the limit, and nothing of the server's own is known to be: one that refuses
    /// connections keeps their clients away, however busy the generator is with the others.
    pub(crate) generator_limits: bool,
    /// Whether it starved connections.
    pub(crate) stalls: bool,
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
    /// Time that its threads were ready to run and waited for a CPU.
    pub(crate) run_wait_ns: f64,
    /// Time between request and answer of one connection.
    pub(crate) response_ns: f64,
    /// The same, median, at the equal rate, where the main condition is another one: most servers have nothing to queue then.
    pub(crate) unhurried_ns: Option<f64>,
    /// Requests under way at a time.
    pub(crate) in_flight: f64,
    /// Share of the answers that came in pieces, and how far apart the first and the last of one were on average.
    pub(crate) pieces: Option<(f64, f64)>,
    /// CPU time by the name of the thread.
    pub(crate) threads_ns: BTreeMap<String, f64>,
    /// CPU time of processes that ended meanwhile.
    pub(crate) ended_processes_ns: f64,
    /// CPU time of threads that ended meanwhile.
    pub(crate) ended_threads_ns: f64,
    /// What was counted by perf events, where a pass counts.
    pub(crate) counted: Option<Counted>,
    pub(crate) shape: Shape,
    /// When it answered nobody.
    pub(crate) stalled: Option<Stalls>,
    /// The program's functions in which its threads waited for something other than requests, longest first.
    pub(crate) waits_in: Vec<String>,
    /// Threads that waited at a time on average, by what they waited for; empty where that was not seen.
    pub(crate) blocked: BTreeMap<Blocked, f64>,
    /// What its virtual machines did, where they log it.
    pub(crate) machine: Option<Machine>,
    /// Whether the idle threads of its runtime were told from threads that wait for something.
    pub(crate) knows_idle_threads: bool,
}

/// What the virtual machines of an arm did, per request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Machine {
    /// Time in which no thread of the program ran, in nanoseconds.
    pub(crate) paused_ns: f64,
    /// Of that, for memory to be collected.
    pub(crate) collecting_ns: f64,
    /// Bytes allocated; absent where too few collections tell.
    pub(crate) allocated_bytes: Option<f64>,
}

/// Counts per request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counted {
    pub(crate) events: BTreeMap<String, f64>,
    pub(crate) syscalls: BTreeMap<String, f64>,
    /// How exact that is, where it was not all of the time that was counted.
    part: Option<Part>,
}

/// A part of a window that stands for all of it.
#[derive(Debug, Clone, Copy)]
struct Part {
    /// Requests answered in it.
    requests: f64,
    /// Standard error of a count, as a share of it: the part's edges fall into the middle of requests.
    edges: f64,
}

impl Part {
    /// Error by the edges of slices, after one second of them: it goes with the root of the time, as slices are of one length.
    /// docs/decisions/0016 has what was seen.
    const OF_SLICES: f64 = 0.004;

    /// Standard error of so many calls per request: of what is rare few were seen, and of what is not, the edges count.
    fn error(self, calls: f64) -> f64 {
        let rare = (calls * self.requests).max(1.0).sqrt() / self.requests;
        rare.hypot(calls * self.edges)
    }
}

impl Counted {
    /// How many of these system calls are made.
    pub(crate) fn calls(&self, names: &[&str]) -> f64 {
        names.iter().filter_map(|name| self.syscalls.get(*name)).sum()
    }

    /// How many more of these are made than `other` makes; 0 where that is not sure.
    pub(crate) fn more_calls(&self, other: &Self, names: &[&str]) -> f64 {
        let error = |counted: &Self| counted.part.map_or(0.0, |part| part.error(counted.calls(names)));
        let more = self.calls(names) - other.calls(names);
        if more.abs() > SURE * error(self).hypot(error(other)) { more } else { 0.0 }
    }
}

impl Evidence {
    /// What is known of `arm`; nothing where it has no valid round.
    pub(crate) fn of(sheet: &Sheet, arm: &str, material: &Material) -> Option<Self> {
        let index = sheet.main;
        let windows = sheet.windows(arm, index);
        let pooled = |count: fn(&Window) -> u64| sheet.pooled(arm, index, count);
        let cpu = crate::arms::cpu(pooled)?;
        let offered = pooled(|window| window.target.wall_ns * u64::from(window.server_cpus.cpus.max(1)))?;
        let tcp = |count: fn(&model::record::TcpCounters) -> u64| {
            sheet.pooled(arm, index, |window| count(&window.server_cpus.tcp)).unwrap_or(0.0)
        };
        let median =
            |figure: &dyn Fn(&Window) -> Option<f64>| sheet.median(arm, index, figure).unwrap_or(0.0);
        let timed = waiting(sheet, arm, material.passes);
        let waiting: Vec<&Profile> = timed.into_iter().map(|(_, profile)| profile).collect();
        let refused = tcp(limiter::refused);
        let fails = |id: &str| {
            material.gates.iter().any(|gate| gate.id == id && !gate.ok && gate.arm.as_deref() == Some(arm))
        };
        Some(Self {
            name: arm.to_owned(),
            idle_ns: (offered - cpu.total).max(0.0),
            full: median(&|window| Some(server_busy(window))) >= FULL,
            one_thread_full: median(&|window| Some(busiest_thread(window))) >= FULL
                && median(&|window| Some(set_busy(&window.server_cpus))) < FULL,
            cpus: median(&|window| Some(f64::from(window.server_cpus.cpus))),
            busy_cores: median(&|window| Some(crate::arms::busy_cores(window))),
            generator_limits: refused < REFUSED && fails("generator"),
            stalls: fails("stall"),
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
            refused,
            accepted: tcp(|tcp| tcp.passive_opens),
            waiting_to_be_accepted: mean(&windows, waiting_to_be_accepted),
            run_wait_ns: pooled(|window| window.target.run_wait_ns)?,
            pieces: pieces(&windows),
            response_ns: median(&|window| Some(window.load.response_ns.mean)),
            unhurried_ns: sheet.latency.filter(|latency| *latency != index).and_then(|latency| {
                sheet.median(arm, latency, |window| Some(window.load.response_ns.p50? as f64))
            }),
            in_flight: median(&|window| Some(window.load.rate_per_s * window.load.response_ns.mean / 1e9)),
            threads_ns: threads(&windows),
            ended_processes_ns: pooled(|window| window.target.ended_processes_ns)?,
            ended_threads_ns: pooled(|window| window.target.ended_threads_ns)?,
            counted: counted(sheet, arm, material.passes),
            shape: Shape::of(&windows),
            stalled: material.arms.iter().find(|row| row.name == arm).and_then(|row| row.stalls.clone()),
            machine: machine(sheet, arm, material.passes),
            waits_in: waits_in(&waiting),
            blocked: blocked(&waiting),
            knows_idle_threads: waiting.iter().any(|profile| {
                profile.frames.iter().any(|frame| IDLE_THREADS.contains(&frame.name.as_str()))
            }),
            cpu,
        })
    }

    /// System calls per request whose names are in `names`; absent where none are counted by name.
    pub(crate) fn calls(&self, names: &[&str]) -> Option<f64> {
        Some(self.counted.as_ref().filter(|counted| !counted.syscalls.is_empty())?.calls(names))
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

/// Answers in pieces as a share of all, and the mean time from the first piece to the last; nothing where it is not known.
fn pieces(windows: &[&Window]) -> Option<(f64, f64)> {
    let mut sum = Pieces::default();
    for window in windows {
        sum += window.load.pieces?;
    }
    let answers: u64 = windows.iter().map(|window| window.load.requests).sum();
    Some((sum.answers as f64 / answers.max(1) as f64, sum.apart_ns as f64 / sum.answers.max(1) as f64))
}

fn mean(windows: &[&Window], figure: fn(&Window) -> f64) -> f64 {
    windows.iter().map(|window| figure(window)).sum::<f64>() / windows.len().max(1) as f64
}

/// All passes of one kind of an arm.
fn passes_of<'a>(sheet: &Sheet<'a>, arm: &'a str, kind: PassKind) -> impl Iterator<Item = &'a Pass> {
    let of_arm = sheet.run.diagnostics.iter().filter(move |record| record.arm == arm);
    of_arm.flat_map(|record| &record.passes).filter(move |pass| pass.kind == kind)
}

/// Where threads of `arm` waited, each profile with its window, where these passes are used.
pub(super) fn waiting<'a>(
    sheet: &Sheet<'a>,
    arm: &'a str,
    passes: &[PassFindings],
) -> Vec<(&'a Window, &'a Profile)> {
    if !is_used(passes, arm, PassKind::Waiting) {
        return Vec::new();
    }
    let timed = passes_of(sheet, arm, PassKind::Waiting);
    // Without the names of the kernel's functions a wait for requests looks like any other.
    let named = timed.filter_map(|pass| Some((&pass.window, pass.profile.as_ref()?)));
    named.filter(|(_, profile)| profile.kernel_symbols).collect()
}

/// Profiles of `arm` in its passes of one kind, where these are used.
pub(super) fn profiles<'a>(
    sheet: &Sheet<'a>,
    arm: &'a str,
    passes: &[PassFindings],
    kind: PassKind,
) -> Vec<&'a Profile> {
    if !is_used(passes, arm, kind) {
        return Vec::new();
    }
    passes_of(sheet, arm, kind).filter_map(|pass| pass.profile.as_ref()).collect()
}

/// Logs of the virtual machines of `arm` in its sampling passes, each with its window, where these passes are used.
pub(super) fn machine_logs<'a>(
    sheet: &Sheet<'a>,
    arm: &'a str,
    passes: &[PassFindings],
) -> Vec<(&'a Window, &'a MachineLog)> {
    if !is_used(passes, arm, PassKind::Sampling) {
        return Vec::new();
    }
    let logged = passes_of(sheet, arm, PassKind::Sampling);
    logged.filter_map(|pass| Some((&pass.window, pass.machine.as_ref()?))).collect()
}

/// What the virtual machines of `arm` did, where they were logged.
fn machine(sheet: &Sheet, arm: &str, passes: &[PassFindings]) -> Option<Machine> {
    let logged = machine_logs(sheet, arm, passes);
    let requests = logged.iter().map(|(window, _)| window.load.requests).sum::<u64>() as f64;
    let sum = |of: fn(&MachineLog) -> u64| {
        logged.iter().map(|(window, log)| in_window(window, of(log))).sum::<f64>() / requests
    };
    let allocated = logged.iter().map(|(window, log)| {
        Some(log.allocated_bytes_per_s? * window.load.window_ns as f64 / 1e9 / requests)
    });
    (requests > 0.0).then(|| Machine {
        paused_ns: sum(|log| log.paused().total_ns),
        collecting_ns: sum(|log| log.collections_ns.iter().sum()),
        allocated_bytes: allocated.sum(),
    })
}

/// What was counted of `arm` where its passes are used: of those that know system calls by name the least disturbing.
/// Where perf events may not be counted, their pass has counts of nothing.
pub(super) fn counted(sheet: &Sheet, arm: &str, passes: &[PassFindings]) -> Option<Counted> {
    let mut all: Vec<Counted> = [PassKind::Counting, PassKind::Tracing]
        .into_iter()
        .filter(|kind| is_used(passes, arm, *kind))
        .filter_map(|kind| summed(passes_of(sheet, arm, kind)))
        .collect();
    let named = all.iter().position(|one| !one.syscalls.is_empty());
    (!all.is_empty()).then(|| all.swap_remove(named.unwrap_or(0)))
}

/// Counts of passes of one kind over their requests.
fn summed<'a>(passes: impl Iterator<Item = &'a Pass>) -> Option<Counted> {
    let (mut sums, mut requests) = (Counted::default(), 0.0);
    let (mut seen, mut seen_s, mut seconds) = (0.0, 0.0, 0.0);
    for pass in passes {
        let Some(counts) = pass.counts.as_ref().filter(|counts| counts.counted_share > 0.0) else { continue };
        let (of_window, window_s) =
            (pass.window.load.requests as f64, pass.window.load.window_ns as f64 / 1e9);
        requests += of_window;
        seconds += window_s;
        seen += of_window * counts.counted_share;
        seen_s += window_s * counts.counted_share;
        let add = |to: &mut BTreeMap<String, f64>, from: &BTreeMap<String, u64>| {
            for (name, count) in from {
                *to.entry(name.clone()).or_default() += in_window(&pass.window, *count);
            }
        };
        add(&mut sums.events, &counts.events);
        add(&mut sums.syscalls, &counts.syscalls);
    }
    sums.part = (seen_s < seconds).then(|| Part { requests: seen, edges: Part::OF_SLICES / seen_s.sqrt() });
    let per_request = |count: &mut f64| *count /= requests;
    sums.events.values_mut().for_each(per_request);
    sums.syscalls.values_mut().for_each(per_request);
    (requests > 0.0).then_some(sums)
}

/// Whether a stack waits to be told of requests or of work: a server that has nothing to do waits there.
fn waits_for_requests(profile: &Profile, stack: &Stack) -> bool {
    profile.frames_of(stack).any(|frame| match frame.kernel {
        true => FOR_REQUESTS.iter().any(|part| frame.name.contains(part)),
        false => IDLE_THREADS.contains(&frame.name.as_str()),
    })
}

/// The innermost functions of the program itself in the stacks that waited for something other than requests, longest
/// first.
fn waits_in(profiles: &[&Profile]) -> Vec<String> {
    let mut waited: BTreeMap<&str, u64> = BTreeMap::new();
    for profile in profiles {
        for stack in profile.stacks.iter().filter(|stack| !waits_for_requests(profile, stack)) {
            let own = profile.frames_of(stack).rev().find(|frame| {
                !frame.kernel && frame.resolved && !LIBC.iter().any(|module| frame.module.starts_with(module))
            });
            if let Some(frame) = own {
                *waited.entry(&frame.name).or_default() += stack.samples;
            }
        }
    }
    let mut waited: Vec<(&str, u64)> = waited.into_iter().collect();
    waited.sort_by_key(|(name, time)| (std::cmp::Reverse(*time), *name));
    waited.into_iter().take(WAITS_NAMED).map(|(name, _)| name.to_owned()).collect()
}

/// Threads that waited at a time on average, by what for.
pub(super) fn blocked(profiles: &[&Profile]) -> BTreeMap<Blocked, f64> {
    let wall_ns: u64 = profiles.iter().map(|profile| profile.wall_ns).sum();
    let mut blocked = BTreeMap::new();
    for profile in profiles {
        for stack in profile.stacks.iter().filter(|stack| !waits_for_requests(profile, stack)) {
            let is_in = |names: &[&str]| {
                let mut kernel = profile.frames_of(stack).filter(|frame| frame.kernel);
                kernel.any(|frame| names.iter().any(|name| frame.name.contains(name)))
            };
            if let Some((what, _)) = BLOCKED.iter().find(|(_, names)| is_in(names)) {
                let ns = stack.samples.saturating_mul(profile.period_ns) as f64;
                *blocked.entry(*what).or_default() += ns / wall_ns.max(1) as f64;
            }
        }
    }
    blocked
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

#[cfg(test)]
mod tests {
    use super::{Counted, Part};

    #[test]
    fn what_a_part_may_have_missed_is_no_difference() {
        let counted = |calls: f64, part: Option<Part>| Counted {
            syscalls: [("read".to_owned(), calls)].into(),
            part,
            ..Counted::default()
        };
        let more =
            |slow: f64, fast: f64, part| counted(slow, part).more_calls(&counted(fast, part), &["read"]);
        let [few, all] = [Some(Part { requests: 4_000.0, edges: Part::OF_SLICES / 0.2 }), None];
        // Edges: of 25 calls a request 2 % may be missed in 40 ms, in each arm.
        assert!(more(25.4, 25.0, few) == 0.0 && more(25.4, 25.0, all) > 0.0);
        assert!(more(35.0, 25.0, few) > 0.0 && more(25.0, 35.0, few) < 0.0);
        // Two calls that were seen are not more than none.
        assert!(more(0.000_5, 0.0, few) == 0.0 && more(0.01, 0.0, few) > 0.0);
    }
}
