//! `whyslow capacity` on real sockets.

use testkit::{Behaviour, Server, ServerSpec};

use crate::support::{assert_schema, whyslow};

const SHORT: [&str; 8] = ["--window", "400ms", "--warmup", "100ms", "--precision", "0.2", "--format", "json"];

#[test]
fn a_server_that_holds_up_to_the_ceiling_has_at_least_that() {
    let args = ["capacity", "futures", "--slo", "p50 < 1s", "-c", "4", "--from", "200", "--max-rate", "400"];
    let found = whyslow(&[&args[..], &SHORT].concat());
    assert_eq!(found.code, Some(0), "{found:?}");
    let found = found.json();
    assert_schema("capacity", &found);
    assert_eq!((&found["verdict"], found["rate_per_s"].as_f64()), (&"at_least".into(), Some(400.0)));
    let points = found["points"].as_array().unwrap();
    for purpose in ["search", "confirm", "curve", "scaling"] {
        assert!(points.iter().any(|point| point["purpose"] == purpose), "{purpose}: {points:?}");
    }
}

#[test]
fn a_bound_that_no_rate_can_meet_is_said_to_hold_never() {
    let server = Server::start(ServerSpec::new(Behaviour::Prompt));
    let url = server.url();
    let args = ["capacity", &url, "--slo", "p50 < 1ns", "-c", "2", "--from", "100"];
    let found = whyslow(&[&args[..], &SHORT].concat());
    let found = found.json();
    assert!(found["rate_per_s"].is_null(), "{found}");
    assert!(["never", "invalid"].contains(&found["verdict"].as_str().unwrap()), "{found}");
}

#[test]
fn what_cannot_be_searched_is_refused_before_anything_starts() {
    for (args, want) in [
        (vec!["capacity", "no-such-target"], "no-such-target"),
        (vec!["capacity", "futures", "--slo", "p99"], "p99 > 10ms"),
        (vec!["capacity", "futures", "--precision", "0"], "--precision"),
        (vec!["capacity", "x=./server"], "{port}"),
    ] {
        let said = whyslow(&args);
        assert_eq!(said.code, Some(2), "{args:?}: {said:?}");
        assert!(said.err.contains(want) && said.out.is_empty(), "{args:?}: {said:?}");
    }
}
