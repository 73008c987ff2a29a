//! What is said of a search for capacity.

use analyse::capacity::{Capacity, CapacitySays, CapacityVerdict, FEW_ERRORS, Point, Scaling};
use model::units::{format_ns, percent};

/// The result, most important first.
pub(super) fn sentences(found: &Capacity, says: &CapacitySays) -> Vec<String> {
    let mut text = vec![conclusion(found, says)];
    text.extend(found.knee_per_s.map(|knee| {
        format!(
            "The knee is at about {knee:.0} requests/s: the highest rate tried that was answered in full."
        )
    }));
    // Where the generator was at its limit, nobody knows whose queue it was.
    let overloaded = says.overloaded.as_ref().filter(|_| found.verdict != CapacityVerdict::Invalid);
    text.extend(overloaded.map(|point| {
        format!(
            "Overloaded at {:.0} requests/s: the backlog grows by {:.0} requests a second; latencies there are a \
             queue's, not the server's.",
            offered(point),
            point.backlog_per_s
        )
    }));
    text.extend(says.failing.as_ref().map(errors));
    text.extend(says.unjudged.as_ref().map(|point| unjudged(point, &found.slo)));
    text.push(scaling(found.scaling.as_ref()));
    text
}

fn offered(point: &Point) -> f64 {
    point.offered_per_s.unwrap_or(0.0)
}

fn conclusion(found: &Capacity, says: &CapacitySays) -> String {
    let slo = &found.slo;
    let how = says.confirmed.as_ref().map_or_else(String::new, |point| {
        let figure = point.figure.map_or_else(String::new, |value| format!("{} in ", says.unit.print(value)));
        let window = format_ns(point.window_ns as f64);
        format!(" ({figure}a confirming window of {window}, n = {})", point.requests)
    });
    let failed = found
        .failed_at_per_s
        .map_or_else(String::new, |rate| format!("; it did not at {rate:.0} requests/s"));
    match (found.verdict, found.rate_per_s) {
        (CapacityVerdict::Found, Some(rate)) => {
            format!("{rate:.0} requests/s is the highest rate at which {slo} held{how}{failed}.")
        }
        (CapacityVerdict::AtLeast, Some(rate)) => format!(
            "At least {rate:.0} requests/s: {slo} still held at the highest rate that was allowed{how}; raise --max-rate."
        ),
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

/// So many requests failed that no condition holds.
fn errors(point: &Point) -> String {
    format!(
        "At {:.0} requests/s {} of {} requests failed: where more than {} do, no condition holds but one on errors, such as \
         'error_rate < 1%'.",
        offered(point),
        point.errors,
        point.requests,
        percent(FEW_ERRORS)
    )
}

/// A rate was not confirmed because the window had too few requests to tell.
fn unjudged(point: &Point, slo: &str) -> String {
    format!(
        "At {:.0} requests/s a confirming window of {} had {} requests, too few for {slo} to be judged: give a longer \
         --window, or a condition on a lower percentile.",
        offered(point),
        format_ns(point.window_ns as f64),
        point.requests
    )
}

fn scaling(law: Option<&Scaling>) -> String {
    let Some(law) = law else {
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
