//! WebSocket: the server's own count of messages, and what becomes of servers that do it otherwise.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use load::schedule::{Arrival, Pace};
use load::{Config, Target};
use model::record::LoadReport;
use tungstenite::Message;
use tungstenite::protocol::CloseFrame;
use tungstenite::protocol::frame::coding::CloseCode;

/// How a server answers a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answers {
    Echo,
    /// In two frames, with a ping between them.
    InParts,
    /// After so long.
    After(Duration),
    /// Not at all after so many messages: it says that it closes.
    Closes(u64),
    /// The same with a code and words.
    Refuses(u64),
    /// Three times, the last two after a while in which nothing is asked.
    Thrice,
}

struct Server {
    address: SocketAddr,
    messages: Arc<AtomicU64>,
    pongs: Arc<AtomicU64>,
}

fn server(answers: Answers) -> Server {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let (messages, pongs) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let counts = (Arc::clone(&messages), Arc::clone(&pongs));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (messages, pongs) = (Arc::clone(&counts.0), Arc::clone(&counts.1));
            std::thread::spawn(move || talk(stream, answers, &messages, &pongs));
        }
    });
    Server { address, messages, pongs }
}

fn talk(stream: TcpStream, answers: Answers, messages: &AtomicU64, pongs: &AtomicU64) {
    let mut raw = stream.try_clone().unwrap();
    let Ok(mut socket) = tungstenite::accept(stream) else { return };
    let mut here = 0;
    while let Ok(message) = socket.read() {
        match message {
            Message::Pong(payload) => {
                assert_eq!(payload.as_ref(), b"hi");
                pongs.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            Message::Text(text) => assert_eq!(text.as_str(), "x{y}"),
            other => panic!("{other:?} was not sent"),
        }
        messages.fetch_add(1, Ordering::Relaxed);
        here += 1;
        let done = match answers {
            Answers::Closes(most) if here > most => return drop(socket.close(None)),
            Answers::Refuses(most) if here > most => {
                let why = CloseFrame { code: CloseCode::Again, reason: "try later".into() };
                return drop(socket.close(Some(why)));
            }
            Answers::Echo | Answers::Closes(_) | Answers::Refuses(_) => {
                socket.send(Message::text("x{y}")).is_ok()
            }
            Answers::Thrice => {
                let first = socket.send(Message::text("x{y}")).is_ok();
                std::thread::sleep(Duration::from_millis(5));
                first && (0..2).all(|_| socket.send(Message::text("more")).is_ok())
            }
            Answers::After(delay) => {
                std::thread::sleep(delay);
                socket.send(Message::text("later")).is_ok()
            }
            Answers::InParts => {
                raw.write_all(&[0x02, 1, b'a', 0x89, 2, b'h', b'i', 0x80, 2, b'b', b'c']).is_ok()
            }
        };
        if !done {
            return;
        }
    }
}

fn config(address: SocketAddr) -> Config {
    let mut config = Config::new(Target::resolve(&format!("ws://{address}/chat")).unwrap());
    (config.websocket, config.threads, config.connections) = (true, 1, 4);
    config.request.body = b"x{y}".to_vec();
    config.window = Duration::from_millis(500);
    config.timeout = Some(Duration::from_secs(2));
    config
}

fn run(config: &Config) -> LoadReport {
    load::run(config, &AtomicBool::new(false), &mut |_| ()).unwrap().report
}

#[test]
fn each_message_is_a_request_and_the_server_counts_as_many() {
    for answers in [Answers::Echo, Answers::InParts] {
        let server = server(answers);
        let report = run(&Config { requests: Some(997), pipeline: 3, ..config(server.address) });
        assert_eq!((report.requests, report.errors.total()), (997, 0), "{answers:?}: {report:?}");
        assert_eq!(server.messages.load(Ordering::Relaxed), 997, "{answers:?}");
        let pinged = answers == Answers::InParts;
        assert_eq!(server.pongs.load(Ordering::Relaxed) > 900, pinged, "{answers:?}");
    }
}

#[test]
fn a_schedule_charges_what_waits_for_a_slow_server() {
    let server = server(Answers::After(Duration::from_millis(20)));
    let pace = Pace::open(400.0, Arrival::Constant);
    let report = run(&Config { pace, ..config(server.address) });
    // Four connections answer 50 messages a second each: half of what is due.
    assert!(report.rate_ratio.unwrap() < 0.7 && report.response_ns.max > 100_000_000, "{report:?}");
    assert!(report.service_ns.mean >= 15e6, "{report:?}");
}

#[test]
fn a_server_that_closes_is_connected_to_again() {
    let server = server(Answers::Closes(5));
    let report = run(&config(server.address));
    assert!(report.requests >= 20 && report.errors.read > 0, "{report:?}");
    assert_eq!(report.errors.parse, 0, "{report:?}");
}

#[test]
fn why_a_server_closes_is_told_by_its_code_and_words() {
    let server = server(Answers::Refuses(5));
    let report = run(&config(server.address));
    let told = report.warnings.iter().find(|warning| warning.id == "reasons");
    let told = told.unwrap_or_else(|| panic!("{report:?}"));
    assert!(told.text.contains("close 1013 Try Again Later \"try later\""), "{}", told.text);
}

#[test]
fn messages_that_nobody_asked_for_answer_nothing_and_are_told() {
    let server = server(Answers::Thrice);
    // Each connection is asked every 20 ms.
    let pace = Pace::open(200.0, Arrival::Constant);
    let report = run(&Config { pace, requests: Some(97), ..config(server.address) });
    let asked = server.messages.load(Ordering::Relaxed);
    assert_eq!((report.requests, report.errors.unanswered(), asked), (97, 0, 97), "{report:?}");
    // Of the last ones not all come before the end.
    assert!((150..=194).contains(&report.errors.surplus), "{:?}", report.errors);
    let told =
        report.warnings.iter().any(|warning| warning.text.contains("answers more often than it is asked"));
    assert!(told, "{:?}", report.warnings);
}

#[test]
fn who_does_not_speak_it_is_left_at_once() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let refused = load::run(&config(address), &AtomicBool::new(false), &mut |_| {});
    let why = refused.unwrap_err().to_string();
    assert!(why.ends_with("the server answers 404 where it is asked to speak WebSocket"), "{why}");
}

#[test]
fn an_upgrade_that_is_never_answered_is_given_up() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let config =
        Config { timeout: Some(Duration::from_millis(100)), ..config(listener.local_addr().unwrap()) };
    let report = run(&config);
    assert!(report.requests == 0 && report.errors.connect >= 4, "{report:?}");
}
