//! HTTP/2: what is sent on streams is counted, and waiting for one is charged to the response.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use load::schedule::{Arrival, Pace};
use load::{Config, LoadError, Outcome, Roots, Target, run};
use rustls::version::TLS13;
use testkit::{Behaviour, Reply, Server, ServerSpec};

use crate::serving::certificates::Authority;
use crate::serving::streams::{Conduct, Count, serve, serve_tls};
use crate::wires::Streams;

fn config(url: &str, streams: u32) -> Config {
    let mut config = Config::new(Target::resolve(url).unwrap());
    (config.threads, config.connections, config.http2) = (1, 3, Some(streams));
    config.requests = Some(503);
    config.window = Duration::from_secs(20);
    config
}

fn drive(address: SocketAddr, streams: u32, change: impl FnOnce(&mut Config)) -> Result<Outcome, LoadError> {
    let mut config = config(&format!("http://{address}/"), streams);
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
        let (address, count) = serve(Conduct { body, ..Conduct::default() });
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
fn over_tls_it_is_agreed_on() {
    let authority = Authority::new("http2");
    let mut server = authority.server(&authority.certify("localhost", 4000), &TLS13, false);
    let (address, count) = serve_tls(server.clone(), Conduct::default());
    let url = format!("https://localhost:{}/", address.port());
    let run_to = |address: SocketAddr, url: &str| {
        let mut config = config(url, 8);
        config.target.addresses.retain(|other| *other == load::Address::Tcp(address));
        config.tls.roots = Roots::File(authority.file());
        run(&config, &AtomicBool::new(false), &mut |_| {})
    };
    assert_eq!(counted(run_to(address, &url), &count), (503, 0, 503));
    // A server that speaks HTTP/1.1 only.
    for protocols in [vec![], vec![b"http/1.1".to_vec()]] {
        server.alpn_protocols = protocols;
        let (address, _) = serve_tls(server.clone(), Conduct::default());
        let url = format!("https://localhost:{}/", address.port());
        let text = run_to(address, &url).unwrap_err().to_string();
        assert!(text.contains("HTTP/2") || text.contains("none of the protocols"), "{text}");
    }
}

#[test]
fn waiting_for_a_stream_is_charged_to_the_response() {
    // Two streams at a time, 10 ms each: 200 a second, and 400 a second are due.
    let conduct = Conduct { most: Some(2), delay: Duration::from_millis(10), ..Conduct::default() };
    let (address, count) = serve(conduct);
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
fn a_reset_or_a_timeout_costs_one_request_and_no_connection() {
    let (address, count) = serve(Conduct { reset_every: Some(10), ..Conduct::default() });
    let report = drive(address, 4, |_| {}).unwrap().report;
    assert_eq!((report.requests, report.errors.read), (453, 50), "{:?}", report.errors);
    assert_eq!((count.requests(), count.connections()), (503, 3));
    let (address, count) = serve(Conduct { silent_every: Some(50), ..Conduct::default() });
    let report =
        drive(address, 4, |config| config.timeout = Some(Duration::from_millis(500))).unwrap().report;
    assert_eq!((report.requests, report.errors.timeout), (493, 10), "{:?}", report.errors);
    assert_eq!(count.connections(), 3);
}

#[test]
fn a_connection_that_ends_in_good_order_is_replaced_without_an_error() {
    let (address, count) = serve(Conduct { goodbye_after: Some(50), ..Conduct::default() });
    let report = drive(address, 4, |_| {}).unwrap().report;
    // What was under way when the server said goodbye is answered, or asked again on another connection.
    assert_eq!((report.requests, report.errors.total()), (503, 0), "{:?}", report.errors);
    assert!(count.connections() > 6, "{}", count.connections());
}

/// Settings, then an answer to every second request and a farewell that names it as the last; what was asked after it is not looked at.
#[test]
fn what_a_server_has_not_looked_at_is_asked_again() {
    for farewell_first in [false, true] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                std::thread::spawn(move || answer_two(stream, farewell_first));
            }
        });
        let report =
            drive(address, 4, |config| (config.connections, config.requests) = (1, Some(40))).unwrap().report;
        assert_eq!(
            (report.requests, report.errors.total()),
            (40, 0),
            "{farewell_first}: {:?}",
            report.errors
        );
        // It is not short of anything: it says farewell.
        let told = report.warnings.iter().find(|warning| warning.id == "resent").unwrap();
        assert!(
            told.text.contains("in good order (GOAWAY)") && !told.text.contains("short"),
            "{}",
            told.text
        );
    }
}

