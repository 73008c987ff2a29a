use std::collections::BTreeMap;

use model::record::{
    Connections, Cpu, EventFigures, LoadReport, NamedRequests, PerConnection, Percentiles, PhaseFigures,
    ScheduleFacts, ShardRecord, UserFigures,
};

use super::correlation::{effective, spearman};
use super::gather::Measured;
use super::percentiles::percentiles;
use super::warnings::warnings;
use crate::merge::{Together, tenths};
use crate::schedule::{Arrival, Dispatch, Intensity, Pace};
use crate::session::LabelTally;
use crate::{Config, Latencies, Outcome};

/// Nanoseconds of a second.
const SECOND_NS: f64 = 1e9;

/// What a report says of a run beside what was measured.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    pub(crate) url: String,
    pub(crate) threads: u32,
    pub(crate) connections: u64,
    pub(crate) pipeline: u32,
    /// How long the look-up of the server's name took, where there was one.
    pub(crate) lookup_ns: Option<u64>,
    /// Whether each answer has its connection to itself while it comes, as over HTTP/1.1.
    pub(crate) whole_connections: bool,
    pub(crate) schedule: ScheduleFacts,
}

impl Facts {
    pub(crate) fn from_config(config: &Config) -> Self {
        Self {
            url: config.target.url.clone(),
            threads: config.threads,
            connections: u64::from(config.connections),
            pipeline: config.streams().unwrap_or(config.pipeline),
            lookup_ns: config.target.lookup_ns,
            whole_connections: config.streams().is_none(),
            schedule: schedule_facts(config),
        }
    }
}

/// What a window leaves behind.
pub(crate) fn outcome(facts: &Facts, measured: Measured, together: Together) -> Outcome {
    let report = report(facts, &measured);
    let shard = ShardRecord {
        schema: model::record::SCHEMA_VERSION,
        shards: together.shards,
        of: together.of,
        first_start_ns: together.first_start_ns,
        last_start_ns: together.last_start_ns,
        report: report.clone(),
        answers: measured.answers,
        in_time: measured.in_time,
        steady: measured.steady,
        answers_per_connection: measured.answers_per_lane,
        thread_cpu_ns: measured.cpu_ns,
        polled_ns: measured.polled_ns,
        thread_rates_per_s: measured.thread_rates_per_s.clone(),
        user_share: measured.user_share,
        malformed: measured.malformed,
        reasons: measured.reasons,
        connect_error: measured.connect_error,
        tenths: tenths(&measured.slices),
        pairs: measured.pairs,
    };
    Outcome {
        report,
        response: measured.response,
        service: measured.service,
        send_lag: measured.send_lag,
        response_by_name: measured.by_name.into_iter().map(|(name, label)| (name, label.response)).collect(),
        thread_rates_per_s: measured.thread_rates_per_s,
        silences: measured.silences.unwrap_or_default(),
        events: measured.events,
        phases: measured.phases,
        users_took: measured.users.map(|users| users.took),
        shard,
    }
}

/// The report of one window.
fn report(facts: &Facts, measured: &Measured) -> LoadReport {
    let window_ns = measured.span.end_ns.saturating_sub(measured.span.start_ns);
    let per_window = |amount: f64| if window_ns == 0 { 0.0 } else { amount / (window_ns as f64 / SECOND_NS) };
    let correlation = spearman(&measured.pairs);
    let percentiles = |latencies: &Latencies| percentiles(latencies, effective(latencies.len(), correlation));
    let response = percentiles(&measured.response);
    let service = measured.service.as_ref().map_or_else(|| response.clone(), percentiles);
    let mut report = LoadReport {
        schema: model::record::SCHEMA_VERSION,
        url: facts.url.clone(),
        threads: facts.threads,
        connections: Connections { requested: facts.connections, established: measured.established },
        pipeline: facts.pipeline,
        schedule: facts.schedule.clone(),
        window_ns,
        requests: measured.requests,
        bytes_read: measured.bytes_read,
        rate_per_s: per_window(measured.in_time.unwrap_or(measured.requests) as f64),
        pieces: facts.whole_connections.then_some(measured.pieces),
        phases: Some(PhaseFigures {
            lookup_ns: facts.lookup_ns,
            connect_ns: percentiles(&measured.phases.connect),
            tls_ns: Some(&measured.phases.tls).filter(|tls| !tls.is_empty()).map(percentiles),
            first_byte_ns: measured.phases.first_byte.as_ref().map(percentiles),
            last_byte_ns: service.clone(),
        }),
        users: measured.users.as_ref().map(|users| UserFigures {
            begun: users.begun,
            finished: users.finished,
            failed: users.failed,
            under_way: users.under_way,
            not_begun: users.not_begun,
            missing: measured.missing.clone(),
            took_ns: percentiles(&users.took),
        }),
        rate_ratio: rate_ratio(facts, measured),
        errors: measured.errors,
        errors_by_status: measured.by_status.clone(),
        server: None,
        events: measured.events.as_ref().map(|events| EventFigures {
            count: events.count,
            rate_per_s: per_window(events.count as f64),
            first_ns: percentiles(&events.first),
            gap_ns: percentiles(&events.gap),
        }),
        unfinished: measured.unfinished,
        unsent: measured.unsent,
        resent: measured.resent,
        response_ns: response,
        service_ns: service,
        send_lag_ns: measured.send_lag.as_ref().map_or_else(Percentiles::default, percentiles),
        cpu_ns_per_request: cpu(measured),
        busiest_thread: measured.cpu_ns.iter().map(|ns| share(*ns, window_ns)).fold(0.0, f64::max),
        per_connection: evenness(&measured.answers_per_lane),
        in_flight: if window_ns == 0 { 0.0 } else { measured.in_flight_ns as f64 / window_ns as f64 },
        autocorrelation: correlation,
        effective_requests: effective(measured.response.len(), correlation) as u64,
        requests_by_name: by_name(measured, percentiles),
        seconds: measured.seconds.clone(),
        partial: measured.partial,
        warnings: Vec::new(),
    };
    report.warnings = warnings(&report, measured);
    report
}

