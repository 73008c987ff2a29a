use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::job::{Job, Protocol, Requests};
use crate::plan::{Condition, PlanError, split_command};

/// What is asked of every arm, and how its answers are judged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "Written")]
pub struct Workload {
    /// Request target, beginning with `/`, of requests that name none.
    pub path: String,
    /// What is sent and how. Its endpoints are the arms, which have their ports later: none stands here.
    pub job: Job,
    /// How arms are reached.
    pub reach: Reach,
    /// What shows that an arm is ready; nothing for an answer to the first request, or to a GET of `/` if that is no GET.
    pub ready: Option<ReadyBy>,
    /// Arrivals in an open loop: evenly spaced or Poisson.
    pub poisson: bool,
    /// The conditions, in the order in which each round meets them.
    pub conditions: Vec<Condition>,
    /// How alike the answers of arms must be.
    pub same: Same,
    /// Whether arms may answer differently (`--allow-difference`).
    pub allow_difference: bool,
    /// Files that say what is sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<SentFile>,
}

/// A file that says what is sent: requests, or what fills them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SentFile {
    /// Its name as it was given.
    pub name: String,
    /// SHA-256 of it, hexadecimal.
    pub sha256: String,
}

/// Digits of a file's hash that people read.
const SHORT_HASH: usize = 12;

impl SentFile {
    /// Its name and the begin of its hash.
    #[must_use]
    pub fn describe(&self) -> String {
        let short = self.sha256.get(..SHORT_HASH).unwrap_or(&self.sha256);
        format!("{} (SHA-256 {short})", self.name)
    }
}

/// How arms are reached.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Reach {
    /// Whether TLS is spoken to them.
    pub tls: bool,
    /// The unix socket of each, with `{port}` for what tells them apart.
    pub unix: Option<String>,
}

/// What shows that an arm is ready, apart from what is measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ReadyBy {
    /// A GET of this path is answered with a status below 500.
    Get(String),
    /// This command ends with status 0.
    Command(Vec<String>),
}

/// How alike answers must be; each asks for what those before it do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Same {
    /// The same status.
    Status,
    /// The same names of fields, content type, and keys and types of JSON; bodies of another kind of nearly the same length.
    #[default]
    Shape,
    /// The same bytes of the body.
    Body,
}

impl ReadyBy {
    /// Reads `--ready`: a path begins with `/` and has no white space; all else is a command.
    ///
    /// # Errors
    /// A command whose quotes do not match.
    pub fn parse(text: &str) -> Result<Self, PlanError> {
        match text.starts_with('/') && !text.contains(char::is_whitespace) {
            true => Ok(Self::Get(text.to_owned())),
            false => split_command("--ready", text).map(Self::Command),
        }
    }
}

impl Workload {
    /// GETs of `path` at capacity.
    #[must_use]
    pub fn get(path: &str, connections: u32) -> Self {
        Self {
            path: path.to_owned(),
            job: Job::get(connections),
            reach: Reach::default(),
            ready: None,
            poisson: false,
            conditions: vec![Condition::Capacity],
            same: Same::default(),
            allow_difference: false,
            files: Vec::new(),
        }
    }

    /// What is asked, in words that name no secret: no value of a field, of a query or of a body. Where there is any, a hash of
    /// all that is sent tells requests apart that differ in nothing else.
    #[must_use]
    pub fn describe(&self) -> String {
        let path = self.path.split('?').next().unwrap_or_default();
        let summary = self.job.requests.summary();
        let several = matches!(self.job.requests, Requests::Drawn(_));
        let requests = match summary.requests.as_slice() {
            [one] if !several => one.text(path),
            many => {
                let shown: Vec<String> = many.iter().take(SHOWN).map(|one| one.title(path)).collect();
                let more = many.len().saturating_sub(SHOWN);
                let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
                format!("{} requests by weight ({}{rest})", many.len(), shown.join(", "))
            }
        };
        let bare = self.job.is_bare_get() && !self.path.contains('?') && self.job.data.is_none();
        let hash = if bare { String::new() } else { format!(" #{}", self.job.sent_sha256(&self.path)) };
        let over = match self.job.protocol {
            Protocol::Http1 { .. } => [""; 2],
            Protocol::Events { .. } => [" as a stream of events", " over TLS"],
            Protocol::Http2 { .. } => [" over HTTP/2", " and TLS"],
            // QUIC is never without TLS.
            Protocol::Http3 { .. } => [" over HTTP/3", ""],
            Protocol::Grpc { .. } => [" over gRPC", " and TLS"],
            Protocol::WebSocket { .. } => [" over WebSocket", " and TLS"],
        };
        let tls = match self.reach.tls {
            false => "",
            true if over[0].is_empty() => " over TLS",
            true => over[1],
        };
        requests + &hash + over[0] + tls
    }
}

/// Requests that a description names.
const SHOWN: usize = 5;

/// A workload as runs have it on disk; those of before a job stood in it had one GET.
#[derive(Deserialize)]
struct Written {
    path: String,
    job: Option<Job>,
    connections: Option<u32>,
    pipeline: Option<u32>,
    keep_alive: Option<bool>,
    #[serde(default)]
    reach: Reach,
    #[serde(default)]
    ready: Option<ReadyBy>,
    poisson: bool,
    conditions: Vec<Condition>,
    #[serde(default)]
    same: Same,
    allow_difference: bool,
    #[serde(default)]
    files: Vec<SentFile>,
}

impl From<Written> for Workload {
    fn from(written: Written) -> Self {
        let before = || {
            Job::get(written.connections.unwrap_or(1))
                .with_depth(written.pipeline.unwrap_or(1))
                .with_keep_alive(written.keep_alive.unwrap_or(true))
        };
        Self {
            path: written.path,
            job: written.job.unwrap_or_else(before),
            reach: written.reach,
            ready: written.ready,
            poisson: written.poisson,
            conditions: written.conditions,
            same: written.same,
            allow_difference: written.allow_difference,
            files: written.files,
        }
    }
}
