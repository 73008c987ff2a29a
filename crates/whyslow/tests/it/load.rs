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
