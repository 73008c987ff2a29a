//! Suspects that are counted: a change in a count times what one of them costs on this host.

use model::plan::CauseId;
use std::collections::BTreeSet;

use super::gap::Pair;
use super::{Suspect, one};
use crate::attribution::cause::Grade;
use crate::attribution::profile::{
    COPYING_FAULTS, Category, FILE_WRITES as FILE_WRITES_INSIDE, PAGE_FAULTS, PIPE_WRITES,
};
use crate::facts::calls::{
    FILE_WRITES, FUTEX, MEMORY, OF_CONNECTIONS, POLLS, READS, RECEIVES, SLEEPS, SYNCS, WRITES,
};
use crate::facts::seen::Counted;
use crate::facts::seen::SURE;

/// Those that other detectors speak of.
const ACCOUNTED: [&[&str]; 6] = [&WRITES, &FILE_WRITES, &MEMORY, &FUTEX, &SLEEPS, &SYNCS];
/// Fewer calls than this per request are noise of timers and signals.
const FEW: f64 = 0.05;

/// More writes to the network for the same answer: each is a system call, a segment and a wake-up.
pub(super) fn small_writes(pair: &Pair) -> Vec<Suspect> {
    let Some(costs) = pair.costs else { return Vec::new() };
    let Some((_, [all, fast])) = pair.more_calls(&WRITES) else { return Vec::new() };
    let Writes { network, pipes, files } = writes(pair);
    let [asked, _] = exchanges(pair);
    let more = network - asked;
    let slow = all - (pipes + files).max(0.0) - asked;
    // What a write costs beyond one on an idle loopback (queues, acknowledgements, waking the other side) is in the profile.
    let inside_ns = if more >= FEW { pair.more_time_in_calls(&WRITES) * more / network } else { 0.0 };
    let size = |writes: f64| format!("{:.0} bytes each", pair.slow.answer_bytes / writes.max(f64::EPSILON));
    one(Suspect {
        id: CauseId::SmallWrites,
        grade: Grade::BoundedBy,
        ns: (more * costs.loopback_write_ns).max(inside_ns),
        evidence: format!("writes to the network: {slow:.2} a request ({}) against {fast:.2}", size(slow)),
        usual: true,
    })
}

/// More writes to the network by which something is asked elsewhere, and more reads of what is answered: not the server's own
/// answer in smaller pieces. Without both it is neither.
fn exchanges(pair: &Pair) -> [f64; 2] {
    /// More answers in pieces than by chance, as a share of all.
    const IN_PIECES: f64 = 0.01;
    let reads = pair.more_calls(&[&READS[..], &RECEIVES].concat()).map_or(0.0, |(more, _)| more);
    let network = writes(pair).network;
    let pieces = pair.slow.pieces.zip(pair.fast.pieces);
    let asked = match pieces.map(|((slow, _), (fast, _))| slow - fast < IN_PIECES) {
        // One read may take several answers that another service sent together.
        Some(true) => network,
        // What was read may be a file, and each piece of it an answer's.
        Some(false) => 0.0,
        None => network.min(reads),
    };
    if asked.min(reads) >= FEW { [asked, reads] } else { [0.0; 2] }
}

/// Another service that is asked more often for one answer.
pub(super) fn backend_calls(pair: &Pair) -> Vec<Suspect> {
    const KINDS: [Category; 2] = [Category::NetworkTransmit, Category::NetworkReceive];
    let [asked, reads] = exchanges(pair);
    let Some(costs) = pair.costs.filter(|_| asked > 0.0) else { return Vec::new() };
    let inside_ns = pair.more_time_in_calls(&[&WRITES[..], &READS, &RECEIVES].concat());
    one(Suspect {
        id: CauseId::BackendCalls,
        grade: Grade::BoundedBy,
        ns: (asked * (costs.loopback_write_ns + costs.syscall_ns))
            .max(inside_ns)
            .max(pair.more_time_in(&KINDS)),
        evidence: format!(
            "asking other services more often: {asked:.2} more writes to the network a request, and {reads:.2} more reads"
        ),
        usual: false,
    })
}

/// More writes per request, by where they go.
#[derive(Default)]
struct Writes {
    network: f64,
    pipes: f64,
    files: f64,
}

