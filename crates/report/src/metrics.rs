//! A load report for programs that keep series: CSV, Prometheus text, OpenTelemetry metrics.

use std::fmt::Write;

use model::record::{LoadReport, Percentiles};
use serde_json::{Value, json};

/// OpenTelemetry's number for "sums since a start time".
/// Source: opentelemetry-proto, metrics/v1/metrics.proto, AggregationTemporality.
const CUMULATIVE: u32 = 2;

const NS_PER_S: f64 = 1e9;

/// The window second by second: `second,requests,errors,p50_ns,p99_ns` and a row each; no percentile of a second in which
/// no answer came.
#[must_use]
pub fn load_csv(report: &LoadReport) -> String {
    let mut text = "second,requests,errors,p50_ns,p99_ns\n".to_owned();
    for (index, second) in report.seconds.iter().enumerate() {
        let model::record::Second { requests, errors, p50_ns, p99_ns } = second;
        let [p50_ns, p99_ns] = [p50_ns, p99_ns].map(|ns| ns.map_or_else(String::new, |ns| ns.to_string()));
        let _ = writeln!(text, "{index},{requests},{errors},{p50_ns},{p99_ns}");
    }
    text
}

/// The figures in Prometheus' text format, as a textfile collector reads it; times in seconds.
///
/// Source: Prometheus documentation, "Exposition formats", version 0.0.4.
#[must_use]
pub fn load_prometheus(report: &LoadReport) -> String {
    let mut text = String::new();
    for gauge in gauges(report) {
        let name = format!("whyslow_load_{}", gauge.name);
        let _ = writeln!(
            text,
            "# HELP {name} {}\n# TYPE {name} gauge\n{name}{} {}",
            gauge.help,
            url(report, ""),
            gauge.value
        );
    }
    text += "# HELP whyslow_load_errors Failed requests of the window, each counted once.\n# TYPE whyslow_load_errors gauge\n";
    for (kind, count) in report.errors.kinds() {
        let _ = writeln!(text, "whyslow_load_errors{} {count}", url(report, &format!(",kind=\"{kind}\"")));
    }
    for (name, row) in times(report) {
        let name = format!("whyslow_load_{name}_seconds");
        let _ = writeln!(
            text,
            "# HELP {name} Percentiles of the window; one that it had too few requests for is absent.\n# TYPE {name} summary"
        );
        for (quantile, ns) in quantiles(row) {
            let label = format!(",quantile=\"{quantile}\"");
            let _ = writeln!(text, "{name}{} {}", url(report, &label), ns as f64 / NS_PER_S);
        }
        let _ = writeln!(text, "{name}_sum{} {}", url(report, ""), row.mean * row.count as f64 / NS_PER_S);
        let _ = writeln!(text, "{name}_count{} {}", url(report, ""), row.count);
    }
    text
}

/// Upper edges of the buckets of responses in seconds: three to a decade, from what a loopback takes to what nobody waits for.
const BUCKETS_S: [f64; 17] =
    [1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0];

/// What a load has brought so far.
#[derive(Debug, Clone, Default)]
pub struct LiveFigures {
    /// What is asked.
    pub url: String,
    /// Whether its window has begun and not ended; before and after it, nothing is counted.
    pub measuring: bool,
    /// Requests answered in the completed seconds of the window.
    pub requests: u64,
    /// Errors in them.
    pub errors: u64,
    /// Responses up to each edge of [`BUCKETS_S`] and above that before it; the last holds what is longer than all.
    buckets: [u64; BUCKETS_S.len() + 1],
    /// Sum of all responses in seconds.
    sum_s: f64,
}

impl LiveFigures {
    /// Nothing yet of a load of `url`.
    #[must_use]
    pub fn new(url: &str) -> Self {
        Self { url: url.to_owned(), ..Self::default() }
    }

    /// Adds `count` responses of `seconds` each.
    pub fn answered(&mut self, seconds: f64, count: u64) {
        self.buckets[BUCKETS_S.partition_point(|edge| *edge < seconds)] += count;
        self.sum_s += seconds * count as f64;
    }
}

/// A load that goes on, in Prometheus' text format: counters that only grow, and a histogram that sums over generators.
///
/// Source: Prometheus documentation, "Exposition formats", version 0.0.4.
#[must_use]
pub fn load_live(figures: &LiveFigures) -> String {
    let mut text = String::new();
    let mut described = "";
    for Series { name, kind, help, le, value, .. } in series(figures) {
        if let Some((kind, help)) = kind.zip(help).filter(|_| described != name) {
            let whole = name.strip_suffix("_bucket").unwrap_or(name);
            let _ = writeln!(text, "# HELP {whole} {help}\n# TYPE {whole} {kind}");
            described = name;
        }
        let le = le.map_or_else(String::new, |le| format!(",le=\"{le}\""));
        let _ = writeln!(text, "{name}{} {value}", labelled(&figures.url, &le));
    }
    text
}

