use std::collections::BTreeMap;
use std::ops::AddAssign;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Connections asked for and really open.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Connections {
    /// Asked for.
    pub requested: u64,
    /// Open when the window began.
    pub established: u64,
}

/// The schedule in force.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScheduleFacts {
    /// `closed`, `open` (any idle connection serves the next arrival), `connection` (wrk2's, one schedule each) or
    /// `replay` (an access log's own timing).
    pub kind: String,
    /// Intended requests per second; absent in a closed loop.
    pub rate_per_s: Option<f64>,
    /// `constant` or `poisson`; absent in a closed loop.
    pub arrival: Option<String>,
    /// Seed of the arrival times.
    pub seed: u64,
    /// How long an arrival was allowed to wait for the next ones, so that one waking sent them all; absent where it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slack_ns: Option<u64>,
    /// Where the rate is not one, how it moves: the corners of its line as `[seconds after the begin of the window,
    /// requests per second]`. Absent where it is one, and in a replay.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shape: Vec<[f64; 2]>,
}

/// Requests that failed, each counted once, by what went wrong; and connections, which are `connect` and `surplus`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Errors {
    /// Connections that could not be opened.
    pub connect: u64,
    /// Reads that failed, or connections closed before the answer.
    pub read: u64,
    /// Writes that failed.
    pub write: u64,
    /// Requests unanswered for longer than the timeout.
    pub timeout: u64,
    /// Answers with a status of 400 or above.
    pub status: u64,
    /// Answers that are not what was asked for: not HTTP, a stream of events without one.
    pub parse: u64,
    /// Answers without a value that a scenario takes from them.
    #[serde(default)]
    pub value: u64,
    /// Connections of HTTP/1.1 given up because bytes came on them that answer no request, after answers that count; and messages
    /// of WebSocket that came while nothing was under way, each.
    #[serde(default)]
    pub surplus: u64,
}

impl Errors {
    /// All errors together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.kinds().iter().map(|(_, count)| count).sum()
    }

    /// Requests that were sent and have no answer that can be read.
    #[must_use]
    pub fn unanswered(&self) -> u64 {
        self.read + self.write + self.timeout + self.parse
    }

    /// Each kind by its name in the JSON, with its count.
    #[must_use]
    pub fn kinds(&self) -> [(&'static str, u64); 8] {
        [
            ("connect", self.connect),
            ("read", self.read),
            ("write", self.write),
            ("timeout", self.timeout),
            ("status", self.status),
            ("parse", self.parse),
            ("value", self.value),
            ("surplus", self.surplus),
        ]
    }
}

impl AddAssign for Errors {
    fn add_assign(&mut self, more: Self) {
        self.connect += more.connect;
        self.read += more.read;
        self.write += more.write;
        self.timeout += more.timeout;
        self.status += more.status;
        self.parse += more.parse;
        self.value += more.value;
        self.surplus += more.surplus;
    }
}

impl LoadReport {
    /// Requests that were due in the window; nothing in a closed loop.
    #[must_use]
    pub fn due(&self) -> Option<u64> {
        let due = self.requests + self.errors.unanswered() + self.unfinished + self.unsent;
        self.schedule.rate_per_s.map(|_| due)
    }

    /// Whether it was stopped before its window began: no figure of it rests on anything.
    #[must_use]
    pub fn is_before_its_window(&self) -> bool {
        self.partial && self.window_ns == 0
    }
}

/// Percentiles of one histogram in nanoseconds. One that the window had too few requests for (100/(1−q)) is absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Percentiles {
    /// Values in the histogram, censored ones included.
    pub count: u64,
    /// Median.
    pub p50: Option<u64>,
    /// 75 %.
    pub p75: Option<u64>,
    /// 90 %.
    pub p90: Option<u64>,
    /// 99 %.
    pub p99: Option<u64>,
    /// 99.9 %.
    pub p99_9: Option<u64>,
    /// 99.99 %.
    pub p99_99: Option<u64>,
    /// 99.999 %.
    pub p99_999: Option<u64>,
    /// Largest.
    pub max: u64,
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub stdev: f64,
    /// 95 % order-statistic interval by percentile name (`p99`), low then high.
    pub ci: BTreeMap<String, [u64; 2]>,
}

