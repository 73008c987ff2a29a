//! HTTP/3: what is sent on streams of QUIC is counted by a server that is not ours, and waiting for one is charged to the
//! response.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use load::schedule::{Arrival, Pace};
use load::{Address, Config, LoadError, Outcome, Roots, Target, run};
use rustls::ServerConfig;
use rustls::version::TLS13;

use crate::quic::{Script, say, serve};
use crate::serving::certificates::Authority;
use crate::serving::streams::{Conduct, Count};

pub(crate) fn identity() -> ServerConfig {
    let authority = Authority::new("http3");
    authority.server(&authority.certify("localhost", 4000), &TLS13, false)
}

fn config(address: SocketAddr, streams: u32) -> Config {
    let mut target = Target::resolve(&format!("https://localhost:{}/", address.port())).unwrap();
    target.addresses.retain(|other| *other == Address::Tcp(address));
    let mut config = Config::new(target);
    (config.threads, config.connections, config.http3) = (1, 3, Some(streams));
    config.tls.roots = Roots::Anyone;
    config.requests = Some(503);
    config.window = Duration::from_secs(60);
    config
}

fn drive(address: SocketAddr, streams: u32, change: impl FnOnce(&mut Config)) -> Result<Outcome, LoadError> {
    let mut config = config(address, streams);
    change(&mut config);
    run(&config, &AtomicBool::new(false), &mut |_| {})
}

fn counted(outcome: Result<Outcome, LoadError>, count: &Count) -> (u64, u64, usize) {
    let report = outcome.unwrap().report;
    (report.requests, report.errors.total(), count.requests())
}

#[test]
fn requests_on_streams_are_counted_by_both_sides() {
    for (streams, body, sent) in [(1, 13, 0), (16, 13, 0), (8, 100_000, 0), (4, 13, 100_000)] {
        let (address, count) = serve(identity(), Conduct { body, ..Conduct::default() });
        let outcome = drive(address, streams, |config| {
            if sent > 0 {
                config.request.method = "POST".into();
                config.request.body = vec![b'x'; sent];
            }
        });
        assert_eq!(counted(outcome, &count), (503, 0, 503), "{streams} streams, {body} and {sent} bytes");
        assert_eq!(count.connections(), 3);
        assert_eq!(count.received(), 503 * sent, "bytes of bodies that the server read");
    }
}

#[test]
fn whom_to_trust_is_asked_as_over_tls() {
    let authority = Authority::new("http3-trust");
    let server = |name: &str, year| authority.server(&authority.certify(name, year), &TLS13, false);
    let (address, count) = serve(server("localhost", 4000), Conduct::default());
    let trusting = |config: &mut Config| config.tls.roots = Roots::File(authority.file());
    assert_eq!(counted(drive(address, 4, trusting), &count), (503, 0, 503));
    let stranger = Authority::new("http3-stranger");
    let wrong: [(SocketAddr, &Authority, &str); 3] = [
        (address, &stranger, "signed by nobody who is trusted"),
        (serve(server("localhost", 2001), Conduct::default()).0, &authority, "has expired"),
        (serve(server("example.org", 4000), Conduct::default()).0, &authority, "for another host"),
    ];
    for (address, authority, words) in wrong {
        let trusting = |config: &mut Config| config.tls.roots = Roots::File(authority.file());
        let text = drive(address, 1, trusting).unwrap_err().to_string();
        assert!(text.contains(words) && !text.contains('\n'), "{text}");
    }
}

#[test]
fn waiting_for_a_stream_is_charged_to_the_response() {
    // Two streams at a time, 10 ms each: 200 a second, and 400 a second are due.
    let conduct = Conduct { most: Some(2), delay: Duration::from_millis(10), ..Conduct::default() };
    let (address, count) = serve(identity(), conduct);
    let outcome = drive(address, 8, |config| {
        (config.connections, config.requests) = (1, None);
        config.pace = Pace::open(400.0, Arrival::Constant);
        config.window = Duration::from_secs(1);
    });
    let outcome = outcome.unwrap();
    assert!(count.most_at_once() <= 2, "the server's limit is kept: {}", count.most_at_once());
    let (service, lag) = (outcome.service.unwrap(), outcome.send_lag.unwrap());
    // Half of what was due is not sent in time; the last of it half a second late.
    assert!(lag.max() > 300_000_000, "send lag {}", lag.max());
    assert!(outcome.response.value_at_quantile(0.9) > 300_000_000);
    assert!(service.value_at_quantile(0.5) < 100_000_000, "service {}", service.value_at_quantile(0.5));
}

