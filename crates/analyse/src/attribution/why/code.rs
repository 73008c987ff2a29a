//! Suspects in the program's own time: threads of its runtime, and functions of a profile. Time in the kernel is left
//! to those that count what the program asks of it.

use std::collections::BTreeMap;

use model::plan::CauseId;
use model::record::{ENDED, is_compiler};

use super::evidence::Evidence;
use super::gap::Pair;
use super::{Suspect, one};
use crate::attribution::cause::Grade;
use crate::attribution::seen::{Ending, Seen};
use crate::attribution::tree::place::Leaf;
use crate::attribution::tree::{Place, SMALL_ONES};

/// Beginnings of the names of threads that collect garbage: HotSpot's. Source: HotSpot, `Thread::name`.
const COLLECTORS: [&str; 6] = ["GC Thread", "G1 ", "VM Thread", "ZWorker", "ZDriver", "Shenandoah"];

/// Time of threads by the beginnings of their names; absent where there is no such thread.
fn time_of(threads: &BTreeMap<String, f64>, names: &[&str]) -> Option<f64> {
    let these: Vec<f64> = threads
        .iter()
        .filter(|(thread, _)| names.iter().any(|name| thread.starts_with(name)))
        .map(|(_, ns)| *ns)
        .collect();
    (!these.is_empty()).then(|| these.iter().sum())
}

/// Time of a request in which a virtual machine collected and did nothing else, by its own log.
fn collecting(evidence: &Evidence) -> f64 {
    evidence.machine.as_ref().map_or(0.0, |machine| machine.collecting_ns)
}

/// The function that the slower arm alone runs, where no kind of work is sure: that something is under it is surer than what it does.
pub(super) fn only_there(pair: &Pair) -> Option<Suspect> {
    let found = pair.new_function?;
    let (ns, error_ns) = (pair.sign * found.delta_ns, found.delta_se_ns);
    let place =
        Place { function: found.function.clone(), file: found.file.clone(), line: None, commit: None };
    let seen = Seen::OnlyThere { place, package: found.package.clone(), ns, error_ns };
    (ns > 0.0).then(|| Suspect {
        id: CauseId::OwnCode,
        grade: Grade::ConsistentWith,
        ns,
        error_ns,
        idle_ns: 0.0,
        seen: vec![seen],
        usual: false,
    })
}

/// Garbage collection in threads of its own.
pub(super) fn gc(pair: &Pair) -> Vec<Suspect> {
    let time = |evidence: &Evidence| time_of(&evidence.threads_ns, &COLLECTORS);
    let Some(slow) = time(pair.slow) else { return Vec::new() };
    let threads = [slow, time(pair.fast).unwrap_or(0.0)];
    let logged = [pair.slow, pair.fast].map(collecting);
    // Who collects in the thread that ran out of memory is in the log alone.
    let [slow, fast] = if logged[0] - logged[1] > threads[0] - threads[1] { logged } else { threads };
    // While the world is stopped, the CPUs that do not collect are idle for its sake, and not for longer.
    let stopped = if slow > 2.0 * fast { pair.idle_ns.min((slow - fast) * pair.slow.cpus) } else { 0.0 };
    one(Suspect {
        id: CauseId::Gc,
        grade: Grade::ConsistentWith,
        error_ns: 0.0,
        ns: slow - fast,
        idle_ns: stopped,
        seen: vec![Seen::Collecting([slow, fast])],
        usual: true,
    })
}

/// Whether the slower arm is a virtual machine without a compiler, and the other one has one.
pub(super) fn is_interpreted(pair: &Pair) -> bool {
    let compiles = |evidence: &Evidence| evidence.threads_ns.keys().any(|thread| is_compiler(thread));
    let is_vm = time_of(&pair.slow.threads_ns, &COLLECTORS).is_some();
    is_vm && !compiles(pair.slow) && compiles(pair.fast)
}

/// Whether a cause that was not sampled is of the program's own time.
pub(super) const fn is_of_program(id: CauseId) -> bool {
    matches!(
        id,
        CauseId::Gc
            | CauseId::Compiling
            | CauseId::Interpreter
            | CauseId::ChildProcesses
            | CauseId::ShortThreads
    )
}

/// A virtual machine without its compiler: all code is interpreted.
pub(super) fn interpreter(pair: &Pair) -> Vec<Suspect> {
    if !is_interpreted(pair) {
        return Vec::new();
    }
    one(Suspect {
        id: CauseId::Interpreter,
        grade: Grade::ConsistentWith,
        error_ns: 0.0,
        idle_ns: 0.0,
        ns: pair.more(|evidence| evidence.cpu.user).max(0.0),
        seen: vec![Seen::NoCompiler],
        usual: false,
    })
}

/// Share of a request's CPU time below which that of what ended is not told from what the clocks of processes and of threads
/// differ by: ticks of 10 ms at both ends of a window.
const ENDED_SHARE: f64 = 0.05;

/// Processes that come and go: a server that starts others for its work.
pub(super) fn child_processes(pair: &Pair) -> Vec<Suspect> {
    ended(pair, CauseId::ChildProcesses, Ending::Processes, names_of_ended(pair), |arm| {
        arm.ended_processes_ns
    })
}

/// Threads that come and go: one for each request or connection.
pub(super) fn short_threads(pair: &Pair) -> Vec<Suspect> {
    ended(pair, CauseId::ShortThreads, Ending::Threads, Vec::new(), |arm| arm.ended_threads_ns)
}

/// The suspect of what began and ended, threads or processes.
pub(super) fn ended_suspect(pair: &Pair, id: CauseId) -> Option<Suspect> {
    let found = if id == CauseId::ChildProcesses { child_processes(pair) } else { short_threads(pair) };
    found.into_iter().next()
}

/// What processes called themselves that had ended, of which most was sampled in the slower arm.
fn names_of_ended(pair: &Pair) -> Vec<String> {
    /// Names that are told.
    const MOST: usize = 3;
    let mut by: Vec<(&str, f64)> = Vec::new();
    for (leaf, row) in pair.tree.iter().copied() {
        if let Leaf::Program { package, function, .. } = leaf
            && package == ENDED
            && !function.starts_with('[')
            && function != SMALL_ONES
            && pair.sign * row.delta_ns > 0.0
        {
            by.push((function, pair.sign * row.delta_ns));
        }
    }
    by.sort_by(|a, b| b.1.total_cmp(&a.1));
    by.into_iter().take(MOST).map(|(name, _)| name.to_owned()).collect()
}

/// CPU time of what ended, beyond that of the other arm.
fn ended(
    pair: &Pair,
    id: CauseId,
    what: Ending,
    names: Vec<String>,
    time: fn(&Evidence) -> f64,
) -> Vec<Suspect> {
    let [slow, fast] = [pair.slow, pair.fast].map(time);
    if slow - fast < ENDED_SHARE * pair.slow.cpu.total {
        return Vec::new();
    }
    one(Suspect {
        id,
        grade: Grade::BoundedBy,
        error_ns: 0.0,
        idle_ns: 0.0,
        // Who begins one takes time for it, and each is switched to, which is not in its own time.
        ns: slow - fast + super::counts::switching(pair) * super::waits::share_of_begun(pair),
        seen: vec![Seen::Ended { what, ns: [slow, fast], names }],
        usual: false,
    })
}
