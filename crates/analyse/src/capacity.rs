//! A search for capacity into what it found: the rate, the curve, the knee, what the law of scaling makes of it.

use model::record::LoadReport;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::usl;

use crate::verdicts::bound::{Bound, Judged, Unit};

/// Version of the capacity JSON.
pub const CAPACITY_SCHEMA: u32 = 1;
/// Share of the offered rate that must be answered for a server to keep up; the same as in the gate `generator`.
const KEEPS_UP: f64 = 0.99;
/// Share of the requests that may fail; the same as in the gate `errors`.
pub const FEW_ERRORS: f64 = 0.001;
/// Requests that may be under way at the end of a window of a server that keeps up, whatever share of it they are.
const ON_THEIR_WAY: f64 = 2.0;
/// Busy share of a generator thread from which it, and not the server, is at its limit.
const GENERATOR_FULL: f64 = 0.95;
/// Share of the places for requests (connections × depth) that must be taken for a wait to be the server's doing.
const PLACES_TAKEN: f64 = 0.9;

/// Why a window was run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// A step of the search.
    Search,
    /// The longer window that confirms what the search found.
    Confirm,
    /// A point of the curve below the rate that was found.
    Curve,
    /// A closed loop of few or many connections, for the law of scaling.
    Scaling,
}

/// One window of the search with its report.
#[derive(Debug, Clone)]
pub struct Step {
    /// Why it was run.
    pub purpose: Purpose,
    /// What the generator measured.
    pub report: LoadReport,
}

/// One window of the search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// Why it was run.
    pub purpose: Purpose,
    /// Requests per second that were due; absent in a closed loop.
    pub offered_per_s: Option<f64>,
    /// Requests per second that were due in the window: of random arrivals as many as chance made.
    #[serde(default)]
    pub due_per_s: Option<f64>,
    /// Requests per second that were answered.
    pub rate_per_s: f64,
    /// Connections.
    pub connections: u64,
    /// Length of the window in nanoseconds.
    pub window_ns: u64,
    /// Requests in the window.
    pub requests: u64,
    /// Requests that failed, and answers that were errors.
    #[serde(default)]
    pub errors: u64,
    /// Median response in nanoseconds.
    pub p50_ns: Option<u64>,
    /// 99th percentile of the response in nanoseconds.
    pub p99_ns: Option<u64>,
    /// 99.9th percentile of the response in nanoseconds.
    pub p99_9_ns: Option<u64>,
    /// The value of the condition's figure, in that figure's unit (nanoseconds, per second, share or count).
    pub figure: Option<f64>,
    /// Whether the condition held and the server kept up; absent in windows that do not test it.
    pub holds: Option<bool>,
    /// Requests per second by which the backlog grew; 0 where the server kept up.
    pub backlog_per_s: f64,
    /// Whether the generator, not the server, was at its limit.
    pub generator_limited: bool,
}

/// The Universal Scalability Law fitted to the closed loops.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Scaling {
    /// Requests per second of one request in flight.
    pub lambda_per_s: f64,
    /// Contention: the share that is serial, 0 to 1.
    pub sigma: f64,
    /// Coherency: what each pair in flight costs.
    pub kappa: f64,
    /// Requests in flight at which throughput is highest; absent if it never falls.
    pub peak_in_flight: Option<f64>,
    /// Largest relative error of a point.
    pub worst_error: f64,
}

/// How the search ended.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CapacityVerdict {
    /// The highest rate at which the condition holds is known.
    Found,
    /// The condition held at the highest rate that was tried: capacity is at least that.
    AtLeast,
    /// The condition held at no rate, or only for a short time.
    Never,
    /// The generator was at its limit when the condition failed: this is its capacity, not the server's.
    Invalid,
    /// Interrupted.
    Partial,
}

