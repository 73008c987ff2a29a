//! `whyslow load` by itself: it counts, and says so in every format.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use load::latencies;
use rustix::process::{Pid, Signal, kill_process};
use testkit::{Behaviour, Server, ServerSpec};

use crate::support::{
    Logged, Printed, WHYSLOW, assert_schema, fresh_folder, logged, whyslow, whyslow_in, within,
};

/// Requests of a calibration: prime, so that no thread, connection or batch divides them.
const PRIME: u64 = 10_007;

#[test]
fn a_prime_number_of_requests_is_counted_by_both_sides() {
    let ways: [&[&str]; 4] = [
        &["-t1", "-c1"],
        &["-t2", "-c8"],
        &["-t2", "-c7", "--pipeline", "16"],
        &["-t2", "-c8", "-R", "20k", "--arrival", "poisson", "--seed", "3"],
    ];
    for way in ways {
        let server = Server::start(ServerSpec::new(Behaviour::Prompt));
        let (url, prime) = (server.url(), PRIME.to_string());
        // The window is only the longest that a crowded machine may take.
        let common = ["load", "--requests", &prime, "-d", "120s", "--timeout", "60s", "--format", "json"];
        let printed = whyslow(&[&common[..], way, &[url.as_str()]].concat());
        assert_eq!(printed.code, Some(0), "{way:?}: {printed:?}");
        let report = printed.json();
        assert_schema("load", &report);
        let log = server.finish();
        assert_eq!(report["requests"], PRIME, "{way:?}: {printed:?}");
        assert_eq!(log.entries.len() as u64, PRIME, "{way:?}: the server saw another number");
        assert_eq!(report["response_ns"]["count"], PRIME, "{way:?}");
        assert_eq!(report["unfinished"], 0, "{way:?}");
        let errors = report["errors"].as_object().unwrap();
        assert!(errors.values().all(|count| count == 0), "{way:?}: {errors:?}");
    }
}

#[test]
fn no_two_threads_share_one_cpu_unless_asked_to() {
    let server = Server::start(ServerSpec::new(Behaviour::Prompt));
    let threads = |more: &[&str]| {
        let printed =
            whyslow(&[&["load", "--requests", "101", "--format", "json", &server.url()], more].concat());
        printed.json()["threads"].as_u64().unwrap()
    };
    let cpu = one_cpu();
    assert_eq!([threads(&["--cpus", &cpu]), threads(&["--cpus", &cpu, "-t", "2"])], [1, 2]);
}

/// A CPU that this process may use.
fn one_cpu() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    list.trim().split(['-', ',']).next().unwrap().to_owned()
}

#[test]
fn every_format_is_for_its_reader() {
    let server = Server::start(ServerSpec::new(Behaviour::Prompt));
    let url = server.url();
    let folder = fresh_folder();
    let load = |format: &str| {
        whyslow_in(
            &folder,
            &["load", "--requests", "101", "--format", format, "--hlog", "a.hlog", "--hgrm", "a.hgrm", &url],
        )
    };
    let text = load("text");
    let words: Vec<&str> = text.out.split_whitespace().collect();
    assert!(words.join(" ").contains("101 requests over 10 connections, 2 threads"), "{text:?}");
    assert!(text.out.lines().all(|line| line.chars().count() <= 80), "{text:?}");
    assert!(load("md").out.contains("| latency |"));
    assert_eq!(text.err, "", "no talk without a terminal");
    assert!(std::fs::read_to_string(folder.join("a.hlog")).unwrap().starts_with("#["));
    assert!(std::fs::read_to_string(folder.join("a.hgrm")).unwrap().contains("Percentile"));
}