/// Where more writes go: as many to the network as there are more segments. Where the others go is in the profile, and
/// without one they are said to go to files; the kernel puts small writes to one connection into one segment.
fn writes(pair: &Pair) -> Writes {
    let more = pair.more_calls(&WRITES).map_or(0.0, |(more, _)| more);
    let network = more.min(pair.more(|evidence| evidence.segments)).max(0.0);
    let [sockets, pipes, files] =
        [&WRITES[..], &[PIPE_WRITES], &[FILE_WRITES_INSIDE]].map(|names| pair.more_time_in_calls(names));
    let rest = more - network;
    match pipes + files {
        elsewhere if elsewhere > 0.0 => {
            Writes { network, pipes: rest * pipes / elsewhere, files: rest * files / elsewhere }
        }
        _ if sockets > 0.0 => Writes { network: more, ..Writes::default() },
        _ => Writes { network, pipes: 0.0, files: rest },
    }
}

/// More writes that do not go to the network: logs, journals, pipes.
pub(super) fn file_writes(pair: &Pair) -> Vec<Suspect> {
    let Some(costs) = pair.costs else { return Vec::new() };
    if pair.more_calls(&WRITES).is_none() {
        return Vec::new();
    }
    let (only_files, _) = pair.more_calls(&FILE_WRITES).unwrap_or_default();
    let more = writes(pair).files + only_files;
    if more < FEW {
        return Vec::new();
    }
    let inside_ns = pair.more_time_in_calls(&[&[FILE_WRITES_INSIDE], &FILE_WRITES[..]].concat());
    // Without a profile: a write to a file that stays in memory costs no more than one to a loopback socket.
    let ns = if inside_ns > 0.0 { inside_ns } else { more * costs.loopback_write_ns };
    one(Suspect {
        id: CauseId::FileWrites,
        grade: Grade::BoundedBy,
        ns,
        evidence: format!("writes that do not go to the network (a log, a file): {more:.2} more a request"),
        usual: false,
    })
}

/// More system calls of kinds that nothing else accounts for.
pub(super) fn extra_syscalls(pair: &Pair) -> Vec<Suspect> {
    let Some(costs) = pair.costs else { return Vec::new() };
    let Some((slow, fast)) = pair.slow.counted.as_ref().zip(pair.fast.counted.as_ref()) else {
        return Vec::new();
    };
    let more = more_others(pair, slow, fast);
    let named: f64 = more.iter().map(|(count, _)| count).sum();
    let unnamed = unnamed_calls(slow, fast);
    let sampled = if unnamed >= FEW { grown_unnamed(pair, slow) } else { None };
    let grown: Vec<(f64, &str)> = more.into_iter().filter(|(count, _)| *count >= FEW).collect();
    // What a call does beyond its entry is in the profile: opening a file costs ten times what asking for an id does.
    let sampled_too = grown.iter().map(|(_, name)| *name).filter(|name| !POLLS.contains(name)).chain(sampled);
    let inside_ns = pair.more_time_in_calls(&sampled_too.collect::<Vec<&str>>());
    // What the way in and out grew by is shared by all calls that are more.
    let all = pair.more(|evidence| evidence.counted.as_ref().map_or(0.0, all_calls));
    let share = if named + unnamed >= FEW { ((named + unnamed) / all.max(FEW)).min(1.0) } else { 0.0 };
    let inside_ns = inside_ns.max(share * pair.more_time_in(&[Category::SyscallEntry]));
    let mut told: Vec<String> =
        grown.iter().take(3).map(|(count, name)| format!("{name} +{count:.2}")).collect();
    if unnamed >= FEW {
        let most = sampled.map_or(String::new(), |name| format!(", most of their time in {name}"));
        told.push(format!("others +{unnamed:.2}{most}"));
    }
    let list = if told.is_empty() { String::new() } else { format!(" ({})", told.join(", ")) };
    let inside = if inside_ns > 0.0 {
        format!(", {} more a request inside them by the profile", model::units::format_ns(inside_ns))
    } else {
        String::new()
    };
    one(Suspect {
        id: CauseId::ExtraSyscalls,
        grade: Grade::BoundedBy,
        ns: ((named + unnamed).max(0.0) * costs.syscall_ns).max(inside_ns),
        evidence: format!(
            "system calls other than writes and waits: {:.2} a request against {:.2}{list}{inside}",
            others(slow),
            others(fast)
        ),
        usual: true,
    })
}