/// What a search for capacity found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Capacity {
    /// Schema version.
    pub schema: u32,
    /// The URL that was loaded.
    pub url: String,
    /// The condition.
    pub slo: String,
    /// How the search ended.
    pub verdict: CapacityVerdict,
    /// Highest rate in requests per second at which the condition held in a confirming window.
    pub rate_per_s: Option<f64>,
    /// Lowest rate at which it did not.
    pub failed_at_per_s: Option<f64>,
    /// Highest rate at which at least 99 % of the requests were answered in time, below a rate at which they were not.
    pub knee_per_s: Option<f64>,
    /// The law of scaling; absent if it does not describe the points.
    pub scaling: Option<Scaling>,
    /// Every window, in the order in which it was run.
    pub points: Vec<Point>,
    /// The result in sentences.
    pub text: Vec<String>,
    /// What they are made from, beside the figures above.
    #[serde(skip)]
    pub says: Option<CapacitySays>,
}

/// The windows that the sentences about a search mention.
#[derive(Debug, Clone, PartialEq)]
pub struct CapacitySays {
    /// What the figure of the condition is measured in.
    pub unit: Unit,
    /// The window that confirmed the rate that was found.
    pub confirmed: Option<Point>,
    /// The window with the lowest rate at which a backlog grew.
    pub overloaded: Option<Point>,
    /// The window with the lowest rate at which a larger share of the requests than [`FEW_ERRORS`] failed, so that the
    /// condition did not hold.
    pub failing: Option<Point>,
    /// The confirming window that had too few requests to judge the condition.
    pub unjudged: Option<Point>,
}

/// How the search itself ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Searched {
    /// Highest rate that was confirmed.
    pub rate_per_s: Option<f64>,
    /// Whether it was the highest rate that was allowed.
    pub at_ceiling: bool,
    /// Lowest rate that failed.
    pub failed_at_per_s: Option<f64>,
    /// Whether it was interrupted.
    pub partial: bool,
}

/// Says whether the condition held in a window and the server kept up with the rate. More than a few errors fail every
/// condition except one on errors.
///
/// The search starts low, so a percentile for which the window had too few requests counts as held, except in a window that
/// is to confirm a rate.
#[must_use]
pub fn holds(slo: &Bound, purpose: Purpose, report: &LoadReport) -> bool {
    let held = match slo.judge(report) {
        Judged::Holds(_) => true,
        Judged::Fails(_) => false,
        Judged::Absent | Judged::Undecided { .. } => purpose != Purpose::Confirm,
    };
    held && keeps_up(report) && (slo.is_on_errors() || !are_many(report.errors.total(), report.requests))
}

/// Whether so many of the requests failed that a rate was not served.
fn are_many(errors: u64, requests: u64) -> bool {
    errors as f64 > FEW_ERRORS * requests as f64
}

/// Draws the conclusions from the windows of a search.
#[must_use]
pub fn capacity(slo: &Bound, steps: &[Step], searched: &Searched) -> Capacity {
    let points: Vec<Point> = steps.iter().map(|step| point(slo, step)).collect();
    let verdict = verdict(&points, searched);
    Capacity {
        schema: CAPACITY_SCHEMA,
        url: steps.first().map(|step| step.report.url.clone()).unwrap_or_default(),
        slo: slo.to_string(),
        verdict,
        rate_per_s: searched.rate_per_s,
        failed_at_per_s: searched.failed_at_per_s,
        knee_per_s: knee(&points),
        scaling: scaling(steps),
        says: Some(says(slo, &points)),
        points,
        text: Vec::new(),
    }
}

/// Whether the server answered what was asked; of a short window a few are always on their way when it ends.
fn keeps_up(report: &LoadReport) -> bool {
    let missing = report.due().map_or(0.0, |due| due as f64 - report.requests as f64);
    report.rate_ratio.is_none_or(|ratio| ratio >= KEEPS_UP) || missing <= ON_THEIR_WAY
}