#[test]
fn the_log_has_each_second_and_adds_up_to_what_is_reported() {
    // What a server that freezes leaves unanswered is part of the whole, and so of the log.
    for (flags, windows) in [(&["-R", "500"][..], 1), (&["-R", "500", "--repeat", "2"], 2), (&[], 1)] {
        let server = Server::start(ServerSpec::new(Behaviour::Freeze { after_ns: 1_500_000_000 }));
        let (url, folder) = (server.url(), fresh_folder());
        let common = ["load", "-t2", "-c4", "-d2500ms", "--hlog", "a.hlog", "--format", "json", &url];
        let report = whyslow_in(&folder, &[&common, flags].concat()).json();
        let (seconds, whole): (Vec<Logged>, Vec<Logged>) =
            logged(&folder.join("a.hlog")).into_iter().partition(|interval| interval.tag.is_none());
        let mut sum = latencies();
        seconds.iter().for_each(|second| sum.add(&second.latencies).unwrap());
        let response = &report["response_ns"];
        assert!(report["unfinished"].as_u64().unwrap() > 0, "{flags:?}");
        assert_eq!(Some(sum.len()), response["count"].as_u64(), "{flags:?}");
        assert_eq!(Some(sum.max()), response["max"].as_u64(), "{flags:?}");
        for (name, quantile) in [("p50", 0.5), ("p75", 0.75), ("p90", 0.9)] {
            assert_eq!(Some(sum.value_at_quantile(quantile)), response[name].as_u64(), "{flags:?} {name}");
        }
        assert_seconds(&seconds, windows, &report);
        let tags: Vec<_> = whole.iter().map(|interval| interval.tag.clone().unwrap()).collect();
        let split: &[&str] = if flags.is_empty() { &[] } else { &["service", "send_lag"] };
        assert_eq!(tags, split, "{flags:?}");
        assert!(whole.iter().all(|interval| interval.begin.is_zero()), "{flags:?}");
    }
}

/// The seconds of `windows` windows of 2.5 s lie one after the other, and hold what the report says of each.
fn assert_seconds(logged: &[Logged], windows: usize, report: &serde_json::Value) {
    let seconds = report["seconds"].as_array().unwrap();
    assert_eq!((logged.len(), seconds.len()), (3 * windows, 3 * windows));
    for (index, (second, reported)) in logged.iter().zip(seconds).enumerate() {
        let length_ms = if index % 3 == 2 { 500 } else { 1000 };
        assert_eq!(second.length.as_millis(), length_ms, "second {index}");
        let requests = reported["requests"].as_u64().unwrap();
        assert!(second.latencies.len() == requests || index % 3 == 2 && second.latencies.len() > requests);
    }
    let apart = |pair: &[Logged]| pair[0].begin + pair[0].length <= pair[1].begin + Duration::from_millis(1);
    assert!(logged.windows(2).all(apart), "they overlap");
}

#[test]
fn a_server_that_is_not_there_is_said_in_one_line_before_anything_is_sent() {
    // Port 9 (discard) has no server on any machine that tests run on; a refusal is immediate.
    for way in [&["-d", "1s"][..], &["-d", "1s", "-R", "100"], &["-d", "1s", "--http2"]] {
        let printed = whyslow(&[&["load"], way, &["http://127.0.0.1:9/"]].concat());
        assert_eq!((printed.code, printed.out.as_str()), (Some(2), ""), "{printed:?}");
        assert!(printed.err.starts_with("error: ") && printed.err.contains("127.0.0.1:9"), "{printed:?}");
        assert_eq!(printed.err.lines().count(), 1, "{printed:?}");
    }
}

/// Flags of a load, and what its one sentence says.
const REFUSED: [(&[&str], &str); 16] = [
    (&["-t", "0"], "threads must be from 1 to 8192"),
    (&["-d", "0s"], "the window must be longer than nothing"),
    (&["-d", "soon"], "'soon' is not a duration"),
    (&["--pipeline", "0"], "the pipeline must be from 1 to 1024"),
    (&["--requests", "0"], "at least one request"),
    (&["--repeat", "0"], "0 is not in 1..=1000"),
    (&["--repeat", "2", "--save", "run"], "cannot be used with"),
    (&["--ramp", "5"], "write FROM..TO"),
    (&["--steps", "5,fast"], "'fast' is not a rate"),
    (&["--rates", "no-such-file"], "cannot read --rates no-such-file"),
    (&["-R", "5", "--ramp", "1..2"], "cannot be used with"),
    (&["--slack", "1ms"], "it goes only with a rate"),
    (&["-R", "5", "--slack", "200ms"], "a slack must be at most 100 ms"),
    (&["--fail-if", "p99"], "--fail-if"),
    (&["--streams", "0", "--http2"], "there must be from 1 to 1024 streams"),
    (&["--arrival", "sometimes"], "invalid value 'sometimes'"),
];

