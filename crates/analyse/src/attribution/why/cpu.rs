//! Causes of CPU time: every leaf of the tree belongs to one, so that what they carry sums to what the leaves do.

use std::collections::BTreeMap;

use model::plan::CauseId;
use model::record::ENDED;

use super::code::is_interpreted;
use super::counts::{self, FEW};
use super::evidence::Evidence;
use super::gap::Pair;
use super::waits::{share_of_begun, share_of_switches};
use super::{Suspect, code, examples};
use crate::attribution::cause::Grade;
use crate::attribution::profile::{Category, is_lock, without_width};
use crate::attribution::seen::Seen;
use crate::attribution::tree::AttributionRow;
use crate::attribution::tree::drawn::error_ns;
use crate::attribution::tree::place::Leaf;
use crate::attribution::tree::table::{Does, On, POLLED_NS};
use crate::facts::calls::{
    ALL_READS, BEGIN_THREADS, FILE_WRITES, FUTEX, MEMORY, OF_CONNECTIONS, POLLS, SLEEPS, SYNCS, WRITES,
    YIELDS,
};

/// Share of a count below which it has not grown.
const AS_MANY: f64 = 0.1;
/// Share of the switches from which on all are of one reason.
const MOST: f64 = 0.5;
/// Calls by which a thread or a process ends, is waited for, or becomes another program.
const ENDS: [&str; 5] = ["exit", "exit_group", "wait4", "waitid", "execve"];
/// Functions of the C library and the calls that they make by another name.
const ENTERED_AS: [(&str, &str); 9] = [
    ("open", "openat"),
    ("fstatat", "newfstatat"),
    ("stat", "newfstatat"),
    ("lstat", "newfstatat"),
    ("send", "sendto"),
    ("recv", "recvfrom"),
    ("pread", "pread64"),
    ("pwrite", "pwrite64"),
    ("accept", "accept4"),
];
/// Calls that send a file to a socket.
const SENDS_FILES: [&str; 2] = ["sendfile", "splice"];
/// Functions that read a clock, by parts of their names.
const CLOCKS: [&str; 9] = [
    "clock_gettime",
    "gettimeofday",
    "[vdso]",
    "::now",
    "::elapsed",
    "Timespec::now",
    "nanotime",
    "time.Now",
    "time.Since",
];

/// The cause that work of each kind belongs to.
const KINDS: [(Category, CauseId); 15] = [
    (Category::Copying, CauseId::Copying),
    (Category::Comparing, CauseId::Comparing),
    (Category::Allocation, CauseId::Allocation),
    (Category::Gc, CauseId::Gc),
    (Category::Compiling, CauseId::Compiling),
    (Category::Handler, CauseId::OwnCode),
    (Category::HeadParsing, CauseId::HeadParsing),
    (Category::HeaderWriting, CauseId::HeaderWriting),
    (Category::Date, CauseId::Dates),
    (Category::Tls, CauseId::Tls),
    (Category::Serialisation, CauseId::Serialisation),
    (Category::Runtime, CauseId::Runtime),
    (Category::Lock, CauseId::Locks),
    (Category::Polling, CauseId::Readiness),
    (Category::File, CauseId::FileWrites),
];

/// What is known of a pair beside its tree, asked once.
struct Known {
    /// Why there are more switches.
    switches: CauseId,
    /// Whether another service is asked.
    asks: bool,
    /// Whether more is written to the network, or less.
    writes: bool,
    /// Whether connections do not last.
    reconnects: bool,
    /// What begins and ends: threads or processes, where their time shows.
    ended: Option<CauseId>,
    /// Whether the program waits by reading a clock.
    polls: bool,
    /// Whether code is interpreted that the other arm compiles.
    interpreted: bool,
    /// What the call is for of which there are most more.
    entered: CauseId,
    /// Whether what is read from pipes and local sockets, and written to them, wakes threads.
    pipes_wake: bool,
}

