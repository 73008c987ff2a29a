//! Figures of a running load, as a Prometheus finds them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;

use crate::support::{FIXTURE, WHYSLOW, fresh_folder, repository, whyslow, within};

/// A process that ends with the test.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A server, and the URL of it.
fn server() -> (Ends, String) {
    let mut command = Command::new(FIXTURE);
    command.args(["0", "hosts", "127.0.0.1"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let url = format!("http://127.0.0.1:{}/", line.trim().rsplit_once(':').unwrap().1);
    (Ends(child), url)
}

fn load(url: &str, port: u16, seconds: &str) -> Child {
    Command::new(WHYSLOW)
        .args(["load", "-t1", "-c2", "-R", "200", "-d", seconds, "--format", "json"])
        .args(["--metrics-port", &port.to_string(), url])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn get(port: u16, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    Some(text)
}

/// The value of a series in Prometheus' text format.
fn value(text: &str, series: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.starts_with(series) && !line.starts_with('#'))?;
    line.rsplit_once(' ')?.1.parse().ok()
}

#[test]
fn figures_grow_second_by_second_and_end_with_the_load() {
    let ((_server, url), port) = (server(), free_port());
    let load = load(&url, port, "3s");
    let mut text = String::new();
    let seen = within(Duration::from_secs(10), || {
        text = get(port, "/metrics").unwrap_or_default();
        value(&text, "whyslow_load_live_requests_total").is_some_and(|requests| requests > 0.0)
    });
    assert!(seen, "{text}");
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && text.contains("version=0.0.4"), "{text}");
    let requests = value(&text, "whyslow_load_live_requests_total").unwrap();
    // Whole seconds of 200 each, but for what was on its way at their ends.
    assert!((requests % 200.0 - 100.0).abs() > 60.0 && requests <= 602.0, "{requests}");
    assert_eq!(value(&text, "whyslow_load_live_response_seconds_count"), Some(requests), "{text}");
    let whole = format!("whyslow_load_live_response_seconds_bucket{{url=\"{url}\",le=\"+Inf\"}}");
    assert_eq!(value(&text, &whole), Some(requests), "{text}");
    assert_eq!(value(&text, "whyslow_load_live_errors_total"), Some(0.0));
    assert!(get(port, "/").unwrap().starts_with("HTTP/1.1 404"));
    let output = load.wait_with_output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["requests"], 600, "{report}");
    assert!(get(port, "/metrics").is_none(), "it listens no longer");
}

#[test]
fn an_address_that_others_reach_is_refused() {
    for (address, reason) in
        [("0.0.0.0:9464", "whoever reaches 0.0.0.0:9464"), ("x", "'x' is neither a port")]
    {
        let printed = whyslow(&["load", "--metrics-port", address, "http://127.0.0.1:1/"]);
        assert!(printed.code == Some(2) && printed.err.contains(reason), "{printed:?}");
    }
}

/// Head and body of each request that was posted.
type Posted = Arc<Mutex<Vec<(String, Vec<u8>)>>>;

/// A server that takes what is posted: its port, and what that was.
fn receiver() -> (u16, Posted) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (port, posted) = (listener.local_addr().unwrap().port(), Posted::default());
    let shared = Arc::clone(&posted);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") && stream.read_line(&mut head).unwrap() > 0 {}
            let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
            let mut body = vec![0; length.parse().unwrap()];
            stream.read_exact(&mut body).unwrap();
            shared.lock().unwrap().push((head, body));
            stream.get_mut().write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
        }
    });
    (port, posted)
}

