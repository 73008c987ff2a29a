use record::{Connections, Cpu, LoadReport, PerConnection, Percentiles, ScheduleFacts};

use super::correlation::{effective, spearman};
use super::gather::Measured;
use super::percentiles::percentiles;
use super::warnings::warnings;
use crate::schedule::{Arrival, Dispatch, Intensity, Pace};
use crate::{Config, Latencies};

/// Nanoseconds of a second.
const SECOND_NS: f64 = 1e9;

/// The report of one window.
pub(crate) fn report(config: &Config, measured: &Measured) -> LoadReport {
    let window_ns = measured.span.end_ns.saturating_sub(measured.span.start_ns);
    let per_window = |amount: f64| if window_ns == 0 { 0.0 } else { amount / (window_ns as f64 / SECOND_NS) };
    let correlation = spearman(&measured.pairs);
    let percentiles = |latencies: &Latencies| percentiles(latencies, effective(latencies.len(), correlation));
    let response = percentiles(&measured.response);
    let service = measured.service.as_ref().map_or_else(|| response.clone(), percentiles);
    let mut report = LoadReport {
        schema: record::SCHEMA_VERSION,
        url: config.target.url.clone(),
        threads: config.threads,
        connections: Connections {
            requested: u64::from(config.connections),
            established: measured.established,
        },
        pipeline: config.pipeline,
        schedule: schedule_facts(config),
        window_ns,
        requests: measured.requests,
        bytes_read: measured.bytes_read,
        rate_per_s: per_window(measured.requests as f64),
        rate_ratio: rate_ratio(config, measured),
        errors: measured.errors,
        unfinished: measured.unfinished,
        unsent: measured.unsent,
        response_ns: response,
        service_ns: service,
        send_lag_ns: measured.send_lag.as_ref().map_or_else(Percentiles::default, percentiles),
        cpu_ns_per_request: cpu(measured),
        busiest_thread: measured.cpu_ns.iter().map(|ns| share(*ns, window_ns)).fold(0.0, f64::max),
        per_connection: evenness(&measured.answers_per_lane),
        in_flight: if window_ns == 0 { 0.0 } else { measured.in_flight_ns as f64 / window_ns as f64 },
        autocorrelation: correlation,
        effective_requests: effective(measured.response.len(), correlation) as u64,
        seconds: measured.seconds.clone(),
        partial: measured.partial,
        warnings: Vec::new(),
    };
    report.warnings = warnings(&report, measured);
    report
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn schedule_facts(config: &Config) -> ScheduleFacts {
    let (kind, rate_per_s, arrival) = match &config.pace {
        Pace::Closed => ("closed", None, None),
        Pace::Open { intensity, arrival, dispatch } => {
            let kind = match dispatch {
                Dispatch::Shared => "open",
                Dispatch::Connection => "connection",
            };
            let arrival = match arrival {
                Arrival::Constant => "constant",
                Arrival::Poisson => "poisson",
            };
            (kind, Some(mean_rate_per_s(config, intensity)), Some(arrival.to_owned()))
        }
    };
    ScheduleFacts { kind: kind.to_owned(), rate_per_s, arrival, seed: config.seed }
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
fn rate_ratio(config: &Config, measured: &Measured) -> Option<f64> {
    if config.pace == Pace::Closed {
        return None;
    }
    let due = measured.requests + measured.errors.total() - measured.errors.status - measured.errors.connect
        + measured.unfinished
        + measured.unsent;
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
