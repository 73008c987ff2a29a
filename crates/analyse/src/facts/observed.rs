//! What was seen of one arm in the passes over it that are used: counts, profiles, waits, logs of virtual machines.

use std::collections::BTreeMap;

use model::record::{
    Counts, Frame, MachineLog, Pass, PassKind, Profile, ProfileKind, RUN_QUEUE, Run, Slice, Stack, TurnCalls,
    Window, Written,
};
use stats::special::{normal_quantile, student_within};

use super::asker::asker;
use super::metric::in_window;
use super::passes::{PassFindings, is_used};
use super::sheet::Sheet;

/// Standard errors by which a time in a profile has to differ.
pub(crate) const SURE: f64 = 3.0;

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
pub(crate) const IDLE_THREADS: [&str; 5] =
    ["runtime.findRunnable", "runtime.stopm", "runtime.sysmon", "runtime.mPark", "runtime.stoplockedm"];

/// What a thread without a CPU waits for, by parts of the names of the kernel's functions in its stack; the first row
/// that fits counts. Source: Linux, kernel/time/hrtimer.c, kernel/futex, fs/sync.c, fs/jbd2, mm/filemap.c, fs/locks.c.
const BLOCKED: [(Blocked, &[&str]); 4] = [
    (Blocked::Sleep, &["nanosleep"]),
    (Blocked::Disk, &["fsync", "sync_file", "generic_write_sync", "jbd2_", "io_schedule", "writeback"]),
    (Blocked::Lock, &["futex"]),
    (Blocked::FileLock, &["locks_lock_inode_wait", "posix_lock_inode_wait", "do_lock_file_wait"]),
];

/// Functions in which an event loop runs what its timers are for, with the file that they are in. Source: Node, lib/internal/timers.js.
const TIMERS: [(&str, &str); 1] = [("listOnTimeout", "node:internal/timers")];

/// Functions that are named as the place of a wait.
const WAITS_NAMED: usize = 2;

/// What threads without a CPU wait for, beside requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Blocked {
    /// A time to pass.
    Sleep,
    /// A disk.
    Disk,
    /// Another thread.
    Lock,
    /// The lock of a file.
    FileLock,
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

/// Counts per request, with how exact they are.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Counted {
    pub(crate) events: BTreeMap<String, f64>,
    pub(crate) syscalls: BTreeMap<String, f64>,
    /// Writes to the network and the bytes of each on average, where each write was looked at.
    pub(crate) network_writes: Option<NetworkWrites>,
    /// Requests over which system calls were counted.
    pub(crate) requests: f64,
    /// How exact that is, where it was not all of the time that was counted.
    part: Option<Part>,
    /// What each turn told, where there are several.
    turns: Vec<Told>,
}

/// Writes to sockets of the network.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct NetworkWrites {
    /// Calls per request.
    pub(crate) calls: f64,
    /// Bytes of each on average, those left out that do not tell theirs.
    pub(crate) bytes_each: Option<f64>,
}

/// System calls of one turn, per request.
#[derive(Debug, Clone, PartialEq)]
struct Told {
    /// Requests over which they were counted.
    requests: f64,
    syscalls: BTreeMap<String, f64>,
}

/// A part of a window that stands for all of it.
#[derive(Debug, Clone, Copy, PartialEq)]
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

/// How many of the calls that `counts` picks there are.
fn picked(syscalls: &BTreeMap<String, f64>, counts: impl Fn(&str) -> bool) -> f64 {
    syscalls.iter().filter(|(name, _)| counts(name)).fold(0.0, |sum, (_, calls)| sum + calls)
}

impl Counted {
    /// How many of these system calls are made.
    pub(crate) fn calls(&self, names: &[&str]) -> f64 {
        picked(&self.syscalls, |name| names.contains(&name))
    }

    /// How many more of these are made than `other` makes; 0 where that is not sure.
    pub(crate) fn more_calls(&self, other: &Self, names: &[&str]) -> f64 {
        let error = |counted: &Self| counted.error(|name| names.contains(&name)).0;
        let more = self.calls(names) - other.calls(names);
        if more.abs() > SURE * error(self).hypot(error(other)) { more } else { 0.0 }
    }

