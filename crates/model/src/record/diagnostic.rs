use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::record::{Counts, Failure, MachineLog, Profile, SCHEMA_VERSION, Waits, Window};

/// How closely the target was watched in one pass of a diagnostic round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PassKind {
    /// As in a scored window: what the others are weighed against.
    Untouched,
    /// Counting perf events on every thread (tier 1).
    Counting,
    /// Sampling stacks (tier 2).
    Sampling,
    /// Taking a stack whenever a thread leaves its CPU, with the time until it comes back (tier 3).
    Waiting,
    /// Stopping the target at every system call, at a low rate of requests (tier 3): only its calls count.
    Tracing,
    /// Sampling stacks of the services beside (tier 2).
    Beside,
    /// Taking a stack whenever a thread leaves its CPU and whenever one is woken, of both sides (tier 3).
    Waking,
}

impl PassKind {
    /// The word in every output.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Untouched => "untouched",
            Self::Counting => "counting",
            Self::Sampling => "sampling",
            Self::Waiting => "timing waits",
            Self::Tracing => "tracing",
            Self::Beside => "sampling services beside",
            Self::Waking => "telling wakers",
        }
    }
}

/// One window of a diagnostic round. Its figures are never scored: they say how much watching slowed the server, and
/// what was seen counts only if that was little.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pass {
    /// How the target was watched.
    pub kind: PassKind,
    /// Load and tier-0 counters, as of a scored window.
    pub window: Window,
    /// What was counted, in a counting pass.
    #[serde(default)]
    pub counts: Option<Counts>,
    /// Stacks, in a sampling or waiting pass.
    #[serde(default)]
    pub profile: Option<Profile>,
    /// What its virtual machines logged, in a sampling pass of a JVM.
    #[serde(default)]
    pub machine: Option<MachineLog>,
    /// Stacks of services beside by their names, in a pass that samples these.
    #[serde(default)]
    pub services: BTreeMap<String, Profile>,
    /// What ended its waits, in a waking pass.
    #[serde(default)]
    pub waits: Option<Waits>,
    /// What could not be watched and what would allow it, one sentence each.
    #[serde(default)]
    pub missing: Vec<String>,
}

impl Pass {
    /// One of which only the window is known.
    #[must_use]
    pub fn new(kind: PassKind, window: Window) -> Self {
        Self {
            kind,
            window,
            counts: None,
            profile: None,
            machine: None,
            services: BTreeMap::new(),
            waits: None,
            missing: Vec::new(),
        }
    }
}

/// One diagnostic round of an arm: a fresh server, and on it one pass after another, untouched first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DiagnosticRecord {
    /// Schema version.
    pub schema: u32,
    /// The arm's name.
    pub arm: String,
    /// Which diagnostic round of the run, from 0: one of each arm makes a block.
    pub block: u32,
    /// Port.
    pub port: u16,
    /// The passes in the order in which they were made.
    pub passes: Vec<Pass>,
    /// Why there are no more.
    pub failure: Option<Failure>,
}

impl DiagnosticRecord {
    /// A round without passes yet.
    #[must_use]
    pub fn new(arm: &str, block: u32) -> Self {
        let (arm, passes) = (arm.to_owned(), Vec::new());
        Self { schema: SCHEMA_VERSION, arm, block, port: 0, passes, failure: None }
    }
}
