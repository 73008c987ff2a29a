use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::{Condition, Round};

use crate::record::{HostUsage, LoadReport, Resources, Usage};

/// What an arm answered to one request, for parity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Answer {
    /// Status.
    pub status: u16,
    /// Header names and values as sent, in order.
    pub headers: Vec<(String, String)>,
    /// Bytes of the body.
    pub body_bytes: u64,
    /// SHA-256 of the body, hexadecimal.
    pub body_sha256: String,
    /// Bytes of the whole answer on the wire.
    pub wire_bytes: u64,
}

/// Why a round gave no figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// A build command failed.
    Build,
    /// The command could not be started.
    Start,
    /// It ended before it was ready.
    Exited,
    /// It did not answer in time.
    NotReady,
    /// It answered many requests, and then none.
    Stopped,
    /// It answered, but not as expected.
    WrongAnswer,
    /// It ended in the window.
    Crashed,
    /// The generator failed.
    Generator,
}

/// A round that failed, as a row rather than an end of the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Failure {
    /// What kind.
    pub kind: FailureKind,
    /// One sentence.
    pub text: String,
    /// Last lines of the target's log.
    pub log: Vec<String>,
}

/// Whether the arm was placed and loaded as the others.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fairness {
    /// Threads when ready.
    pub threads: u32,
    /// CPUs that its threads may use, in list notation.
    pub allowed_cpus: String,
}

/// The warm-up of one round.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Warmup {
    /// Requests completed in each turn.
    #[serde(alias = "per_second")]
    pub per_turn: Vec<u64>,
    /// How long it took, the turns of others included, in nanoseconds.
    #[serde(default)]
    pub took_ns: u64,
    /// Whether it was steady when the window began.
    pub steady: bool,
}

/// One window of one round under one condition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Window {
    /// The condition, its rate resolved.
    pub condition: Condition,
    /// What the generator measured.
    pub load: LoadReport,
    /// What the target's process group used.
    pub target: Usage,
    /// What the generator's process used, without the CPU time that it polled in vain.
    pub generator: Usage,
    /// The server's CPUs.
    pub server_cpus: HostUsage,
    /// The generator's CPUs.
    pub load_cpus: HostUsage,
    /// Memory, interfaces, disks, descriptors, sockets; absent in runs of before they were read.
    #[serde(default)]
    pub resources: Option<Resources>,
    /// CPU that the observer itself used.
    pub observer_cpu_ns: u64,
    /// CPU time of each service beside in the turns of this arm, by name, in nanoseconds.
    #[serde(default)]
    pub services: BTreeMap<String, u64>,
    /// The shape of the responses: lower edge in nanoseconds and count of every bucket that is not empty, in rising
    /// order, 16 buckets an octave. Runs of before it was kept have none.
    #[serde(default)]
    pub response_buckets: Vec<[u64; 2]>,
    /// The turns that all of the above is the sum of; one where the arm ran alone. Empty in runs of before arms took turns,
    /// whose counters were read while requests were under way.
    #[serde(default)]
    pub slices: Vec<Slice>,
}

impl Window {
    /// A window in which nothing has happened.
    #[must_use]
    pub fn empty(condition: Condition) -> Self {
        Self {
            condition,
            load: LoadReport::default(),
            target: Usage::default(),
            generator: Usage::default(),
            server_cpus: HostUsage::default(),
            load_cpus: HostUsage::default(),
            resources: None,
            observer_cpu_ns: 0,
            services: BTreeMap::new(),
            response_buckets: Vec::new(),
            slices: Vec::new(),
        }
    }
}

/// One turn of an arm among others that are alive with it, from quiet to quiet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Slice {
    /// Which cycle of the block under this condition, from 0: each has one slice of every arm.
    pub cycle: u32,
    /// Which turn of the block, from 0, warm-up not counted.
    pub turn: u32,
    /// When it began, in nanoseconds of the monotonic clock.
    pub start_ns: u64,
    /// For how long requests were sent.
    pub length_ns: u64,
    /// Requests answered, from quiet to quiet.
    pub requests: u64,
    /// Of these, answered before sending ended.
    pub in_time: u64,
    /// CPU time of the arm, from quiet to quiet.
    pub cpu_ns: u64,
    /// Time between the two readings.
    pub wall_ns: u64,
    /// CPU time meanwhile of the arms that nobody asked.
    pub idle_arms_ns: u64,
    /// CPU time meanwhile of processes that are neither arm nor generator nor observer.
    pub others_ns: u64,
    /// Time that the hypervisor took from the server's CPUs meanwhile.
    pub steal_ns: u64,
    /// Time for which a quota held the server back.
    pub throttled_ns: u64,
}

/// Answers in time from which on one more or less at the end of a slice does not matter.
const MANY: u64 = 100;

impl Slice {
    /// Whether so few answers came in time that those after it have to count.
    #[must_use]
    pub fn has_few(&self) -> bool {
        self.in_time < MANY && self.requests > self.in_time
    }

    /// Answers that count for its rate, and the time in which they came, in nanoseconds. Where few came in time, those count that came after
    /// sending had ended, and the time until the last: of whole answers in a given time one more or less would be a difference.
    #[must_use]
    pub fn counted(&self) -> (u64, u64) {
        if self.has_few() { (self.requests, self.wall_ns) } else { (self.in_time, self.length_ns) }
    }

    /// Answers per second.
    #[must_use]
    pub fn rate_per_s(&self) -> f64 {
        let (answers, ns) = self.counted();
        answers as f64 * 1e9 / ns as f64
    }
}

/// What an arm used while others had their turns and nobody asked it anything.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Background {
    /// For how long it was watched.
    pub wall_ns: u64,
    /// CPU time.
    pub cpu_ns: u64,
}

impl Background {
    /// CPUs that it kept busy, on average.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.cpu_ns as f64 / self.wall_ns.max(1) as f64
    }
}

/// One round: fresh server, ready, warm, measured, stopped.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RoundRecord {
    /// Schema version.
    pub schema: u32,
    /// What was planned.
    pub round: Round,
    /// The arm's name.
    pub arm: String,
    /// Unix time of its begin in milliseconds.
    pub started_unix_ms: u64,
    /// Port.
    pub port: u16,
    /// Milliseconds from start to the expected answer.
    pub ready_ms: u64,
    /// The answer, for parity; absent where it never came.
    pub answer: Option<Answer>,
    /// Placement as found.
    pub fairness: Fairness,
    /// The warm-up.
    pub warmup: Warmup,
    /// One window for each condition.
    pub windows: Vec<Window>,
    /// What it used in the turns of others; absent where it ran alone.
    #[serde(default)]
    pub background: Option<Background>,
    /// Why there are no figures.
    pub failure: Option<Failure>,
}
