//! A search for capacity into what it found: the rate, the curve, the knee, what the law of scaling makes of it.

use model::record::LoadReport;
use model::units::format_ns;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::usl;

use crate::verdicts::bound::{Bound, Judged};
use model::units::percent;

/// Version of the capacity JSON.
pub const CAPACITY_SCHEMA: u32 = 1;
/// Share of the offered rate that must be answered for a server to keep up; the same as in the gate `generator`.
const KEEPS_UP: f64 = 0.99;
/// Share of the requests that may fail; the same as in the gate `errors`.
const FEW_ERRORS: f64 = 0.001;
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
    /// Requests per second that were answered.
    pub rate_per_s: f64,
    /// Connections.
    pub connections: u64,
    /// Length of the window in nanoseconds.
    pub window_ns: u64,
    /// Requests in the window.
    pub requests: u64,
    /// Those that failed, and answers that were errors.
    #[serde(default)]
    pub errors: u64,
    /// Median response in nanoseconds.
    pub p50_ns: Option<u64>,
    /// 99 % response in nanoseconds.
    pub p99_ns: Option<u64>,
    /// 99.9 % response in nanoseconds.
    pub p99_9_ns: Option<u64>,
    /// The figure of the condition, in the unit of its name (nanoseconds, per second, share or count).
    pub figure: Option<f64>,
    /// Whether the condition held and the server kept up; absent where it was not asked.
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
    /// Requests in flight at which throughput is highest; absent where it never falls.
    pub peak_in_flight: Option<f64>,
    /// Largest relative error of a point.
    pub worst_error: f64,
}

/// How the search ended.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CapacityVerdict {
    /// The highest rate that holds is known.
    Found,
    /// It held at the highest rate that was tried: capacity is at least that.
    AtLeast,
    /// It held at no rate, or at none for long.
    Never,
    /// The generator was at its limit where the condition failed: its capacity was found, not the server's.
    Invalid,
    /// Interrupted.
    Partial,
}

/// What a search for capacity found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Capacity {
    /// Schema version.
    pub schema: u32,
    /// What was asked.
    pub url: String,
    /// The condition.
    pub slo: String,
    /// How the search ended.
    pub verdict: CapacityVerdict,
    /// Highest rate in requests per second at which the condition held in a confirming window.
    pub rate_per_s: Option<f64>,
    /// Lowest rate at which it did not.
    pub failed_at_per_s: Option<f64>,
    /// Highest offered rate at which at least 99 % was answered in time, and above which it was not.
    pub knee_per_s: Option<f64>,
    /// The fit; absent where the law does not describe the points.
    pub scaling: Option<Scaling>,
    /// Every window, in the order in which it was run.
    pub points: Vec<Point>,
    /// The result in sentences.
    pub text: Vec<String>,
}

/// What became of the search itself.
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

/// Whether the condition held in a window, and the server kept up with what was due without more than a few errors, unless
/// the condition is on these itself.
///
/// A percentile that the window had too few requests for counts as held, for the search starts low; but not where it is to
/// be confirmed.
#[must_use]
pub fn holds(slo: &Bound, purpose: Purpose, report: &LoadReport) -> bool {
    let held = match slo.judge(report) {
        Judged::Holds(_) => true,
        Judged::Fails(_) => false,
        Judged::Absent => purpose != Purpose::Confirm,
    };
    held && keeps_up(report) && (slo.is_on_errors() || !are_many(report.errors.total(), report.requests))
}

/// Whether so many of the requests failed that a rate was not served.
fn are_many(errors: u64, requests: u64) -> bool {
    errors as f64 > FEW_ERRORS * requests as f64
}

/// What a search found.
#[must_use]
pub fn capacity(slo: &Bound, steps: &[Step], searched: &Searched) -> Capacity {
    let points: Vec<Point> = steps.iter().map(|step| point(slo, step)).collect();
    let verdict = verdict(&points, searched);
    let mut found = Capacity {
        schema: CAPACITY_SCHEMA,
        url: steps.first().map(|step| step.report.url.clone()).unwrap_or_default(),
        slo: slo.to_string(),
        verdict,
        rate_per_s: searched.rate_per_s,
        failed_at_per_s: searched.failed_at_per_s,
        knee_per_s: knee(&points),
        scaling: scaling(steps),
        points,
        text: Vec::new(),
    };
    found.text = text(slo, &found);
    found
}

/// Whether the server answered what was asked; of a short window a few are always on their way when it ends.
fn keeps_up(report: &LoadReport) -> bool {
    let window_s = report.window_ns as f64 / 1e9;
    let missing = report.schedule.rate_per_s.map_or(0.0, |rate| rate * window_s - report.requests as f64);
    report.rate_ratio.is_none_or(|ratio| ratio >= KEEPS_UP) || missing <= ON_THEIR_WAY
}