impl Known {
    fn from_pair(pair: &Pair) -> Self {
        let ended = [
            (CauseId::ChildProcesses, code::child_processes(pair)),
            (CauseId::ShortThreads, code::short_threads(pair)),
        ];
        let most = |found: &[Suspect]| found.iter().map(|one| one.ns).fold(0.0, f64::max);
        let ended = ended.into_iter().filter(|(_, found)| !found.is_empty());
        let ended = ended.max_by(|a, b| most(&a.1).total_cmp(&most(&b.1))).map(|(id, _)| id);
        let clocks = |leaf: &Leaf| reads_clock(leaf);
        let mut known = Self {
            switches: CauseId::ContextSwitches,
            asks: counts::exchanges(pair) != [0.0; 2],
            writes: counts::writes(pair).network.abs() >= FEW || fewer(pair, &WRITES),
            reconnects: counts::reconnects(pair),
            ended,
            polls: pair.more_time_in(clocks) >= POLLED_NS,
            interpreted: is_interpreted(pair),
            entered: CauseId::KernelEntry,
            pipes_wake: counts::pipes_wake(pair),
        };
        known.switches = known.why_switches(pair);
        known.entered = known.why_entered(pair);
        known
    }

    /// What leads to more switches.
    fn why_switches(&self, pair: &Pair) -> CauseId {
        let waits = share_of_switches(pair) >= MOST;
        match () {
            () if waits && pair.more_calls(&SYNCS).is_some_and(|(more, _)| more >= FEW) => {
                CauseId::SyncWrites
            }
            () if waits => CauseId::Sleep,
            () if counts::hands_over(pair) => CauseId::ThreadHandoff,
            () if share_of_begun(pair) >= MOST => self.ended.unwrap_or(CauseId::ShortThreads),
            () => CauseId::ContextSwitches,
        }
    }

    /// What the way into the kernel and back is for that is taken more often.
    fn why_entered(&self, pair: &Pair) -> CauseId {
        let names =
            pair.slow.counted.iter().chain(&pair.fast.counted).flat_map(|counted| counted.syscalls.keys());
        let more = names.filter_map(|name| Some((pair.more_calls(&[name])?.0, name.as_str())));
        let most = more.filter(|(more, _)| *more >= FEW).max_by(|a, b| a.0.total_cmp(&b.0));
        most.map_or(CauseId::KernelEntry, |(_, name)| self.of_call(pair, name, None, Does::Other))
    }

    /// The cause of a leaf; nothing of what was not sampled.
    fn cause(&self, pair: &Pair, leaf: &Leaf) -> Option<CauseId> {
        let of_program = leaf.is_user() && self.interpreted;
        Some(match leaf {
            Leaf::NotSampled { .. } => return self.ended,
            Leaf::Program { package, .. } if package == ENDED => CauseId::ChildProcesses,
            _ if of_program => CauseId::Interpreter,
            Leaf::Under { .. } => CauseId::OwnCode,
            _ if self.polls && (reads_clock(leaf) || spins(leaf)) => CauseId::BusyWait,
            Leaf::Program { work: Category::SyscallEntry, function, .. } => self.of_entry(pair, function),
            Leaf::Small { work: Category::SyscallEntry } => self.entered,
            Leaf::Program { work, .. } | Leaf::Small { work } => of_kind(*work, CauseId::Runtime),
            Leaf::Call { call, on, does } => self.of_call(pair, call, *on, *does),
            Leaf::Fault { work: Category::Copying, .. } => CauseId::Copying,
            Leaf::Fault { .. } => CauseId::KernelMemory,
            Leaf::Entry { does: Does::Switch } => self.switches,
            Leaf::Entry { .. } => self.entered,
            Leaf::Interrupt { does: Does::ProtocolReceive | Does::ProtocolSend } if self.reconnects => {
                CauseId::NewConnections
            }
            Leaf::Interrupt { does: Does::ProtocolReceive } => CauseId::KernelReceiving,
            Leaf::Interrupt { does: Does::ProtocolSend } => CauseId::KernelSending,
            Leaf::Interrupt { .. } | Leaf::Kernel { .. } => CauseId::KernelOther,
        })
    }

