//! gRPC: `grpc-status` is the answer, the server's own count of calls, and answers that are none.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use load::schedule::{Arrival, Pace};
use load::session::enveloped;
use load::{Config, Target, run};
use model::record::LoadReport;

use crate::serving::streams::{Call, Conduct, Count, serve};

/// Calls of one run.
const CALLS: u64 = 101;

fn config(address: SocketAddr, streams: u32) -> Config {
    let mut config = Config::new(Target::resolve(&format!("http://{address}/shop.Orders/Get")).unwrap());
    (config.threads, config.connections, config.http2, config.grpc) = (1, 2, Some(streams), true);
    config.request.method = "POST".into();
    config.request.headers.push(("Content-Type".into(), "application/grpc".into()));
    config.request.headers.push(("TE".into(), "trailers".into()));
    config.request.body = enveloped(b"hello").unwrap();
    config.requests = Some(CALLS);
    config.window = Duration::from_secs(20);
    config.timeout = Some(Duration::from_secs(2));
    config
}

fn call(call: Call, change: impl FnOnce(&mut Config)) -> (LoadReport, Count) {
    let (address, count) = serve(Conduct { call: Some(call), ..Conduct::default() });
    let mut config = config(address, 4);
    change(&mut config);
    (run(&config, &AtomicBool::new(false), &mut |_| {}).unwrap().report, count)
}

#[test]
fn calls_are_counted_by_both_sides_whatever_their_answers_hold() {
    let three =
        [enveloped(b"").unwrap(), enveloped(&[1; 70_000]).unwrap(), enveloped(b"x").unwrap()].concat();
    for body in [Call::default().body, three] {
        let (report, count) = call(Call { body, ..Call::default() }, |_| ());
        assert_eq!((report.requests, report.errors.total()), (CALLS, 0), "{report:?}");
        assert_eq!((count.requests() as u64, count.connections()), (CALLS, 2));
        assert_eq!(count.received() as u64, CALLS * 10, "an envelope of 5 bytes and 5 of the message");
        assert_eq!(count.paths().keys().collect::<Vec<_>>(), ["/shop.Orders/Get"]);
    }
}

#[test]
fn a_status_other_than_0_is_an_error_by_its_name() {
    let failing = Call { unavailable_every: Some(10), ..Call::default() };
    let (report, _) = call(failing, |_| ());
    assert_eq!((report.requests, report.errors.status, report.errors.total()), (CALLS, 10, 10), "{report:?}");
    assert_eq!(report.errors_by_status, [("UNAVAILABLE".to_owned(), 10)].into());
    for (answer, name) in [
        (Call { status: Some("5"), body: Vec::new(), ..Call::default() }, "NOT_FOUND"),
        (Call { early: Some("12"), ..Call::default() }, "UNIMPLEMENTED"),
        (Call { http_status: 503, content_type: "text/html", status: None, ..Call::default() }, "503"),
    ] {
        let (report, count) = call(answer, |_| ());
        assert_eq!(report.errors_by_status, [(name.to_owned(), CALLS)].into(), "{report:?}");
        assert_eq!((report.requests, count.connections()), (CALLS, 2), "{name}: connections are kept");
    }
}

#[test]
fn why_a_call_fails_is_told_by_name_and_message() {
    let message = Some("no%20such method");
    for answer in [
        Call { early: Some("12"), message, ..Call::default() },
        Call { status: Some("12"), body: Vec::new(), message, ..Call::default() },
    ] {
        let (report, _) = call(answer, |_| ());
        let texts: Vec<&str> = report.warnings.iter().map(|warning| warning.text.as_str()).collect();
        for words in [
            format!("status {CALLS} (UNIMPLEMENTED: {CALLS})"),
            "grpc-status UNIMPLEMENTED \"no such method\"".to_owned(),
        ] {
            assert!(texts.iter().any(|text| text.contains(&words)), "{words}: {texts:?}");
        }
    }
}