/// CPU per completed request in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cpu {
    /// In user mode.
    pub user: f64,
    /// In the kernel.
    pub system: f64,
}

/// How evenly the connections were answered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PerConnection {
    /// Fewest answers on one connection.
    pub min: u64,
    /// Most answers on one connection.
    pub max: u64,
    /// Jain's index, 1 when all are alike. Source: Jain, Chiu, Hawe, DEC-TR-301, 1984.
    pub jain: f64,
}

/// One second of the window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Second {
    /// Requests completed.
    pub requests: u64,
    /// Errors.
    pub errors: u64,
    /// Median response in nanoseconds; absent where none came.
    pub p50_ns: Option<u64>,
    /// 99 % response in nanoseconds, likewise.
    pub p99_ns: Option<u64>,
}

/// Answers of which not all was there at once: between the first read that brought a part of one and the last, as the
/// kernel stamped what it received. A server that writes an answer in two, and waits in between, is seen here; parts that
/// come before the generator has read the first count as one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pieces {
    /// Answers that took more than one read.
    pub answers: u64,
    /// Time from the first part of each to its last, added up, in nanoseconds.
    pub apart_ns: u64,
    /// The longest of these times in nanoseconds.
    pub longest_ns: u64,
}

impl Pieces {
    /// One more answer whose parts came so far apart.
    pub fn note(&mut self, apart_ns: u64) {
        *self += Self { answers: 1, apart_ns, longest_ns: apart_ns };
    }
}

impl std::ops::AddAssign for Pieces {
    fn add_assign(&mut self, more: Self) {
        self.answers += more.answers;
        self.apart_ns += more.apart_ns;
        self.longest_ns = self.longest_ns.max(more.longest_ns);
    }
}

/// Something that the reader must know about a figure: what happened, why, what to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Warning {
    /// Stable name.
    pub id: String,
    /// One or two sentences.
    pub text: String,
}

/// What was asked under one name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NamedRequests {
    /// Requests answered.
    pub requests: u64,
    /// Requests that went wrong.
    pub errors: u64,
    /// done − intended; unfinished requests enter as "at least this long".
    pub response_ns: Percentiles,
}

/// What became of the users of a scenario.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UserFigures {
    /// Users who came in the window.
    pub begun: u64,
    /// Users who had every step in it.
    pub finished: u64,
    /// Users who ended in it at a step that went wrong.
    pub failed: u64,
    /// Users who were under way when it ended.
    pub under_way: u64,
    /// Users who were due in it and never began, as there was no room for them; 0 without a rate.
    #[serde(default)]
    pub not_begun: u64,
    /// Values that answers did not have, in words, with how often.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub missing: BTreeMap<String, u64>,
    /// From the instant at which the first step was due to the last answer, of those who finished; thinking included.
    pub took_ns: Percentiles,
}

/// Where the time goes on the way to an answer, in nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PhaseFigures {
    /// Look-up of the server's name, once for all connections; absent where the URL has an address.
    pub lookup_ns: Option<u64>,
    /// Of each connection opened up to the end of the window: from the first step to a connection.
    pub connect_ns: Percentiles,
    /// From there to the end of the handshake of TLS; absent where that was not spoken.
    pub tls_ns: Option<Percentiles>,
    /// From sending a request to the read that brought the first byte of its answer, which is the read of the last byte where
    /// one read brought all. An unfinished request without any byte enters as "at least this long".
    pub first_byte_ns: Option<Percentiles>,
    /// From sending a request to the last byte of its answer: the service time.
    pub last_byte_ns: Percentiles,
}