fn point(slo: &Bound, step: &Step) -> Point {
    let report = &step.report;
    let offered = report.schedule.rate_per_s;
    let lost = if keeps_up(report) { 0.0 } else { offered.unwrap_or(0.0) - report.rate_per_s };
    Point {
        purpose: step.purpose,
        offered_per_s: offered,
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
            Judged::Absent => None,
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

fn text(slo: &Bound, found: &Capacity) -> Vec<String> {
    let mut text = vec![conclusion(slo, found)];
    if let Some(knee) = found.knee_per_s {
        text.push(format!(
            "The knee is at about {knee:.0} requests/s: the highest rate tried that was answered in full."
        ));
    }
    if let Some(point) = lowest(found.points.iter().filter(|point| point.backlog_per_s > 0.0)) {
        text.push(format!(
            "Overloaded at {:.0} requests/s: the backlog grows by {:.0} requests a second; latencies there are a \
             queue's, not the server's.",
            point.offered_per_s.unwrap_or(0.0),
            point.backlog_per_s
        ));
    }
    text.extend(errors_text(found));
    text.extend(unjudged_text(slo, found));
    text.push(scaling_text(found.scaling.as_ref()));
    text
}

/// That of the lowest offered rate.
fn lowest<'a>(points: impl Iterator<Item = &'a Point>) -> Option<&'a Point> {
    let offered = |point: &Point| point.offered_per_s.unwrap_or(0.0);
    points.min_by(|a, b| offered(a).total_cmp(&offered(b)))
}

/// The lowest rate at which errors were too many for the condition to hold.
fn errors_text(found: &Capacity) -> Option<String> {
    let failed = |point: &&Point| point.holds == Some(false) && are_many(point.errors, point.requests);
    let lowest = lowest(found.points.iter().filter(failed))?;
    Some(format!(
        "At {:.0} requests/s {} of {} requests failed: where more than {} do, no condition holds but one on errors, such as \
         'error_rate < 1%'.",
        lowest.offered_per_s.unwrap_or(0.0),
        lowest.errors,
        lowest.requests,
        percent(FEW_ERRORS)
    ))
}

/// That a rate was not confirmed because the window had too few requests to tell.
fn unjudged_text(slo: &Bound, found: &Capacity) -> Option<String> {
    let unjudged = |point: &&Point| point.purpose == Purpose::Confirm && point.figure.is_none();
    let point = found.points.iter().find(unjudged)?;
    Some(format!(
        "At {:.0} requests/s a confirming window of {} had {} requests, too few for {slo} to be judged: give a longer \
         --window, or a condition on a lower percentile.",
        point.offered_per_s.unwrap_or(0.0),
        format_ns(point.window_ns as f64),
        point.requests
    ))
}

fn conclusion(slo: &Bound, found: &Capacity) -> String {
    let confirming = found
        .points
        .iter()
        .rev()
        .find(|point| point.purpose == Purpose::Confirm && point.holds == Some(true));
    let how = confirming.map_or_else(String::new, |point| {
        let figure = point.figure.map_or_else(String::new, |value| format!("{} in ", slo.print(value)));
        format!(
            " ({figure}a confirming window of {}, n = {})",
            format_ns(point.window_ns as f64),
            point.requests
        )
    });
    let failed = found
        .failed_at_per_s
        .map_or_else(String::new, |rate| format!("; it did not at {rate:.0} requests/s"));
    match (found.verdict, found.rate_per_s) {
        (CapacityVerdict::Found, Some(rate)) => {
            format!("{rate:.0} requests/s is the highest rate at which {slo} held{how}{failed}.")
        }
        (CapacityVerdict::AtLeast, Some(rate)) => {
            format!(
                "At least {rate:.0} requests/s: {slo} still held at the highest rate that was allowed{how}; raise --max-rate."
            )
        }
        (CapacityVerdict::Invalid, rate) => format!(
            "Invalid: the generator, not the server, was at its limit{}{}. Give it more threads (-t), CPUs (--cpus) or connections (-c).",
            found.failed_at_per_s.map_or_else(String::new, |rate| format!(" at {rate:.0} requests/s")),
            rate.map_or_else(String::new, |rate| format!("; {slo} held up to {rate:.0} requests/s"))
        ),
        (CapacityVerdict::Partial, rate) => format!(
            "Interrupted{}.",
            rate.map_or_else(String::new, |rate| format!("; {slo} held at {rate:.0} requests/s so far"))
        ),
        _ => format!("{slo} held at no rate for long{failed}."),
    }
}

fn scaling_text(scaling: Option<&Scaling>) -> String {
    let Some(law) = scaling else {
        return "The law of scaling (USL) does not describe the closed loops: no parameters are given."
            .to_owned();
    };
    let peak = law.peak_in_flight.map_or_else(
        || "throughput does not fall with more in flight".to_owned(),
        |peak| format!("throughput peaks at {peak:.0} in flight"),
    );
    format!(
        "Scaling (USL): {:.0} requests/s with one in flight, contention {}, coherency {:.2e}; {peak}; worst error {}.",
        law.lambda_per_s,
        percent(law.sigma),
        law.kappa,
        percent(law.worst_error)
    )
}