#[test]
fn a_server_that_is_not_there_is_exit_code_2_before_anything_is_sent_and_1_after() {
    let refused = whyslow(&["load", "http://127.0.0.1:9/"]);
    assert_eq!(
        (refused.code, refused.out.as_str(), refused.err.lines().count()),
        (Some(2), "", 1),
        "{refused:?}"
    );
    assert!(refused.err.contains("no connection to 127.0.0.1:9 could be opened"), "{refused:?}");

    // It answers one request, and listens no more.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        drop(listener);
        let _ = stream.read(&mut [0; 1024]).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n").unwrap();
    });
    let printed = whyslow(&["load", "-t1", "-c1", "--requests", "1", "--repeat", "2", &url]);
    server.join().unwrap();
    assert_eq!((printed.code, printed.out.as_str()), (Some(1), ""), "{printed:?}");
    assert!(printed.err.contains("could be opened"), "{printed:?}");
}

#[test]
fn what_cannot_be_asked_for_is_refused_before_a_connection_is_opened() {
    let server = Server::start(ServerSpec::new(Behaviour::Prompt));
    let url = server.url();
    for (flags, want) in REFUSED {
        let printed = whyslow(&[&["load"], flags, &[url.as_str()]].concat());
        assert_eq!((printed.code, printed.out.as_str()), (Some(2), ""), "{flags:?}: {printed:?}");
        assert!(
            printed.err.starts_with("error: ") && printed.err.contains(want),
            "{flags:?}: {}",
            printed.err
        );
    }
    for wrong in ["", "nothing", "http://", "http://127.0.0.1:port/"] {
        let printed = whyslow(&["load", wrong]);
        assert_eq!((printed.code, printed.out.as_str()), (Some(2), ""), "'{wrong}': {printed:?}");
        assert_eq!(printed.err.lines().count(), 1, "'{wrong}': {printed:?}");
    }
    assert_eq!(server.finish().connections, 0);
}

#[test]
fn windows_that_are_repeated_are_told_one_by_one_and_reported_together() {
    let server = Server::start(ServerSpec::new(Behaviour::Prompt));
    let url = server.url();
    let printed = whyslow(&[
        "load",
        "--repeat",
        "3",
        "--requests",
        "101",
        "-t1",
        "-c4",
        "-R",
        "2k",
        "--format",
        "json",
        &url,
    ]);
    assert_eq!(printed.code, Some(0), "{printed:?}");
    let report = printed.json();
    assert_schema("load", &report);
    assert_eq!((&report["requests"], &report["response_ns"]["count"]), (&303.into(), &303.into()));
    assert_eq!(report["connections"]["established"], 4, "those of one window, not of all");
    for number in 1..=3 {
        assert!(printed.err.contains(&format!("window {number} of 3: ")), "{printed:?}");
    }
    let log = server.finish();
    assert_eq!((log.entries.len(), log.connections), (303, 12), "each window has connections of its own");
}

#[test]
fn interrupted_it_prints_what_was_measured_and_says_that_it_is_partial() {
    let server = Server::start(ServerSpec::new(Behaviour::Prompt));
    let (url, folder) = (server.url(), fresh_folder());
    for pace in [&["-R", "500"][..], &["--repeat", "3"]] {
        let printed = interrupted(&[&["-d", "300s", "--csv", "a.csv"], pace, &[&url]].concat(), &folder);
        let report = printed.json();
        assert_schema("load", &report);
        assert_eq!(report["partial"], true, "{printed:?}");
        assert!(report["window_ns"].as_u64().unwrap() < 100_000_000_000, "{printed:?}");
        assert!(report["requests"].as_u64().unwrap() > 0, "{printed:?}");
        let warnings = report["warnings"].as_array().unwrap();
        assert!(warnings.iter().any(|warning| warning["id"] == "partial"), "{printed:?}");
        assert!(folder.join("a.csv").exists(), "files are written of what there is");
        std::fs::remove_file(folder.join("a.csv")).unwrap();
    }
}

#[test]
fn interrupted_before_its_start_it_ends_and_has_asked_nothing() {
    let server = Server::start(ServerSpec::new(Behaviour::Prompt));
    let url = server.url();
    let start = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() + Duration::from_secs(3600);
    let start = format!("@{}", start.as_secs());
    let printed = interrupted(&["-d", "1s", "-R", "500", "--start-at", &start, &url], &fresh_folder());
    let report = printed.json();
    assert_schema("load", &report);
    assert_eq!((&report["partial"], &report["requests"]), (&true.into(), &0.into()), "{printed:?}");
    assert_eq!(server.finish().entries.len(), 0);
}

