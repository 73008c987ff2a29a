use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::record::LoadReport;

/// What one of several generators of one schedule measured, with all that a report of all of them is made from.
///
/// Its histograms are in a log beside it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShardRecord {
    /// Schema version.
    pub schema: u32,
    /// Which of the shards are in here, from 0; one, or several that were merged.
    pub shards: Vec<u32>,
    /// How many there are in all.
    pub of: u32,
    /// When the first of them began its window, in nanoseconds since 1970.
    pub first_start_ns: u64,
    /// When the last of them did.
    pub last_start_ns: u64,
    /// What it reports by itself.
    pub report: LoadReport,
    /// Answers in the window, whenever their requests were due.
    pub answers: u64,
    /// Requests answered before sending ended, where answers were waited for afterwards: what the rate counts.
    #[serde(default)]
    pub in_time: Option<u64>,
    /// Whether the warm-up ended steady.
    pub steady: bool,
    /// Answers on each connection.
    pub answers_per_connection: Vec<u64>,
    /// CPU time of each thread in the window, in nanoseconds.
    pub thread_cpu_ns: Vec<u64>,
    /// Time that the threads polled in vain, in nanoseconds; it is not in their CPU time.
    #[serde(default)]
    pub polled_ns: u64,
    /// Answers per second of each thread in each tenth of a second.
    pub thread_rates_per_s: Vec<f64>,
    /// Part of the CPU time that was spent in user mode, 0 to 1.
    pub user_share: f64,
    /// What was wrong with the first answer that was not HTTP.
    pub malformed: Option<String>,
    /// Why the server failed requests or ended connections, in its own words.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub reasons: BTreeSet<String>,
    /// Why the first connection that failed did.
    pub connect_error: Option<String>,
    /// Requests in each tenth of the window, and the sum of the binary logarithms of their responses in 1/65536.
    pub tenths: Vec<(u64, u64)>,
    /// A sample of responses in nanoseconds, each with the one after it.
    pub pairs: Vec<(u64, u64)>,
}
