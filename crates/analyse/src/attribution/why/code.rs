//! Suspects in the program's own time: threads of its runtime, and functions of a profile. Time in the kernel is left
//! to those that count what the program asks of it.

use model::plan::CauseId;
use std::collections::BTreeMap;

use model::record::ENDED;

use super::evidence::Evidence;
use super::gap::Pair;
use super::{Suspect, one};
use crate::attribution::cause::Grade;
use crate::attribution::profile::{COPYING_FAULTS, Category, ProfileRow, is_lock};
use crate::facts::calls::BEGIN_THREADS;
use crate::facts::functions::brief;
use crate::facts::seen::SURE;

/// Beginnings of the names of threads that collect garbage: HotSpot's. Source: HotSpot, `Thread::name`.
const COLLECTORS: [&str; 6] = ["GC Thread", "G1 ", "VM Thread", "ZWorker", "ZDriver", "Shenandoah"];
/// Beginnings of the names of threads that compile.
const COMPILERS: [&str; 2] = ["C1 Compiler", "C2 Compiler"];

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

/// Garbage collection: in threads of its own, or in functions of a profile.
pub(super) fn gc(pair: &Pair) -> Vec<Suspect> {
    let time = |evidence: &Evidence| time_of(&evidence.threads_ns, &COLLECTORS);
    let Some(slow) = time(pair.slow) else { return of_category(pair, CauseId::Gc, Category::GcJit) };
    let threads = [slow, time(pair.fast).unwrap_or(0.0)];
    let logged = [pair.slow, pair.fast].map(collecting);
    // Who collects in the thread that ran out of memory is in the log alone.
    let [slow, fast] = if logged[0] - logged[1] > threads[0] - threads[1] { logged } else { threads };
    // While the world is stopped, the CPUs that do not collect are idle for its sake, and not for longer.
    let stopped = if slow > 2.0 * fast { pair.idle_ns.min((slow - fast) * pair.slow.cpus) } else { 0.0 };
    one(Suspect {
        id: CauseId::Gc,
        grade: Grade::ConsistentWith,
        ns: slow - fast + stopped,
        evidence: format!(
            "garbage collection: {} a request against {}",
            model::units::format_ns(slow),
            model::units::format_ns(fast)
        ),
        usual: true,
    })
}

/// A virtual machine without its compiler: all code is interpreted.
pub(super) fn interpreter(pair: &Pair) -> Vec<Suspect> {
    let compiles = |evidence: &Evidence| time_of(&evidence.threads_ns, &COMPILERS).is_some();
    let is_vm = time_of(&pair.slow.threads_ns, &COLLECTORS).is_some();
    if !is_vm || compiles(pair.slow) || !compiles(pair.fast) {
        return Vec::new();
    }
    one(Suspect {
        id: CauseId::Interpreter,
        grade: Grade::ConsistentWith,
        ns: pair.more(|evidence| evidence.cpu.user).max(0.0),
        evidence: "the virtual machine has no compiler threads: its code is interpreted".to_owned(),
        usual: false,
    })
}

/// What the kernel's functions are of.
const KERNEL: &str = "[kernel]";
/// Beginnings or parts of the names of functions that copy or fill memory.
const COPIES: [&str; 7] =
    ["memcpy", "memmove", "memset", "mempcpy", "memclr", "arraycopy", "copy_nonoverlapping"];
/// Of functions that compare or search bytes one after another.
const COMPARISONS: [&str; 16] = [
    "strcmp",
    "strncmp",
    "strcasecmp",
    "strncasecmp",
    "memcmp",
    "bcmp",
    "strlen",
    "strnlen",
    "strchr",
    "strstr",
    "memchr",
    "memmem",
    "memequal",
    "cmpbody",
    "IndexByte",
    "EqualFold",
];
/// Of functions that read a clock.
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
/// Time in reading clocks that no handler needs: some twenty readings. Who needs more waits for a time to pass.
const POLLED_NS: f64 = 500.0;
/// Functions that are named as examples.
const EXAMPLES: usize = 3;