/// How many more of each system call that no other detector speaks of, the most first.
fn more_others<'a>(pair: &Pair, slow: &'a Counted, fast: &'a Counted) -> Vec<(f64, &'a str)> {
    let (reconnects, asks) = (reconnects(pair), exchanges(pair) != [0.0; 2]);
    let is_accounted = |name: &str| {
        ACCOUNTED.iter().any(|names| names.contains(&name))
            || (reconnects && OF_CONNECTIONS.contains(&name))
            || (asks && READS.iter().chain(&RECEIVES).any(|read| *read == name))
    };
    let names: BTreeSet<&str> =
        slow.syscalls.keys().chain(fast.syscalls.keys()).map(String::as_str).collect();
    let names = names.into_iter().filter(|name| !is_accounted(name));
    let mut more: Vec<(f64, &str)> = names.map(|name| (slow.more_calls(fast, &[name]), name)).collect();
    more.sort_by(|a, b| b.0.total_cmp(&a.0));
    more
}

/// All system calls a request.
fn all_calls(counts: &Counted) -> f64 {
    counts.events.get("syscalls").copied().unwrap_or_else(|| counts.syscalls.values().sum())
}

/// Those of them that no other detector speaks of.
fn others(counts: &Counted) -> f64 {
    all_calls(counts) - ACCOUNTED.iter().map(|names| counts.calls(names)).sum::<f64>()
}

/// More connections that clients open to the server, and that it opens itself. The host counts what is accepted on it, by a
/// service beside the server, too.
fn more_connections(pair: &Pair) -> [f64; 2] {
    let opened = pair.more_calls(&["connect"]).map_or(0.0, |(more, _)| more);
    [pair.more(|evidence| evidence.accepted) - opened.max(0.0), opened]
}

fn reconnects(pair: &Pair) -> bool {
    more_connections(pair).iter().any(|more| *more >= FEW)
}

/// Connections that do not last: clients that are sent away, or another service that is connected to again and again.
pub(super) fn new_connections(pair: &Pair) -> Vec<Suspect> {
    /// Where the segments that open and close one are sent and received, on either side of the calls.
    const KINDS: [Category; 3] =
        [Category::NetworkReceive, Category::NetworkTransmit, Category::SyscallEntry];
    let Some(costs) = pair.costs.filter(|_| reconnects(pair)) else { return Vec::new() };
    let [accepted, opened] = more_connections(pair);
    let told: Vec<String> = [(accepted, "accepted"), (opened, "opened to another service")]
        .iter()
        .filter(|(more, _)| *more >= FEW)
        .map(|(more, what)| format!("{more:.2} more {what}"))
        .collect();
    let (calls, _) = pair.more_calls(&OF_CONNECTIONS).unwrap_or_default();
    let inside_ns = pair.more_time_in_calls(&OF_CONNECTIONS).max(pair.more_time_in(&KINDS));
    one(Suspect {
        id: CauseId::NewConnections,
        grade: Grade::BoundedBy,
        ns: (calls.max(0.0) * costs.syscall_ns).max(inside_ns),
        evidence: format!(
            "new connections: {} a request, and {calls:.2} more calls for them",
            told.join(", ")
        ),
        usual: false,
    })
}

