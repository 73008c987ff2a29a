//! Lists of requests: what is read, what is refused, and which arrival gets which request.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use load::schedule::{Arrival, Pace};
use load::{Config, List, Request, Shard, Target, run};

use crate::serving::{self, Log, Manner};

fn template() -> Request {
    let target = Target::resolve("http://127.0.0.1:8080/").unwrap();
    Request { method: "GET".into(), body: b"body".to_vec(), ..Request::get(&target) }
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
    let weighted = [
        ("", "no request with a weight above 0"),
        ("0 /a\n", "no request with a weight above 0"),
        (
            "/a\n\n# comment\n1 GET /b c d\n",
            "line 4 of the list cannot be used: it is not '[WEIGHT] [METHOD] PATH'",
        ),
        ("-1 /a\n", "its weight is not a number from 0 on"),
        ("GET a\n", "'a' is not a path"),
        ("/a\u{e9}\n", "must be percent-encoded"),
        ("GE(T /a\n", "is not a word such as GET"),
        ("http://other.test/a\n", "another server (other.test)"),
    ];
    for (text, words) in weighted {
        let error = List::weighted(text, &template()).unwrap_err().to_string();
        assert!(error.contains(words) && !error.contains('\n'), "{text}: {error}");
    }
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
    let bare = Request { body: Vec::new(), ..template() };
    let list =
        || List::weighted("8 /often\n/twice\n\n# not this\n1 DELETE /seldom\n0 /never\n", &bare).unwrap();
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
    let asked = ["GET /a HTTP/1.1", "GET /b HTTP/1.1", "POST /c HTTP/1.1", "HEAD /d HTTP/1.1"];
    // The body of the POST has no blank line and is left with the next head.
    let seen: Vec<String> = lines(&log).concat();
    assert_eq!(seen.iter().map(|line| line.trim_start_matches("body")).collect::<Vec<_>>(), asked);
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
