//! Threads, sockets and clocks around the sessions.

mod ask;
mod clock;
mod conductor;
mod connect;
mod control;
mod cpu;
mod link;
mod prepare;
pub(crate) mod quic;
mod secured;
mod socket;
mod stamps;
mod turns;
mod worker;

pub use ask::ask;
pub use prepare::check_job;
pub use turns::{Turns, serve};
pub(crate) use worker::Report;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{SystemTime, UNIX_EPOCH};

use conductor::Crew;

use crate::list::ListFeed;
use crate::merge::Together;
use crate::scenario::Visitors;
use crate::session::{Events, Feed, Span};
use crate::summary::{Facts, Measured, outcome};
use crate::{Config, Latencies, LoadError, Requests, Supply};
use model::record::{LoadReport, ShardRecord};

/// What happens in a run, reported as it happens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Event<'a> {
    /// All connections were tried; nothing has been sent.
    Connected {
        /// Open.
        established: u64,
        /// Asked for.
        requested: u64,
    },
    /// A second of the warm-up is over.
    WarmupSecond {
        /// Requests completed in it.
        completed: u64,
    },
    /// The window begins now: take readings.
    WindowStart {
        /// Whether the warm-up was steady.
        steady: bool,
        /// The instant on the monotonic clock in nanoseconds.
        at_ns: u64,
    },
    /// A second of the window is over.
    Second {
        /// Which one, from 0.
        index: u32,
        /// What it brought.
        second: model::record::Second,
        /// Its responses in nanoseconds, for a log of intervals.
        response: &'a Latencies,
    },
    /// The window ends now: take readings.
    WindowEnd {
        /// The instant on the monotonic clock in nanoseconds.
        at_ns: u64,
    },
    /// The run cannot go on: nothing that a worker waits for may keep it.
    Failed,
}

/// What a run leaves behind.
#[derive(Debug)]
pub struct Outcome {
    /// Every figure.
    pub report: LoadReport,
    /// done − intended in nanoseconds, censored requests included.
    pub response: Latencies,
    /// done − sent; `None` in a closed loop, where it is the response.
    pub service: Option<Latencies>,
    /// sent − intended; `None` in a closed loop, where it is 0.
    pub send_lag: Option<Latencies>,
    /// The responses of each name.
    pub response_by_name: BTreeMap<String, Latencies>,
    /// Answers per second of each thread in each tenth of a second.
    pub thread_rates_per_s: Vec<f64>,
    /// When no answer came on any connection, on the monotonic clock, in the order of time; nothing is known of several
    /// processes.
    pub silences: Vec<Span>,
    /// Events, where answers were streams of them.
    pub events: Option<Events>,
    /// Where the time of connections and answers went.
    pub phases: Phases,
    /// How long the users of a scenario took for all of its steps.
    pub users_took: Option<Latencies>,
    /// Everything that shards are merged from, beside the histograms.
    pub shard: ShardRecord,
}

/// Histograms of what connections and answers consist of.
#[derive(Debug, Clone)]
pub struct Phases {
    /// Of each connection opened up to the end of the window, from the first step to a connection.
    pub connect: Latencies,
    /// From there to the end of the handshake; empty where TLS was not spoken.
    pub tls: Latencies,
    /// First byte of the answer − sent; the last byte − sent is the service time. Nothing where a log of an earlier version does
    /// not have it.
    pub first_byte: Option<Latencies>,
}

/// Opens all connections, warms up, measures one window, and reports it.
///
/// `stop` ends the run early: what was measured is reported as partial. `events` is called on the calling thread; what
/// takes longer than a few milliseconds in there delays the next event, never the load.
///
/// # Errors
/// [`LoadError`] where nothing could be measured; single failures are counted in the report.
pub fn run(
    config: &Config,
    stop: &AtomicBool,
    events: &mut dyn FnMut(Event<'_>),
) -> Result<Outcome, LoadError> {
    run_fed(config, supplies(config), stop, events)
}

/// The requests of a scenario or a list, for each thread; none where there is neither.
fn supplies(config: &Config) -> Vec<Supply> {
    let feed = |thread| -> Option<Box<dyn Feed>> {
        let part = prepare::part(config, thread);
        match (&config.scenario, &config.list) {
            (Some(scenario), _) => {
                Some(Box::new(Visitors::new(Arc::clone(scenario), config.seed, part, config.threads)))
            }
            (None, Some(list)) => Some(Box::new(ListFeed::new(Arc::clone(list), config.seed, part))),
            (None, None) => None,
        }
    };
    (0..config.threads)
        .filter_map(|thread| Some(Supply { requests: Requests::Each(feed(thread)?), address: None }))
        .collect()
}

/// The same with what `supplies` say, one for each thread, in the place of `config.request`; none to do without.
///
/// # Errors
/// [`LoadError`], [`LoadError::Feed`] included.
pub fn run_fed(
    config: &Config,
    supplies: Vec<Supply>,
    stop: &AtomicBool,
    events: &mut dyn FnMut(Event<'_>),
) -> Result<Outcome, LoadError> {
    if !supplies.is_empty() && supplies.len() != config.threads as usize {
        return Err(LoadError::Config("there must be requests for each thread"));
    }
    let plan = prepare::prepare(config)?;
    let crew = Crew::of_window(config, plan)?;
    let mut measured: Measured = conductor::conduct(crew, supplies, stop, events)?;
    match &config.scenario {
        Some(scenario) => measured.name_steps(scenario),
        None => measured.name(config.list.as_ref().map_or(&[], |list| list.names())),
    }
    let start_ns = wall_ns(measured.span.start_ns);
    let together = Together {
        shards: vec![config.shard.index],
        of: config.shard.of,
        first_start_ns: start_ns,
        last_start_ns: start_ns,
    };
    Ok(outcome(&Facts::from_config(config), measured, together))
}

/// An instant of the monotonic clock as nanoseconds since 1970.
fn wall_ns(at: u64) -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let ago_ns = clock::now_ns().saturating_sub(at);
    u64::try_from(since_1970.as_nanos()).unwrap_or(u64::MAX).saturating_sub(ago_ns)
}