/// As many system calls in which the kernel has more to do: a disk that is read and not its cache, a larger file.
pub(super) fn costlier_calls(pair: &Pair) -> Vec<Suspect> {
    /// How many more calls are as many.
    const AS_MANY: f64 = 0.1;
    let Some(profile) = pair.profile else { return Vec::new() };
    let reads_files = pair.more_time_in(&[Category::File]) > 0.0;
    let is_others = |name: &str| {
        ACCOUNTED.iter().chain([&&POLLS[..], &&RECEIVES[..]]).any(|names| names.contains(&name))
            || (READS.contains(&name) && !reads_files)
    };
    let as_many = |name: &str| {
        pair.more_calls(&[name]).is_some_and(|(more, [_, fast])| fast >= FEW && more <= AS_MANY * fast)
    };
    let names = profile.system_calls.iter().map(|row| &*row.name);
    let grown: Vec<&str> = names
        .filter(|name| !is_others(name) && as_many(name) && pair.more_time_in_calls(&[name]) > 0.0)
        .collect();
    if grown.is_empty() {
        return Vec::new();
    }
    let ns = pair.more_time_in_calls(&grown);
    let [slow, fast] = pair.more_calls(&grown).map_or([0.0; 2], |(_, both)| both);
    one(Suspect {
        id: CauseId::CostlierCalls,
        grade: Grade::BoundedBy,
        ns,
        evidence: format!(
            "system calls that do more, and are not more ({}): {slow:.2} a request against {fast:.2}, {} more inside them by \
             the profile{}",
            grown.join(", "),
            model::units::format_ns(ns),
            super::code::most_in_kernel(pair, |_| true)
        ),
        usual: false,
    })
}

/// More time in asking which sockets are ready: asked more often, or about more of them. Where threads also sleep and are
/// woken more often, the time inside these calls is that of switching.
pub(super) fn readiness(pair: &Pair) -> Vec<Suspect> {
    let Some((_, [slow, fast])) = pair.more_calls(&POLLS) else { return Vec::new() };
    let inside_ns = pair.more_time_in_calls(&POLLS);
    if inside_ns <= 0.0 || pair.more(super::evidence::Evidence::all_switches) >= FEW {
        return Vec::new();
    }
    one(Suspect {
        id: CauseId::Readiness,
        grade: Grade::BoundedBy,
        ns: inside_ns,
        evidence: format!(
            "asking which sockets are ready (epoll_wait, poll, select): {slow:.2} calls a request against {fast:.2}, {} more \
             a request inside them by the profile",
            model::units::format_ns(inside_ns)
        ),
        usual: false,
    })
}

/// How many more calls are made of which only the sum was counted; fewer where the other arm's have no names.
fn unnamed_calls(slow: &Counted, fast: &Counted) -> f64 {
    let others = |counts: &Counted| {
        let all = counts.events.get("syscalls")?;
        Some(all - counts.syscalls.values().sum::<f64>())
    };
    others(slow).zip(others(fast)).map_or(0.0, |(slow, fast)| slow - fast)
}

/// The system call that was not counted by name and in which the slow arm spends most more time, by the profile.
fn grown_unnamed<'a>(pair: &Pair<'a>, counted: &Counted) -> Option<&'a str> {
    let rows = pair.profile?.system_calls.iter();
    let unknown = rows.filter(|row| {
        ![FILE_WRITES_INSIDE, PIPE_WRITES, PAGE_FAULTS, COPYING_FAULTS].contains(&&*row.name)
            && !counted.syscalls.contains_key(&row.name)
    });
    let most =
        unknown.max_by(|a, b| (pair.sign * a.difference_ns).total_cmp(&(pair.sign * b.difference_ns)))?;
    (pair.sign * most.difference_ns > SURE * most.error_ns).then_some(&*most.name)
}

/// More context switches to which no thread led that wakes another.
pub(super) fn context_switches(pair: &Pair) -> Vec<Suspect> {
    if pair.costs.is_none() || futexes(pair).max(writes(pair).pipes) >= FEW {
        return Vec::new();
    }
    let [slow, fast] = [pair.slow, pair.fast].map(super::evidence::Evidence::all_switches);
    let waits = super::waits::share_of_switches(pair);
    let reckoned = (waits + super::waits::share_of_begun(pair)).min(1.0);
    let what = if waits > 0.0 { "waits" } else { "threads that begin" };
    let of_waits = match reckoned {
        0.0 => String::new(),
        1.0 => format!(", those more of {what} that are reckoned by themselves"),
        _ => format!(", {:.3} of them of {what} that are reckoned by themselves", reckoned * (slow - fast)),
    };
    one(Suspect {
        id: CauseId::ContextSwitches,
        grade: Grade::BoundedBy,
        ns: switching(pair) * (1.0 - reckoned),
        evidence: format!("context switches: {slow:.3} a request against {fast:.3}{of_waits}"),
        usual: true,
    })
}