/// What a load of two connections says that is interrupted after three seconds.
fn interrupted(args: &[&str], folder: &Path) -> Printed {
    let mut command = Command::new(WHYSLOW);
    command.args(["load", "-t1", "-c2", "--format", "json"]).args(args).current_dir(folder);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // It runs until it is told not to, and ends soon once it is.
    std::thread::sleep(Duration::from_secs(3));
    assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    let ended = within(Duration::from_secs(60), || child.try_wait().unwrap().is_some());
    assert!(ended, "it does not end");
    Printed::from_output(child.wait_with_output().unwrap())
}

#[test]
fn a_condition_that_holds_makes_exit_code_3_and_says_the_figure() {
    let server = Server::start(ServerSpec::new(Behaviour::Prompt));
    let url = server.url();
    let load = |condition: &str| whyslow(&["load", "--requests", "211", "--fail-if", condition, &url]);
    let holds = load("requests > 210");
    assert_eq!(holds.code, Some(3), "{holds:?}");
    assert!(holds.err.contains("requests > 210 holds: it is 211"), "{holds:?}");
    assert_eq!(load("errors > 0").code, Some(0));
    let absent = load("p99.99 > 1us");
    assert_eq!(absent.code, Some(1), "too few requests for it, which must not pass: {absent:?}");
    assert!(absent.err.contains("too few requests"), "{absent:?}");
    let wrong = load("p98 > 1us");
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
    assert_eq!(server.finish().entries.len(), 3 * 211, "nothing was sent for the wrong one");
}

#[test]
fn slack_is_in_the_report_its_send_lag_and_its_warnings() {
    let server = Server::start(ServerSpec::new(Behaviour::Prompt));
    let url = server.url();
    let load = |slack: &str| {
        let all = ["load", "-t1", "-c64", "-R", "2000", "-d1s", "--slack", slack, "--format", "json", &url];
        let printed = whyslow(&all).json();
        assert_schema("load", &printed);
        printed
    };
    let (with, without) = (load("100ms"), load("0s"));
    assert_eq!(with["schedule"]["slack_ns"], 100_000_000);
    assert!(without["schedule"].get("slack_ns").is_none());
    // Of requests that wait for 0 to 100 ms, half wait for more than 50.
    let lag = |report: &serde_json::Value| report["send_lag_ns"]["p50"].as_f64().unwrap();
    assert!(lag(&with) > 40e6 && lag(&without) < 20e6, "{} {}", lag(&with), lag(&without));
    let text = with["warnings"].to_string();
    assert!(text.contains("100 ms (--slack)"), "{text}");
}

#[test]
fn rates_that_change_are_kept_and_the_series_shows_them() {
    let server = Server::start(ServerSpec::new(Behaviour::Prompt));
    let (url, folder) = (server.url(), fresh_folder());
    std::fs::write(folder.join("rates"), "200 1s # low\n800 1s\n").unwrap();
    let due = 1000.0;
    let steps = serde_json::json!([[0.0, 200.0], [1.0, 200.0], [1.0, 800.0], [2.0, 800.0]]);
    let ramp = serde_json::json!([[0.0, 0.0], [2.0, 1000.0]]);
    for (flags, shape) in
        [(["--rates", "rates"], &steps), (["--steps", "200,800"], &steps), (["--ramp", "0..1000"], &ramp)]
    {
        let files = ["--csv", "a.csv", "--prometheus", "a.prom", "--otlp", "a.json"];
        let all = [&["load", "-d", "2s", "--format", "json"], &flags[..], &files, &[url.as_str()]].concat();
        let printed = whyslow_in(&folder, &all);
        assert_eq!(printed.code, Some(0), "{printed:?}");
        let report = printed.json();
        assert_schema("load", &report);
        assert_eq!(&report["schedule"]["shape"], shape, "{flags:?}");
        let sent = report["requests"].as_f64().unwrap();
        assert!((sent - due).abs() < 0.03 * due, "{flags:?}: {sent} of {due}");
        let csv = std::fs::read_to_string(folder.join("a.csv")).unwrap();
        let seconds: Vec<f64> =
            csv.lines().skip(1).map(|line| line.split(',').nth(1).unwrap().parse().unwrap()).collect();
        assert!(seconds.len() == 2 && seconds[1] > 2.0 * seconds[0], "{flags:?}: {csv}");
        assert!(std::fs::read_to_string(folder.join("a.prom")).unwrap().contains("whyslow_load_requests{"));
        let otlp = std::fs::read_to_string(folder.join("a.json")).unwrap();
        assert!(serde_json::from_str::<serde_json::Value>(&otlp).unwrap()["resourceMetrics"].is_array());
    }
}