fn point(slo: &Bound, step: &Step) -> Point {
    let report = &step.report;
    let offered = report.schedule.rate_per_s;
    let due_per_s = report.due().map(|due| due as f64 * 1e9 / report.window_ns.max(1) as f64);
    let lost = if keeps_up(report) { 0.0 } else { due_per_s.unwrap_or(0.0) - report.rate_per_s };
    Point {
        purpose: step.purpose,
        offered_per_s: offered,
        due_per_s,
        rate_per_s: report.rate_per_s,
        connections: report.connections.established,
        window_ns: report.window_ns,
        requests: report.requests,
        errors: report.errors.total(),
        p50_ns: report.response_ns.p50,
        p99_ns: report.response_ns.p99,
        p99_9_ns: report.response_ns.p99_9,
        figure: match slo.judge(report) {
            Judged::Holds(value) | Judged::Fails(value) => Some(value),
            Judged::Absent | Judged::Undecided { .. } => None,
        },
        holds: offered.map(|_| holds(slo, step.purpose, report)),
        backlog_per_s: lost.max(0.0),
        generator_limited: generator_limited(slo, step),
    }
}

/// The generator is the limit where a thread of it is full, or where the condition would hold of the service times
/// while places for requests were free: then the delay arose before the request left.
fn generator_limited(slo: &Bound, step: &Step) -> bool {
    let report = &step.report;
    if holds(slo, step.purpose, report) {
        return false;
    }
    let places = report.connections.established as f64 * f64::from(report.pipeline);
    let free = report.in_flight < PLACES_TAKEN * places;
    let service = slo.of_service().is_some_and(|bound| matches!(bound.judge(report), Judged::Holds(_)));
    report.busiest_thread >= GENERATOR_FULL || (free && service)
}

fn verdict(points: &[Point], searched: &Searched) -> CapacityVerdict {
    let decisive = searched.failed_at_per_s.and_then(|rate| {
        points.iter().rev().find(|point| point.holds == Some(false) && point.offered_per_s == Some(rate))
    });
    if searched.partial {
        CapacityVerdict::Partial
    } else if decisive.is_some_and(|point| point.generator_limited) {
        CapacityVerdict::Invalid
    } else if searched.rate_per_s.is_none() {
        CapacityVerdict::Never
    } else if searched.at_ceiling {
        CapacityVerdict::AtLeast
    } else {
        CapacityVerdict::Found
    }
}

/// The highest offered rate that was kept, where a higher one was not.
fn knee(points: &[Point]) -> Option<f64> {
    let open = || points.iter().filter_map(|point| Some((point.offered_per_s?, point.backlog_per_s)));
    let lost = open().filter(|(_, backlog)| *backlog > 0.0).map(|(rate, _)| rate).reduce(f64::min)?;
    open().filter(|(rate, backlog)| *backlog == 0.0 && *rate < lost).map(|(rate, _)| rate).reduce(f64::max)
}

fn scaling(steps: &[Step]) -> Option<Scaling> {
    let closed = steps.iter().filter(|step| step.purpose == Purpose::Scaling);
    let points: Vec<usl::Point> = closed
        .map(|step| usl::Point {
            n: step.report.connections.established as f64 * f64::from(step.report.pipeline),
            throughput: step.report.rate_per_s,
        })
        .collect();
    let law = usl::fit(&points).ok().filter(usl::Usl::fits)?;
    Some(Scaling {
        lambda_per_s: law.lambda,
        sigma: law.sigma,
        kappa: law.kappa,
        peak_in_flight: law.peak(),
        worst_error: law.worst_error,
    })
}

/// The windows that the sentences speak of.
fn says(slo: &Bound, points: &[Point]) -> CapacitySays {
    let failed = |point: &&Point| point.holds == Some(false) && are_many(point.errors, point.requests);
    let confirmed = |point: &&Point| point.purpose == Purpose::Confirm && point.holds == Some(true);
    let unjudged = |point: &&Point| point.purpose == Purpose::Confirm && point.figure.is_none();
    CapacitySays {
        unit: slo.unit(),
        confirmed: points.iter().rev().find(confirmed).cloned(),
        overloaded: lowest(points.iter().filter(|point| point.backlog_per_s > 0.0)),
        failing: lowest(points.iter().filter(failed)),
        unjudged: points.iter().find(unjudged).cloned(),
    }
}

/// That of the lowest offered rate.
fn lowest<'a>(points: impl Iterator<Item = &'a Point>) -> Option<Point> {
    let offered = |point: &Point| point.offered_per_s.unwrap_or(0.0);
    points.min_by(|a, b| offered(a).total_cmp(&offered(b))).cloned()
}
