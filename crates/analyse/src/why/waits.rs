//! Suspects that make a server wait: its CPUs are idle although it is asked. What they can carry is the idle time.

use super::gap::Pair;
use super::{Suspect, one};
use crate::findings::Grade;

/// System calls that wait for a time to pass.
const SLEEPS: [&str; 2] = ["nanosleep", "clock_nanosleep"];
/// System calls that wait for a disk.
const SYNCS: [&str; 5] = ["fsync", "fdatasync", "sync", "syncfs", "sync_file_range"];
/// System calls that read from a descriptor, whatever it is.
const READS: [&str; 6] = ["read", "readv", "recvfrom", "recvmsg", "recvmmsg", "pread64"];
/// The quickest answers: if these are late, all are.
const QUICK: f64 = 0.05;
/// Those that wait for a time or for a disk.
pub(super) const WAITING: [&str; 7] =
    ["nanosleep", "clock_nanosleep", "fsync", "fdatasync", "sync", "syncfs", "sync_file_range"];
/// A wait that fewer than one in a hundred requests meets explains no gap between means.
const RARE: f64 = 0.01;
/// Refused connections per request that show: each costs its client a second.
const REFUSED: f64 = 0.0005;
/// Responses that waited for a delayed acknowledgement: the kernel delays by 40 ms, and by up to a timer tick more.
/// Source: Linux, include/net/tcp.h, TCP_DELACK_MIN (HZ/25).
const DELAYED_ACK_NS: [u64; 2] = [38_000_000, 53_000_000];

fn wait(id: &str, ns: f64, evidence: String) -> Suspect {
    Suspect { id: id.to_owned(), grade: Grade::ConsistentWith, ns, evidence, usual: false }
}

/// Idle time that is not explained by connections that were not yet accepted.
fn idle_after_accept(pair: &Pair) -> f64 {
    pair.idle_ns * (1.0 - pair.slow.waiting_to_be_accepted)
}

/// Where in its code the slow arm waits, where that was seen.
fn place(pair: &Pair) -> String {
    let names = pair.slow.waits_in.join(", ");
    if names.is_empty() { names } else { format!(" (in {names})") }
}

/// Writes that are forced to the disk. The kernel's work for them is theirs too.
pub(super) fn sync_writes(pair: &Pair) -> Vec<Suspect> {
    let Some((more, [slow, fast])) = pair.more_calls(&SYNCS).filter(|(more, _)| *more >= RARE) else {
        return Vec::new();
    };
    let system = pair.more(|evidence| evidence.cpu.system).max(0.0);
    let evidence = format!("writes forced to the disk{}: {slow:.2} a request against {fast:.2}", place(pair));
    one(wait("sync_writes", idle_after_accept(pair) + system * more.min(1.0), evidence))
}

/// Idle time in `calls` of which the slow arm makes more, said as "WHAT: 2.00 CALLS a request".
fn waits_in_calls(pair: &Pair, id: &str, what: &str, names: &[&str], calls: &str) -> Vec<Suspect> {
    let Some((_, [slow, fast])) = pair.more_calls(names).filter(|(more, _)| *more >= RARE) else {
        return Vec::new();
    };
    let evidence = format!(
        "{what}{}: {slow:.2}{calls} a request against {fast:.2}, while its CPUs are idle",
        place(pair)
    );
    one(wait(id, idle_after_accept(pair), evidence))
}

/// Sleeps of a fixed time.
pub(super) fn sleeps(pair: &Pair) -> Vec<Suspect> {
    waits_in_calls(pair, "sleep", "sleeps", &SLEEPS, "")
}

/// Threads that wait for each other while CPUs are idle.
pub(super) fn lock_contention(pair: &Pair) -> Vec<Suspect> {
    let what = "threads waiting for each other";
    waits_in_calls(pair, "lock_contention", what, &super::counts::FUTEX, " futex calls")
}

/// Reads beside those of the requests: an answer of a data base, or of another service, that is waited for.
pub(super) fn backend_wait(pair: &Pair) -> Vec<Suspect> {
    waits_in_calls(pair, "backend_wait", "waiting for what it reads elsewhere", &READS, " reads")
}

/// Connections that wait to be accepted: by Little's law, their share is the share of the time spent there.
pub(super) fn accept_queue(pair: &Pair) -> Vec<Suspect> {
    let [slow, fast] = [pair.slow, pair.fast].map(|evidence| evidence.waiting_to_be_accepted);
    if slow <= fast || pair.slow.accepted < RARE {
        return Vec::new();
    }
    let evidence = format!(
        "{} of the connections wait to be accepted, against {}: one acceptor is too slow",
        crate::percent(slow),
        crate::percent(fast)
    );
    one(wait("accept_queue", pair.idle_ns * slow, evidence))
}

/// Connections that are refused because the queue of those to be accepted is full.
pub(super) fn listen_backlog(pair: &Pair) -> Vec<Suspect> {
    let [slow, fast] = [pair.slow, pair.fast].map(|evidence| evidence.refused);
    if slow - fast < REFUSED {
        return Vec::new();
    }
    let evidence = format!(
        "connections dropped because the listen queue was full: {slow:.4} a request against {fast:.4}; each client tries \
         again after a second"
    );
    one(wait("listen_backlog", idle_after_accept(pair), evidence))
}

/// Answers whose second part waits until the first is acknowledged (Nagle), which the client delays by 40 ms.
pub(super) fn delayed_ack(pair: &Pair) -> Vec<Suspect> {
    let [from, to] = DELAYED_ACK_NS;
    let shares = [pair.slow, pair.fast].map(|evidence| evidence.shape.share_of_time(from, to));
    let [slow, fast] = [pair.slow, pair.fast].map(|evidence| evidence.shape.share_of_requests(from, to));
    if slow < RARE || shares[0] <= shares[1] {
        return Vec::new();
    }
    let evidence = format!(
        "{} of the answers take 40 ms, against {}: the server's TCP waits for an acknowledgement that the client's delays \
         (set TCP_NODELAY, or write the answer at once); {:.2} delayed acknowledgements a request against {:.2}",
        crate::percent(slow),
        crate::percent(fast),
        pair.slow.delayed_acks,
        pair.fast.delayed_acks
    );
    one(wait("delayed_ack", pair.idle_ns * (shares[0] - shares[1]), evidence))
}

/// Where no call that waits is counted and even the quickest answers are late, a time has to pass: a timer of an event
/// loop makes no system call of its own.
pub(super) fn timer_wait(pair: &Pair) -> Vec<Suspect> {
    let [slow, fast] = [pair.slow, pair.fast].map(|evidence| evidence.shape.quantile_ns(QUICK));
    let Some((slow_ns, fast_ns)) = slow.zip(fast) else { return Vec::new() };
    let late_ns = slow_ns.saturating_sub(fast_ns) as f64;
    if late_ns == 0.0 || late_ns < pair.more(|evidence| evidence.response_ns) / 2.0 {
        return Vec::new();
    }
    let evidence = format!(
        "waiting for a time to pass{}: even the quickest twentieth of the answers take {}, against {}, while its CPUs are idle \
         and no call that waits is counted",
        place(pair),
        units::format_ns(slow_ns as f64),
        units::format_ns(fast_ns as f64)
    );
    one(wait("timer_wait", idle_after_accept(pair), evidence))
}
