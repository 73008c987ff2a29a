//! Suspects that are counted: a change in a count times what one of them costs on this host.

use model::plan::CauseId;
use std::collections::BTreeSet;

use super::evidence::Evidence;
use super::gap::Pair;
use super::{Suspect, one};
use crate::attribution::cause::Grade;
use crate::attribution::seen::{Elsewhere, Seen};
use crate::attribution::tree::AttributionRow;
use crate::attribution::tree::calls::Calls;
use crate::attribution::tree::place::Leaf;
use crate::attribution::tree::table::On;
use crate::facts::calls::{
    FILE_WRITES, FUTEX, MEMORY, OF_CONNECTIONS, READS, RECEIVES, SLEEPS, SYNCS, WRITES, YIELDS,
};
use crate::facts::observed::{Counted, NetworkWrites};

/// Those that other detectors speak of.
const ACCOUNTED: [&[&str]; 6] = [&WRITES, &FILE_WRITES, &MEMORY, &FUTEX, &SLEEPS, &SYNCS];
/// Fewer calls than this per request are noise of timers and signals.
pub(super) const FEW: f64 = 0.05;
/// Writes to a pipe or a local socket for each context switch up to which they can be what wakes a thread.
const MOST_PIECES: f64 = 10.0;
/// Share of more context switches from which on those of threads that yield the CPU are what they are for.
const YIELDED: f64 = 0.5;
/// Calls that are named as examples.
const NAMED: usize = 3;

/// More writes to the network for the same answer: each is a system call, a segment and a wake-up.
pub(super) fn small_writes(pair: &Pair) -> Vec<Suspect> {
    let Some(costs) = pair.costs else { return Vec::new() };
    let Some((_, all)) = pair.more_calls(&WRITES) else { return Vec::new() };
    let [asked, _] = exchanges(pair);
    let more = writes(pair).network - asked;
    let network = to_network(pair, pair.slow).zip(to_network(pair, pair.fast));
    one(Suspect {
        id: CauseId::SmallWrites,
        grade: Grade::BoundedBy,
        error_ns: 0.0,
        idle_ns: 0.0,
        ns: more * costs.loopback_write_ns,
        seen: vec![Seen::Writes {
            writes: network.map_or(all, |(slow, fast)| [slow.calls, fast.calls]),
            network: network.is_some(),
            bytes_each: network.and_then(|(slow, _)| slow.bytes_each),
        }],
        usual: true,
    })
}

/// Writes of an arm to the network, where what was counted or sampled tells them from others.
fn to_network(pair: &Pair, arm: &Evidence) -> Option<NetworkWrites> {
    let counted = arm.counted.as_ref()?;
    if counted.network_writes.is_some() {
        return counted.network_writes;
    }
    let ns = |row: &AttributionRow| if arm.name == row.arm { row.arm_ns } else { row.baseline_ns };
    let sampled = Calls::new(pair.tree.iter().map(|(leaf, row)| (leaf, ns(row))));
    let to_network = |name: &&str| match counted.calls(&[name]) {
        few if few < FEW => Some(0.0),
        _ if !sampled.has(name) => None,
        calls => sampled.all_or_none(name, Some(On::Tcp)).map(|all| if all { calls } else { 0.0 }),
    };
    let calls = WRITES.iter().map(to_network).sum::<Option<f64>>()?;
    // Of a server that asks nobody each write is part of an answer.
    let answers_alone = arm.asked.is_some_and(|asked| asked < FEW) && calls >= FEW;
    Some(NetworkWrites { calls, bytes_each: answers_alone.then(|| arm.answer_bytes / calls) })
}

/// More writes to the network by which something is asked elsewhere, and more reads of what is answered: not the server's own
/// answer in smaller pieces. Without both it is neither; nor is it of a server whose connections are seen and that asks nobody.
pub(super) fn exchanges(pair: &Pair) -> [f64; 2] {
    /// More answers in pieces than by chance, as a share of all.
    const IN_PIECES: f64 = 0.01;
    if pair.slow.asked.is_some_and(|asked| asked < FEW) {
        return [0.0; 2];
    }
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
    let [asked, reads] = exchanges(pair);
    let Some(costs) = pair.costs.filter(|_| asked > 0.0) else { return Vec::new() };
    one(Suspect {
        id: CauseId::BackendCalls,
        grade: Grade::BoundedBy,
        error_ns: 0.0,
        idle_ns: 0.0,
        ns: asked * (costs.loopback_write_ns + costs.syscall_ns),
        seen: vec![Seen::Asking { writes: asked, reads }],
        usual: false,
    })
}

