//! Lists of requests: what is read, what is refused, and which arrival gets which request.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use load::schedule::{Arrival, Pace};
use load::{Config, List, Request, Shard, Target, run};
use model::job::read::{Given, read};
use model::job::{self, Data, NamedRequest};
use testkit::Recorder;

use crate::serving::{self, Log, Manner};

fn template() -> Request {
    let target = Target::resolve("http://127.0.0.1:8080/").unwrap();
    Request { method: "GET".into(), body: b"body".to_vec(), ..Request::get(&target) }
}

/// The requests of a file.
pub(crate) fn requests(text: &str, data: Option<&Data>) -> Vec<NamedRequest> {
    let pattern = job::Request::get();
    let attached = |name: &str| Err(format!("there is no {name}"));
    read(&Given { file: "f", text, pattern: &pattern, data, attached: &attached }).unwrap().requests
}

/// The list of a file.
pub(crate) fn drawn(text: &str) -> List {
    List::drawn(&requests(text, None), None, &Target::resolve("http://127.0.0.1:8080/").unwrap()).unwrap()
}

fn config(url: &str, list: List) -> Config {
    let mut config = Config::new(Target::resolve(url).unwrap());
    config.list = Some(Arc::new(list));
    config.window = Duration::from_secs(20);
    (config.threads, config.connections) = (1, 1);
    config
}

fn lines(log: &Log) -> Vec<Vec<String>> {
    log.lock().unwrap().iter().map(|seen| seen.lines.clone()).collect()
}

#[test]
fn a_list_that_cannot_be_used_names_its_line() {
    let logs = [
        ("127.0.0.1 - - \"GET / HTTP/1.1\" 200 1\n", "there is no [time]"),
        ("h - - [10/Oct/2000 13:55:36 -0700] \"GET / HTTP/1.1\" 200 1\n", "its time is not as"),
        ("h - - [10/Oct/2000:13:55:36 -0700] GET\n", "there is no \"request\""),
        ("h - - [10/Oct/2000:13:55:36 -0700] \"-\" 408 0\n", "it has no request"),
    ];
    for (text, words) in logs {
        let error = List::access_log(text, &template(), 1.0).unwrap_err().to_string();
        assert!(error.contains(words) && !error.contains('\n'), "{text}: {error}");
    }
    assert!(List::access_log("", &template(), 0.0).unwrap_err().to_string().contains("speed"));
}

#[test]
fn weights_are_kept_and_shards_send_together_what_one_would() {
    let list = || drawn("8 /often\n/twice\n\n# not this\n1 DELETE /seldom\n0 /never\n");
    let (address, log) = serving::tcp("127.0.0.1", Manner::body(2));
    let url = format!("http://{address}/");
    let mut whole = config(&url, list());
    (whole.threads, whole.connections, whole.requests, whole.seed) = (3, 3, Some(1_009), 7);
    let report = run(&whole, &AtomicBool::new(false), &mut |_| {}).unwrap().report;
    assert_eq!((report.requests, report.errors.total()), (1_009, 0));
    let mut together = lines(&log);
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    together.iter().flatten().for_each(|line| *counts.entry(line).or_default() += 1);
    let often = counts["GET /often HTTP/1.1"];
    // 8 of 10, with four standard deviations of 12.7.
    assert!((757..=858).contains(&often), "{counts:?}");
    assert_eq!(counts.len(), 3, "{counts:?}");
    let mut apart = Vec::new();
    for index in 0..3 {
        let (address, log) = serving::tcp("127.0.0.1", Manner::body(2));
        let mut shard = config(&format!("http://{address}/"), list());
        (shard.requests, shard.seed, shard.shard) = (Some(1_009), 7, Shard { index, of: 3 });
        // A warm-up asks too, and moves nothing.
        if index == 1 {
            shard.warmup = load::Warmup::fixed(Duration::from_millis(50));
        }
        run(&shard, &AtomicBool::new(false), &mut |_| {}).unwrap();
        apart.extend(lines(&log));
    }
    // The order in which threads connect is not known.
    together.sort();
    let warm = apart.remove(1);
    let third = together.iter().position(|lines| warm.ends_with(lines));
    assert!(third.is_some(), "after its warm-up, a shard sends its own part");
    together.remove(third.unwrap());
    apart.sort();
    assert_eq!(apart, together);
}