/// Answers the first two requests, and says that it looks at no others.
fn answer_two(mut stream: TcpStream, farewell_first: bool) {
    const FAREWELL: &[u8] = b"\x00\x00\x08\x07\x00\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x00";
    let answers = [1, 3].map(|id| [0, 0, 1, 1, 5, 0, 0, 0, id, 0x88]).concat();
    stream.write_all(b"\x00\x00\x00\x04\x00\x00\x00\x00\x00").unwrap();
    // The last connection is asked less.
    stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let (mut bytes, mut buf) = (Vec::new(), [0; 4096]);
    // Fields of a request, at least twice: 1 and 5 are kind and flags of their frames.
    while bytes.windows(2).filter(|two| *two == b"\x01\x05").count() < 4 {
        match stream.read(&mut buf) {
            Ok(read @ 1..) => bytes.extend_from_slice(&buf[..read]),
            Ok(_) => return,
            Err(_) => break,
        }
    }
    let mut parts = [&answers[..], FAREWELL];
    if farewell_first {
        parts.reverse();
    }
    stream.write_all(&parts.concat()).unwrap();
    let _ = std::io::copy(&mut stream, &mut std::io::sink());
}

/// Answers the first request of each connection, reads the next one and closes without a word; `breaks` it says something else that
/// is no HTTP/2 first.
fn answer_one(mut stream: TcpStream, breaks: bool) {
    const WIDE_OPEN: &[u8] = b"\x00\x00\x04\x08\x00\x00\x00\x00\x00\x7f\xff\xff\xff";
    stream.write_all(b"\x00\x00\x00\x04\x00\x00\x00\x00\x00").unwrap();
    let (mut bytes, mut buf, mut answered) = (Vec::new(), [0; 4096], false);
    loop {
        match stream.read(&mut buf) {
            Ok(read @ 1..) => bytes.extend_from_slice(&buf[..read]),
            _ => return,
        }
        // Fields of a request: 1 and 5 are kind and flags of their frame.
        let asked = bytes.windows(2).filter(|two| *two == b"\x01\x05").count();
        if breaks && asked > 0 {
            let _ = stream.write_all(WIDE_OPEN);
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
            return;
        }
        if asked > 0 && !std::mem::replace(&mut answered, true) {
            stream.write_all(&[0, 0, 1, 1, 5, 0, 0, 0, 1, 0x88]).unwrap();
        }
        if asked > 1 {
            return;
        }
    }
}

fn serve_one(breaks: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || answer_one(stream, breaks));
        }
    });
    address
}

#[test]
fn a_request_that_meets_the_close_of_a_kept_connection_is_sent_again() {
    let one = |config: &mut Config| (config.connections, config.requests) = (1, Some(40));
    let report = drive(serve_one(false), 1, one).unwrap().report;
    assert_eq!((report.requests, report.errors.total(), report.resent), (40, 0, 39), "{report:?}");
    let post = |config: &mut Config| {
        config.request.method = "POST".into();
        one(config);
    };
    let report = drive(serve_one(false), 1, post).unwrap().report;
    assert_eq!((report.requests, report.errors.read, report.resent), (20, 20, 0), "{report:?}");
}

#[test]
fn what_breaks_the_protocol_costs_a_request_and_is_named() {
    let once = |config: &mut Config| (config.connections, config.requests) = (1, Some(10));
    let report = drive(serve_one(true), 1, once).unwrap().report;
    assert_eq!((report.requests, report.errors.parse), (0, 10), "{report:?}");
    let named =
        report.warnings.iter().any(|one| one.text.contains("the server breaks the protocol: the window"));
    assert!(named, "{:?}", report.warnings);
}

#[test]
fn a_server_that_pings_and_reads_no_answers_is_left() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let pings = b"\x00\x00\x08\x06\x00\x00\x00\x00\x0012345678".repeat(4_000);
        for mut stream in listener.incoming().map_while(Result::ok) {
            let pings = pings.clone();
            std::thread::spawn(move || {
                let _ = stream.write_all(b"\x00\x00\x00\x04\x00\x00\x00\x00\x00");
                while stream.write_all(&pings).is_ok() {}
            });
        }
    });
    let report =
        drive(address, 1, |config| (config.connections, config.requests) = (1, Some(2))).unwrap().report;
    let named = report.warnings.iter().any(|one| one.text.contains("it sends pings or settings faster"));
    assert!(named && report.errors.parse == 2, "{report:?}");
}

/// Answers each request at its fields, and then says that it wants no body.
#[test]
fn a_request_that_is_answered_before_its_body_is_there_is_not_broken_off() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let resets = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&resets);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let seen = Arc::clone(&seen);
            std::thread::spawn(move || answer_early(stream, &seen));
        }
    });
    let outcome = drive(address, 4, |config| {
        (config.connections, config.requests) = (1, Some(200));
        config.request.method = "POST".into();
        config.request.body = vec![b'x'; 100_000];
    });
    let report = outcome.unwrap().report;
    assert_eq!((report.requests, report.errors.total()), (200, 0), "{:?}", report.errors);
    assert_eq!(resets.load(Ordering::SeqCst), 0, "streams that the generator broke off");
}

