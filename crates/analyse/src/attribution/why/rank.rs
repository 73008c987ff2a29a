//! Which cause is said first, where the one that carries most is not the one that leads to the others.
//!
//! Code that is spread over many functions says little. Where a request makes calls that it hardly makes in the other arm, these say more:
//! the code is what asks for them, and what takes their answers. So does a kind of work that functions do which the other arm does not
//! run, as an allocator that checks. Most of what it costs to ask another server is code around the calls: the client's library, threads that
//! are woken. And compilers and collectors work for what the program runs.

use std::collections::BTreeMap;

use model::plan::CauseId;

use super::gap::Pair;
use super::{Suspect, cpu, is_named};
use crate::attribution::seen::{Both, Seen};
use crate::attribution::tree::place::Leaf;
use crate::facts::calls::{FUTEX, POLLS};

/// Causes that are calls which can be counted.
const CALLED: [CauseId; 5] = [
    CauseId::ExtraSyscalls,
    CauseId::NewConnections,
    CauseId::BackendCalls,
    CauseId::FileWrites,
    CauseId::ChildProcesses,
];
/// Causes that are what the program itself runs.
const RUN: [CauseId; 10] = [
    CauseId::OwnCode,
    CauseId::Runtime,
    CauseId::Serialisation,
    CauseId::HeadParsing,
    CauseId::HeaderWriting,
    CauseId::Dates,
    CauseId::Tls,
    CauseId::Comparing,
    CauseId::Copying,
    CauseId::Allocation,
];
/// Causes that are one kind of work, told by the functions that do it.
const KINDS: [CauseId; 7] = [
    CauseId::Allocation,
    CauseId::Serialisation,
    CauseId::Tls,
    CauseId::Dates,
    CauseId::Locks,
    CauseId::HeadParsing,
    CauseId::HeaderWriting,
];
/// Share of its time in the slower arm up to which a function or a package is hardly run by the other.
const HARDLY: f64 = 0.1;
/// Share of what own code carries from which on calls are said before it.
const HALF: f64 = 0.5;
/// Share of the gap from which on code is said before what compiles it and collects for it.
const ENOUGH: f64 = 0.2;
/// Likewise of new connections, each of which is greeted, agreed on and given up again in code around the calls.
const A_TENTH: f64 = 0.1;
/// How many times the other arm's time or number is another kind of request, and not chance or a little more of the same.
const TWICE: f64 = 2.0;
/// Likewise of the bytes that a request allocates.
const MORE_ALLOCATED: f64 = 1.5;
/// Likewise of how often a request asks other servers.
const MORE_ASKED: f64 = 1.5;
/// More calls for two requests that are more than timers and signals make.
const MADE: f64 = 0.5;
/// Calls that are named beside own code.
const NAMED: usize = 2;

/// The cause that is said before those that carry more.
pub(super) fn said_first(pair: &Pair, suspects: &[Suspect]) -> Option<CauseId> {
    let mut named = suspects.iter().filter(|one| is_named(pair, one) && one.all_ns() > 0.0);
    let largest = named.next()?;
    let instead = |one: &&Suspect| match largest.id {
        CauseId::OwnCode | CauseId::Runtime if one.id == CauseId::BackendCalls && asks_more(pair) => {
            pair.share(one.all_ns()) >= ENOUGH && !is_of_one_function(pair)
        }
        CauseId::OwnCode | CauseId::Runtime | CauseId::Compiling
            if one.id == CauseId::NewConnections && connects_anew(pair) =>
        {
            pair.share(one.all_ns()) >= A_TENTH && !is_of_one_function(pair)
        }
        CauseId::OwnCode | CauseId::Runtime => {
            one.all_ns() >= HALF * largest.all_ns()
                && !is_of_one_function(pair)
                && (CALLED.contains(&one.id) && makes_other_calls(pair, one.id)
                    || KINDS.contains(&one.id) && is_new(pair, one.id, largest.id))
        }
        CauseId::Compiling => RUN.contains(&one.id) && pair.share(one.all_ns()) >= ENOUGH,
        CauseId::Gc => RUN.contains(&one.id) && pair.share(one.all_ns()) >= ENOUGH && allocates_more(pair),
        _ => false,
    };
    named.find(instead).map(|one| one.id)
}

/// Whether half of the gap is under one function that the other arm does not run: then this is what differs.
fn is_of_one_function(pair: &Pair) -> bool {
    pair.new_function.is_some_and(|function| function.share.abs() >= HALF)
}

/// Whether a request of the slower arm asks other servers more often, as its connections tell.
pub(super) fn asks_more(pair: &Pair) -> bool {
    let asked = pair.slow.asked.zip(pair.fast.asked);
    asked.is_some_and(|(slow, fast)| slow - fast >= MADE && slow >= MORE_ASKED * fast)
}

/// Whether a request of the slower arm connects to another service, where hardly any of the other's does.
fn connects_anew(pair: &Pair) -> bool {
    pair.more_calls(&["connect"]).is_some_and(|(more, [slow, fast])| more >= MADE && slow >= TWICE * fast)
}

/// Time of both arms, the slower one's first.
fn slower_first(pair: &Pair, baseline: f64, arm: f64) -> Both {
    if pair.sign > 0.0 { [arm, baseline] } else { [baseline, arm] }
}

