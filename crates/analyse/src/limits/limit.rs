//! The limits that are known.

use crate::attribution::seen::Seen;
use crate::facts::observed::Blocked;

/// Why an arm does not serve more. Shares are 0 to 1.
#[derive(Debug, Clone, PartialEq)]
pub enum Limit {
    /// It is sent no more than this.
    Rate,
    /// Its CPUs are full.
    OwnCpu {
        /// Share of them that is busy.
        busy: f64,
        /// How many there are.
        cpus: f64,
    },
    /// One of its threads is full, and other CPUs are not.
    OneThread {
        /// Share of the time in which that thread runs.
        busy: f64,
        /// CPUs that the arm uses.
        used: f64,
        /// CPUs that there are.
        cpus: f64,
    },
    /// Its CPUs are full, mostly with services beside.
    ServicesBeside {
        /// Share that is busy with services.
        beside: f64,
        /// Share that is busy with the arm.
        server: f64,
    },
    /// Its CPUs are full, but not with the server.
    OtherProcesses {
        /// Share that is busy.
        set: f64,
        /// Share that is busy with the arm.
        server: f64,
    },
    /// Ready threads wait for a CPU, for this share of the time that they run.
    RunQueue(f64),
    /// Many responses take the same extra time, as long as something that was counted.
    Stalls {
        /// How long, in nanoseconds.
        at_ns: f64,
        /// As long as what.
        like: Like,
        /// Share of the responses.
        of_responses: f64,
        /// Share of the time of all responses.
        of_time: f64,
    },
    /// Its threads wait.
    Blocked {
        /// Share of its CPUs that is busy.
        busy: f64,
        /// For what they wait.
        what: Blocked,
        /// Calls of a request that wait for it.
        calls: Option<f64>,
        /// Threads that wait for it at a time.
        threads: Option<f64>,
    },
    /// Connections are refused.
    AcceptQueue,
    /// The link between two machines is full.
    LinkBetween {
        /// Share of what it carries.
        carried: f64,
        /// What it carries.
        bytes_per_s: f64,
    },
    /// Segments are lost and sent again: this many per request.
    Retransmits(f64),
    /// The round-trip time between two machines.
    RoundTrip {
        /// There and back, in nanoseconds.
        round_trip_ns: f64,
        /// Mean response in nanoseconds.
        response_ns: f64,
    },
    /// Times in which it answers nobody; otherwise its CPUs are full.
    Stops {
        /// Share of its CPUs that is busy.
        busy: f64,
        /// Share of the time in which it answers nobody.
        share: f64,
    },
    /// The generator is the limit.
    Generator {
        /// Share of the time in which its busiest thread runs.
        busy: f64,
        /// Share of the server's CPUs that is busy.
        server: f64,
    },
    /// Loopback is full, with this share of what it can carry.
    Link(f64),
    /// A wait that causes name.
    Wait(Vec<Seen>),
    /// It waits, and the reason is not known. This is the share of its CPUs that is busy.
    Unknown(f64),
}

/// What stalls are as long as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Like {
    /// Acknowledgements that are delayed.
    DelayedAcks,
    /// Sleeps.
    Sleeps,
    /// Pauses in which memory is collected.
    Pauses,
    /// Writes forced to the disk.
    ForcedWrites,
}