fn answer_early(mut stream: TcpStream, resets: &AtomicUsize) -> Option<()> {
    const NO_ERROR: [u8; 4] = [0; 4];
    stream.write_all(b"\x00\x00\x00\x04\x00\x00\x00\x00\x00").ok()?;
    stream.read_exact(&mut [0; 24]).ok()?;
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).ok()?;
        let [a, b, c, kind, _, id @ ..] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        stream.read_exact(&mut payload).ok()?;
        match kind {
            0 => {
                // Its window is given back.
                let more = (payload.len() as u32).to_be_bytes();
                stream.write_all(&[&[0, 0, 4, 8, 0, 0, 0, 0, 0], &more[..]].concat()).ok()?;
            }
            1 => {
                let answer = [&[0, 0, 1, 1, 5][..], &id, &[0x88]].concat();
                let enough = [&[0, 0, 4, 3, 0][..], &id, &NO_ERROR].concat();
                stream.write_all(&[answer, enough].concat()).ok()?;
            }
            3 => {
                resets.fetch_add(1, Ordering::SeqCst);
            }
            _ => {}
        }
    }
}

#[test]
fn lists_are_sent_on_streams() {
    let (address, count) = serve(Conduct::default());
    let outcome = drive(address, 4, |config| {
        config.list = Some(Arc::new(crate::list::drawn("/a\n/b\n")));
    });
    assert_eq!(counted(outcome, &count), (503, 0, 503));
    let paths = count.paths();
    assert_eq!(paths.keys().collect::<Vec<_>>(), ["/a", "/b"]);
    assert!(paths["/a"] > 150 && paths["/b"] > 150, "{paths:?}");
}

#[test]
fn a_server_that_does_not_speak_it_is_recognised() {
    for reply in [&b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"[..], &[0xff; 4096]] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let _ = stream.write_all(reply);
                std::thread::spawn(move || std::io::copy(&mut stream, &mut std::io::sink()));
            }
        });
        let text = drive(address, 4, |_| {}).unwrap_err().to_string();
        assert!(text.contains("is not HTTP/2") && !text.contains('\n'), "{text}");
    }
}

#[test]
fn what_it_does_not_go_with_is_refused() {
    let field = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
    let address: SocketAddr = "127.0.0.1:9".parse().unwrap();
    type Change<'a> = &'a dyn Fn(&mut Config);
    let cases: [(Change<'_>, &str); 4] = [
        (&|config| config.pipeline = 2, "use --streams"),
        (&|config| config.http2 = Some(0), "from 1 to 1024 streams"),
        (
            &|config| config.request.headers.extend(field("Transfer-Encoding", "chunked")),
            "leave Transfer-Encoding out",
        ),
        (
            &|config| {
                config.request.headers.extend(field("Expect", "100-continue"));
                config.request.body = b"x".to_vec();
            },
            "only with HTTP/1.1",
        ),
    ];
    for (change, words) in cases {
        let text = drive(address, 1, |config| change(config)).unwrap_err().to_string();
        assert!(text.contains(words), "{text}");
    }
}

#[test]
fn why_a_server_breaks_off_is_told_by_the_name_of_its_code() {
    let goaway: &[u8] = b"\x00\x00\x11\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x0bcalm down";
    let reset = |code| [&b"\x00\x00\x04\x03\x00\x00\x00\x00\x00\x00\x00\x00"[..], &[code]].concat();
    for (bytes, words) in [
        (goaway.to_vec(), "GOAWAY ENHANCE_YOUR_CALM \"calm down\""),
        (reset(7), "RST_STREAM REFUSED_STREAM"),
        (reset(2), "RST_STREAM INTERNAL_ERROR"),
    ] {
        let spec = ServerSpec {
            wire: || Box::<Streams>::default(),
            replies: vec![Streams::reply(), Reply { bytes, close: false }],
            ..ServerSpec::new(Behaviour::Prompt)
        };
        let server = Server::start(spec);
        let mut config = Config::new(Target::resolve(&server.url()).unwrap());
        (config.threads, config.connections, config.http2) = (1, 1, Some(1));
        config.window = Duration::from_millis(200);
        let report = run(&config, &AtomicBool::new(false), &mut |_| {}).unwrap().report;
        let told = report.warnings.iter().find(|warning| warning.id == "reasons");
        assert!(told.is_some_and(|told| told.text.contains(words)), "{words}: {report:?}");
    }
}