/// More writes per request, by where they go.
#[derive(Default)]
pub(super) struct Writes {
    pub(super) network: f64,
    pub(super) pipes: f64,
    files: f64,
}

/// Where more writes go: as many to the network as there are more segments. Where the others go is in the tree, and
/// without one they are said to go to files; the kernel puts small writes to one connection into one segment.
pub(super) fn writes(pair: &Pair) -> Writes {
    let more = pair.more_calls(&WRITES).map_or(0.0, |(more, _)| more);
    let network = more.min(pair.more(|evidence| evidence.segments)).max(0.0);
    let on = |these: &[On]| {
        pair.more_time_in(|leaf| match leaf {
            Leaf::Call { call, on: Some(on), .. } => WRITES.contains(&&**call) && these.contains(on),
            _ => false,
        })
    };
    let [sockets, pipes, files] = [on(&[On::Tcp]), on(&[On::Pipe, On::UnixSocket]), on(&[On::File])];
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
    // A write to a file that stays in memory costs no more than one to a loopback socket.
    let ns = more * costs.loopback_write_ns;
    one(Suspect {
        id: CauseId::FileWrites,
        grade: Grade::BoundedBy,
        error_ns: 0.0,
        idle_ns: 0.0,
        ns,
        seen: vec![Seen::OtherWrites(more)],
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
    let grown = more.into_iter().filter(|(count, _)| *count >= FEW).take(NAMED);
    one(Suspect {
        id: CauseId::ExtraSyscalls,
        grade: Grade::BoundedBy,
        error_ns: 0.0,
        idle_ns: 0.0,
        ns: (named + unnamed).max(0.0) * costs.syscall_ns,
        seen: vec![Seen::OtherCalls {
            calls: [others(slow), others(fast)],
            grown: grown.map(|(count, name)| (name.to_owned(), count)).collect(),
            unnamed: (unnamed >= FEW).then(|| (unnamed, sampled.map(str::to_owned))),
        }],
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

pub(super) fn reconnects(pair: &Pair) -> bool {
    more_connections(pair).iter().any(|more| *more >= FEW)
}

/// Connections that do not last: clients that are sent away, or another service that is connected to again and again.
pub(super) fn new_connections(pair: &Pair) -> Vec<Suspect> {
    let Some(costs) = pair.costs.filter(|_| reconnects(pair)) else { return Vec::new() };
    let [accepted, opened] = more_connections(pair);
    let (calls, _) = pair.more_calls(&OF_CONNECTIONS).unwrap_or_default();
    one(Suspect {
        id: CauseId::NewConnections,
        grade: Grade::BoundedBy,
        error_ns: 0.0,
        idle_ns: 0.0,
        ns: calls.max(0.0) * costs.syscall_ns,
        seen: vec![Seen::NewConnections { accepted: not_few(accepted), opened: not_few(opened), calls }],
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

/// The system call that was not counted by name and in which the slow arm spends most more time, by the tree.
fn grown_unnamed<'a>(pair: &Pair<'a>, counted: &Counted) -> Option<&'a str> {
    let calls: BTreeSet<&str> = pair
        .tree
        .iter()
        .filter_map(|(leaf, _)| match leaf {
            Leaf::Call { call, .. } => Some(call.as_str()),
            _ => None,
        })
        .filter(|call| !counted.syscalls.contains_key(*call))
        .collect();
    let time = |name: &str| pair.more_time_in(|leaf| matches!(leaf, Leaf::Call { call, .. } if call == name));
    let most = calls.into_iter().map(|name| (time(name), name)).max_by(|a, b| a.0.total_cmp(&b.0));
    most.filter(|(ns, _)| *ns > 0.0).map(|(_, name)| name)
}

/// More context switches to which no thread led that wakes another.
pub(super) fn context_switches(pair: &Pair) -> Vec<Suspect> {
    if pair.costs.is_none() || hands_over(pair) {
        return Vec::new();
    }
    let [slow, fast] = [pair.slow, pair.fast].map(Evidence::all_switches);
    let waits = super::waits::share_of_switches(pair);
    let reckoned = (waits + super::waits::share_of_begun(pair)).min(1.0);
    let count = (reckoned < 1.0).then_some(reckoned * (slow - fast));
    let elsewhere = (reckoned > 0.0).then_some(Elsewhere { waits: waits > 0.0, count });
    let switches = Seen::Switches { switches: [slow, fast], elsewhere };
    // Whoever yields the CPU until there is work polls.
    let yields =
        pair.more_calls(&YIELDS).filter(|(more, _)| *more >= FEW && *more >= YIELDED * (slow - fast));
    let (id, seen) = match yields {
        Some((_, both)) => {
            (CauseId::BusyWait, vec![switches, Seen::MoreCalls(vec![(YIELDS[0].to_owned(), both)])])
        }
        None => (CauseId::ContextSwitches, vec![switches]),
    };
    one(Suspect {
        id,
        grade: Grade::BoundedBy,
        error_ns: 0.0,
        idle_ns: 0.0,
        ns: switching(pair) * (1.0 - reckoned),
        seen,
        usual: true,
    })
}

/// Requests that are passed from thread to thread: futexes, or writes to pipes or local sockets, with switches.
pub(super) fn thread_handoff(pair: &Pair) -> Vec<Suspect> {
    let Some(costs) = pair.costs else { return Vec::new() };
    if !hands_over(pair) {
        return Vec::new();
    }
    let (futexes, pipes) = (futexes(pair), wakes_by_pipe(pair));
    let switches = pair.more(Evidence::all_switches).max(0.0);
    // A hand-over is a wake, a wait and a switch: a futex call without a switch of its own is the call alone.
    let calls_alone = (futexes + 2.0 * pipes - 2.0 * switches).max(0.0);
    let ns = switches * costs.futex_wake_ns + calls_alone * costs.syscall_ns;
    one(Suspect {
        id: CauseId::ThreadHandoff,
        grade: Grade::BoundedBy,
        error_ns: 0.0,
        idle_ns: 0.0,
        ns,
        seen: vec![Seen::HandOver {
            futexes: not_few(futexes),
            pipes: not_few(pipes),
            switches: not_few(switches),
        }],
        usual: true,
    })
}

/// Whether more requests, or parts of one, are passed from thread to thread.
pub(super) fn hands_over(pair: &Pair) -> bool {
    futexes(pair).max(wakes_by_pipe(pair)) >= FEW
}

/// Whether threads wake each other by pipes and local sockets. Many more writes than switches are a stream in small pieces, as between a client
/// and a server on one machine.
pub(super) fn pipes_wake(pair: &Pair) -> bool {
    writes(pair).pipes <= MOST_PIECES * pair.more(Evidence::all_switches).max(FEW)
}

/// More writes to pipes and local sockets that can have woken a thread.
fn wakes_by_pipe(pair: &Pair) -> f64 {
    if pipes_wake(pair) { writes(pair).pipes } else { 0.0 }
}

/// What more switches cost by their number.
pub(super) fn switching(pair: &Pair) -> f64 {
    let more = pair.more(Evidence::all_switches);
    pair.costs.map_or(0.0, |costs| more.max(0.0) * costs.context_switch_ns)
}

pub(super) fn futexes(pair: &Pair) -> f64 {
    pair.more_calls(&FUTEX).map_or(0.0, |(more, _)| more)
}

/// What is not too few to be told.
fn not_few(more: f64) -> Option<f64> {
    (more >= FEW).then_some(more)
}

/// Which of these calls are more, and by how many.
fn more_of(pair: &Pair, names: &[&str]) -> Vec<(String, f64)> {
    let more = names.iter().filter_map(|name| Some((name, not_few(pair.more_calls(&[name])?.0)?)));
    more.map(|(name, more)| ((*name).to_owned(), more)).collect()
}

/// Pages that have to be had from the kernel, and the calls for them.
pub(super) fn kernel_memory(pair: &Pair) -> Vec<Suspect> {
    let Some(costs) = pair.costs else { return Vec::new() };
    let [slow, fast] = [pair.slow, pair.fast].map(|evidence| evidence.minor_faults);
    let (calls, _) = pair.more_calls(&MEMORY).unwrap_or_default();
    let more_faults = (slow - fast).max(0.0);
    one(Suspect {
        id: CauseId::KernelMemory,
        grade: Grade::BoundedBy,
        error_ns: 0.0,
        idle_ns: 0.0,
        ns: more_faults * costs.minor_fault_ns + calls.max(0.0) * costs.syscall_ns,
        seen: vec![Seen::PageFaults { faults: [slow, fast], calls: more_of(pair, &MEMORY) }],
        usual: true,
    })
}
