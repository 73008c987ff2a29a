//! Where the time goes: connect, TLS, first byte, last byte.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use load::schedule::{Arrival, Pace};
use load::{Config, Outcome, Roots, Target, run};
use rustls::version::TLS13;

use crate::serving::certificates::Authority;
use crate::serving::{self, Manner};

/// How long after the first part of an answer its second comes.
const APART: Duration = Duration::from_millis(80);
const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe";
const REST: &[u8] = b"llo";

/// A server that writes every answer in two parts, or at once.
fn halting(halts: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let mut request = [0; 1024];
                while stream.read(&mut request).is_ok_and(|bytes| bytes > 0) {
                    let written = match halts {
                        true => stream.write_all(HEAD).and_then(|()| {
                            thread::sleep(APART);
                            stream.write_all(REST)
                        }),
                        false => stream.write_all(&[HEAD, REST].concat()),
                    };
                    if written.is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

fn drive(address: SocketAddr, pace: Pace) -> Outcome {
    let mut config = Config::new(Target::resolve(&format!("http://{address}/")).unwrap());
    (config.threads, config.connections, config.pace) = (1, 4, pace);
    config.window = Duration::from_secs(1);
    run(&config, &AtomicBool::new(false), &mut |_| {}).unwrap()
}

#[test]
fn a_first_byte_is_told_from_a_last_one() {
    let address = halting(true);
    for pace in [Pace::Closed, Pace::open(20.0, Arrival::Constant)] {
        let outcome = drive(address, pace);
        let (report, first) = (&outcome.report, outcome.phases.first_byte.as_ref().unwrap());
        let last = outcome.service.as_ref().unwrap_or(&outcome.response);
        assert!(report.requests >= 4 && first.len() == last.len(), "{report:?}");
        // A machine that keeps us waiting for 80 ms makes one of both; it does not do so every time.
        let apart_ns = APART.as_nanos() as u64;
        assert!(first.min() < apart_ns, "{}", first.min());
        assert!(last.value_at_quantile(0.5) >= apart_ns * 99 / 100, "{}", last.value_at_quantile(0.5));
        let phases = report.phases.as_ref().unwrap();
        assert_eq!((phases.connect_ns.count, phases.lookup_ns), (4, None), "an address is not looked up");
        assert_eq!((phases.tls_ns.as_ref(), &phases.last_byte_ns), (None, &report.service_ns));
    }
}

#[test]
fn an_answer_of_one_piece_has_both_with_one_read() {
    let outcome = drive(halting(false), Pace::open(50.0, Arrival::Constant));
    let (first, last) = (outcome.phases.first_byte.unwrap(), outcome.service.unwrap());
    let values = |latencies: &load::Latencies| (latencies.len(), latencies.min(), latencies.max());
    assert_eq!(values(&first), values(&last));
}

#[test]
fn handshakes_and_the_look_up_of_a_name_are_timed() {
    let authority = Authority::new("phases");
    let server = authority.server(&authority.certify("localhost", 4000), &TLS13, false);
    let (address, _) = serving::tls(server, Manner::body(13));
    let mut config = Config::new(Target::resolve(&format!("https://localhost:{}/", address.port())).unwrap());
    config.target.addresses.retain(|other| *other == load::Address::Tcp(address));
    config.tls.roots = Roots::File(authority.file());
    (config.threads, config.connections, config.requests) = (2, 6, Some(100));
    let outcome = run(&config, &AtomicBool::new(false), &mut |_| {}).unwrap();
    let phases = outcome.report.phases.unwrap();
    assert_eq!((phases.connect_ns.count, phases.tls_ns.unwrap().count), (6, 6));
    assert!(outcome.phases.tls.min() > outcome.phases.connect.min() / 100, "a handshake takes time");
    assert!(phases.lookup_ns.is_some());
    assert_eq!(phases.first_byte_ns.unwrap().count, 100);
}