#[test]
fn a_collector_is_sent_the_figures_and_at_the_end_the_report() {
    let ((_server, url), (port, posted)) = (server(), receiver());
    let collector = format!("http://127.0.0.1:{port}");
    let printed = whyslow(&["load", "-t1", "-c2", "-R", "200", "-d", "2s", "--otlp", &collector, &url]);
    assert_eq!(printed.code, Some(0), "{printed:?}");
    let posted = posted.lock().unwrap();
    assert!(posted.len() >= 2, "live figures at the end, and the report");
    let metrics = |body: &[u8]| {
        let json: Value = serde_json::from_slice(body).unwrap();
        json["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().unwrap().clone()
    };
    for (head, _) in &*posted {
        assert!(head.starts_with("POST /v1/metrics HTTP/1.1\r\n"), "{head}");
        assert!(head.contains("\r\nContent-Type: application/json\r\n"), "{head}");
    }
    let live = metrics(&posted[posted.len() - 2].1);
    let named = |name: &str| live.iter().find(|metric| metric["name"] == name).unwrap().clone();
    let sum = named("whyslow.load.live.requests")["sum"].clone();
    assert_eq!((&sum["aggregationTemporality"], &sum["isMonotonic"]), (&2.into(), &true.into()));
    // Whole numbers of 64 bits are strings in the JSON of Protocol Buffers.
    let requests: u64 = sum["dataPoints"][0]["asInt"].as_str().unwrap().parse().unwrap();
    assert!((390..=400).contains(&requests), "200 a second for 2 s, but for what was on its way: {requests}");
    let response = named("whyslow.load.live.response")["histogram"]["dataPoints"][0].clone();
    let lengths = ["bucketCounts", "explicitBounds"].map(|list| response[list].as_array().unwrap().len());
    assert_eq!(lengths[0], lengths[1] + 1, "{response}");
    let in_buckets: u64 = response["bucketCounts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|count| count.as_str().unwrap().parse::<u64>().unwrap())
        .sum();
    assert_eq!((in_buckets, response["count"].as_str().unwrap()), (requests, &*requests.to_string()));
    let report = metrics(&posted[posted.len() - 1].1);
    assert!(report.iter().any(|metric| metric["name"] == "whyslow.load.rate_per_second"), "{report:?}");
}

#[test]
fn a_collector_that_is_not_there_costs_a_sentence_and_not_the_load() {
    let (_server, url) = server();
    let nobody = format!("http://127.0.0.1:{}/api/v1/write", free_port());
    let printed = whyslow(&["load", "-t1", "-c1", "-d", "1s", "--remote-write", &nobody, &url]);
    assert_eq!(printed.code, Some(0), "{printed:?}");
    assert_eq!(printed.err.matches("figures cannot be sent to 127.0.0.1:").count(), 1, "{printed:?}");
    for flag in ["--otlp", "--remote-write"] {
        let refused = whyslow(&["load", flag, "https://127.0.0.1:1", &url]);
        assert!(refused.code == Some(2) && refused.err.contains("http:// only"), "{refused:?}");
    }
}

/// Starts a Prometheus with `flags` in `folder`, where there is one.
fn prometheus(folder: &std::path::Path, port: u16, config: &str, flags: &[&str]) -> Option<Ends> {
    std::fs::write(folder.join("prometheus.yml"), config).unwrap();
    let mut command = Command::new("prometheus");
    command
        .args(["--config.file=prometheus.yml", "--storage.tsdb.path=data"])
        .arg(format!("--web.listen-address=127.0.0.1:{port}"))
        .args(flags)
        .current_dir(folder)
        .stderr(Stdio::null());
    let Ok(prometheus) = command.spawn() else {
        testkit::skipped("prometheus is not installed");
        return None;
    };
    Some(Ends(prometheus))
}

/// The first value of a query.
fn query(port: u16, text: &str) -> Option<f64> {
    // Of what a URL may not hold, queries have these.
    let text = text.replace('%', "%25").replace(' ', "%20").replace('"', "%22").replace('+', "%2B");
    let answer = get(port, &format!("/api/v1/query?query={text}"))?;
    let json: Value = serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()?;
    json["data"]["result"][0]["value"][1].as_str()?.parse::<f64>().ok()
}

/// The whole number that a collector last printed as the value of `metric`.
fn printed(text: &str, metric: &str) -> Option<u64> {
    let (_, rest) = text.rsplit_once(&format!("-> Name: {metric}\n"))?;
    let line = rest.lines().find_map(|line| line.trim().strip_prefix("Value: "))?;
    line.parse().ok()
}

#[test]
fn a_real_collector_takes_live_figures_and_the_report() {
    let (folder, port) = (fresh_folder(), free_port());
    let config = format!(
        "receivers: {{otlp: {{protocols: {{http: {{endpoint: '127.0.0.1:{port}'}}}}}}}}\n\
         exporters: {{debug: {{verbosity: detailed}}}}\n\
         service:\n  telemetry: {{metrics: {{level: none}}}}\n  \
         pipelines: {{metrics: {{receivers: [otlp], exporters: [debug]}}}}\n"
    );
    let (config_file, log) = (folder.join("collector.yml"), folder.join("collector.log"));
    std::fs::write(&config_file, config).unwrap();
    let mut command = Command::new("otelcol");
    command.arg("--config").arg(&config_file).stdout(Stdio::null());
    let Ok(collector) = command.stderr(std::fs::File::create(&log).unwrap()).spawn() else {
        testkit::skipped("otelcol is not installed");
        return;
    };
    let _collector = Ends(collector);
    let logged = || std::fs::read_to_string(&log).unwrap();
    let listens = || TcpStream::connect(("127.0.0.1", port)).is_ok();
    assert!(within(Duration::from_secs(60), listens), "it does not start: {}", logged());
    let (_server, url) = server();
    let to = format!("http://127.0.0.1:{port}");
    let load = whyslow(&["load", "-t1", "-c2", "-R", "200", "-d", "2s", "--otlp", &to, &url]);
    assert!(load.code == Some(0) && !load.err.contains("cannot be sent"), "{load:?}");
    let reported = || logged().contains("-> Name: whyslow.load.rate_per_second");
    assert!(within(Duration::from_secs(20), reported), "{}", logged());
    let requests = printed(&logged(), "whyslow.load.live.requests");
    assert!(requests.is_some_and(|count| (390..=400).contains(&count)), "{requests:?} in {}", logged());
    assert!(
        logged().contains("-> Name: whyslow.load.live.response") && logged().contains("ExplicitBounds #0")
    );
}

#[test]
fn a_real_prometheus_takes_remote_writes() {
    let (folder, port) = (fresh_folder(), free_port());
    let flags = ["--web.enable-remote-write-receiver"];
    let Some(_prometheus) = prometheus(&folder, port, "global: {}\n", &flags) else { return };
    let ready = || get(port, "/-/ready").is_some_and(|text| text.starts_with("HTTP/1.1 200"));
    assert!(within(Duration::from_secs(20), ready), "it does not start");
    let (_server, url) = server();
    let receiver = format!("http://127.0.0.1:{port}/api/v1/write");
    let printed =
        whyslow(&["load", "-t1", "-c2", "-R", "200", "-d", "2s", "--remote-write", &receiver, &url]);
    assert!(printed.code == Some(0) && !printed.err.contains("cannot be sent"), "{printed:?}");
    let requests = query(port, "max_over_time(whyslow_load_live_requests_total[1m])").unwrap();
    assert!((390.0..=400.0).contains(&requests), "all that were answered: {requests}");
    let buckets = "whyslow_load_live_response_seconds_bucket";
    let p50 = query(port, &format!("histogram_quantile(0.5,max_over_time({buckets}[1m]))")).unwrap();
    assert!(p50 > 0.0 && p50 < 0.1, "{p50}");
}

#[test]
fn a_real_prometheus_has_what_the_report_has() {
    let (folder, ports) = (fresh_folder(), [free_port(), free_port()]);
    let config = format!(
        "global: {{scrape_interval: 200ms, scrape_timeout: 200ms}}\nscrape_configs:\n- job_name: load\n  static_configs: [{{targets: ['127.0.0.1:{}']}}]\n",
        ports[0]
    );
    let Some(_prometheus) = prometheus(&folder, ports[1], &config, &[]) else { return };
    // Some seconds go by before it looks for what it is to scrape.
    let target = format!("http://127.0.0.1:{}/metrics", ports[0]);
    let looks = || get(ports[1], "/api/v1/targets").is_some_and(|text| text.contains(&target));
    assert!(within(Duration::from_secs(20), looks), "it does not start");
    let (_server, url) = server();
    let output = load(&url, ports[0], "3s").wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let requests = query(ports[1], "max_over_time(whyslow_load_live_requests_total[1m])").unwrap();
    assert!((398.0..=600.0).contains(&requests), "two seconds were over when it last came: {requests}");
    let dashboard = std::fs::read_to_string(repository("docs/examples/grafana/whyslow-load.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&dashboard).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    let asked = targets.map(|target| {
        // What Grafana puts in.
        let text = target["expr"].as_str().unwrap().replace("$url", ".*").replace("$__rate_interval", "4s");
        assert!(!text.contains('$'), "{text}");
        assert!(query(ports[1], &text).is_some_and(|value| !value.is_nan()), "nothing comes of {text}");
    });
    assert_eq!(asked.count(), 5);
    let buckets = "whyslow_load_live_response_seconds_bucket";
    let p50 = query(ports[1], &format!("histogram_quantile(0.5,max_over_time({buckets}[1m]))")).unwrap();
    assert!(p50 > 0.0 && p50 < 0.1, "{p50}");
}