/// Copying of bytes, and of memory that has to be had for the copies: where hardly anything is copied otherwise, a page that
/// copying touches is there for the copy.
pub(super) fn copying(pair: &Pair) -> Vec<Suspect> {
    /// By how much copying has grown where the copies themselves are more, and not only dearer.
    const MORE: f64 = 2.0;
    let copies = |row: &ProfileRow| row.package != KERNEL && is_named(row, &COPIES);
    let mut found = of_rows(pair, CauseId::Copying, "copying bytes", copies);
    let functions = pair.profile.iter().flat_map(|profile| &profile.functions);
    let (arm, baseline) = functions
        .filter(|row| copies(row))
        .fold((0.0, 0.0), |(arm, baseline), row| (arm + row.arm_ns, baseline + row.baseline_ns));
    let [slow, fast] = if pair.sign > 0.0 { [arm, baseline] } else { [baseline, arm] };
    let faults_ns = pair.more_time_in_calls(&[COPYING_FAULTS]);
    for suspect in found.iter_mut().filter(|_| faults_ns > 0.0 && slow > MORE * fast) {
        suspect.ns += faults_ns;
        suspect.evidence.push_str(&format!(
            ", and {} more in page faults of the memory that is copied to",
            model::units::format_ns(faults_ns)
        ));
    }
    found
}

/// Comparing and searching bytes, as in a list of names that is looked through.
pub(super) fn comparing(pair: &Pair) -> Vec<Suspect> {
    let compares = |row: &ProfileRow| is_named(row, &COMPARISONS);
    of_rows(pair, CauseId::Comparing, "comparing and searching bytes", compares)
}

/// Waiting for a time to pass without letting others run: the clock is read again and again, in a loop that does nothing else.
pub(super) fn busy_wait(pair: &Pair) -> Vec<Suspect> {
    let found = |fits: fn(&ProfileRow) -> bool| of_rows(pair, CauseId::BusyWait, "polling the clock", fits);
    if found(reads_clock).iter().any(|suspect| suspect.ns >= POLLED_NS) {
        found(|row| reads_clock(row) || spins(row))
    } else {
        Vec::new()
    }
}

fn reads_clock(row: &ProfileRow) -> bool {
    row.category == Category::Date.word() && is_named(row, &CLOCKS)
}

/// Whether it was seen in a loop that waits, and is not itself a lock's.
fn spins(row: &ProfileRow) -> bool {
    row.category == Category::Lock.word() && !is_lock(&row.name)
}

/// Allocating and freeing memory.
pub(super) fn allocation(pair: &Pair) -> Vec<Suspect> {
    of_category(pair, CauseId::Allocation, Category::Allocation)
}

/// Share of a request's CPU time below which that of what ended is not told from what the clocks of processes and of threads
/// differ by: ticks of 10 ms at both ends of a window.
const ENDED_SHARE: f64 = 0.05;

/// Processes that come and go: a server that starts others for its work.
pub(super) fn child_processes(pair: &Pair) -> Vec<Suspect> {
    let found =
        ended(pair, CauseId::ChildProcesses, "processes that began and ended", |arm| arm.ended_processes_ns);
    if !found.is_empty() {
        return found;
    }
    // Those that nobody waited for are in the profile alone.
    of_rows(pair, CauseId::ChildProcesses, "processes that had ended before they could be looked at", |row| {
        is_named(row, &[ENDED])
    })
}

/// Threads that come and go: one for each request or connection.
pub(super) fn short_threads(pair: &Pair) -> Vec<Suspect> {
    ended(pair, CauseId::ShortThreads, "threads that began and ended", |arm| arm.ended_threads_ns)
}

/// CPU time of what ended, beyond that of the other arm.
fn ended(pair: &Pair, id: CauseId, what: &str, time: fn(&Evidence) -> f64) -> Vec<Suspect> {
    let [slow, fast] = [pair.slow, pair.fast].map(time);
    if slow - fast < ENDED_SHARE * pair.slow.cpu.total {
        return Vec::new();
    }
    one(Suspect {
        id,
        grade: Grade::BoundedBy,
        // Who begins one takes time for it, and each is switched to, which is not in its own time.
        ns: slow - fast
            + pair.more_time_in_calls(&BEGIN_THREADS)
            + super::counts::switching(pair) * super::waits::share_of_begun(pair),
        evidence: format!(
            "{what}: {} of CPU a request in them against {}",
            model::units::format_ns(slow),
            model::units::format_ns(fast)
        ),
        usual: false,
    })
}

/// Functions that no table knows: the program's own.
pub(super) fn own_code(pair: &Pair) -> Vec<Suspect> {
    of_category(pair, CauseId::OwnCode, Category::Handler)
}

/// Every other kind of work.
pub(super) fn other_work(pair: &Pair) -> Vec<Suspect> {
    const KINDS: [(CauseId, Category); 7] = [
        (CauseId::HeadParsing, Category::HeadParsing),
        (CauseId::HeaderWriting, Category::HeaderWriting),
        (CauseId::Dates, Category::Date),
        (CauseId::Tls, Category::Tls),
        (CauseId::Serialisation, Category::Serialisation),
        (CauseId::Runtime, Category::Runtime),
        (CauseId::Locks, Category::Lock),
    ];
    KINDS.iter().flat_map(|(id, kind)| of_category(pair, *id, *kind)).collect()
}

