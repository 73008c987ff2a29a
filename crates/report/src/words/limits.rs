//! What is said of what limits an arm.

use analyse::{Blocked, Like, Limit};
use model::units::{format_ns, percent};

use super::{joined, seen};

/// A limit.
pub(super) fn sentence(limit: &Limit) -> String {
    match *limit {
        Limit::Rate => "the rate asked for".to_owned(),
        Limit::OwnCpu { busy, cpus } => format!("its CPU ({} of {cpus} busy)", percent(busy)),
        Limit::OneThread { busy, used, cpus } => {
            format!("one thread ({} busy, {used:.2} of {cpus} CPUs used)", percent(busy))
        }
        Limit::ServicesBeside { beside, server } => format!(
            "services beside on its CPUs ({} busy with them, {} by itself)",
            percent(beside),
            percent(server)
        ),
        Limit::OtherProcesses { set, server } => {
            format!("other processes on its CPUs ({} busy, {} by itself)", percent(set), percent(server))
        }
        Limit::RunQueue(share) if share < 1.0 => {
            format!("waiting for a CPU ({} of its run time)", percent(share))
        }
        Limit::RunQueue(times) => format!("waiting for a CPU ({times:.1} times as long as it runs)"),
        Limit::Stalls { at_ns, like, of_responses, of_time } => format!(
            "stalls of {}, as long as {} ({} of the responses, {} of their time)",
            format_ns(at_ns),
            like_words(like),
            percent(of_responses),
            percent(of_time)
        ),
        Limit::Blocked { busy, what, calls, threads } => blocked(busy, what, calls, threads),
        Limit::AcceptQueue => "its accept queue (connections were refused)".to_owned(),
        Limit::LinkBetween { carried, bytes_per_s } => format!(
            "the link between the machines ({} of the {:.1} MB/s that it carries)",
            percent(carried),
            bytes_per_s / 1e6
        ),
        Limit::Retransmits(count) => format!(
            "segments that are lost and sent again ({count:.4} a request; each may take a fifth of a second)"
        ),
        Limit::RoundTrip { round_trip_ns, response_ns } => format!(
            "the way between the machines ({} there and back, of a mean response of {}): more --connections would ask for more",
            format_ns(round_trip_ns),
            format_ns(response_ns)
        ),
        Limit::Stops { busy, share } => {
            format!("its stops: it answers nobody {} of the time ({} busy)", percent(share), percent(busy))
        }
        Limit::Generator { busy, server } => {
            format!("the generator ({} busy; the server {})", percent(busy), percent(server))
        }
        Limit::Link(carried) => format!("the link ({} of what loopback carries here)", percent(carried)),
        Limit::Wait(ref seen) => format!("a wait, not its CPU: {}", joined(seen, seen::words, "; ")),
        Limit::Unknown(busy) => format!("not its CPU ({} busy): a wait of its own, unknown", percent(busy)),
    }
}

fn like_words(like: Like) -> &'static str {
    match like {
        Like::DelayedAcks => {
            "acknowledgements that are delayed (set TCP_NODELAY, or write the answer at once)"
        }
        Like::Sleeps => "sleeps",
        Like::Pauses => "pauses in which memory is collected",
        Like::ForcedWrites => "writes forced to the disk",
    }
}

fn blocked(busy: f64, what: Blocked, calls: Option<f64>, threads: Option<f64>) -> String {
    let (what, call) = match what {
        Blocked::Disk => ("the disk", "writes forced to it"),
        Blocked::Sleep => ("a time to pass", "sleeps"),
        Blocked::Lock => ("each other", "futex calls"),
        Blocked::FileLock => ("file locks", "flock or fcntl calls"),
    };
    let calls = calls.map(|count| format!("{count:.2} {call} a request"));
    let threads = threads.map(|threads| format!("{threads:.1} threads at a time"));
    let figures: Vec<String> = calls.into_iter().chain(threads).collect();
    let (busy, figures) = (percent(busy), figures.join(", "));
    format!("a wait, not its CPU ({busy} busy): its threads wait for {what} ({figures})")
}