/// Whether a call of this cause is made so much more often that it takes twice the time.
fn makes_other_calls(pair: &Pair, id: CauseId) -> bool {
    let belongs = cpu::belongs(pair);
    let of_cause = |leaf: &Leaf| belongs.iter().any(|(other, cause)| other == leaf && *cause == id);
    let mut times: BTreeMap<&str, Both> = BTreeMap::new();
    for (leaf, row) in pair.tree.iter().filter(|(leaf, _)| of_cause(leaf)) {
        if let Leaf::Call { call, .. } = leaf {
            let [slow, fast] = slower_first(pair, row.baseline_ns, row.arm_ns);
            let sums = times.entry(call).or_default();
            *sums = [sums[0] + slow, sums[1] + fast];
        }
    }
    let made = |call: &str| pair.more_calls(&[call]).is_some_and(|(more, _)| more >= MADE);
    times.iter().any(|(call, [slow, fast])| *slow >= TWICE * fast && made(call))
}

/// Whether a kind of work is done by functions that the other arm hardly runs, and own code by packages that it runs as well: functions
/// of own code differ from sample to sample.
fn is_new(pair: &Pair, kind: CauseId, own: CauseId) -> bool {
    let function = |leaf: &Leaf| match leaf {
        Leaf::Program { package, function, .. } => Some(format!("{package} {function}")),
        _ => None,
    };
    let package = |leaf: &Leaf| match leaf {
        Leaf::Program { package, .. } | Leaf::Under { package, .. } => Some(package.clone()),
        _ => None,
    };
    new_share(pair, kind, function) >= HALF && new_share(pair, own, package) < HALF
}

/// Share of what has grown of a cause that is in groups of leaves which the other arm hardly runs.
fn new_share(pair: &Pair, id: CauseId, group: impl Fn(&Leaf) -> Option<String>) -> f64 {
    let belongs = cpu::belongs(pair);
    let of_cause = |leaf: &Leaf| belongs.iter().any(|(other, cause)| other == leaf && *cause == id);
    let mut groups: BTreeMap<Option<String>, Both> = BTreeMap::new();
    for (leaf, row) in pair.tree.iter().filter(|(leaf, _)| of_cause(leaf)) {
        let [slow, fast] = slower_first(pair, row.baseline_ns, row.arm_ns);
        let sums = groups.entry(group(leaf)).or_default();
        *sums = [sums[0] + slow, sums[1] + fast];
    }
    let grown = |[slow, fast]: &Both| (slow - fast).max(0.0);
    let is_new = |(group, [slow, fast]): &(&Option<String>, &Both)| group.is_some() && *fast <= HARDLY * slow;
    let new: f64 = groups.iter().filter(is_new).map(|(_, both)| grown(both)).sum();
    let all: f64 = groups.values().map(grown).sum();
    if all > 0.0 { new / all } else { 0.0 }
}

/// Whether a request allocates more: by the log of the virtual machine, else where the program itself does twice as much.
fn allocates_more(pair: &Pair) -> bool {
    let logged = [pair.slow, pair.fast].map(|arm| arm.machine.as_ref()?.allocated_bytes);
    if let [Some(slow), Some(fast)] = logged {
        return slow >= MORE_ALLOCATED * fast;
    }
    let belongs = cpu::belongs(pair);
    let works = |leaf: &Leaf| belongs.iter().any(|(other, cause)| other == leaf && RUN.contains(cause));
    let of_program = pair.tree.iter().filter(|(leaf, _)| leaf.is_user() && works(leaf));
    let [slow, fast] = of_program.fold([0.0; 2], |sums, (_, row)| {
        let [slow, fast] = slower_first(pair, row.baseline_ns, row.arm_ns);
        [sums[0] + slow, sums[1] + fast]
    });
    slow >= TWICE * fast
}

/// Beside own code that is said first: the calls that it makes and the other's hardly, where no cause of their own says so.
pub(super) fn tell_calls(pair: &Pair, suspects: &mut [Suspect]) {
    let told = suspects.iter().any(|one| CALLED.contains(&one.id) && is_named(pair, one));
    let first = suspects.iter_mut().find(|one| is_named(pair, one));
    let Some(first) = first.filter(|one| one.id == CauseId::OwnCode && one.ns > 0.0 && !told) else { return };
    let calls = other_calls(pair);
    if !calls.is_empty() {
        first.seen.push(Seen::MoreCalls(calls));
    }
}

/// Calls of which the slower arm makes at least twice as many, those that are most more first.
fn other_calls(pair: &Pair) -> Vec<(String, Both)> {
    let names = pair.slow.counted.iter().flat_map(|counted| counted.syscalls.keys());
    let is_waiting = |name: &str| FUTEX.contains(&name) || POLLS.contains(&name);
    let mut more: Vec<(f64, String, Both)> = names
        .filter(|name| !is_waiting(name))
        .filter_map(|name| {
            let (more, both) = pair.more_calls(&[name])?;
            (more >= MADE && both[0] >= TWICE * both[1]).then(|| (more, name.clone(), both))
        })
        .collect();
    more.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    more.into_iter().take(NAMED).map(|(_, name, both)| (name, both)).collect()
}