    /// The cause of a function of the C library that makes a system call: that of the call, where the kernel was seen in it.
    fn of_entry(&self, pair: &Pair, function: &str) -> CauseId {
        let name = without_width(function);
        let by_other_name = ENTERED_AS.iter().find(|(made_by, _)| *made_by == name).map(|(_, call)| *call);
        let made = |leaf: &&&(Leaf, AttributionRow)| matches!(&leaf.0, Leaf::Call { call, .. } if call == name || Some(call.as_str()) == by_other_name);
        let time = |leaf: &&(Leaf, AttributionRow)| leaf.1.baseline_ns + leaf.1.arm_ns;
        let most = pair.tree.iter().filter(made).max_by(|a, b| time(a).total_cmp(&time(b)));
        match most.map(|leaf| &leaf.0) {
            Some(Leaf::Call { call, on, .. }) => self.of_call(pair, call, *on, Does::Other),
            _ => self.entered,
        }
    }

    /// The cause of a system call.
    fn of_call(&self, pair: &Pair, call: &str, on: Option<On>, does: Does) -> CauseId {
        let is = |names: &[&str]| names.contains(&call);
        match on {
            _ if is(&YIELDS) => CauseId::BusyWait,
            _ if does == Does::Switch => self.switches,
            _ if is(&SYNCS) => CauseId::SyncWrites,
            _ if is(&SLEEPS) => CauseId::Sleep,
            _ if is(&FUTEX) => CauseId::ThreadHandoff,
            _ if is(&MEMORY) => CauseId::KernelMemory,
            _ if is(&POLLS) => CauseId::Readiness,
            _ if is(&BEGIN_THREADS) || is(&ENDS) => self.ended.unwrap_or_else(|| more_or_dearer(pair, call)),
            Some(On::Pipe | On::UnixSocket) if is(&WRITES) || is(&ALL_READS) => match self.pipes_wake {
                true => CauseId::ThreadHandoff,
                false => more_or_dearer(pair, call),
            },
            _ if is(&FILE_WRITES) => CauseId::FileWrites,
            Some(On::File) if is(&WRITES) => CauseId::FileWrites,
            _ if self.asks && (is(&WRITES) || is(&ALL_READS)) => CauseId::BackendCalls,
            _ if (is(&WRITES) || is(&SENDS_FILES)) && self.writes => CauseId::SmallWrites,
            _ if is(&WRITES) => CauseId::KernelSending,
            Some(On::Tcp) | None if is(&ALL_READS) && !grew(pair, call) => CauseId::KernelReceiving,
            _ if self.reconnects && is(&OF_CONNECTIONS) => CauseId::NewConnections,
            _ => more_or_dearer(pair, call),
        }
    }
}

/// Fewer of these calls, as a server makes that sends several answers at once.
fn fewer(pair: &Pair, names: &[&str]) -> bool {
    pair.more_calls(names).is_some_and(|(more, [_, fast])| more < -AS_MANY * fast)
}

/// Whether a call is made more often by more than chance and timers make it.
fn grew(pair: &Pair, call: &str) -> bool {
    pair.more_calls(&[call]).is_some_and(|(more, [_, fast])| more >= FEW && more > AS_MANY * fast)
}

/// Calls that are more, or as many that take longer. Those that were not counted are more of them.
fn more_or_dearer(pair: &Pair, call: &str) -> CauseId {
    let as_many = pair.more_calls(&[call]).is_some_and(|(_, [_, fast])| fast >= FEW) && !grew(pair, call);
    if as_many { CauseId::CostlierCalls } else { CauseId::ExtraSyscalls }
}

fn of_kind(work: Category, otherwise: CauseId) -> CauseId {
    KINDS.iter().find(|(kind, _)| *kind == work).map_or(otherwise, |(_, id)| *id)
}

fn reads_clock(leaf: &Leaf) -> bool {
    matches!(leaf, Leaf::Program { work: Category::Date, function, .. }
        if CLOCKS.iter().any(|name| function.contains(name)))
}

/// Whether it was seen in a loop that waits, and is not itself a lock's.
fn spins(leaf: &Leaf) -> bool {
    matches!(leaf, Leaf::Program { work: Category::Lock, function, .. } if !is_lock(function))
}

/// The cause of every leaf of a pair's tree that has one.
pub(super) fn belongs(pair: &Pair) -> Vec<(Leaf, CauseId)> {
    let known = Known::from_pair(pair);
    pair.tree.iter().filter_map(|(leaf, _)| Some((leaf.clone(), known.cause(pair, leaf)?))).collect()
}

