//! Conditions on load reports: what is read, what is refused, what holds.

use analyse::{Bound, Judged};

fn judge(text: &str) -> Judged {
    let mut report = testkit::load_report(50_000.0);
    report.response_ns.p99 = Some(10_000_000);
    report.service_ns.p99 = Some(2_000_000);
    report.response_ns.p99_999 = None;
    report.errors.timeout = 3;
    report.requests = 997;
    report.rate_ratio = None;
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
    ];
    for (text, want) in cases {
        let holds = match judge(text) {
            Judged::Holds(_) => true,
            Judged::Fails(_) => false,
            Judged::Absent => panic!("{text} is absent"),
        };
        assert_eq!(holds, want, "{text}");
    }
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
    ];
    for (text, want) in cases {
        let error = text.parse::<Bound>().expect_err(text).to_string();
        assert!(error.contains(want), "'{text}': {error}");
    }
}
