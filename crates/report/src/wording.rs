//! What the first screen calls causes and gates.

use analyse::Grade;

/// Names of the two parts of CPU time, which sum to the gap whatever explains it.
pub(crate) const PARTS: [&str; 2] = ["user_time", "system_time"];

/// A cause in words, and the lines of the ledger that count it, as the beginnings of their names.
struct CauseWords {
    id: &'static str,
    words: &'static str,
    counted: &'static [&'static str],
}

const fn cause(id: &'static str, words: &'static str, counted: &'static [&'static str]) -> CauseWords {
    CauseWords { id, words, counted }
}

/// Causes whose name alone does not say what they are.
const CAUSES: [CauseWords; 33] = [
    cause("user_time", "time in its own code", &["user"]),
    cause("system_time", "time in the kernel", &["system"]),
    cause("small_writes", "answers sent in several writes", &["segments"]),
    cause("file_writes", "writes to files", &[]),
    cause("extra_syscalls", "more system calls", &["syscall:"]),
    cause("costlier_calls", "system calls that take longer", &[]),
    cause("new_connections", "new connections", &["connections"]),
    cause("backend_calls", "calls to another server", &[]),
    cause("readiness", "asking which connections are ready", &["syscall:epoll_wait", "syscall:poll"]),
    cause("context_switches", "context switches", &["voluntary_switches", "involuntary_switches"]),
    cause("thread_handoff", "requests handed from thread to thread", &["syscall:futex"]),
    cause("kernel_memory", "page faults", &["minor_faults"]),
    cause("sync_writes", "writes forced to the disk", &["syscall:fsync", "syscall:fdatasync"]),
    cause("sleep", "sleeps", &["syscall:nanosleep", "syscall:clock_nanosleep"]),
    cause("sleeps", "sleeps", &["syscall:nanosleep", "syscall:clock_nanosleep"]),
    cause("lock_contention", "threads that wait for a lock", &["syscall:futex"]),
    cause("accept_queue", "connections that wait to be accepted", &[]),
    cause("listen_backlog", "connections that were turned away", &[]),
    cause("delayed_ack", "delayed acknowledgements", &[]),
    cause("backend_wait", "waiting for another server", &[]),
    cause("one_thread", "one thread that does everything", &[]),
    cause("gc", "memory that is collected", &[]),
    cause("interpreter", "the interpreter", &[]),
    cause("copying", "copying bytes", &[]),
    cause("comparing", "comparing and searching bytes", &[]),
    cause("allocation", "allocating and freeing memory", &[]),
    cause("busy_wait", "polling instead of waiting", &[]),
    cause("child_processes", "processes started and ended", &[]),
    cause("short_threads", "threads started and ended", &[]),
    cause("own_code", "its own code", &[]),
    cause("stalls", "times in which nobody is answered", &[]),
    cause("few_at_a_time", "few requests served at a time", &[]),
    cause("timer_wait", "waiting for a timer", &[]),
];

/// A cause in words.
pub(crate) fn cause_words(id: &str) -> String {
    let known = CAUSES.iter().find(|row| row.id == id);
    known.map_or_else(|| id.replace('_', " "), |row| row.words.to_owned())
}

/// Beginnings of the names of the ledger's lines that count a cause.
pub(crate) fn counted_by(id: &str) -> &'static [&'static str] {
    CAUSES.iter().find(|row| row.id == id).map_or(&[], |row| row.counted)
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

/// What to do about each gate, short enough for a line.
const REMEDIES: [(&str, &str); 10] = [
    ("parity", "make the answers alike, or pass --allow-difference"),
    ("errors", "look at the server's log"),
    ("generator", "more CPUs for it (--load-cpus), or a lower rate"),
    ("little", "do not read closed-loop latency as that of single requests"),
    ("stall", "look for a lock, a lost wake-up or a short listen queue"),
    ("utilisation", "a counter is wrong: see whyslow doctor"),
    ("wire", "ask for a smaller answer"),
    ("host", "stop what else runs on the server's CPUs"),
    ("environment", "keep the arms on the same CPUs"),
    ("fairness", "compare rates per core"),
];

/// What to do about a gate that failed.
pub(crate) fn remedy(gate: &str) -> &'static str {
    let known = REMEDIES.iter().find(|(id, _)| *id == gate);
    known.map_or("see --details", |(_, remedy)| remedy)
}
