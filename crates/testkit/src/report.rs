use model::record::{
    Connections, Cpu, Errors, LoadReport, PerConnection, Percentiles, Pieces, SCHEMA_VERSION, ScheduleFacts,
    Second,
};

/// Length of the window of [`load_report`] in nanoseconds.
const WINDOW_NS: u64 = 10_000_000_000;
/// Connections of [`load_report`].
const CONNECTIONS: u64 = 64;

/// What a generator says of a closed loop of 64 connections over 10 s in which nothing went wrong and
/// `rate_per_s` requests a second were answered, all after the same time.
#[must_use]
pub fn load_report(rate_per_s: f64) -> LoadReport {
    let requests = (rate_per_s * WINDOW_NS as f64 / 1e9).round() as u64;
    // Little's law.
    let response_ns = (CONNECTIONS as f64 / rate_per_s * 1e9).round() as u64;
    let each_ns = percentiles(requests, response_ns);
    LoadReport {
        schema: SCHEMA_VERSION,
        url: "http://127.0.0.1:8080/".to_owned(),
        threads: 1,
        connections: Connections { requested: CONNECTIONS, established: CONNECTIONS },
        pipeline: 1,
        schedule: ScheduleFacts {
            kind: "closed".to_owned(),
            rate_per_s: None,
            arrival: None,
            seed: 1,
            slack_ns: None,
            shape: Vec::new(),
        },
        window_ns: WINDOW_NS,
        requests,
        bytes_read: requests * 130,
        rate_per_s,
        pieces: Some(Pieces::default()),
        phases: None,
        users: None,
        rate_ratio: None,
        errors: Errors::default(),
        errors_by_status: std::collections::BTreeMap::new(),
        events: None,
        server: None,
        unfinished: 0,
        unsent: 0,
        resent: 0,
        service_ns: each_ns.clone(),
        response_ns: each_ns,
        send_lag_ns: percentiles(requests, 0),
        cpu_ns_per_request: Cpu { user: 1000.0, system: 3000.0 },
        busiest_thread: 0.6,
        per_connection: PerConnection {
            min: requests / CONNECTIONS,
            max: requests / CONNECTIONS + 1,
            jain: 1.0,
        },
        in_flight: CONNECTIONS as f64,
        autocorrelation: 0.0,
        effective_requests: requests,
        requests_by_name: std::collections::BTreeMap::new(),
        seconds: vec![
            Second {
                requests: requests / 10,
                errors: 0,
                p50_ns: Some(response_ns),
                p99_ns: Some(response_ns)
            };
            10
        ],
        partial: false,
        warnings: Vec::new(),
    }
}

/// Percentiles of `count` responses that all took `ns`; the intervals that so many have.
#[must_use]
pub fn percentiles(count: u64, ns: u64) -> Percentiles {
    let known = |least: u64| (count >= least).then_some(ns);
    Percentiles {
        count,
        p50: known(200),
        p75: known(400),
        p90: known(1000),
        p99: known(10_000),
        p99_9: known(100_000),
        p99_99: known(1_000_000),
        p99_999: known(10_000_000),
        max: ns,
        mean: ns as f64,
        stdev: 0.0,
        ci: known(10_000).map(|ns| ("p99".to_owned(), [ns, ns])).into_iter().collect(),
    }
}
