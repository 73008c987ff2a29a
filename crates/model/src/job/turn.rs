use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::record::{Errors, LoadReport, ShardRecord};
use crate::units::Rate;

/// Late answers of one turn that are reported: as many as tell how a server goes from one connection to the next.
pub const MOST_LATE: usize = 1024;

/// What the orchestrator asks of a generator after its [`Job`](super::Job).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Command {
    /// Load one endpoint; answered by [`Event::Turn`] once the generator is quiet again.
    Turn(Turn),
    /// Report the turns of a pool as one window and forget them; answered by [`Event::Report`].
    Report {
        /// Which pool.
        pool: u32,
        /// Where their latencies are written to, as an HdrHistogram log (V2), if they are.
        hlog: Option<PathBuf>,
    },
    /// The same for whoever puts the turns of several generators together; answered by [`Event::Part`].
    Part {
        /// Which pool.
        pool: u32,
    },
}

/// One endpoint loaded for a while, from quiet to quiet.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    /// Index into [`Job::endpoints`](super::Job::endpoints).
    pub endpoint: usize,
    /// When requests are due.
    pub pace: TurnPace,
    /// Seed of the arrivals and of what is drawn.
    pub seed: u64,
    /// When it begins, on the monotonic clock of the generator, so that several begin together; at once where that has passed, or
    /// where nothing is said.
    #[serde(default)]
    pub begin_ns: Option<u64>,
    /// Requests are sent for so many nanoseconds.
    pub length_ns: u64,
    /// No more than so many requests are sent.
    pub requests: Option<u64>,
    /// Answers are waited for so many nanoseconds longer. What is unanswered then is given up, with its connection, so
    /// that no answer comes in the next turn.
    pub drain_ns: u64,
    /// Where its latencies are kept for a report; `None` where they are of no interest.
    pub pool: Option<u32>,
}

/// When the requests of a turn are due.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum TurnPace {
    /// Each connection asks again as soon as it is answered.
    Closed {
        /// Whether the generator polls for answers without end: what it is sent then wakes nobody, for which the server
        /// would be charged.
        poll: bool,
    },
    /// At instants that depend on nothing that happens.
    Open {
        /// Requests a second.
        rate: Rate,
        /// Whether arrivals are those of independent users (a Poisson process); else they are evenly spread.
        poisson: bool,
    },
}

/// What a generator says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// Every connection of every endpoint was tried; nothing has been sent.
    Connected {
        /// Open connections of each endpoint.
        established: Vec<u64>,
    },
    /// A turn is over, and nothing is in flight.
    Turn(TurnReport),
    /// The turns of a pool as one window.
    Report {
        /// The figures. Its window is the sum of the turns' lengths, its requests are all that were answered, also
        /// while answers were waited for; its rate counts those answered within the lengths.
        report: Box<LoadReport>,
        /// Lower edge in nanoseconds and count of every bucket of the responses that is not empty, in rising order.
        response_buckets: Vec<[u64; 2]>,
        /// When no answer came although requests were in flight: begin and end on the monotonic clock.
        silences_ns: Vec<[u64; 2]>,
    },
    /// The turns of a pool as one part of a window.
    Part {
        /// The figures.
        record: Box<ShardRecord>,
        /// The histograms, as an HdrHistogram log (V2).
        log: String,
    },
    /// It cannot go on; one sentence.
    Failed {
        /// The endpoint that is the reason, if one is.
        endpoint: Option<usize>,
        /// Why.
        text: String,
    },
}

/// One turn as the generator saw it. Instants are nanoseconds of the monotonic clock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnReport {
    /// Which endpoint.
    pub endpoint: usize,
    /// When the first request could be sent.
    pub start_ns: u64,
    /// When sending ended.
    pub end_ns: u64,
    /// When nothing was in flight any more.
    pub quiet_ns: u64,
    /// Requests answered from begin to quiet: what the server's CPU time belongs to.
    pub requests: u64,
    /// Of these, those answered before sending ended: what the rate counts.
    pub in_time: u64,
    /// Requests that were due, in an open loop.
    pub due: Option<u64>,
    /// Requests that went wrong.
    pub errors: Errors,
    /// Requests given up when answers were no longer waited for.
    pub given_up: u64,
    /// When each request was answered that was answered after sending had ended: nanoseconds from then, in rising order, the first
    /// [`MOST_LATE`] of them.
    pub late_ns: Vec<u64>,
    /// When no answer came before sending ended although requests were in flight: begin and end of each silence, in the order of time.
    /// Nothing is known of several generators.
    pub silences_ns: Vec<[u64; 2]>,
    /// Requests due and never sent.
    pub unsent: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Mean response in nanoseconds; 0 where nothing was answered.
    pub mean_response_ns: f64,
    /// What the generator's threads used and polled.
    pub cpu: Polled,
}

/// The first late answers of a turn in rising order, as they are reported.
#[must_use]
pub fn first_late(mut late_ns: Vec<u64>) -> Vec<u64> {
    late_ns.sort_unstable();
    late_ns.truncate(MOST_LATE);
    late_ns
}

/// CPU time of a generator in one turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Polled {
    /// Of its work, in nanoseconds.
    pub busy_ns: u64,
    /// Of polling in vain, in nanoseconds.
    pub polled_ns: u64,
}
