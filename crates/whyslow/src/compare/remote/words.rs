//! The messages between this machine and the agent on another: one JSON object a line, each command answered by one event.

use std::net::{IpAddr, SocketAddr};

use load::WindowJob;
use model::job::{self, Job};
use model::plan::{Plan, Round};
use model::record::{Failure, Host, Link, RoundRecord, ShardRecord};
use model::units::CpuSet;
use observe::Observed;
use serde::{Deserialize, Serialize};

use crate::compare::server::Purpose;

/// What an agent is asked for.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(in crate::compare) enum Command {
    /// The other side is there: not answered. An agent that hears nothing for a while ends.
    Alive,
    /// Cut short what is done: not answered but by what that brings. Nothing can be asked for afterwards.
    Enough,
    /// What does the monotonic clock show: [`Event::Clock`].
    Clock,
    /// Open the connections of a window of load, on these CPUs or on all: [`Event::Connected`].
    Window { job: Box<WindowJob>, cpus: Option<CpuSet> },
    /// Begin that window at this instant of the monotonic clock: [`Event::Window`] once it is over.
    Begin { at_ns: u64 },
    /// What is run from now on, and the address at which its servers are asked. Answered by [`Event::Done`].
    Plan { plan: Box<Plan>, host: IpAddr },
    /// Listen for whoever measures the link to here: [`Event::Listening`].
    Listen,
    /// Measure the link to a place that listens for that: [`Event::Link`].
    Measure { place: SocketAddr },
    /// Start the arm of a round and wait until it is ready: [`Event::Started`] or [`Event::Failed`].
    Start { purpose: Purpose, round: Round },
    /// Watch these servers from now on, in this order: [`Event::Done`].
    Watch { servers: Vec<u32> },
    /// Keep a reading of the counters, closely of one of the servers watched: [`Event::Done`] or [`Event::Failed`].
    Mark { loaded: usize },
    /// What happened since the reading kept: [`Event::Observed`] or [`Event::Failed`].
    Since { loaded: usize },
    /// How a server ended, if it did or does within a time: [`Event::Crash`].
    Crash { server: u32, patience_ms: u64 },
    /// End a server: [`Event::Done`].
    Stop { server: u32 },
    /// Start a generator and have it connect: [`Event::Generating`].
    Generate { job: Box<Job>, cpus: CpuSet },
    /// Have a generator do something: [`Event::Generated`].
    Drive { generator: u32, command: job::Command },
    /// Keep a reading of the counters of a generator and its CPUs: [`Event::Done`].
    MarkLoad { generator: u32 },
    /// What happened there since the reading kept: [`Event::Observed`].
    SinceLoad { generator: u32 },
    /// End a generator: [`Event::Done`].
    Finish { generator: u32 },
}

/// What an agent answers.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::compare) enum Event {
    /// It is there: sent first, without being asked.
    Hello(Box<Hello>),
    /// Done, and nothing to say.
    Done,
    /// What the monotonic clock shows, in nanoseconds.
    Clock(u64),
    /// The connections of a window are open.
    Connected,
    /// What a window of load brought, when it began on the monotonic clock, and its histograms.
    Window { began_ns: u64, record: Box<ShardRecord>, log: String },
    /// Where the link to here is measured.
    Listening(SocketAddr),
    /// A link as it was measured.
    Link(Link),
    /// A server is ready.
    Started { server: u32, address: SocketAddr, record: Box<RoundRecord> },
    /// A server failed; the others go on.
    Failed(Failure),
    /// What happened between two readings.
    Observed(Box<Observed>),
    /// How a server ended, if it did.
    Crash(Option<Failure>),
    /// A generator has its connections open.
    Generating(u32),
    /// What a generator answered, and the latencies that it would have written to a file.
    Generated { event: job::Event, hlog: Option<String> },
    /// It cannot be done; one sentence.
    Refused(String),
}

/// A machine as its agent finds it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::compare) struct Hello {
    /// Version of whyslow.
    pub(in crate::compare) version: String,
    /// Its facts.
    pub(in crate::compare) machine: Host,
    /// CPUs that may be used.
    pub(in crate::compare) cpus: CpuSet,
    /// Memory that can be had without taking any from what runs.
    pub(in crate::compare) available_bytes: u64,
    /// The two ends of the connection by which it is reached, ours first, as ssh tells them there.
    pub(in crate::compare) ends: Option<[IpAddr; 2]>,
}