/// What every cause carries of the CPU time by the tree, of those sides that were sampled.
pub(super) fn claims(pair: &Pair, user: bool) -> Vec<Suspect> {
    let known = Known::from_pair(pair);
    let mut of_cause: BTreeMap<CauseId, Vec<&(Leaf, AttributionRow)>> = BTreeMap::new();
    for leaf in pair.tree.iter().filter(|(leaf, _)| leaf.is_user() == user) {
        if let Some(id) = known.cause(pair, &leaf.0) {
            of_cause.entry(id).or_default().push(leaf);
        }
    }
    of_cause.into_iter().map(|(id, rows)| claim(pair, id, &rows)).collect()
}

/// Of a suspect that is not sure as a whole, the leaves that grew and are: one function says more than all code that is like it.
pub(super) fn sure_part(pair: &Pair, unsure: &Suspect) -> Option<Suspect> {
    /// Standard errors of a leaf that is the largest of many by more than chance.
    const SURE_OF_MANY: f64 = 5.0;
    let known = Known::from_pair(pair);
    let is_sure = |row: &AttributionRow| {
        row.delta_se_ns > 0.0 && pair.sign * row.delta_ns > SURE_OF_MANY * row.delta_se_ns
    };
    let of_cause = |leaf: &Leaf| known.cause(pair, leaf) == Some(unsure.id);
    let rows = pair.tree.iter().copied().filter(|(leaf, row)| is_sure(row) && of_cause(leaf));
    let rows: Vec<&(Leaf, AttributionRow)> = rows.collect();
    (!rows.is_empty() && unsure.idle_ns == 0.0).then(|| claim(pair, unsure.id, &rows))
}

fn claim(pair: &Pair, id: CauseId, leaves: &[&(Leaf, AttributionRow)]) -> Suspect {
    let delta = |row: &AttributionRow| pair.sign * row.delta_ns;
    let ns: f64 = leaves.iter().map(|(_, row)| delta(row)).sum();
    let error_ns = error_ns(&leaves.iter().map(|(_, row)| row).collect::<Vec<_>>());
    let most = examples::examples(pair, leaves);
    Suspect {
        id,
        grade: Grade::ConsistentWith,
        ns,
        error_ns,
        idle_ns: 0.0,
        seen: vec![Seen::Leaves { cause: id, ns, error_ns, most }],
        usual: false,
    }
}

/// CPU time of those that ended.
type Spent = fn(&Evidence) -> f64;

/// Moves what threads and processes that ended used from what they did to their ending: the same time is not told twice, and
/// who starts one for each request could do the same work without.
pub(super) fn of_those_that_ended(pair: &Pair, claims: &mut Vec<Suspect>) {
    let spent: [(CauseId, Spent); 2] = [
        (CauseId::ChildProcesses, |arm| arm.ended_processes_ns),
        (CauseId::ShortThreads, |arm| arm.ended_threads_ns),
    ];
    for (id, time) in spent {
        let Some(found) = code::ended_suspect(pair, id) else { continue };
        let place = claims.iter().position(|claim| claim.id == id);
        let at = place.unwrap_or(claims.len());
        match place {
            Some(at) => claims[at].see(found.seen),
            None => claims.push(Suspect { ns: 0.0, ..found }),
        }
        let missing = pair.more(time) - claims[at].ns;
        move_to(claims, at, missing);
    }
}

/// Moves so much, in proportion, from all that grew to one of them.
fn move_to(claims: &mut [Suspect], at: usize, ns: f64) {
    let grown: f64 = claims
        .iter()
        .enumerate()
        .filter(|(place, one)| *place != at && one.ns > 0.0)
        .map(|(_, one)| one.ns)
        .sum();
    let moved = ns.clamp(0.0, grown);
    if moved <= 0.0 {
        return;
    }
    for (place, one) in claims.iter_mut().enumerate() {
        if place == at {
            one.ns += moved;
        } else if one.ns > 0.0 {
            one.ns *= 1.0 - moved / grown;
        }
    }
}
