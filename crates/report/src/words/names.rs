//! What the first screen calls causes and gates.

use analyse::{Change, FailIfOutcome, Grade, Place};
use model::plan::{CauseId, GateId};

use crate::screen::and;

/// The two parts of CPU time, which sum to the gap whatever explains it.
pub(crate) const PARTS: [CauseId; 2] = [CauseId::UserTime, CauseId::SystemTime];

/// What came of a condition of `--fail-if`.
pub(crate) const fn outcome_words(outcome: FailIfOutcome) -> &'static str {
    match outcome {
        FailIfOutcome::Holds => "holds",
        FailIfOutcome::DoesNotHold => "does not hold",
        FailIfOutcome::Undecided => "not decided",
        FailIfOutcome::Void => "cannot be judged",
        FailIfOutcome::NotMeasured => "not measured",
    }
}

/// A cause in words.
pub(crate) const fn cause_words(id: CauseId) -> &'static str {
    match id {
        CauseId::UserTime => "time in its own code",
        CauseId::SystemTime => "time in the kernel",
        CauseId::SmallWrites => "answers sent in more writes",
        CauseId::FileWrites => "writes to files",
        CauseId::ExtraSyscalls => "more system calls",
        CauseId::CostlierCalls => "system calls that take longer",
        CauseId::NewConnections => "new connections",
        CauseId::BackendCalls => "calls to another server",
        CauseId::Readiness => "asking which connections are ready",
        CauseId::ContextSwitches => "context switches",
        CauseId::ThreadHandoff => "requests handed from thread to thread",
        CauseId::KernelMemory => "page faults",
        CauseId::SyncWrites => "writes forced to the disk",
        CauseId::Sleep => "sleeps",
        CauseId::LockContention => "threads that wait for a lock",
        CauseId::AcceptQueue => "connections that wait to be accepted",
        CauseId::ListenBacklog => "connections that were turned away",
        CauseId::DelayedAck => "delayed acknowledgements",
        CauseId::ServiceBeside => "services beside",
        CauseId::BackendWait => "waiting for another server",
        CauseId::OneThread => "one thread that does everything",
        CauseId::Gc => "memory that is collected",
        CauseId::Compiling => "compiling while it runs",
        CauseId::Interpreter => "the interpreter",
        CauseId::Copying => "copying bytes",
        CauseId::Comparing => "comparing and searching bytes",
        CauseId::Allocation => "allocating and freeing memory",
        CauseId::BusyWait => "polling instead of waiting",
        CauseId::ChildProcesses => "processes started and ended",
        CauseId::ShortThreads => "threads started and ended",
        CauseId::OwnCode => "its own code",
        CauseId::Stalls => "times in which nobody is answered",
        CauseId::FewAtATime => "few requests served at a time",
        CauseId::TimerWait => "waiting for a timer",
        CauseId::HeadParsing => "reading the heads of requests",
        CauseId::HeaderWriting => "writing the heads of answers",
        CauseId::Dates => "clocks and dates",
        CauseId::Tls => "encryption",
        CauseId::Serialisation => "serialisation and compression",
        CauseId::Runtime => "the runtime and the server library",
        CauseId::Locks => "taking and giving locks",
        CauseId::KernelSending => "sending in the kernel",
        CauseId::KernelReceiving => "receiving in the kernel",
        CauseId::KernelPolling => "finding ready connections in the kernel",
        CauseId::KernelEntry => "entering the kernel and leaving it",
        CauseId::KernelFiles => "files in the kernel",
        CauseId::KernelPages => "memory of the kernel",
        CauseId::KernelOther => "other work of the kernel",
        CauseId::KernelNetwork => "the kernel's network, part by part unsure",
        CauseId::KernelWhole => "the kernel, part by part unsure",
        CauseId::ProgramWhole => "the program itself, part by part unsure",
    }
}

/// How nodes of functions with all that they ask for end.
const AND_BELOW: &str = "and what it calls";

