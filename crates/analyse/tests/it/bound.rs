//! Conditions on load reports: what is read, what is refused, what holds.

use analyse::{Bound, Judged};
use model::record::{Growth, ServerGrowth};

fn judge(text: &str) -> Judged {
    let mut report = testkit::load_report(50_000.0);
    report.response_ns.p99 = Some(10_000_000);
    report.service_ns.p99 = Some(2_000_000);
    report.response_ns.p99_999 = None;
    report.errors.timeout = 3;
    report.requests = 997;
    report.rate_ratio = None;
    // Between 2.5 and 7 MiB an hour for sure, and descriptors by what may be chance.
    let grows = |per_h, low, high| Growth { per_h, low, high };
    report.server = Some(ServerGrowth {
        pid: 1,
        looks: 240,
        rss_bytes: 1 << 24,
        descriptors: 9,
        rss_slope_bytes: grows(5e6, 2.5 * 1_048_576.0, 7e6),
        descriptors_slope: grows(4.0, -1.0, 9.0),
    });
    text.parse::<Bound>().unwrap().judge(&report)
}

#[test]
fn every_order_is_judged_at_its_edge() {
    let cases = [
        ("p99 > 10ms", false),
        ("p99 >= 10ms", true),
        ("p99 < 10ms", false),
        ("p99<=10ms", true),
        ("service.p99 < 2001us", true),
        ("service_p99 > 3ms", false),
        ("rate < 50k", false),
        ("rate >= 50000", true),
        ("errors > 2", true),
        ("error_rate > 0.31%", false),
        ("error_rate > 0.0029", true),
        ("errors.timeout >= 3", true),
        ("errors_status > 0", false),
        ("bytes_read > 63MiB", false),
        ("bytes_read > 61MiB", true),
        ("established < 64", false),
        ("in_flight > 63.5", true),
        ("busiest_thread > 59%", true),
        ("busiest_thread > 0.61", false),
        ("cpu_user > 999ns", true),
        ("window < 10s", false),
        ("warnings > 0", false),
        ("rss_slope > 2MiB/h", true),
        ("rss_slope > 7MiB/h", false),
        ("descriptors_slope > 9/h", false),
    ];
    for (text, want) in cases {
        let holds = match judge(text) {
            Judged::Holds(_) => true,
            Judged::Fails(_) => false,
            other => panic!("{text} is {other:?}"),
        };
        assert_eq!(holds, want, "{text}");
    }
}

/// The names that the refusal of an unknown one lists.
fn known_names() -> Vec<String> {
    let error = "p98 > 1ms".parse::<Bound>().unwrap_err().to_string();
    let (_, names) = error.split_once("choose one of ").unwrap();
    let (names, latencies) = names.split_once(", or ").unwrap();
    assert!(latencies.contains("service.p99") && latencies.contains("send_lag.p99"), "{error}");
    names.split(", ").map(str::to_owned).collect()
}

#[test]
fn every_name_that_is_told_is_taken_with_and_without_its_points() {
    let names = known_names();
    assert_eq!(names.len(), 45, "{names:?}");
    let latencies = names.iter().take_while(|name| *name != "rate");
    let others = ["response_", "service_", "send_lag_"]
        .map(|time| latencies.clone().map(move |name| format!("{time}{name}")));
    for name in names.iter().cloned().chain(others.into_iter().flatten()) {
        for name in [name.replace('_', "."), name] {
            // One of these is a value in the unit of any figure.
            let taken = ["1ms", "1k", "1", "1KiB/h", "1/h"]
                .iter()
                .any(|value| format!("{name} > {value}").parse::<Bound>().is_ok());
            assert!(taken, "{name}");
        }
    }
}

#[test]
fn every_figure_of_the_report_that_may_be_judged_has_a_name() {
    // What was asked for is no figure, and neither are the counts of histograms and the intervals of percentiles.
    const ASKED: [&str; 5] = ["schema", "threads", "pipeline", "connections_requested", "schedule_seed"];
    let report = serde_json::to_value(testkit::load_report(50_000.0)).unwrap();
    let names = known_names();
    let mut checked = 0;
    for (key, value) in report.as_object().unwrap() {
        let fields = match value {
            serde_json::Value::Object(fields) => {
                fields.iter().map(|(field, value)| (format!("{key}_{field}"), value)).collect()
            }
            value => vec![(key.clone(), value)],
        };
        for (path, _) in fields.iter().filter(|(_, value)| value.is_number()) {
            let name = path
                .replace("_ns_per_request", "")
                .replace("_per_s", "")
                .replace("_ns", "")
                .replace("connections_established", "established");
            let known =
                ["response_", "service_", "send_lag_"].iter().find_map(|time| name.strip_prefix(time));
            let known = known.unwrap_or(&name).to_owned();
            checked += 1;
            assert!(
                names.contains(&known) || ASKED.contains(&path.as_str()) || path.ends_with("_ns_count"),
                "{path}"
            );
        }
    }
    assert!(checked > 40, "only {checked} figures were looked at");
}

#[test]
fn a_growth_whose_interval_has_the_bound_in_it_is_not_decided_and_how_long_would_do_is_told() {
    let times = |text: &str| match judge(text) {
        Judged::Undecided { times_as_long, .. } => times_as_long,
        other => panic!("{text} is {other:?}"),
    };
    // Of 4 [-1, 9]: five off on either side.
    assert_eq!(times("descriptors_slope > 5/h"), 5.0);
    assert_eq!(times("descriptors_slope > 2/h"), 2.5);
    assert_eq!(times("descriptors_slope < 6.5/h"), 2.0);
    assert!(times("rss_slope > 3MiB/h") > 1.0);
    assert!(times("descriptors_slope > 4/h").is_infinite());
}

#[test]
fn a_figure_that_the_window_cannot_give_is_absent() {
    for text in ["p99.999 > 1s", "rate_ratio < 99%"] {
        assert_eq!(judge(text), Judged::Absent, "{text}");
    }
}

#[test]
fn what_is_no_condition_is_refused_with_what_to_write() {
    let cases = [
        ("", "'p99 > 10ms'"),
        ("p99 10ms", "'p99 > 10ms'"),
        ("p98 > 10ms", "there is no 'p98'"),
        ("p99 > 10", "10ms"),
        ("p99 > -1ms", "10ms"),
        ("errors > many", "such as 0"),
        ("errors > 1.5", "such as 0"),
        ("error_rate > nan", "0.1%"),
        ("rate < 0", "30k"),
        ("bytes_read > many", "such as 64KiB"),
        ("in_flight > many", "such as 0.5"),
    ];
    for (text, want) in cases {
        let error = text.parse::<Bound>().expect_err(text).to_string();
        assert!(error.contains(want), "'{text}': {error}");
    }
}
