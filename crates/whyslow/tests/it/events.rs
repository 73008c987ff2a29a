//! Streams of events in `compare` and `capacity`: those that end, by themselves or after so many events.

use crate::support::{Printed, SHORT, arms, assert_schema, fresh_folder, whyslow_in};

/// Undecided after one block, or void: these tests look at what was asked and not at the verdict.
const NO_VERDICT: [Option<i32>; 2] = [Some(4), Some(5)];
/// Events of a stream that ends.
const EVENTS: &str = "3";
/// More than any test waits for.
const ENDLESS: &str = "1000000000";

fn arm(name: &str, most: &str) -> String {
    format!("{name}='{}' events {most} {{port}}", arms().display())
}

fn compare(most: &str, flags: &[&str]) -> Printed {
    let head = ["compare", &arm("main", most), &arm("pr", most), "--sse", "--no-why", "--format", "json"];
    whyslow_in(&fresh_folder(), &[&head[..], flags, &SHORT].concat())
}

#[test]
fn streams_that_end_are_compared() {
    for (most, flags) in
        [(EVENTS, &["--equal-rates", "none"][..]), (ENDLESS, &["--events", "3", "--equal-rates", "none"])]
    {
        let printed = compare(most, flags);
        assert!(NO_VERDICT.contains(&printed.code), "{most}: {printed:?}");
        let json = printed.json();
        assert_schema("compare", &json);
        assert!(
            json["workload"].as_str().unwrap().contains(" as a stream of events"),
            "{}",
            json["workload"]
        );
        let gates = json["gates"].as_array().unwrap();
        let parity = gates.iter().find(|gate| gate["id"] == "parity").unwrap();
        // Three events of twelve bytes, wherever the stream was cut.
        assert_eq!(parity["text"], "2 arms answer alike: status 200, 36 bytes", "{most}");
        for arm in json["arms"].as_array().unwrap() {
            assert!(arm["ok"] == true && arm["requests"].as_u64().unwrap() > 50, "{arm}");
        }
    }
}

#[test]
fn a_stream_that_never_ends_is_refused_in_a_sentence() {
    let printed = compare(ENDLESS, &["--ready-limit", "1s"]);
    assert_eq!(printed.code, Some(1), "{printed:?}");
    let error = printed.json()["arms"][0]["error"].as_str().unwrap().to_owned();
    assert!(
        error.contains("its stream of events did not end within") && error.contains("--events N"),
        "{error}"
    );
}

#[test]
fn a_search_for_capacity_asks_for_streams() {
    let search =
        ["--window", "200ms", "--warmup", "50ms", "--slo", "p50 < 1s", "--from", "100", "--max-rate", "200"];
    for (most, flags) in [(EVENTS, &[][..]), (ENDLESS, &["--events", "3"])] {
        let head = ["capacity", &arm("main", most), "--sse", "-c", "8", "--format", "json"];
        let printed = whyslow_in(&fresh_folder(), &[&head[..], flags, &search].concat());
        let late = printed.code == Some(5) && printed.out.contains("the generator, not the server");
        assert!(printed.code == Some(0) || late, "{most}: {printed:?}");
    }
}
