//! TLS: what is sent through it is counted, and what fails is explained.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use load::{Config, Identity, LoadError, Outcome, Roots, Target, run};
use rustls::version::{TLS12, TLS13};
use rustls::{HandshakeKind, SupportedProtocolVersion};

use crate::serving::certificates::Authority;
use crate::serving::{self, Log, Manner, requests};

const VERSIONS: [&SupportedProtocolVersion; 2] = [&TLS12, &TLS13];
/// A year in which no certificate of these tests has expired.
const FAR: i32 = 4000;

fn drive(address: SocketAddr, host: &str, change: impl FnOnce(&mut Config)) -> Result<Outcome, LoadError> {
    let url = format!("https://{host}:{}/", address.port());
    let mut config = Config::new(Target::resolve(&url).unwrap());
    config.target.addresses.retain(|other| *other == load::Address::Tcp(address));
    config.threads = 1;
    config.connections = 4;
    config.requests = Some(503);
    config.window = Duration::from_secs(20);
    change(&mut config);
    run(&config, &AtomicBool::new(false), &mut |_| {})
}

fn counted(outcome: Result<Outcome, LoadError>, log: &Log) -> (u64, u64, usize) {
    let report = outcome.unwrap().report;
    (report.requests, report.errors.total(), requests(log))
}

#[test]
fn requests_through_tls_are_counted_by_both_sides() {
    let authority = Authority::new("counted");
    for version in VERSIONS {
        // An answer of one record, and one of many that also fills the socket.
        for (body, pipeline) in [(13, 1), (13, 16), (300_000, 2)] {
            let server = authority.server(&authority.certify("localhost", FAR), version, false);
            let (address, log) = serving::tls(server, Manner::body(body));
            let outcome = drive(address, "localhost", |config| {
                config.tls.roots = Roots::File(authority.file());
                config.pipeline = pipeline;
            });
            assert_eq!(counted(outcome, &log), (503, 0, 503), "{version:?}, {body} bytes, {pipeline} deep");
            let log = log.lock().unwrap();
            assert_eq!(log.len(), 4, "connections");
            for seen in &*log {
                assert_eq!(seen.host.as_deref(), Some("localhost"), "SNI");
                assert_eq!(seen.protocol.as_deref(), Some(&b"http/1.1"[..]), "ALPN");
            }
        }
    }
}

#[test]
fn sessions_are_resumed_when_connections_are_replaced() {
    let authority = Authority::new("resumed");
    for version in VERSIONS {
        let server = authority.server(&authority.certify("localhost", FAR), version, false);
        let last = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
        let (address, log) = serving::tls(server, Manner::closing(last));
        let outcome = drive(address, "localhost", |config| {
            config.tls.roots = Roots::File(authority.file());
            config.requests = Some(101);
        });
        assert_eq!(counted(outcome, &log), (101, 0, 101), "{version:?}");
        let resumed = |seen: &&serving::Served| seen.handshake == Some(HandshakeKind::Resumed);
        let resumed = log.lock().unwrap().iter().filter(resumed).count();
        // The first four have nothing to resume, and their successors may come before a ticket does.
        assert!(resumed > 80, "{version:?}: {resumed} of 101 connections resumed a session");
    }
}

#[test]
fn a_certificate_that_does_not_verify_says_why_and_what_would_allow_it() {
    let (authority, stranger) = (Authority::new("refused"), Authority::new("stranger"));
    let cases = [
        ("localhost", FAR, &stranger, ["nobody who is trusted", "--cacert FILE"]),
        ("localhost", 2001, &authority, ["has expired", "--insecure"]),
        ("elsewhere.test", FAR, &authority, ["elsewhere.test", "--insecure"]),
    ];
    for (name, year, trusted, words) in cases {
        let server = authority.server(&authority.certify(name, year), &TLS13, false);
        let (address, log) = serving::tls(server, Manner::body(1));
        let refused = drive(address, "localhost", |config| config.tls.roots = Roots::File(trusted.file()));
        let error = refused.unwrap_err();
        assert!(matches!(error, LoadError::Tls { .. }), "{error:?}");
        let text = error.to_string();
        assert!(words.iter().all(|word| text.contains(word)) && !text.contains('\n'), "{text}");
        assert_eq!(requests(&log), 0, "nothing is sent to a server that is not the right one");
        let outcome = drive(address, "localhost", |config| config.tls.roots = Roots::Anyone);
        assert_eq!(counted(outcome, &log), (503, 0, 503), "{name} with --insecure");
    }
}

#[test]
fn a_server_that_asks_for_a_certificate_gets_ours_or_the_run_ends_at_once() {
    let authority = Authority::new("asked");
    let ours = authority.certify("client.test", FAR);
    let (certificate, key) = authority.files(&ours);
    for version in VERSIONS {
        let server = authority.server(&authority.certify("localhost", FAR), version, true);
        let (address, log) = serving::tls(server, Manner::body(1));
        let outcome = drive(address, "localhost", |config| {
            config.tls.roots = Roots::File(authority.file());
            config.tls.identity = Some(Identity { certificate: certificate.clone(), key: key.clone() });
        });
        assert_eq!(counted(outcome, &log), (503, 0, 503), "{version:?}");
        assert!(log.lock().unwrap().iter().all(|seen| seen.certified));
        let error = drive(address, "localhost", |config| config.tls.roots = Roots::File(authority.file()));
        let text = error.unwrap_err().to_string();
        assert!(text.contains("--cert"), "{version:?}: {text}");
    }
}

