//! `whyslow capacity` on real sockets.

use testkit::{Behaviour, Server, ServerSpec};

use crate::support::{assert_schema, whyslow};

const SHORT: [&str; 6] = ["--window", "400ms", "--warmup", "100ms", "--format", "json"];

#[test]
fn a_server_that_holds_up_to_the_ceiling_has_at_least_that() {
    let args = ["capacity", "futures", "--slo", "p50 < 1s", "-c", "4", "--from", "200", "--max-rate", "400"];
    // A crowded machine may leave the generator late, which voids the search: it has three tries.
    let search = || whyslow(&[&args[..], &SHORT, &["--precision", "0.2"]].concat());
    let mut found = search();
    for _ in 0..2 {
        if found.code != Some(0) {
            found = search();
        }
    }
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