/// The node of a program's own code, below `user`.
const OWN_CODE: &str = "own code";
/// The package of the servers that are built in, which has the name of this program.
const BUILT_IN: &str = "whyslow";

/// Whether a node is the program's own code: the function that goes with it is then the place itself, and not who asked.
pub(crate) fn is_own_code(path: &[String]) -> bool {
    matches!(path, [user, work, ..] if user == "user" && work == OWN_CODE)
}

/// Whether a node is of functions with all that they ask for, of one package and not of one function.
pub(crate) fn is_with_callees(path: &[String]) -> bool {
    matches!(path, [user, work] if user == "user" && work.ends_with(AND_BELOW))
}

/// A node of the tree in words: what is done there, and in what.
pub(crate) fn node_words(path: &[String]) -> String {
    let names: Vec<&str> = path.iter().map(String::as_str).collect();
    match names[..] {
        ["user"] => "its own code".to_owned(),
        ["kernel"] => "the kernel".to_owned(),
        ["user", "not sampled"] => "its own code, not sampled".to_owned(),
        ["kernel", "not sampled"] => "the kernel, not sampled".to_owned(),
        ["kernel", "page faults", ..] => "page faults".to_owned(),
        ["kernel", "interrupts", ..] => "interrupts".to_owned(),
        ["kernel", "entry and exit", "switch"] => "switches on the way out of the kernel".to_owned(),
        ["kernel", "entry and exit", ..] => "entering the kernel and leaving it".to_owned(),
        ["kernel", "other", function] => format!("{function} of the kernel"),
        ["kernel", same] if analyse::DONE_ALIKE.contains(&same) => same.to_owned(),
        ["kernel", same, ..] if analyse::DONE_ALIKE.contains(&same) => {
            node_words(&[&path[..1], &path[2..]].concat())
        }
        ["kernel", call, _, "switch"] => format!("context switches in {call}"),
        ["kernel", call, on, "other"] => format!("{call} on {on}, the rest of it"),
        ["kernel", call, on, does] => format!("{does} in {call} on {on}"),
        ["kernel", call, on] if call.starts_with(on) => call.to_owned(),
        ["kernel", call, on] => format!("{call} on {on}"),
        ["kernel", call] => call.to_owned(),
        ["user", OWN_CODE, BUILT_IN] => OWN_CODE.to_owned(),
        ["user", OWN_CODE, package] => format!("{OWN_CODE} of {package}"),
        ["user", work] => work.to_owned(),
        ["user", work, function, ref mostly @ ..] if work.ends_with(AND_BELOW) => {
            let package = work.trim_end_matches(AND_BELOW).trim_end();
            let of = if function.contains(package) { String::new() } else { format!(" ({package})") };
            let mostly: String = mostly.iter().map(|mostly| format!(", {mostly}")).collect();
            format!("{function}{of} {AND_BELOW}{mostly}")
        }
        ["user", work, analyse::SMALL_ONES] => format!("{work} in small parts"),
        ["user", work, package] => format!("{work} in {package}"),
        ["user", work, _, function, ref lines @ ..] => match &lines_words(lines)[..] {
            "" => format!("{function} ({work})"),
            lines => format!("{function}, {lines} ({work})"),
        },
        _ => names.join(" > "),
    }
}

/// Lines of one function, of which later ones of the same file have their numbers alone: `main.go:13 and 14`.
fn lines_words(lines: &[&str]) -> String {
    let file = |line: &str| line.rsplit_once(':').map(|(file, _)| file.to_owned());
    let short: Vec<&str> = std::iter::once("")
        .chain(lines.iter().copied())
        .zip(lines)
        .map(|(before, line)| match line.rsplit_once(':') {
            Some((_, number)) if file(before) == file(line) => number,
            _ => line,
        })
        .collect();
    and(&short)
}