#[test]
fn what_is_no_answer_costs_one_call_and_says_why() {
    for (answer, why) in [
        (Call { status: None, ..Call::default() }, "the answer ends without grpc-status"),
        (Call { status: Some("well"), ..Call::default() }, "grpc-status of the answer is not a number"),
        (Call { content_type: "text/html", ..Call::default() }, "its content type is not application/grpc"),
        (Call { body: vec![1, 0, 0, 0, 1, 7], ..Call::default() }, "compressed, which was not agreed on"),
        (Call { body: vec![b'<', 0], ..Call::default() }, "begins with 60, which is neither 0 nor 1"),
        (Call { body: vec![0, 0, 0, 1, 0, 7], ..Call::default() }, "the answer ends within a message"),
        (
            Call { body: vec![0, 0xff, 0xff, 0xff, 0xff], ..Call::default() },
            "the answer ends within a message",
        ),
        (Call { body: vec![0, 0], ..Call::default() }, "the answer ends within a message"),
    ] {
        let (report, count) = call(answer, |_| ());
        assert_eq!((report.requests, report.errors.parse, report.errors.total()), (0, CALLS, CALLS), "{why}");
        assert_eq!(count.connections(), 2, "{why}: the connections are kept");
        let warnings = report.warnings.iter().filter(|warning| warning.text.contains(why)).count();
        assert_eq!(warnings, 1, "{why}: {:?}", report.warnings);
    }
}

#[test]
fn a_method_that_does_not_stream_is_answered_by_one_message() {
    let message = |count: usize| enveloped(b"x").unwrap().repeat(count);
    for (answer, why) in [
        (Call { body: message(2), ..Call::default() }, "holds 2 messages instead of one"),
        (Call { body: message(0), ..Call::default() }, "holds 0 messages instead of one"),
        (Call { early: Some("0"), ..Call::default() }, "holds 0 messages instead of one"),
    ] {
        let (report, count) = call(answer.clone(), |config| config.one_message = true);
        assert_eq!((report.requests, report.errors.parse, report.errors.total()), (0, CALLS, CALLS), "{why}");
        assert_eq!(count.connections(), 2, "{why}: the connections are kept");
        assert!(report.warnings.iter().any(|warning| warning.text.contains(why)), "{:?}", report.warnings);
        let (report, _) = call(answer, |_| ());
        assert_eq!((report.requests, report.errors.total()), (CALLS, 0), "a stream has any number: {why}");
    }
    let (report, _) = call(Call::default(), |config| config.one_message = true);
    assert_eq!((report.requests, report.errors.total()), (CALLS, 0), "{report:?}");
    let failing = Call { status: Some("5"), body: Vec::new(), ..Call::default() };
    let (report, _) = call(failing, |config| config.one_message = true);
    assert_eq!(
        (report.errors.status, report.errors.total()),
        (CALLS, CALLS),
        "who fails sends none: {report:?}"
    );
}

#[test]
fn an_open_loop_charges_calls_for_what_they_waited() {
    // Two streams at a time, 10 ms each: 200 a second, and 400 a second are due.
    let conduct = Conduct {
        most: Some(2),
        delay: Duration::from_millis(10),
        call: Some(Call::default()),
        ..Conduct::default()
    };
    let (address, _) = serve(conduct);
    let mut config = config(address, 8);
    (config.connections, config.requests, config.window) = (1, None, Duration::from_secs(1));
    config.pace = Pace::open(400.0, Arrival::Constant);
    let report = run(&config, &AtomicBool::new(false), &mut |_| {}).unwrap().report;
    assert!(report.requests < 250 && report.errors.total() == 0, "{report:?}");
    assert!(report.response_ns.p50.unwrap() > 150_000_000, "half of a second's backlog: {report:?}");
    assert!(report.unsent + report.unfinished > 150, "{report:?}");
}