/// Requests that are passed from thread to thread: futexes, or writes to pipes or local sockets, with switches.
pub(super) fn thread_handoff(pair: &Pair) -> Vec<Suspect> {
    let Some(costs) = pair.costs else { return Vec::new() };
    let (futexes, pipes) = (futexes(pair), writes(pair).pipes);
    if futexes.max(pipes) < FEW {
        return Vec::new();
    }
    let switches = pair.more(super::evidence::Evidence::all_switches).max(0.0);
    // A hand-over is a wake, a wait and a switch: a futex call without a switch of its own is the call alone.
    let calls_alone = (futexes + 2.0 * pipes - 2.0 * switches).max(0.0);
    let counted_ns = switches * costs.futex_wake_ns + calls_alone * costs.syscall_ns;
    let ns = counted_ns.max(scheduling(pair, switches) + pair.more_time_in_calls(&[PIPE_WRITES]));
    let told: Vec<String> = [
        (futexes, "futex calls"),
        (pipes, "writes to pipes or local sockets"),
        (switches, "context switches"),
    ]
    .iter()
    .filter(|(more, _)| *more >= FEW)
    .map(|(more, what)| format!("{more:.2} more {what}"))
    .collect();
    one(Suspect {
        id: CauseId::ThreadHandoff,
        grade: Grade::BoundedBy,
        ns,
        evidence: format!("hand-over between threads: {} a request", told.join(", ")),
        usual: true,
    })
}

/// What more switches cost: by their number, or by the profile where that says more.
pub(super) fn switching(pair: &Pair) -> f64 {
    let more = pair.more(super::evidence::Evidence::all_switches);
    let counted_ns = pair.costs.map_or(0.0, |costs| more.max(0.0) * costs.context_switch_ns);
    counted_ns.max(scheduling(pair, more))
}

/// What more switches cost by the profile: waking, waiting and switching on this machine's CPUs with this load, where the
/// unit cost is that of two threads that do nothing else.
fn scheduling(pair: &Pair, switches: f64) -> f64 {
    // Who waits for a lock in a loop is switched off it against its will, which costs little beside the loop.
    let kinds: &[Category] =
        if futexes(pair) >= FEW { &[Category::Scheduler, Category::Lock] } else { &[Category::Scheduler] };
    if switches >= FEW { pair.more_time_in(kinds) } else { 0.0 }
}

fn futexes(pair: &Pair) -> f64 {
    pair.more_calls(&FUTEX).map_or(0.0, |(more, _)| more)
}

/// Which of these calls are more, as an addition to what is said.
fn more_of(pair: &Pair, names: &[&str]) -> String {
    let more = names.iter().filter_map(|name| Some((pair.more_calls(&[name])?.0, name)));
    let told: Vec<String> =
        more.filter(|(more, _)| *more >= FEW).map(|(more, name)| format!("{name} +{more:.2}")).collect();
    if told.is_empty() { String::new() } else { format!(" ({})", told.join(", ")) }
}

/// Pages that have to be had from the kernel, and the calls for them.
pub(super) fn kernel_memory(pair: &Pair) -> Vec<Suspect> {
    let Some(costs) = pair.costs else { return Vec::new() };
    let [slow, fast] = [pair.slow, pair.fast].map(|evidence| evidence.minor_faults);
    let (calls, _) = pair.more_calls(&MEMORY).unwrap_or_default();
    let more_faults = (slow - fast).max(0.0);
    // Where threads share an address space they wait for each other, which the profile shows.
    let fault_ns =
        if more_faults >= FEW { pair.more_time_in_calls(&[PAGE_FAULTS, COPYING_FAULTS]) } else { 0.0 };
    let faults_ns = fault_ns.max(more_faults * costs.minor_fault_ns);
    let inside_ns = if calls >= FEW { pair.more_time_in_calls(&MEMORY) } else { 0.0 };
    one(Suspect {
        id: CauseId::KernelMemory,
        grade: Grade::BoundedBy,
        ns: faults_ns + inside_ns.max(calls.max(0.0) * costs.syscall_ns),
        evidence: format!("page faults: {slow:.3} a request against {fast:.3}{}", more_of(pair, &MEMORY)),
        usual: true,
    })
}
