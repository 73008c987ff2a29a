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
    /// Requests completed in each second.
    pub per_second: Vec<u64>,
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
    /// Nanoseconds that a line of memory took from the server's first CPU to the generator's and back, some times a
    /// second; empty where CPUs are not kept awake, and in runs of before it was measured.
    #[serde(default)]
    pub cpu_distances_ns: Vec<f64>,
    /// The shape of the responses: lower edge in nanoseconds and count of every bucket that is not empty, in rising
    /// order, 16 buckets an octave. Runs of before it was kept have none.
    #[serde(default)]
    pub response_buckets: Vec<[u64; 2]>,
}

/// Why a round counts for nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VoidReason {
    /// The gate.
    pub gate: String,
    /// What it saw.
    pub text: String,
    /// Whether the hypervisor moved a CPU, which is seen for certain in each round and says nothing against the others.
    #[serde(default)]
    pub moved: bool,
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
    /// Why there are no figures.
    pub failure: Option<Failure>,
}