/// The rows of names.
fn by_name(
    measured: &Measured,
    percentiles: impl Fn(&Latencies) -> Percentiles,
) -> BTreeMap<String, NamedRequests> {
    let row = |label: &LabelTally| NamedRequests {
        requests: label.requests,
        errors: label.errors,
        response_ns: percentiles(&label.response),
    };
    measured.by_name.iter().map(|(name, label)| (name.clone(), row(label))).collect()
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn schedule_facts(config: &Config) -> ScheduleFacts {
    let (kind, rate_per_s, arrival, shape) = match &config.pace {
        Pace::Closed => ("closed", None, None, Vec::new()),
        Pace::Open { intensity, arrival, dispatch } => {
            let kind = match (dispatch, intensity) {
                (_, Intensity::Recorded(_)) => "replay",
                (Dispatch::Shared, _) => "open",
                (Dispatch::Connection, _) => "connection",
            };
            let arrival = match (arrival, intensity) {
                (_, Intensity::Recorded(_)) => None,
                (Arrival::Constant, _) => Some("constant".to_owned()),
                (Arrival::Poisson, _) => Some("poisson".to_owned()),
            };
            (kind, Some(mean_rate_per_s(config, intensity)), arrival, intensity.corners())
        }
    };
    let slack_ns = (!config.slack.is_zero()).then_some(config.slack.as_nanos() as u64);
    ScheduleFacts { kind: kind.to_owned(), rate_per_s, arrival, seed: config.seed, slack_ns, shape }
}

/// Requests due each second on average over the window asked for, over all shards.
fn mean_rate_per_s(config: &Config, intensity: &Intensity) -> f64 {
    let window_s = config.window.as_secs_f64();
    match intensity {
        Intensity::Flat { per_s } => *per_s,
        _ => intensity.due_by(window_s) / window_s,
    }
}

/// Answers over arrivals, both of the window.
///
/// The answers to requests that were due just before the window stand for those that come just after it: else a slow
/// server that keeps up would seem to fall behind.
fn rate_ratio(facts: &Facts, measured: &Measured) -> Option<f64> {
    // Only a closed loop has no rate of its own.
    facts.schedule.rate_per_s?;
    // An answer with a wrong status, or without a value, is an answer; what had no connection is still due.
    let due = measured.requests + measured.errors.unanswered() + measured.unfinished + measured.unsent;
    Some(share(measured.answers, due).min(1.0))
}

fn cpu(measured: &Measured) -> Cpu {
    let total: u64 = measured.cpu_ns.iter().sum();
    let each = share(total, measured.answers);
    Cpu { user: each * measured.user_share, system: each * (1.0 - measured.user_share) }
}

/// Fewest and most answers on one connection, and Jain's index over all.
fn evenness(answers: &[u64]) -> PerConnection {
    let (sum, squares) = answers.iter().fold((0.0, 0.0), |(sum, squares), answers| {
        (sum + *answers as f64, squares + (*answers as f64).powi(2))
    });
    PerConnection {
        min: answers.iter().copied().min().unwrap_or(0),
        max: answers.iter().copied().max().unwrap_or(0),
        jain: if squares > 0.0 { sum * sum / (answers.len() as f64 * squares) } else { 0.0 },
    }
}