#[test]
fn a_log_is_replayed_in_its_order_and_at_its_times() {
    let line = |second: u32, request: &str| {
        format!("h - - [10/Oct/2000:13:55:{second:02} -0700] \"{request}\" 200 1 \"-\" \"x\"\n")
    };
    let text = [
        line(36, "GET /a HTTP/1.0"),
        line(38, "POST /c HTTP/1.1"),
        line(36, "GET /b HTTP/1.1"),
        line(37, "-"),
        line(40, "HEAD /d HTTP/1.1"),
    ]
    .concat();
    // Four seconds at ten times the speed: due at 0, 50, 200 and 400 ms.
    let list = List::access_log(&text, &template(), 10.0).unwrap();
    assert_eq!((list.skipped, list.whole_within(0.4), list.whole_within(1.0)), (1, None, Some(4)));
    let (address, log) = serving::tcp(
        "127.0.0.1",
        Manner { answer: b"HTTP/1.1 204 No\r\n\r\n".to_vec(), ..Manner::default() },
    );
    let mut config = config(&format!("http://{address}/"), list);
    config.pace = config.list.as_ref().unwrap().pace().unwrap();
    let report = run(&config, &AtomicBool::new(false), &mut |_| {}).unwrap().report;
    let heads = ["GET /a HTTP/1.1", "GET /b HTTP/1.1", "POST /c HTTP/1.1", "HEAD /d HTTP/1.1"];
    // The body of the POST has no blank line and is left with the next head.
    let seen: Vec<String> = lines(&log).concat();
    assert_eq!(seen.iter().map(|line| line.trim_start_matches("body")).collect::<Vec<_>>(), heads);
    assert_eq!(
        (report.requests, report.schedule.kind.as_str(), report.schedule.arrival),
        (4, "replay", None)
    );
    assert!((400_000_000..2_000_000_000).contains(&report.window_ns), "{}", report.window_ns);
    config.pace = Pace::Open {
        intensity: match config.pace {
            Pace::Open { intensity, .. } => intensity,
            Pace::Closed => unreachable!(),
        },
        arrival: Arrival::Poisson,
        dispatch: load::schedule::Dispatch::Shared,
    };
    let refused = run(&config, &AtomicBool::new(false), &mut |_| {}).unwrap_err().to_string();
    assert!(refused.contains("cannot be Poisson"), "{refused}");
}

#[test]
fn what_a_log_holds_that_cannot_be_sent_is_left_out_and_counted() {
    let text: String = [
        "CONNECT host:80 HTTP/1.1",
        "GET /a b HTTP/1.1",
        "\\x16\\x03\\x01",
        "GET http://other/ HTTP/1.1",
        "GET /\\xff HTTP/1.1",
        "GET /say=\\x22hi\\x22 HTTP/1.1",
        "GET /say=\\\"ho\\\" HTTP/1.1",
    ]
    .iter()
    .map(|request| format!("h - - [10/Oct/2000:13:55:36 -0700] \"{request}\" 200 1\n"))
    .collect();
    let list = List::access_log(&text, &template(), 1.0).unwrap();
    assert_eq!((list.skipped, list.whole_within(2.0)), (5, Some(2)));
}

/// Which name a request has, as its server sees it.
fn name_of(request: &str) -> &str {
    if request.starts_with("GET /often") { "often" } else { "seldom" }
}

const NAMED: &str = "### often\n# @weight 3\nGET /often/{id}?n={n} HTTP/1.1\nX-Id: {uuid}\n\n\
                     ### seldom\nPOST /seldom HTTP/1.1\n\n{\"id\": {\"n\": \"{id}\"}, \"r\": {random 1 1000000}}\n";

