//! Where the time goes: connect, TLS, first byte, last byte.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use load::schedule::{Arrival, Pace};
use load::{Config, Outcome, Roots, Target, run};
use rustls::version::TLS13;
use testkit::{Heads, Wire};

use crate::serving::certificates::Authority;
use crate::serving::{self, Manner};
use crate::wires;

/// How long after the first part of an answer its second comes.
const APART: Duration = Duration::from_millis(80);

/// What is spoken, in which an answer has two parts.
#[derive(Clone, Copy)]
struct Spoken {
    name: &'static str,
    scheme: &'static str,
    wire: fn() -> Box<dyn Wire>,
    parts: [&'static [u8]; 2],
    change: fn(&mut Config),
}

const SPOKEN: [Spoken; 3] = [
    Spoken {
        name: "HTTP/1.1",
        scheme: "http",
        wire: || Box::<Heads>::default(),
        parts: [b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe", b"llo"],
        change: |_| (),
    },
    Spoken {
        name: "HTTP/2",
        scheme: "http",
        wire: || Box::<wires::Streams>::default(),
        // HEADERS with `:status: 200`, and DATA that ends the stream.
        parts: [b"\0\0\x01\x01\x04\0\0\0\0\x88", b"\0\0\x05\0\x01\0\0\0\0hello"],
        change: |config| config.http2 = Some(1),
    },
    Spoken {
        name: "WebSocket",
        scheme: "ws",
        wire: || Box::<wires::Messages>::default(),
        // A message of two frames.
        parts: [b"\x01\x02he", b"\x80\x03llo"],
        change: |config| (config.websocket, config.request.body) = (true, b"hi".to_vec()),
    },
];

/// A server that writes every answer in two parts, or at once.
fn halting(spoken: Spoken, halts: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            thread::spawn(move || talk(stream, spoken, halts));
        }
    });
    address
}

fn talk(mut stream: TcpStream, Spoken { wire, parts, .. }: Spoken, halts: bool) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut wire, mut bytes) = (wire(), [0; 1024]);
    loop {
        let read = stream.read(&mut bytes)?;
        if read == 0 {
            return Ok(());
        }
        let mut out = Vec::new();
        for request in wire.read(&bytes[..read], &mut out) {
            wire.answer(request, parts[0], &mut out);
            if halts {
                stream.write_all(&std::mem::take(&mut out))?;
                thread::sleep(APART);
            }
            wire.answer(request, parts[1], &mut out);
        }
        stream.write_all(&out)?;
    }
}

fn drive(spoken: Spoken, halts: bool, pace: Pace) -> Outcome {
    let url = format!("{}://{}/", spoken.scheme, halting(spoken, halts));
    let mut config = Config::new(Target::resolve(&url).unwrap());
    (config.threads, config.connections, config.pace) = (1, 4, pace);
    config.window = Duration::from_secs(1);
    (spoken.change)(&mut config);
    run(&config, &AtomicBool::new(false), &mut |_| {}).unwrap()
}

#[test]
fn a_first_byte_is_told_from_a_last_one() {
    let paces = [Pace::Closed, Pace::open(20.0, Arrival::Constant)];
    for (spoken, pace) in SPOKEN.iter().flat_map(|spoken| paces.each_ref().map(|pace| (spoken, pace))) {
        let outcome = drive(*spoken, true, pace.clone());
        let name = spoken.name;
        let (report, first) = (&outcome.report, outcome.phases.first_byte.as_ref().unwrap());
        let last = outcome.service.as_ref().unwrap_or(&outcome.response);
        assert!(report.requests >= 4 && first.len() == last.len(), "{name}: {report:?}");
        // A machine that keeps us waiting for 80 ms makes one of both; it does not do so every time.
        let apart_ns = APART.as_nanos() as u64;
        assert!(first.min() < apart_ns, "{name}: {}", first.min());
        let half = last.value_at_quantile(0.5);
        assert!(half >= apart_ns * 99 / 100, "{name}: {half}");
        let phases = report.phases.as_ref().unwrap();
        let connected = (phases.connect_ns.count, phases.lookup_ns.as_ref());
        assert_eq!(connected, (4, None), "{name}: an address is not looked up");
        assert_eq!((phases.tls_ns.as_ref(), &phases.last_byte_ns), (None, &report.service_ns), "{name}");
    }
}

#[test]
fn an_answer_of_one_piece_has_both_with_one_read() {
    for spoken in SPOKEN {
        let outcome = drive(spoken, false, Pace::open(50.0, Arrival::Constant));
        let (first, last) = (outcome.phases.first_byte.unwrap(), outcome.service.unwrap());
        let values = |latencies: &load::Latencies| (latencies.len(), latencies.min(), latencies.max());
        assert_eq!(values(&first), values(&last), "{}", spoken.name);
    }
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