    /// How far at most the number of calls that `counts` picks lies from the truth of this start of the server, with a probability of
    /// `level`: by the part of the time in which they were counted, or by how much turns differ, whichever is more.
    pub(crate) fn within(&self, level: f64, counts: impl Fn(&str) -> bool) -> f64 {
        let (error, degrees) = self.error(counts);
        let normal = normal_quantile((1.0 + level) / 2.0);
        error * degrees.map_or(normal, |degrees| student_within(level, degrees))
    }

    /// Standard error of the number of calls that `counts` picks, and the degrees of freedom it is known with, where turns tell it.
    fn error(&self, counts: impl Fn(&str) -> bool) -> (f64, Option<u32>) {
        let by_part = self.part.map_or(0.0, |part| part.error(picked(&self.syscalls, &counts)));
        let values: Vec<[f64; 2]> =
            self.turns.iter().map(|turn| [picked(&turn.syscalls, &counts), turn.requests]).collect();
        let degrees = u32::try_from(values.len()).ok().and_then(|n| n.checked_sub(1)).filter(|n| *n > 0);
        let by_turns = if degrees.is_some() { error_of_mean(&values) } else { 0.0 };
        if by_turns > by_part { (by_turns, degrees) } else { (by_part, None) }
    }
}

/// Standard error of the weighed mean of some values, each with its weight.
fn error_of_mean(values: &[[f64; 2]]) -> f64 {
    let weight: f64 = values.iter().map(|[_, weight]| weight).sum();
    let mean = values.iter().map(|[value, weight]| value * weight).sum::<f64>() / weight;
    let squares: f64 = values.iter().map(|[value, weight]| (weight * (value - mean)).powi(2)).sum();
    let n = values.len() as f64;
    (squares * n / (n - 1.0)).sqrt() / weight
}

/// All passes of one kind of an arm.
fn passes_of<'a>(sheet: &Sheet<'a>, arm: &'a str, kind: PassKind) -> impl Iterator<Item = &'a Pass> {
    let of_arm = sheet.run.diagnostics.iter().filter(move |record| record.arm == arm);
    of_arm.flat_map(|record| &record.passes).filter(move |pass| pass.kind == kind)
}

/// Where threads of `arm` waited, each profile with its window, where these passes are used.
pub(crate) fn waiting<'a>(
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
pub(crate) fn profiles<'a>(
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
pub(crate) fn machine_logs<'a>(
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
pub(crate) fn machine(sheet: &Sheet, arm: &str, passes: &[PassFindings]) -> Option<Machine> {
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
pub(crate) fn counted(sheet: &Sheet, arm: &str, passes: &[PassFindings]) -> Option<Counted> {
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
    let mut written = Some((0.0, Written::default()));
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
        sums.turns.extend(told(pass, counts));
        written = written.zip(counts.writes).map(|((calls, sum), writes)| {
            (calls + in_window(&pass.window, writes.network.calls), sum.and(&writes.network))
        });
    }
    sums.requests = seen;
    sums.part = (seen_s < seconds).then(|| Part { requests: seen, edges: Part::OF_SLICES / seen_s.sqrt() });
    let per_request = |count: &mut f64| *count /= requests;
    sums.network_writes = written.map(|(calls, sum)| {
        let told = sum.calls - sum.uncounted.min(sum.calls);
        let bytes_each = (told > 0).then(|| sum.bytes as f64 / told as f64);
        NetworkWrites { calls: calls / requests, bytes_each }
    });
    sums.events.values_mut().for_each(per_request);
    sums.syscalls.values_mut().for_each(per_request);
    (requests > 0.0).then_some(sums)
}

/// What each turn of a pass told.
fn told<'a>(pass: &'a Pass, counts: &'a Counts) -> impl Iterator<Item = Told> + 'a {
    let of_turn = |(turn, slice): (&TurnCalls, &Slice)| {
        let requests = slice.requests as f64;
        let per_request = |(name, calls): (&String, &u64)| (name.clone(), *calls as f64 / requests);
        let syscalls = turn.syscalls.iter().map(per_request).collect();
        Told { requests: requests * turn.counted_share, syscalls }
    };
    counts.turns.iter().zip(&pass.window.slices).map(of_turn).filter(|told| told.requests > 0.0)
}

