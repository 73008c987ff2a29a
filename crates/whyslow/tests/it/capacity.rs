//! `whyslow capacity` on real sockets.

use serde_json::Value;
use testkit::{Behaviour, Server, ServerSpec, Wire};

use crate::serving::certificates::Authority;
use crate::support::{assert_schema, whyslow};
use crate::wires::Streams;
use crate::workload::tls_arm;

const SHORT: [&str; 6] = ["--window", "400ms", "--warmup", "100ms", "--format", "json"];

/// What is found where a server holds all that may be tried, which is `most` requests/s.
fn at_least(most: u32, target: &str, flags: &[&str]) -> Value {
    let rates = [(most / 2).to_string(), most.to_string()];
    let args = ["capacity", target, "--slo", "p50 < 1s", "-c", "4", "--precision", "0.2"];
    let rates = ["--from", &rates[0], "--max-rate", &rates[1]];
    let mut others = Vec::new();
    // A crowded machine may leave the generator late, which voids the search, or the end of a window without answers: it has three
    // tries.
    while others.len() < 3 {
        let printed = whyslow(&[&args[..], &rates, flags, &SHORT].concat());
        let found = printed.json();
        assert_schema("capacity", &found);
        let verdict = (printed.code, &found["verdict"], found["rate_per_s"].as_f64());
        if verdict == (Some(0), &"at_least".into(), Some(f64::from(most))) {
            return found;
        }
        others.push(found["text"].clone());
    }
    panic!("{target}: {others:#?}")
}

#[test]
fn a_server_that_holds_up_to_the_ceiling_has_at_least_that() {
    let found = at_least(400, "futures", &[]);
    let points = found["points"].as_array().unwrap();
    for purpose in ["search", "confirm", "curve", "scaling"] {
        assert!(points.iter().any(|point| point["purpose"] == purpose), "{purpose}: {points:?}");
    }
}

#[test]
fn the_capacity_of_servers_of_http2_and_http3_is_that_of_their_streams() {
    let wire: fn() -> Box<dyn Wire> = || Box::<Streams>::default();
    let replies = vec![Streams::reply()];
    let server = Server::start(ServerSpec { wire, replies, ..ServerSpec::new(Behaviour::Prompt) });
    at_least(400, &server.url(), &["--http2", "--streams", "2"]);
    assert!(server.finish().entries.len() > 400, "it was asked over HTTP/2");
    let authority = Authority::new("capacity");
    let (certificate, key) = authority.files(&authority.certify("localhost", 4000));
    let started = tls_arm("quic", "https3", [&certificate, &key]);
    at_least(200, &started, &["--port-env", "--insecure", "--http3", "--streams", "2"]);
}

#[test]
fn a_bound_that_no_rate_can_meet_is_said_to_hold_never() {
    let server = Server::start(ServerSpec::new(Behaviour::Prompt));
    let url = server.url();
    let args = ["capacity", &url, "--slo", "p50 < 1ns", "-c", "2", "--from", "100"];
    let found = whyslow(&[&args[..], &SHORT, &["--precision", "0.2"]].concat());
    let (code, found) = (found.code, found.json());
    assert!(found["rate_per_s"].is_null(), "{found}");
    // A crowded machine may leave the generator late, which voids the search.
    let codes = [("never", 0), ("invalid", 5)];
    assert!(
        codes.iter().any(|(verdict, want)| found["verdict"] == *verdict && code == Some(*want)),
        "{code:?} {found}"
    );
}

/// The whole number behind `words` in `text`; 0 where they are not.
fn number_after(text: &str, words: &str) -> f64 {
    let (_, rest) = text.split_once(words).unwrap_or_default();
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(0.0)
}

#[test]
fn the_knee_of_a_server_that_serves_a_thousand_a_second_is_found() {
    const KNEE_PER_S: f64 = 1000.0;
    let spec = ServerSpec::new(Behaviour::Queue { service_ns: 1_000_000 });
    // Other work on the machine delays whole windows: it has three tries.
    let attempt = |_| {
        let server = Server::start(spec.clone());
        let url = server.url();
        // Windows of which one unanswered request is less than a hundredth.
        let line = format!(
            "capacity {url} -c 16 --from 400 --arrival constant --window 700ms --warmup 100ms --precision 0.1 --format json"
        );
        let args: Vec<&str> = line.split(' ').chain(["--slo", "p50 < 10ms"]).collect();
        let printed = whyslow(&args);
        let found = printed.json();
        assert_schema("capacity", &found);
        let [rate, failed] =
            ["rate_per_s", "failed_at_per_s"].map(|name| found[name].as_f64().unwrap_or(0.0));
        let text = found["text"].to_string();
        let overloaded = number_after(&text, "Overloaded at ");
        let grows = number_after(&text, "requests/s: the backlog grows by ");
        let right = (printed.code, &found["verdict"]) == (Some(0), &"found".into())
            && (KNEE_PER_S * 0.9..KNEE_PER_S * 1.1).contains(&rate)
            && (rate..rate * 1.101).contains(&failed)
            && overloaded > KNEE_PER_S
            && (grows - (overloaded - KNEE_PER_S)).abs() < 0.1 * KNEE_PER_S;
        (!right).then_some(found["text"].clone())
    };
    let wrong: Vec<_> = (0..3).map_while(attempt).collect();
    assert!(wrong.len() < 3, "{wrong:#?}");
}

#[test]
fn a_server_that_is_not_there_ends_a_search_as_it_ends_a_load() {
    // Port 9 (discard) has no server on any machine that tests run on; a refusal is immediate.
    let [search, load] = ["capacity", "load"].map(|command| whyslow(&[command, "http://127.0.0.1:9/"]));
    assert_eq!((search.code, search.out.as_str()), (Some(2), ""), "{search:?}");
    assert_eq!((load.code, &load.err), (search.code, &search.err));
    assert_eq!(search.err.lines().count(), 1, "{search:?}");
}

#[test]
fn what_cannot_be_searched_is_refused_before_anything_starts() {
    for (args, want) in [
        (vec!["capacity", "no-such-target"], "no-such-target"),
        (vec!["capacity", "futures", "--slo", "p99"], "p99 > 10ms"),
        (vec!["capacity", "futures", "--precision", "0"], "--precision"),
        (vec!["capacity", "x=./server"], "{port}"),
    ] {
        let printed = whyslow(&args);
        assert_eq!(printed.code, Some(2), "{args:?}: {printed:?}");
        assert!(printed.err.contains(want) && printed.out.is_empty(), "{args:?}: {printed:?}");
    }
}