#[test]
fn percentiles_of_a_server_that_freezes_are_those_of_the_schedule() {
    const PER_S: u64 = 400;
    const ANSWERED: u64 = 200;
    let conduct = Conduct { frozen_after: Some(ANSWERED as usize), ..Conduct::default() };
    let (address, count) = serve(identity(), conduct);
    let outcome = drive(address, 4, |config| {
        (config.connections, config.requests) = (2, None);
        config.pace = Pace::open(PER_S as f64, Arrival::Constant);
        config.window = Duration::from_secs(1);
    });
    let outcome = outcome.unwrap();
    let report = &outcome.report;
    assert_eq!(report.requests, ANSWERED);
    // What the server got and did not answer, and what waited for it.
    assert_eq!(report.unfinished, count.requests() as u64 - ANSWERED);
    assert_eq!(report.unfinished + report.unsent, PER_S - ANSWERED);
    for (quantile, least) in [(0.75, 0.25), (0.9, 0.4), (0.99, 0.49)] {
        // Those that were never answered are at least as old as the window's end says.
        let reported = outcome.response.value_at_quantile(quantile) as f64 / 1e9;
        assert!((reported - least).abs() <= 0.05 * least, "{quantile}: {reported} s instead of {least} s");
    }
}

#[test]
fn a_first_byte_is_told_from_a_last_one() {
    const APART: Duration = Duration::from_millis(80);
    let (address, _) = serve(identity(), Conduct { body: 13, halt: APART, ..Conduct::default() });
    let outcome = drive(address, 2, |config| {
        (config.requests, config.window) = (None, Duration::from_secs(1));
        config.pace = Pace::open(20.0, Arrival::Constant);
    });
    let outcome = outcome.unwrap();
    let (first, last) = (outcome.phases.first_byte.as_ref().unwrap(), outcome.service.as_ref().unwrap());
    assert!(outcome.report.requests >= 4 && first.len() == last.len(), "{:?}", outcome.report);
    // A machine that keeps us waiting for 80 ms makes one of both; it does not do so every time.
    let apart_ns = APART.as_nanos() as u64;
    assert!(first.min() < apart_ns, "{}", first.min());
    // The last ones were not over when the window was.
    assert!(last.value_at_quantile(0.5) >= apart_ns * 99 / 100, "{}", last.value_at_quantile(0.5));
}

#[test]
fn a_reset_or_a_timeout_costs_one_request_and_no_connection() {
    let (address, count) = serve(identity(), Conduct { reset_every: Some(10), ..Conduct::default() });
    let report = drive(address, 4, |_| {}).unwrap().report;
    assert_eq!((report.requests, report.errors.read), (453, 50), "{:?}", report.errors);
    assert_eq!((count.requests(), count.connections()), (503, 3));
    let (address, count) = serve(identity(), Conduct { silent_every: Some(50), ..Conduct::default() });
    let report =
        drive(address, 4, |config| config.timeout = Some(Duration::from_millis(500))).unwrap().report;
    assert_eq!((report.requests, report.errors.timeout), (493, 10), "{:?}", report.errors);
    assert_eq!(count.connections(), 3);
}

#[test]
fn a_connection_that_ends_in_good_order_is_replaced_without_an_error() {
    let (address, count) = serve(identity(), Conduct { goodbye_after: Some(50), ..Conduct::default() });
    let report = drive(address, 4, |_| {}).unwrap().report;
    assert_eq!((report.requests, report.errors.total()), (503, 0), "{:?}", report.errors);
    assert!(count.connections() > 6, "{}", count.connections());
}

/// Of four requests at a time, two are answered before the server says farewell.
#[test]
fn what_a_farewell_has_refused_is_asked_again() {
    let script = Script {
        streams: vec![vec![0, 4, 0]],
        answer: Some(vec![1, 3, 0, 0, 0xc0 | 25]),
        farewell_after: Some(2),
        ..Script::default()
    };
    let (address, requests) = say(identity(), script);
    let report = drive(address, 4, |config| config.requests = Some(40)).unwrap().report;
    assert_eq!((report.requests, report.errors.total()), (40, 0), "{:?}", report.errors);
    assert!(requests.load(Ordering::SeqCst) > 40, "nothing was asked twice");
    let told = report.warnings.iter().find(|warning| warning.id == "resent").unwrap();
    assert!(told.text.contains("in good order (GOAWAY)"), "{}", told.text);
}

#[test]
fn lists_are_sent_on_streams() {
    let (address, count) = serve(identity(), Conduct::default());
    let outcome = drive(address, 4, |config| {
        config.list = Some(Arc::new(crate::list::drawn("/a\n/b\n")));
    });
    assert_eq!(counted(outcome, &count), (503, 0, 503));
    let paths = count.paths();
    assert_eq!(paths.keys().collect::<Vec<_>>(), ["/a", "/b"]);
    assert!(paths["/a"] > 150 && paths["/b"] > 150, "{paths:?}");
}