/// The same in as few words as name it.
pub(crate) fn node_name(path: &[String]) -> &str {
    let at = |depth: usize| path.get(depth).map_or("", String::as_str);
    match [at(0), at(1), at(2)] {
        ["user", "", _] => "the program",
        ["kernel", "", _] => "the kernel",
        ["user", OWN_CODE, "" | BUILT_IN] => OWN_CODE,
        ["user", OWN_CODE, package] => package,
        ["user", "garbage collection", _] => "GC",
        ["user", "compiling at run time", _] => "JIT compiler",
        ["user", "runtime and server library", _] => "runtime",
        ["kernel", "entry and exit", _] => "kernel entry",
        ["kernel", same, call] if !call.is_empty() && analyse::DONE_ALIKE.contains(&same) => call,
        [_, what, _] => what.strip_suffix(AND_BELOW).map_or(what, str::trim_end),
    }
}

/// Beginnings of the names of the ledger's lines that count a cause.
pub(crate) const fn counted_by(id: CauseId) -> &'static [&'static str] {
    match id {
        CauseId::UserTime => &["user"],
        CauseId::SystemTime => &["system"],
        CauseId::SmallWrites => &["syscall:write", "syscall:send"],
        CauseId::ExtraSyscalls => &["syscall:"],
        CauseId::NewConnections => &["connections"],
        CauseId::BackendCalls | CauseId::BackendWait => &["asked"],
        CauseId::Readiness => &["syscall:epoll_wait", "syscall:poll"],
        CauseId::ContextSwitches => &["voluntary_switches", "involuntary_switches"],
        CauseId::BusyWait => &["syscall:sched_yield"],
        CauseId::ThreadHandoff | CauseId::LockContention => &["syscall:futex"],
        CauseId::KernelMemory => &["minor_faults"],
        CauseId::SyncWrites => &["syscall:fsync", "syscall:fdatasync"],
        CauseId::Sleep => &["syscall:nanosleep", "syscall:clock_nanosleep"],
        _ => &[],
    }
}

/// How sure a cause is, in one word.
pub(crate) fn grade_word(grade: Grade) -> &'static str {
    match grade {
        Grade::AccountsFor => "shown",
        Grade::BoundedBy | Grade::ConsistentWith => "likely",
        Grade::ConfirmedBy => "proved",
        Grade::RuledOut => "not it",
    }
}

/// What a range of commits did to a place, or to the line that calls it.
pub(crate) fn change_words(change: Change, caller: Option<&Place>) -> String {
    match (change, caller) {
        (Change::Line, _) => "changed in this range".to_owned(),
        (Change::Function, _) => "in a function changed in this range".to_owned(),
        (Change::None, None) => "same code".to_owned(),
        (Change::None, Some(caller)) => {
            let file = caller.file.as_deref().and_then(|file| file.rsplit('/').next());
            let line =
                file.zip(caller.line).map_or_else(String::new, |(file, line)| format!(", {file}:{line}"));
            format!("called from {}{line}, changed in this range", caller.function)
        }
    }
}

/// What to do about a gate that failed, short enough for a line.
pub(crate) const fn remedy(gate: GateId) -> &'static str {
    match gate {
        GateId::Parity => "make the answers alike, or pass --allow-difference",
        GateId::Errors => "look at the server's log",
        GateId::Generator => "more CPUs for it (--load-cpus), or a lower rate",
        GateId::Little => "closed-loop latency is not that of one request",
        GateId::Stall => "look for a lock, a lost wake-up or a short listen queue",
        GateId::Utilisation => "a counter is wrong: see whyslow doctor",
        GateId::Wire => "ask for a smaller answer",
        GateId::Host => "stop what else runs on the server's CPUs",
        GateId::Environment => "keep the arms on the same CPUs",
        GateId::Running => "name its process with --watch-pid",
        GateId::Fairness => "compare rates per core",
    }
}

/// Names of gates, one after the other.
pub(crate) fn gate_names(gates: &[GateId]) -> String {
    gates.iter().map(|gate| gate.name()).collect::<Vec<_>>().join(", ")
}