/// One number of a running load, as Prometheus names it.
pub(crate) struct Series {
    pub(crate) name: &'static str,
    /// Type and help of the first of a family.
    kind: Option<&'static str>,
    help: Option<&'static str>,
    /// Upper edge of a bucket.
    pub(crate) le: Option<String>,
    pub(crate) value: f64,
}

/// All numbers of a running load.
pub(crate) fn series(figures: &LiveFigures) -> Vec<Series> {
    let single = |name, kind, help, value: u64| Series {
        name,
        kind: Some(kind),
        help: Some(help),
        le: None,
        value: value as f64,
    };
    let mut all = vec![
        single(
            "whyslow_load_live_requests_total",
            "counter",
            "Requests answered in the window so far.",
            figures.requests,
        ),
        single("whyslow_load_live_errors_total", "counter", "Errors in the window so far.", figures.errors),
        single(
            "whyslow_load_live_measuring",
            "gauge",
            "1 while the window is open.",
            u64::from(figures.measuring),
        ),
    ];
    let mut below = 0;
    let edges = BUCKETS_S.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
    for (edge, count) in edges.zip(figures.buckets) {
        below += count;
        all.push(Series {
            le: Some(edge),
            ..single(
                "whyslow_load_live_response_seconds_bucket",
                "histogram",
                "From when a request was due to its answer.",
                below,
            )
        });
    }
    let rest = |name, value| Series { name, kind: None, help: None, le: None, value };
    all.push(rest("whyslow_load_live_response_seconds_sum", figures.sum_s));
    all.push(rest("whyslow_load_live_response_seconds_count", below as f64));
    all
}

/// A load that goes on, as one line of OTLP/JSON: what a collector has of it is named as Prometheus has it.
///
/// Source: OpenTelemetry protocol 1.x, "OTLP/HTTP JSON" and metrics.proto.
#[must_use]
pub fn load_live_otlp(figures: &LiveFigures, start_unix_ns: u64, now_unix_ns: u64) -> String {
    let point = |value: Value| {
        let mut point = json!({"attributes": [attribute("url", &figures.url)],
            "startTimeUnixNano": start_unix_ns.to_string(), "timeUnixNano": now_unix_ns.to_string()});
        if let (Some(point), Value::Object(value)) = (point.as_object_mut(), value) {
            point.extend(value);
        }
        point
    };
    let sum = |name: &str, help: &str, count: u64, unit: &str| {
        json!({"name": format!("whyslow.load.live.{name}"), "description": help, "unit": unit, "sum": {
            "dataPoints": [point(json!({"asInt": count.to_string()}))],
            "aggregationTemporality": CUMULATIVE, "isMonotonic": true}})
    };
    let counts: Vec<String> = figures.buckets.iter().map(u64::to_string).collect();
    let count: u64 = figures.buckets.iter().sum();
    let response = point(json!({"count": count.to_string(), "sum": figures.sum_s, "bucketCounts": counts,
        "explicitBounds": BUCKETS_S}));
    let metrics = [
        sum("requests", "Requests answered in the window so far.", figures.requests, ""),
        sum("errors", "Errors in the window so far.", figures.errors, ""),
        json!({"name": "whyslow.load.live.measuring", "description": "1 while the window is open.",
            "gauge": {"dataPoints": [point(json!({"asInt": u8::from(figures.measuring).to_string()}))]}}),
        json!({"name": "whyslow.load.live.response", "description": "From when a request was due to its answer.",
            "unit": "s", "histogram": {"dataPoints": [response], "aggregationTemporality": CUMULATIVE}}),
    ];
    line(&json!(metrics))
}

/// The figures as one line of OTLP/JSON: what a collector's `otlpjsonfile` receiver reads and what its HTTP endpoint
/// `/v1/metrics` takes. `end_unix_ns` is the end of the window.
///
/// Source: OpenTelemetry protocol 1.x, "OTLP/HTTP JSON" and metrics.proto.
#[must_use]
pub fn load_otlp(report: &LoadReport, end_unix_ns: u64) -> String {
    let start = end_unix_ns.saturating_sub(report.window_ns).to_string();
    let end = end_unix_ns.to_string();
    let attributes = json!([attribute("url.full", &report.url)]);
    let mut metrics: Vec<Value> = gauges(report)
        .into_iter()
        .map(|gauge| {
            let point = json!({"attributes": attributes, "startTimeUnixNano": start, "timeUnixNano": end, "asDouble": gauge.value});
            json!({"name": format!("whyslow.load.{}", gauge.name), "description": gauge.help, "unit": gauge.unit, "gauge": {"dataPoints": [point]}})
        })
        .collect();
    let failed: Vec<Value> = report
        .errors
        .kinds()
        .into_iter()
        .map(|(kind, count)| {
            json!({"attributes": [attribute("url.full", &report.url), attribute("error.type", kind)],
                "startTimeUnixNano": start, "timeUnixNano": end, "asInt": count.to_string()})
        })
        .collect();
    metrics.push(json!({"name": "whyslow.load.errors", "description": "Failed requests, each counted once", "unit": "{request}",
        "sum": {"dataPoints": failed, "aggregationTemporality": CUMULATIVE, "isMonotonic": true}}));
    for (name, row) in times(report) {
        metrics.push(summary(name, row, &attributes, &start, &end));
    }
    line(&json!(metrics))
}