/// Work of the kernel by its kind, where no call of the program accounts for it: what the network is made to do, for instance.
pub(super) fn kernel_work(pair: &Pair) -> Vec<Suspect> {
    const KINDS: [(CauseId, Category); 7] = [
        (CauseId::KernelSending, Category::NetworkTransmit),
        (CauseId::KernelReceiving, Category::NetworkReceive),
        (CauseId::KernelPolling, Category::Polling),
        (CauseId::KernelEntry, Category::SyscallEntry),
        (CauseId::KernelFiles, Category::File),
        (CauseId::KernelPages, Category::Memory),
        (CauseId::KernelOther, Category::KernelOther),
    ];
    let suspect = |(id, kind): (CauseId, Category)| {
        let (word, ns) = (kind.word(), pair.more_time_in(&[kind]));
        let most = most_in_kernel(pair, |row| row.category == word);
        Suspect {
            id,
            grade: Grade::ConsistentWith,
            ns,
            evidence: format!(
                "work of the kernel, {word}: {} more a request{most}",
                model::units::format_ns(ns)
            ),
            usual: false,
        }
    };
    KINDS.into_iter().map(suspect).filter(|one| one.ns > 0.0).collect()
}

fn is_named(row: &ProfileRow, names: &[&str]) -> bool {
    names.iter().any(|name| row.name.contains(name))
}

fn of_category(pair: &Pair, id: CauseId, kind: Category) -> Vec<Suspect> {
    // What has a suspect of its own by name is not counted twice.
    let polls = [Category::Date, Category::Lock].contains(&kind) && !busy_wait(pair).is_empty();
    let others = |row: &ProfileRow| {
        [&COPIES[..], &COMPARISONS, &[ENDED]].iter().any(|names| is_named(row, names))
            || (polls && (reads_clock(row) || spins(row)))
    };
    let mut found = of_rows(pair, id, kind.word(), |row| row.category == kind.word() && !others(row));
    for suspect in &mut found {
        if let Some(name) = under(pair, kind).filter(|name| !suspect.evidence.contains(name)) {
            suspect.evidence.push_str(&format!(", most of it under {name}"));
        }
    }
    found
}

/// Who has this kind of work done, where most of it is under one function.
fn under(pair: &Pair, kind: Category) -> Option<String> {
    let mut rows = pair.profile.iter().flat_map(|profile| &profile.categories);
    rows.find(|row| row.name == kind.word())?.under.as_deref().map(brief)
}

/// The function of the kernel, of those that fit, in which the slower arm spends most more time, whoever called it: an addition
/// to what is said.
pub(super) fn most_in_kernel(pair: &Pair, fits: impl Fn(&ProfileRow) -> bool) -> String {
    let functions = pair.profile.iter().flat_map(|profile| &profile.functions);
    let grown = functions.filter(|row| {
        row.package == KERNEL && fits(row) && pair.sign * row.difference_ns > SURE * row.error_ns
    });
    let most = grown.max_by(|a, b| (pair.sign * a.difference_ns).total_cmp(&(pair.sign * b.difference_ns)));
    most.map_or_else(String::new, |row| format!("; of the kernel's functions {} grew most", brief(&row.name)))
}

/// The time of some functions, where it is sure to be more in the slower arm.
fn of_rows(pair: &Pair, id: CauseId, what: &str, fits: impl Fn(&ProfileRow) -> bool) -> Vec<Suspect> {
    let rows: Vec<&ProfileRow> = pair
        .profile
        .iter()
        .flat_map(|profile| &profile.functions)
        .filter(|row| row.package != KERNEL && fits(row))
        .collect();
    let ns = pair.sign * rows.iter().map(|row| row.difference_ns).sum::<f64>();
    let error_ns = rows.iter().map(|row| row.error_ns.powi(2)).sum::<f64>().sqrt();
    if rows.is_empty() || ns < SURE * error_ns {
        return Vec::new();
    }
    let grown = rows.iter().filter(|row| row.difference_ns * pair.sign > 0.0);
    let names: Vec<String> = grown.take(EXAMPLES).map(|row| brief(&row.name)).collect();
    one(Suspect {
        id,
        grade: Grade::ConsistentWith,
        ns,
        evidence: format!(
            "{what} ({}): {} more a request, standard error {}",
            names.join(", "),
            model::units::format_ns(ns),
            model::units::format_ns(error_ns)
        ),
        usual: false,
    })
}