/// What a server got, sorted, from so many threads or shards; and the rows of names of each.
fn sent(threads: u32, shards: u32) -> (Vec<String>, Vec<load::Outcome>) {
    let data = Data::csv("d", "id\na b\n7\nlonger\n").unwrap();
    let (mut all, mut outcomes) = (Vec::new(), Vec::new());
    for index in 0..shards {
        let recorder = Recorder::start(|request| match request.starts_with(b"POST") {
            true => b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n".to_vec(),
            false => testkit::ANSWER.to_vec(),
        });
        let mut config = Config::new(Target::resolve(&recorder.url()).unwrap());
        let target = Target::resolve("http://same.host:1/")
            .unwrap_or_else(|_| Target::resolve("http://127.0.0.1:1/").unwrap());
        let list = List::drawn(&requests(NAMED, Some(&data)), Some(Arc::new(data.clone())), &target).unwrap();
        config.list = Some(Arc::new(list));
        config.window = Duration::from_secs(60);
        (config.threads, config.connections) = (threads, threads);
        (config.requests, config.seed, config.shard) = (Some(1_009), 5, Shard { index, of: shards });
        outcomes.push(run(&config, &AtomicBool::new(false), &mut |_| {}).unwrap());
        let requests = recorder.finish().into_iter().flatten();
        all.extend(requests.map(|bytes| String::from_utf8(bytes).unwrap()));
    }
    all.sort();
    (all, outcomes)
}

#[test]
fn rows_of_names_are_the_servers_own_counts_and_merge_without_loss() {
    let (requests, outcomes) = sent(2, 1);
    let rows = &outcomes[0].report.requests_by_name;
    let mut counted: BTreeMap<String, u64> = BTreeMap::new();
    requests.iter().for_each(|request| *counted.entry(name_of(request).to_owned()).or_default() += 1);
    let reported: BTreeMap<String, u64> =
        rows.iter().map(|(name, row)| (name.clone(), row.requests)).collect();
    assert_eq!(reported, counted);
    assert_eq!((rows["often"].errors, rows["seldom"].errors), (0, counted["seldom"]));
    assert_eq!(outcomes[0].report.errors.status, counted["seldom"]);
    assert!(rows.values().all(|row| row.response_ns.count == row.requests));

    let (apart, shards) = sent(1, 3);
    assert_eq!(apart, requests, "shards and threads send the same");
    let logs = shards.iter().map(|outcome| {
        let mut record = outcome.shard.clone();
        record.report.url = "same".to_owned();
        (record, load::shard_log(outcome, &[]))
    });
    let merged = load::merge(logs.collect()).unwrap().outcome.report;
    for (name, row) in &merged.requests_by_name {
        assert_eq!((row.requests, row.response_ns.count), (counted[name], counted[name]), "{name}");
    }
    assert_eq!(merged.requests_by_name.len(), 2);
}

#[test]
fn what_is_filled_is_whole_on_the_wire() {
    let (requests, _) = sent(1, 1);
    let mut numbers = std::collections::BTreeSet::new();
    for request in &requests {
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        if name_of(request) == "often" {
            let number: u64 = head.split(['=', ' ']).nth(2).unwrap().parse().unwrap();
            let id = ["a%20b", "7", "longer"][(number % 3) as usize];
            assert!(head.starts_with(&format!("GET /often/{id}?n={number} HTTP/1.1\r\n")), "{head}");
            assert!(numbers.insert(number), "{number} is there twice");
        } else {
            let length = format!("Content-Length: {}", body.len());
            assert!(head.lines().any(|line| line == length), "{request}");
            assert!(body.starts_with("{\"id\": {\"n\": \"") && body.ends_with('}'), "{body}");
        }
    }
}

#[test]
fn a_connection_is_closed_by_us_after_so_many_requests() {
    for (pipeline, each, connections) in [(1, 1, 100), (1, 7, 15), (4, 10, 10)] {
        let (address, log) = serving::tcp("127.0.0.1", Manner::body(2));
        let mut config = Config::new(Target::resolve(&format!("http://{address}/")).unwrap());
        (config.threads, config.connections, config.pipeline) = (1, 1, pipeline);
        (config.requests, config.per_connection) = (Some(100), Some(each));
        let report = run(&config, &AtomicBool::new(false), &mut |_| {}).unwrap().report;
        assert_eq!((report.requests, report.errors.total()), (100, 0));
        let seen: Vec<usize> =
            log.lock().unwrap().iter().map(|seen| seen.requests).filter(|count| *count > 0).collect();
        assert!(seen.iter().all(|count| *count <= each as usize), "{seen:?}");
        assert_eq!((seen.len(), seen.iter().sum::<usize>()), (connections, 100), "{seen:?}");
    }
}
