//! `whyslow load` by itself: it counts, and says so in every format.

use testkit::{Behaviour, Server, ServerSpec};

use crate::support::{assert_schema, fresh_folder, whyslow, whyslow_in};

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
        let said = whyslow(&[&common[..], way, &[url.as_str()]].concat());
        assert_eq!(said.code, Some(0), "{way:?}: {said:?}");
        let report = said.json();
        assert_schema("load", &report);
        let log = server.finish();
        assert_eq!(report["requests"], PRIME, "{way:?}: {said:?}");
        assert_eq!(log.entries.len() as u64, PRIME, "{way:?}: the server saw another number");
        assert_eq!(report["response_ns"]["count"], PRIME, "{way:?}");
        assert_eq!(report["unfinished"], 0, "{way:?}");
        let errors = report["errors"].as_object().unwrap();
        assert!(errors.values().all(|count| count == 0), "{way:?}: {errors:?}");
    }
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
fn a_server_that_is_not_there_is_said_with_exit_code_1() {
    // Port 9 (discard) has no server on any machine that tests run on; a refusal is immediate.
    let said = whyslow(&["load", "-d", "1s", "http://127.0.0.1:9/"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.err.starts_with("error: ") && said.err.contains("127.0.0.1:9"), "{said:?}");
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
fn rates_that_change_are_kept_and_the_series_shows_them() {
    let server = Server::start(ServerSpec::new(Behaviour::Prompt));
    let (url, folder) = (server.url(), fresh_folder());
    std::fs::write(folder.join("rates"), "200 1s # low\n800 1s\n").unwrap();
    for (flags, due) in
        [(["--rates", "rates"], 1000.0), (["--steps", "200,800"], 1000.0), (["--ramp", "0..1000"], 1000.0)]
    {
        let files = ["--csv", "a.csv", "--prometheus", "a.prom", "--otlp", "a.json"];
        let all = [&["load", "-d", "2s", "--format", "json"], &flags[..], &files, &[url.as_str()]].concat();
        let said = whyslow_in(&folder, &all);
        assert_eq!(said.code, Some(0), "{said:?}");
        let sent = said.json()["requests"].as_f64().unwrap();
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