/// Whether a stack waits for requests or for work: a server that has nothing to do waits there.
fn waits_for_requests(profile: &Profile, stack: &Stack) -> bool {
    profile.frames_of(stack).any(|frame| match frame.kernel {
        true => FOR_REQUESTS.iter().any(|part| frame.name.contains(part)),
        false => IDLE_THREADS.contains(&frame.name.as_str()),
    })
}

/// Whether the idle threads of a runtime are told from threads that wait for something.
pub(crate) fn knows_idle_threads(profiles: &[&Profile]) -> bool {
    let mut frames = profiles.iter().flat_map(|profile| &profile.frames);
    frames.any(|frame| IDLE_THREADS.contains(&frame.name.as_str()))
}

/// The functions that asked to wait in the stacks that waited for something other than requests or a CPU, longest first.
pub(crate) fn waits_in(profiles: &[&Profile]) -> Vec<String> {
    let mut waited: BTreeMap<&str, u64> = BTreeMap::new();
    for profile in profiles {
        let for_cpu = |stack: &Stack| profile.frames_of(stack).any(|frame| frame.name == RUN_QUEUE);
        let waits = |stack: &&Stack| !waits_for_requests(profile, stack) && !for_cpu(stack);
        for stack in profile.stacks.iter().filter(waits) {
            if let Some(frame) = asker(profile.frames_of(stack)) {
                *waited.entry(&frame.name).or_default() += stack.samples;
            }
        }
    }
    let mut waited: Vec<(&str, u64)> = waited.into_iter().collect();
    waited.sort_by_key(|(name, time)| (std::cmp::Reverse(*time), *name));
    waited.into_iter().take(WAITS_NAMED).map(|(name, _)| name.to_owned()).collect()
}

/// Threads that waited at a time on average, by what for.
pub(crate) fn blocked(profiles: &[&Profile]) -> BTreeMap<Blocked, f64> {
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

/// The functions of a program that its timers run, with the share of the samples that are in them.
pub(crate) fn run_by_timers(profiles: &[&Profile]) -> BTreeMap<Frame, f64> {
    let all: u64 = profiles.iter().map(|profile| profile.samples).sum();
    let runs = |frame: &Frame| {
        TIMERS.iter().any(|(name, file)| frame.name == *name && frame.file.as_deref() == Some(*file))
    };
    // What is part of the runtime has a file with its name before a colon.
    let is_own = |frame: &&Frame| frame.file.as_ref().is_some_and(|file| !file.starts_with("node:"));
    let mut run: BTreeMap<Frame, f64> = BTreeMap::new();
    for profile in profiles {
        for stack in &profile.stacks {
            let mut frames = profile.frames_of(stack).skip_while(|frame| !runs(frame)).skip(1);
            if let Some(frame) = frames.next().filter(is_own) {
                *run.entry(frame.clone()).or_default() += stack.samples as f64 / all.max(1) as f64;
            }
        }
    }
    run
}

/// The CPU time that the samples of `profiles` divide: without permission none are taken in the kernel, and they divide
/// user time alone. Nothing where some have the kernel and some have not.
pub(crate) fn sampled_ns(profiles: &[&Profile], total_ns: f64, user_ns: f64) -> Option<f64> {
    let with_kernel = profiles.iter().filter(|profile| profile.kernel).count();
    match with_kernel {
        0 => Some(user_ns),
        all if all == profiles.len() => Some(total_ns),
        _ => None,
    }
}

pub(crate) fn sampled<'a>(run: &'a Run, arm: &str) -> Vec<&'a Profile> {
    let records = run.diagnostics.iter().filter(|record| record.arm == arm);
    let passes = records.flat_map(|record| &record.passes).filter(|pass| pass.kind == PassKind::Sampling);
    let profiles = passes.filter_map(|pass| pass.profile.as_ref());
    profiles.filter(|profile| profile.kind == ProfileKind::Cpu).collect()
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