#[test]
fn an_end_without_a_word_that_is_the_end_of_a_body_is_told() {
    let authority = Authority::new("rude");
    let until_close = "HTTP/1.1 200 OK\r\n\r\nuntil the end";
    for rude in [false, true] {
        let server = authority.server(&authority.certify("localhost", FAR), &TLS13, false);
        let (address, _) = serving::tls(server, Manner { rude, ..Manner::closing(until_close) });
        let report = drive(address, "localhost", |config| {
            config.tls.roots = Roots::File(authority.file());
            config.requests = Some(101);
        });
        let report = report.unwrap().report;
        assert_eq!((report.requests, report.errors.total()), (101, 0), "rude: {rude}");
        let told = report.warnings.iter().any(|warning| warning.text.contains("close_notify"));
        assert_eq!(told, rude, "{:?}", report.warnings);
    }
}

#[test]
fn what_is_not_tls_or_not_pem_is_said_in_one_sentence() {
    let authority = Authority::new("words");
    let (plain, _) = serving::tcp("127.0.0.1", Manner::default());
    let certificate = authority.file();
    let text = authority.write("text.pem", "no certificate");
    let roots = |path: &std::path::Path| Roots::File(path.to_owned());
    let cases = [
        (roots(&text), None, "holds no certificate in PEM form"),
        (roots(std::path::Path::new("/nowhere.pem")), None, "/nowhere.pem cannot be used"),
        (roots(&certificate), Some((certificate.clone(), text.clone())), "holds no private key"),
        (
            roots(&certificate),
            Some((certificate.clone(), authority.files(&authority.certify("x", FAR)).1)),
            "does not go with",
        ),
    ];
    for (roots, identity, words) in cases {
        let refused = drive(plain, "127.0.0.1", |config| {
            config.tls.roots = roots;
            config.tls.identity = identity.map(|(certificate, key)| Identity { certificate, key });
        });
        let text = refused.unwrap_err().to_string();
        assert!(text.contains(words) && !text.contains('\n'), "{text}");
    }
}

#[test]
fn a_server_without_tls_is_recognised() {
    let talker = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let talks = talker.local_addr().unwrap();
    std::thread::spawn(move || {
        use std::io::{Read, Write};
        for mut stream in talker.incoming().map_while(Result::ok) {
            // What is left unread at a close resets the connection, and the answer is lost.
            let _ = stream.read(&mut [0; 16 * 1024]);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let refused = drive(talks, "127.0.0.1", |config| config.tls.roots = Roots::Anyone);
    let text = refused.unwrap_err().to_string();
    assert!(text.contains("is not TLS"), "{text}");
}

#[test]
fn a_handshake_that_nobody_answers_ends_by_the_timeout_and_says_so() {
    // The system accepts for it, and nobody reads.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let datagrams = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let cases = [
        (silent.local_addr().unwrap(), None, "does it speak TLS on this port"),
        (datagrams.local_addr().unwrap(), Some(2), "does it speak HTTP/3 on this port of UDP"),
    ];
    for (address, http3, words) in cases {
        let refused = drive(address, "127.0.0.1", |config| {
            config.tls.roots = Roots::Anyone;
            config.http3 = http3;
            config.timeout = Some(Duration::from_millis(300));
        });
        let text = refused.unwrap_err().to_string();
        assert!(text.contains("within 300 ms (--timeout)") && text.contains(words), "{text}");
    }
}

#[test]
fn a_handshake_that_nobody_answers_in_a_run_is_an_error_of_connecting() {
    let authority = Authority::new("half");
    let server = authority.server(&authority.certify("localhost", FAR), &TLS13, false);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        use std::io::{Read, Write};
        // One answer, and nobody is served after it.
        let (stream, _) = listener.accept().unwrap();
        let mut stream =
            rustls::StreamOwned::new(rustls::ServerConnection::new(server.into()).unwrap(), stream);
        let _ = stream.read(&mut [0; 4096]).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n").unwrap();
        stream.conn.send_close_notify();
        let _ = stream.flush();
        drop(stream);
        // The listener stays open, so that the system goes on accepting.
        loop {
            std::thread::park();
        }
    });
    let report = drive(address, "localhost", |config| {
        config.tls.roots = Roots::File(authority.file());
        (config.connections, config.requests) = (1, None);
        (config.window, config.timeout) = (Duration::from_secs(2), Some(Duration::from_millis(200)));
    });
    let report = report.unwrap().report;
    assert!(report.requests == 1 && report.errors.connect >= 1, "{report:?}");
    assert_eq!(report.errors.connect, report.errors.total(), "{report:?}");
}
