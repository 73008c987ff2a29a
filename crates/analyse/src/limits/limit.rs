//! The limits that are known, and how each is said.

use std::fmt;

use model::units::format_ns;

use crate::facts::observed::Blocked;
use crate::facts::words::percent;

/// Why an arm does not serve twice as much. Shares are 0 to 1.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Limit {
    /// It is asked no more.
    Rate,
    /// Its CPUs are full.
    OwnCpu { busy: f64, cpus: f64 },
    /// One of its threads is, and other CPUs are not.
    OneThread { busy: f64, used: f64, cpus: f64 },
    /// Its CPUs are full, for the most part with services beside.
    ServicesBeside { beside: f64, server: f64 },
    /// Its CPUs are full, and not of the server.
    OtherProcesses { set: f64, server: f64 },
    /// Threads that are ready wait for a CPU.
    RunQueue { of_run_time: f64 },
    /// Responses that all take the same extra time, as long as something that was counted.
    Stalls { at_ns: f64, like: Like, of_responses: f64, of_time: f64 },
    /// Its threads wait.
    Blocked { busy: f64, what: Blocked, calls: Option<f64>, threads: Option<f64> },
    /// Connections are refused.
    AcceptQueue,
    /// The link between two machines is full.
    LinkBetween { carried: f64, bytes_per_s: f64 },
    /// Segments are lost and sent again.
    Retransmits { per_request: f64 },
    /// The way between two machines.
    RoundTrip { round_trip_ns: f64, response_ns: f64 },
    /// The generator.
    Generator { busy: f64, server: f64 },
    /// The loopback link is full.
    Link { carried: f64 },
    /// A wait that causes name.
    Wait { evidence: String },
    /// It waits, and nobody knows for what.
    Unknown { busy: f64 },
}

/// What stalls are as long as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Like {
    DelayedAcks,
    Sleeps,
    Pauses,
    ForcedWrites,
}

impl fmt::Display for Like {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DelayedAcks => {
                "acknowledgements that are delayed (set TCP_NODELAY, or write the answer at once)"
            }
            Self::Sleeps => "sleeps",
            Self::Pauses => "pauses in which memory is collected",
            Self::ForcedWrites => "writes forced to the disk",
        })
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rate => f.write_str("the rate asked for"),
            Self::OwnCpu { busy, cpus } => write!(f, "its CPU ({} of {cpus} busy)", percent(*busy)),
            Self::OneThread { busy, used, cpus } => {
                write!(f, "one thread ({} busy, {used:.2} of {cpus} CPUs used)", percent(*busy))
            }
            Self::ServicesBeside { beside, server } => write!(
                f,
                "services beside on its CPUs ({} busy with them, {} by itself)",
                percent(*beside),
                percent(*server)
            ),
            Self::OtherProcesses { set, server } => write!(
                f,
                "other processes on its CPUs ({} busy, {} by itself)",
                percent(*set),
                percent(*server)
            ),
            Self::RunQueue { of_run_time } => {
                write!(f, "waiting for a CPU ({} of its run time)", percent(*of_run_time))
            }
            Self::Stalls { at_ns, like, of_responses, of_time } => write!(
                f,
                "stalls of {}, as long as {like} ({} of the responses, {} of their time)",
                format_ns(*at_ns),
                percent(*of_responses),
                percent(*of_time)
            ),
            Self::Blocked { busy, what, calls, threads } => blocked(f, *busy, *what, *calls, *threads),
            Self::AcceptQueue => f.write_str("its accept queue (connections were refused)"),
            Self::LinkBetween { carried, bytes_per_s } => write!(
                f,
                "the link between the machines ({} of the {:.1} MB/s that it carries)",
                percent(*carried),
                bytes_per_s / 1e6
            ),
            Self::Retransmits { per_request } => write!(
                f,
                "segments that are lost and sent again ({per_request:.4} a request; each may take a fifth of a second)"
            ),
            Self::RoundTrip { round_trip_ns, response_ns } => write!(
                f,
                "the way between the machines ({} there and back, of a mean response of {}): more --connections would ask \
                 for more",
                format_ns(*round_trip_ns),
                format_ns(*response_ns)
            ),
            Self::Generator { busy, server } => {
                write!(f, "the generator ({} busy; the server {})", percent(*busy), percent(*server))
            }
            Self::Link { carried } => {
                write!(f, "the link ({} of what loopback carries here)", percent(*carried))
            }
            Self::Wait { evidence } => write!(f, "a wait, not its CPU: {evidence}"),
            Self::Unknown { busy } => {
                write!(f, "not its CPU ({} busy): a wait of its own, unknown", percent(*busy))
            }
        }
    }
}

fn blocked(
    f: &mut fmt::Formatter<'_>,
    busy: f64,
    what: Blocked,
    calls: Option<f64>,
    threads: Option<f64>,
) -> fmt::Result {
    let (what, call) = match what {
        Blocked::Disk => ("the disk", "writes forced to it"),
        Blocked::Sleep => ("a time to pass", "sleeps"),
        Blocked::Lock => ("each other", "futex calls"),
    };
    let calls = calls.map(|count| format!("{count:.2} {call} a request"));
    let threads = threads.map(|threads| format!("{threads:.1} threads at a time"));
    let figures: Vec<String> = calls.into_iter().chain(threads).collect();
    let (busy, figures) = (percent(busy), figures.join(", "));
    write!(f, "a wait, not its CPU ({busy} busy): its threads wait for {what} ({figures})")
}