#[test]
fn what_is_no_answer_and_what_breaks_the_protocol_are_errors_of_parsing() {
    const SETTINGS: &[u8] = &[0, 4, 0];
    let ok: &[u8] = &[1, 3, 0, 0, 0xc0 | 25];
    // Whole answers that are wrong cost a request each and no connection.
    for answer in [&[][..], &[1, 3, 0, 0, 0xc0], &[1, 6, 0, 0, 0xc0 | 25, 0x54, 1, b'9']] {
        let script =
            Script { streams: vec![SETTINGS.to_vec()], answer: Some(answer.to_vec()), ..Script::default() };
        let (address, requests) = say(identity(), script);
        let report = drive(address, 2, |config| config.requests = Some(40)).unwrap().report;
        assert_eq!((report.requests, report.errors.parse), (0, 40), "{answer:?}: {:?}", report.errors);
        assert_eq!(requests.load(Ordering::SeqCst), 40);
    }
    // What breaks the protocol ends the connection, costs a request, and is named.
    type Broken<'a> = (Vec<Vec<u8>>, &'a [u8], bool);
    let breaks: [Broken<'_>; 6] = [
        (vec![vec![0, 0, 0]], ok, false),
        (vec![SETTINGS.to_vec(), SETTINGS.to_vec()], ok, false),
        (vec![SETTINGS.to_vec()], ok, true),
        (vec![vec![1, 0]], ok, false),
        (vec![SETTINGS.to_vec()], &[0, 1, b'x'], false),
        (vec![SETTINGS.to_vec()], &[1, 2, 9, 9], false),
    ];
    for (streams, answer, ends) in breaks {
        let script =
            Script { streams: streams.clone(), answer: Some(answer.to_vec()), ends, ..Script::default() };
        let (address, _) = say(identity(), script);
        let report = drive(address, 1, |config| {
            (config.requests, config.window) = (None, Duration::from_millis(500));
        });
        let report = report.unwrap().report;
        let named = report.warnings.iter().any(|one| one.text.contains("the server breaks the protocol: "));
        // An answer may come before what breaks the protocol does.
        assert!((report.errors.parse > 0 && named) || report.requests > 0, "{streams:?}: {report:?}");
    }
}

#[test]
fn a_server_that_never_answers_and_one_that_talks_without_end_keep_nobody() {
    for endless in [false, true] {
        let streams = vec![vec![0, 4, 0], vec![0x21]];
        let (address, requests) = say(identity(), Script { streams, endless, ..Script::default() });
        let outcome = drive(address, 2, |config| {
            (config.requests, config.window) = (None, Duration::from_millis(1500));
            config.pace = Pace::open(20.0, Arrival::Constant);
        });
        let report = outcome.unwrap().report;
        assert_eq!(report.requests, 0);
        assert_eq!(report.unfinished + report.unsent, 30, "{report:?}");
        assert!(report.response_ns.max > 1_000_000_000, "censored requests are in the response");
        assert!(endless || requests.load(Ordering::SeqCst) == 6);
    }
}

#[test]
fn what_is_no_server_of_it_is_told_apart() {
    // Nobody there.
    let address = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let text = drive(address, 1, |_| {}).unwrap_err().to_string();
    assert!(text.contains("no connection to") && text.contains("refused"), "{text}");
    // QUIC, and another protocol on it.
    let mut other = identity();
    other.alpn_protocols = vec![b"doq".to_vec()];
    let (address, _) = serve(other, Conduct::default());
    let text = drive(address, 1, |_| {}).unwrap_err().to_string();
    assert!(text.contains("does not speak HTTP/3"), "{text}");
}

#[test]
fn what_it_does_not_go_with_is_refused() {
    let address: SocketAddr = "127.0.0.1:9".parse().unwrap();
    type Change<'a> = &'a dyn Fn(&mut Config);
    let cases: [(Change<'_>, &str); 5] = [
        (&|config| config.pipeline = 2, "use --streams"),
        (&|config| config.http3 = Some(0), "from 1 to 1024 streams"),
        (&|config| config.http2 = Some(1), "neither with HTTP/2"),
        (&|config| config.per_connection = Some(5), "no limit of requests"),
        (&|config| config.target.scheme = load::Scheme::Http, "write https://"),
    ];
    for (change, words) in cases {
        let text = drive(address, 1, |config| change(config)).unwrap_err().to_string();
        assert!(text.contains(words), "{text}");
    }
}
