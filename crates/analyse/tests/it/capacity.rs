//! What is said of a search for capacity.

use analyse::Bound;
use analyse::capacity::{Capacity, CapacityVerdict, Purpose, Searched, Step, capacity, holds};

/// Rate at which the made-up server saturates.
const FULL_PER_S: f64 = 10_000.0;

fn slo() -> Bound {
    "p99 < 10ms".parse().unwrap()
}

/// A window at `offered` of a server that answers in 1 ms until it is full, and then queues.
fn open(offered: f64, purpose: Purpose) -> Step {
    let answered = offered.min(FULL_PER_S);
    let mut report = testkit::load_report(answered);
    report.schedule.rate_per_s = Some(offered);
    report.rate_ratio = Some(answered / offered);
    report.unsent = ((offered - answered) * report.window_ns as f64 / 1e9).round() as u64;
    let full = offered > FULL_PER_S;
    report.response_ns = testkit::percentiles(report.requests, if full { 900_000_000 } else { 1_000_000 });
    report.service_ns = testkit::percentiles(report.requests, if full { 50_000_000 } else { 1_000_000 });
    let places = report.connections.established as f64 * f64::from(report.pipeline);
    report.in_flight = if full { places } else { 0.1 * places };
    report.busiest_thread = 0.3;
    Step { purpose, report }
}

fn closed(connections: u64) -> Step {
    // λ = 1000, σ = 0.05, κ = 0.001
    let n = connections as f64;
    let rate = 1000.0 * n / (1.0 + 0.05 * (n - 1.0) + 0.001 * n * (n - 1.0));
    let mut report = testkit::load_report(rate);
    (report.connections.established, report.pipeline) = (connections, 1);
    Step { purpose: Purpose::Scaling, report }
}

fn steps() -> Vec<Step> {
    let mut steps: Vec<Step> = [1, 2, 4, 8, 16, 32, 64].map(closed).to_vec();
    steps.extend([4_000.0, 8_000.0, 16_000.0, 9_500.0, 10_400.0].map(|rate| open(rate, Purpose::Search)));
    steps.push(open(9_500.0, Purpose::Confirm));
    steps
}

fn worded(steps: &[Step], searched: &Searched) -> Capacity {
    report::worded(capacity(&slo(), steps, searched)).into_inner()
}

fn found(steps: &[Step]) -> Capacity {
    let searched = Searched {
        rate_per_s: Some(9_500.0),
        at_ceiling: false,
        failed_at_per_s: Some(10_400.0),
        partial: false,
    };
    worded(steps, &searched)
}

#[test]
fn the_rate_the_knee_and_the_backlog_are_told() {
    let found = found(&steps());
    assert_eq!(found.verdict, CapacityVerdict::Found);
    assert_eq!(found.knee_per_s, Some(9_500.0));
    let text = found.text.join("\n");
    assert!(text.starts_with("9500 requests/s is the highest rate at which p99 < 10ms held"), "{text}");
    assert!(text.contains("the backlog grows by 400 requests a second"), "{text}");
}

#[test]
fn the_law_of_scaling_is_recovered_and_left_out_where_it_does_not_fit() {
    let law = found(&steps()).scaling.unwrap();
    assert!((law.lambda_per_s / 1000.0 - 1.0).abs() < 0.01, "{law:?}");
    assert!((law.sigma - 0.05).abs() < 0.001 && (law.kappa - 0.001).abs() < 1e-5, "{law:?}");
    let mut odd = steps();
    odd[2].report.rate_per_s *= 3.0;
    assert_eq!(found(&odd).scaling, None);
}

#[test]
fn a_limit_of_the_generator_is_not_sold_as_the_servers() {
    let mut busy = steps();
    busy[11].report.busiest_thread = 0.99;
    assert_eq!(found(&busy).verdict, CapacityVerdict::Invalid);
    let mut late = steps();
    // The service is fine and connections are idle: the response was lost before the request left.
    late[11].report.service_ns = testkit::percentiles(100_000, 1_000_000);
    late[11].report.in_flight = 1.0;
    let found = found(&late);
    assert_eq!(found.verdict, CapacityVerdict::Invalid);
    assert!(found.text[0].starts_with("Invalid"), "{:?}", found.text);
}

#[test]
fn a_server_that_answers_in_time_but_not_all_does_not_hold() {
    let mut step = open(8_000.0, Purpose::Search);
    assert!(holds(&slo(), Purpose::Search, &step.report));
    step.report.rate_ratio = Some(0.98);
    step.report.unsent = step.report.requests * 2 / 100;
    step.report.requests -= step.report.unsent;
    assert!(!holds(&slo(), Purpose::Search, &step.report));
    // Of 50 requests one that is under way when the window ends is 2 %, and no backlog.
    step.report.schedule.rate_per_s = Some(50.0 * 1e9 / step.report.window_ns as f64);
    (step.report.requests, step.report.unsent) = (49, 1);
    assert!(holds(&slo(), Purpose::Search, &step.report));
}

#[test]
fn what_a_window_cannot_tell_is_not_confirmed() {
    let mut step = open(4_000.0, Purpose::Confirm);
    step.report.response_ns.p99 = None;
    assert!(holds(&slo(), Purpose::Search, &step.report), "the search goes on upwards");
    assert!(!holds(&slo(), Purpose::Confirm, &step.report));
    let searched = Searched { rate_per_s: None, at_ceiling: false, failed_at_per_s: None, partial: false };
    let text = worded(&[step], &searched).text.join("\n");
    assert!(text.contains("too few for p99 < 10ms to be judged: give a longer --window"), "{text}");
}

#[test]
fn errors_are_no_answers_unless_the_condition_is_on_them() {
    let mut step = open(4_000.0, Purpose::Search);
    step.report.errors.status = step.report.requests / 100;
    assert!(!holds(&slo(), Purpose::Search, &step.report));
    assert!(holds(&"error_rate < 2%".parse().unwrap(), Purpose::Search, &step.report));
    let text = found(&[step]).text.join("\n");
    assert!(text.contains("requests failed: where more than 0.1 % do"), "{text}");
    let mut few = open(4_000.0, Purpose::Search);
    few.report.errors.status = few.report.requests / 2000;
    assert!(holds(&slo(), Purpose::Search, &few.report));
}

#[test]
fn a_percentile_needs_a_hundred_requests_beyond_it() {
    for (slo, needed) in [
        ("p50 < 1ms", 200),
        ("p99 < 1ms", 10_000),
        ("p99.9 < 1ms", 100_000),
        ("service.p99_9 <= 1ms", 100_000),
        ("error_rate < 1%", 1),
        ("pieces_answers < 1", 1),
    ] {
        let found = slo.parse::<Bound>().unwrap().requests_needed();
        assert_eq!(found, needed, "{slo}");
    }
}