fn line(metrics: &Value) -> String {
    let resource = json!({"attributes": [attribute("service.name", "whyslow")]});
    let line = json!({"resourceMetrics": [{"resource": resource, "scopeMetrics": [{"scope": {"name": "whyslow.load"}, "metrics": metrics}]}]});
    format!("{line}\n")
}

fn summary(name: &str, row: &Percentiles, attributes: &Value, start: &str, end: &str) -> Value {
    let values: Vec<Value> = quantiles(row)
        .into_iter()
        .map(|(quantile, ns)| json!({"quantile": quantile, "value": ns as f64 / NS_PER_S}))
        .collect();
    json!({"name": format!("whyslow.load.{name}"), "unit": "s", "summary": {"dataPoints": [{
        "attributes": attributes, "startTimeUnixNano": start, "timeUnixNano": end, "count": row.count.to_string(),
        "sum": row.mean * row.count as f64 / NS_PER_S, "quantileValues": values}]}})
}

fn attribute(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

/// One number with its name and unit (in UCUM, as OpenTelemetry wants it).
struct Gauge {
    name: &'static str,
    help: &'static str,
    unit: &'static str,
    value: f64,
}

fn gauges(report: &LoadReport) -> Vec<Gauge> {
    let gauge = |name, help, unit, value| Gauge { name, help, unit, value };
    let cpu = &report.cpu_ns_per_request;
    let mut all = vec![
        gauge("requests", "Requests completed in the window.", "{request}", report.requests as f64),
        gauge("rate_per_second", "Requests completed per second.", "{request}/s", report.rate_per_s),
        gauge("window_seconds", "Length of the window.", "s", report.window_ns as f64 / NS_PER_S),
        gauge("bytes_read", "Bytes read in the window.", "By", report.bytes_read as f64),
        gauge(
            "unfinished",
            "Requests sent and not answered at the end.",
            "{request}",
            report.unfinished as f64,
        ),
        gauge("unsent", "Requests due and not sent at the end.", "{request}", report.unsent as f64),
        gauge(
            "generator_cpu_seconds_per_request",
            "CPU of the generator per request.",
            "s",
            (cpu.user + cpu.system) / NS_PER_S,
        ),
    ];
    let partial = u8::from(report.partial);
    all.extend([
        gauge(
            "connections_established",
            "Connections open when the window began.",
            "{connection}",
            report.connections.established as f64,
        ),
        gauge(
            "generator_busiest_thread",
            "Busy share of the generator's busiest thread.",
            "1",
            report.busiest_thread,
        ),
        gauge("partial", "1 where the window ended early.", "1", f64::from(partial)),
        gauge(
            "warnings",
            "Warnings of the report, which says each.",
            "{warning}",
            report.warnings.len() as f64,
        ),
    ]);
    all.extend(
        report
            .rate_ratio
            .map(|ratio| gauge("rate_ratio", "Requests answered over requests due.", "1", ratio)),
    );
    all
}

/// The three times; in a closed loop all are the response or nothing, so that only that is given.
fn times(report: &LoadReport) -> Vec<(&'static str, &Percentiles)> {
    let mut times = vec![("response", &report.response_ns)];
    if report.schedule.rate_per_s.is_some() {
        times.extend([("service", &report.service_ns), ("send_lag", &report.send_lag_ns)]);
    }
    times
}

fn quantiles(row: &Percentiles) -> Vec<(f64, u64)> {
    let all = [
        (0.5, row.p50),
        (0.75, row.p75),
        (0.9, row.p90),
        (0.99, row.p99),
        (0.999, row.p99_9),
        (0.9999, row.p99_99),
        (0.99999, row.p99_999),
        (1.0, (row.count > 0).then_some(row.max)),
    ];
    all.into_iter().filter_map(|(quantile, ns)| Some((quantile, ns?))).collect()
}

/// The label set with the URL, quoted as the format wants it.
fn url(report: &LoadReport, more: &str) -> String {
    labelled(&report.url, more)
}

fn labelled(url: &str, more: &str) -> String {
    let quoted = url.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("{{url=\"{quoted}\"{more}}}")
}