/// What the generator measured in one window. Every figure is of that window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoadReport {
    /// Schema version.
    pub schema: u32,
    /// What was asked.
    pub url: String,
    /// Generator threads.
    pub threads: u32,
    /// Connections.
    pub connections: Connections,
    /// Requests in flight on each connection at most.
    pub pipeline: u32,
    /// The schedule.
    pub schedule: ScheduleFacts,
    /// Length of the window.
    pub window_ns: u64,
    /// Requests completed in the window.
    pub requests: u64,
    /// Bytes read in the window.
    pub bytes_read: u64,
    /// Completed requests per second.
    pub rate_per_s: f64,
    /// Answers that came in pieces; not known over HTTP/2, where answers share a connection.
    #[serde(default)]
    pub pieces: Option<Pieces>,
    /// Where the time of connections and answers went; absent in runs of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phases: Option<PhaseFigures>,
    /// Users, where requests were those of a scenario: then the schedule's rate is one of users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub users: Option<UserFigures>,
    /// Achieved over intended rate; absent in a closed loop.
    pub rate_ratio: Option<f64>,
    /// Errors in the window.
    pub errors: Errors,
    /// Answers whose status is an error, by status: of HTTP, or the name of one of gRPC.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub errors_by_status: BTreeMap<String, u64>,
    /// Events, where answers were streams of them (server-sent events).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<EventFigures>,
    /// How the server's memory and descriptors grew over the window, where it was watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerGrowth>,
    /// Requests sent and not answered when the window ended.
    pub unfinished: u64,
    /// Arrivals due and not sent when the window ended.
    pub unsent: u64,
    /// Requests that met a server's closing of their connection and were sent once more, on another: no errors.
    #[serde(default)]
    pub resent: u64,
    /// done − intended; unfinished and unsent requests enter as "at least this long".
    pub response_ns: Percentiles,
    /// done − sent.
    pub service_ns: Percentiles,
    /// sent − intended.
    pub send_lag_ns: Percentiles,
    /// The generator's own CPU per completed request, without what it polled in vain.
    pub cpu_ns_per_request: Cpu,
    /// Busy share of the generator's busiest thread, 0 to 1; polling in vain is not busy.
    pub busiest_thread: f64,
    /// Evenness over connections.
    pub per_connection: PerConnection,
    /// Requests in flight on average over time, counted apart from latencies: the other side of Little's law.
    pub in_flight: f64,
    /// Spearman correlation of one response with the next, −1 to 1.
    pub autocorrelation: f64,
    /// How many independent requests the responses are worth; the intervals are as wide as this many make them.
    pub effective_requests: u64,
    /// The same by name, where requests have names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub requests_by_name: BTreeMap<String, NamedRequests>,
    /// The window second by second.
    pub seconds: Vec<Second>,
    /// Whether the window ended early (interrupted).
    pub partial: bool,
    /// What the reader must know.
    pub warnings: Vec<Warning>,
}

/// What is added to a code of gRPC other than 0 to make a status of it that none of HTTP is; a call that went well is 200.
pub const GRPC_STATUS: u16 = 1000;

/// Names of the codes of gRPC, by their numbers. Source: gRPC's doc/statuscodes.md.
const GRPC_NAMES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

/// A status as users know it: a number of HTTP, or a name of gRPC.
#[must_use]
pub fn status_name(status: u16) -> String {
    let code = status.checked_sub(GRPC_STATUS).and_then(|code| GRPC_NAMES.get(usize::from(code)));
    code.map_or_else(|| status.to_string(), |name| (*name).to_owned())
}

/// What a window brought of server-sent events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EventFigures {
    /// Events that came in the window.
    pub count: u64,
    /// The same per second.
    pub rate_per_s: f64,
    /// The first event of a stream − the instant at which its request was due.
    pub first_ns: Percentiles,
    /// An event − the one before it in its stream; those that one read brought came at once.
    pub gap_ns: Percentiles,
}

/// How the memory and the descriptors of a server grew over a window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerGrowth {
    /// The process that listens.
    pub pid: u32,
    /// How often it was looked at.
    pub looks: u64,
    /// Resident memory of it and of all below it at the end.
    pub rss_bytes: u64,
    /// Descriptors at the end.
    pub descriptors: u64,
    /// How much the memory grows, in bytes.
    pub rss_slope_bytes: Growth,
    /// How much the descriptors do.
    pub descriptors_slope: Growth,
}

/// A growth with its 95 % interval, each per hour.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Growth {
    /// The estimate.
    pub per_h: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}
