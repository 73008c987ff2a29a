//! WebSocket: the cases of the Autobahn suite, sections 1 to 7, 9 (small) and 10, and what else a client may do.
//!
//! Source: <https://github.com/crossbario/autobahn-testsuite>, by number; each case is in the words of RFC 6455.

mod sections;
mod text;

use crate::support::{Client, MODELS, Model, PATIENCE, Random, TestServer};
use std::io::{ErrorKind, Read, Write};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use straightline::kit::websocket::{Closed, Mailbox, Message, Undelivered, Upgrade};

pub(crate) const CONTINUE: u8 = 0;
pub(crate) const TEXT: u8 = 1;
pub(crate) const BINARY: u8 = 2;
pub(crate) const CLOSE: u8 = 8;
pub(crate) const PING: u8 = 9;
pub(crate) const PONG: u8 = 10;
pub(crate) const END: u8 = 0x80;
const MESSAGE_BYTES: usize = 300_000;

/// A frame of a client: `first` is the kind, and [`END`] if it ends its message.
pub(crate) fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![first];
    match payload.len() {
        length @ 0..=125 => bytes.push(0x80 | length as u8),
        length @ 126..=0xffff => {
            bytes.push(0x80 | 126);
            bytes.extend_from_slice(&(length as u16).to_be_bytes());
        }
        length => {
            bytes.push(0x80 | 127);
            bytes.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    let mask = [0x12, 0x34, 0x56, 0x78];
    bytes.extend_from_slice(&mask);
    bytes.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    bytes
}

pub(crate) fn whole(kind: u8, payload: impl AsRef<[u8]>) -> Vec<u8> {
    frame(END | kind, payload.as_ref())
}

pub(crate) fn close(code: u16, reason: &[u8]) -> Vec<u8> {
    whole(CLOSE, [&code.to_be_bytes(), reason].concat())
}

/// A client of which nothing is hidden.
struct Socket {
    client: Client,
    pending: Vec<u8>,
}

pub(crate) const HANDSHAKE: &str = "GET /chat HTTP/1.1\r\nHost: server.example.com\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n";

impl Socket {
    fn new(server: &TestServer) -> Self {
        let mut client = server.connect();
        client.send(format!("{HANDSHAKE}\r\n").as_bytes());
        let head = client.switching();
        // The example of RFC 6455, section 1.3.
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        assert!(head.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"), "{head}");
        Self { client, pending: Vec::new() }
    }

    fn send(&mut self, bytes: &[u8]) {
        self.client.send(bytes);
    }

    /// The next frame; `None` at the end of the stream.
    fn next(&mut self) -> Option<(u8, Vec<u8>)> {
        loop {
            if let Some((first, payload, rest)) = parse(&self.pending) {
                let rest = rest.to_vec();
                let found = (first, payload.to_vec());
                self.pending = rest;
                return Some(found);
            }
            let mut buffer = [0; 64 * 1024];
            match self.client.stream.read(&mut buffer) {
                Ok(0) => return None,
                Ok(count) => self.pending.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("nothing came: {error}"),
            }
        }
    }

    /// All that comes up to the end.
    fn all(&mut self) -> Vec<(u8, Vec<u8>)> {
        std::iter::from_fn(|| self.next()).collect()
    }
}

/// A frame of the server at the beginning of `bytes`, and what follows it.
pub(crate) fn parse(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (first, second) = (*bytes.first()?, *bytes.get(1)?);
    assert!(second & 0x80 == 0, "a server does not mask");
    let (length, from) = match second {
        126 => (u16::from_be_bytes(bytes.get(2..4)?.try_into().unwrap()).into(), 4),
        127 => (u64::from_be_bytes(bytes.get(2..10)?.try_into().unwrap()) as usize, 10),
        length => (length.into(), 2),
    };
    Some((first, bytes.get(from..from + length)?, &bytes[from + length..]))
}

/// A server that sends everything back.
fn echo(model: Model) -> TestServer {
    let upgrade = Upgrade::new().frame_bytes(MESSAGE_BYTES).message_bytes(MESSAGE_BYTES);
    TestServer::of_model(model, move |request, response| {
        upgrade.serve(request, response, |socket| {
            while let Some(message) = socket.recv()? {
                socket.send(message)?;
            }
            Ok(())
        })
    })
}

/// What comes back, in short: kind and payload of each frame, for a close its code.
fn answers(server: &TestServer, sent: &[u8], piece: usize) -> Vec<(u8, Vec<u8>)> {
    let mut socket = Socket::new(server);
    sent.chunks(piece).for_each(|piece| socket.send(piece));
    let mut all = socket.all();
    if let Some((first, payload)) = all.last_mut()
        && *first == END | CLOSE
    {
        payload.truncate(2);
    }
    all
}

const NORMAL: u16 = 1000;

fn expect(frames: &[(u8, &[u8])], code: u16) -> Vec<(u8, Vec<u8>)> {
    let mut all: Vec<(u8, Vec<u8>)> =
        frames.iter().map(|(kind, payload)| (END | kind, payload.to_vec())).collect();
    all.push((END | CLOSE, code.to_be_bytes().to_vec()));
    all
}

/// A case: its number, what the client sends, what comes back before the close, and the code of that.
type Case<'c> = (&'c str, Vec<Vec<u8>>, Vec<(u8, &'c [u8])>, u16);

fn check(cases: Vec<Case<'_>>) {
    for model in MODELS {
        let server = echo(model);
        for (name, sent, frames, code) in &cases {
            let sent = sent.concat();
            for piece in [usize::MAX, 1, 997] {
                // A byte at a time is for what is short.
                if piece == 1 && sent.len() > 2000 {
                    continue;
                }
                let (found, wanted) = (answers(&server, &sent, piece), expect(frames, *code));
                assert!(
                    found == wanted,
                    "{name}, {model}, by {piece}: {:?}, not {:?}",
                    short(&found),
                    short(&wanted)
                );
            }
        }
        server.until("every connection ends", |server| server.metric("open_connections") == 0);
    }
}

fn short(frames: &[(u8, Vec<u8>)]) -> Vec<(u8, usize, String)> {
    frames.iter().map(|(k, p)| (*k, p.len(), format!("{:x?}", &p[..p.len().min(20)]))).collect()
}

#[test]
fn only_a_request_that_is_a_websocket_becomes_one() {
    let upgrade = Upgrade::new().allow_origin("https://friend.example").protocol("chat").protocol("feed");
    let server = TestServer::new(move |request, response| upgrade.serve(request, response, |_| Ok(())));
    let with = |field: &str| format!("{HANDSHAKE}{field}\r\n");
    let without = |from: &str, to: &str| format!("{}\r\n", HANDSHAKE.replace(from, to));
    for (request, status) in [
        (with(""), 101),
        (with("Origin: http://server.example.com\r\n"), 101),
        (with("Origin: https://friend.example\r\n"), 101),
        (with("Origin: https://evil.example\r\n"), 403),
        (with("Origin: null\r\n"), 403),
        (with("Origin: http://server.example.com\r\nOrigin: https://evil.example\r\n"), 403),
        (with("Sec-WebSocket-Protocol: soap, feed\r\n"), 101),
        (with("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"), 400),
        (without("Version: 13", "Version: 8"), 426),
        (without("Sec-WebSocket-Version: 13\r\n", ""), 400),
        (without("Upgrade: websocket", "Upgrade: h2c"), 400),
        (without("Connection: Upgrade\r\n", ""), 400),
        (without("dGhlIHNhbXBsZSBub25jZQ==", "dGhlIHNhbXBsZSBub25jZQ"), 400),
        (without("dGhlIHNhbXBsZSBub25jZQ==", "dGhlIHNhbXBsZSBub25=ZQ=="), 400),
        (without("dGhlIHNhbXBsZSBub25jZQ==", "short=="), 400),
        (without("GET", "POST"), 400),
        (without("HTTP/1.1", "HTTP/1.0"), 400),
    ] {
        let mut client = server.connect();
        client.send(request.as_bytes());
        let head = client.switching();
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{request}{head}");
        assert_eq!(head.contains("\r\nsec-websocket-version: 13\r\n"), status == 426, "{head}");
        let upgrades = ["\r\nupgrade: websocket\r\n", "\r\nconnection: upgrade\r\n"];
        let has_both = upgrades.iter().all(|field| head.to_ascii_lowercase().contains(field));
        assert_eq!(has_both, status == 426 || status == 101, "{head}");
        assert_eq!(head.contains("\r\nsec-websocket-protocol: feed\r\n"), request.contains("feed"), "{head}");
    }
}

/// What handlers were told of the end of their sockets.
type Ends = Arc<Mutex<Vec<Option<Closed>>>>;

/// A server that reads messages to the end, and what its handlers are told of that.
fn reads_to_the_end(model: Model) -> (TestServer, Ends) {
    let ends = Ends::default();
    let (told, upgrade) = (Arc::clone(&ends), Upgrade::new());
    let server = TestServer::of_model(model, move |request, response| {
        upgrade.serve(request, response, |socket| {
            while socket.recv()?.is_some() {}
            told.lock().unwrap().push(socket.closed());
            Ok(())
        })
    });
    (server, ends)
}

#[test]
fn a_handler_is_told_who_closed_and_why() {
    for model in MODELS {
        let (server, ends) = reads_to_the_end(model);
        for (sent, closed, reason) in [
            (close(1000, b""), Closed::ByClient(1000), ""),
            (close(1002, b""), Closed::ByClient(1002), ""),
            (whole(CLOSE, b""), Closed::ByClient(1005), ""),
            (close(999, b""), Closed::ByServer(1002), "a close with a code that means nothing"),
            (close(1004, b"x"), Closed::ByServer(1002), "a close with a code that means nothing"),
            (close(5000, b""), Closed::ByServer(1002), "a close with a code that means nothing"),
            (whole(PING, b"x").repeat(101), Closed::ByServer(1008), "too many pings, pongs and empty frames"),
        ] {
            let mut socket = Socket::new(&server);
            socket.send(&sent);
            let (_, said) = socket.all().pop().expect("a close comes");
            server.until("the handler is told", |_| !ends.lock().unwrap().is_empty());
            assert_eq!(ends.lock().unwrap().pop().unwrap(), Some(closed), "{model}: {reason}");
            assert_eq!(said.get(2..).unwrap_or_default(), reason.as_bytes(), "{model}: {closed:?}");
        }
    }
}

#[test]
fn a_server_that_ends_says_so_to_every_client() {
    for model in MODELS {
        let (server, ends) = reads_to_the_end(model);
        let mut sockets: Vec<Socket> = (0..5).map(|_| Socket::new(&server)).collect();
        server.until("all talk", |server| server.metric("requests_total") == 5);
        std::thread::sleep(Duration::from_millis(20));
        let start = Instant::now();
        server.handle().drain(Duration::from_secs(5));
        for socket in &mut sockets {
            let (first, payload) = socket.next().expect("a close comes");
            assert_eq!((first, &payload[..2]), (END | CLOSE, &1001_u16.to_be_bytes()[..]), "{model}");
            socket.send(&close(1001, b""));
            assert!(socket.next().is_none());
        }
        assert!(start.elapsed() < Duration::from_millis(900), "{model}: {:?}", start.elapsed());
        drop(server);
        assert_eq!(*ends.lock().unwrap(), [Some(Closed::ByServer(1001)); 5], "{model}");
    }
}

#[test]
fn a_silent_client_is_asked_and_then_left() {
    let upgrade = Upgrade::new().silence(Duration::from_millis(200));
    let ends = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&ends);
    let server = TestServer::new(move |request, response| {
        upgrade.serve(request, response, |socket| {
            while socket.recv()?.is_some() {}
            told.lock().unwrap().push(socket.closed());
            Ok(())
        })
    });
    let mut socket = Socket::new(&server);
    for _ in 0..3 {
        assert_eq!(socket.next(), Some((END | PING, vec![])));
        socket.send(&whole(PONG, b""));
    }
    assert_eq!(socket.next(), Some((END | PING, vec![])));
    assert!(socket.next().is_none());
    drop(Socket::new(&server));
    server.until("both are gone", |_| ends.lock().unwrap().len() == 2);
    assert_eq!(*ends.lock().unwrap(), [Some(Closed::Lost); 2]);
}

#[test]
fn what_others_post_is_sent_while_a_client_listens() {
    for model in MODELS {
        let boxes: Arc<Mutex<Vec<Mailbox>>> = Arc::default();
        let (known, upgrade) = (Arc::clone(&boxes), Upgrade::new());
        let server = TestServer::of_model(model, move |request, response| {
            upgrade.serve(request, response, |socket| {
                known.lock().unwrap().push(socket.mailbox());
                while let Some(message) = socket.recv()? {
                    let all = known.lock().unwrap().clone();
                    all.iter().for_each(|other| other.post(message.clone()).unwrap_or_default());
                }
                Ok(())
            })
        });
        let mut sockets: Vec<Socket> = (0..4).map(|_| Socket::new(&server)).collect();
        server.until("all listen", |_| boxes.lock().unwrap().len() == 4);
        for round in 0..20 {
            let text = format!("round {round}");
            sockets[round % 4].send(&whole(TEXT, &text));
            sockets
                .iter_mut()
                .for_each(|socket| assert_eq!(socket.next(), Some((END | TEXT, text.clone().into_bytes()))));
        }
        // From another thread, and in order.
        let posts = boxes.lock().unwrap()[0].clone();
        (0..100_u8).for_each(|number| posts.post(Message::binary(vec![number])).unwrap());
        let whose = sockets.iter_mut().position(|socket| {
            socket.client.stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
            let came = socket.client.stream.peek(&mut [0]).is_ok();
            socket.client.stream.set_read_timeout(Some(PATIENCE)).unwrap();
            came
        });
        let socket = &mut sockets[whose.unwrap()];
        (0..100_u8).for_each(|number| assert_eq!(socket.next(), Some((END | BINARY, vec![number]))));
        sockets.clear();
        server.until("all are gone", |_| posts.post(Message::text("x")) == Err(Undelivered::Closed));
    }
}

/// Frames with a few bytes changed, for as long as `FUZZ_SECONDS` says: whatever comes, the connection ends in good order.
#[test]
fn fuzz_frames_end_in_a_close() {
    let time = Duration::from_secs(crate::support::number_of("FUZZ_SECONDS").unwrap_or(2));
    let seed = crate::support::number_of("FUZZ_SEED").unwrap_or(11);
    let (start, mut random, mut rounds) = (Instant::now(), Random(seed), 0);
    let server = echo(Model::Coroutines);
    while rounds == 0 || start.elapsed() < time {
        let mut bytes = Vec::new();
        for _ in 0..=random.below(5) {
            let kind = [CONTINUE, TEXT, BINARY, PING, PONG, CLOSE][random.below(6) as usize];
            let payload: Vec<u8> = (0..random.below(300)).map(|_| random.next() as u8 & 0x7f).collect();
            bytes.extend(frame(kind | (random.next() as u8 & END), &payload));
        }
        for _ in 0..random.below(3) {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << random.below(8);
        }
        let mut socket = Socket::new(&server);
        socket.send(&bytes);
        socket.client.stream.shutdown(std::net::Shutdown::Write).ok();
        let all = socket.all();
        let closes = all.iter().filter(|(first, _)| *first == END | CLOSE).count();
        let good = all.iter().all(|(first, _)| matches!(first & 0x7f, TEXT | BINARY | PONG | CLOSE));
        assert!(good && closes <= 1, "seed {seed}, round {rounds}: {bytes:?}: {all:?}");
        rounds += 1;
    }
    server.until("every connection ends", |server| server.metric("open_connections") == 0);
    assert_eq!(server.metric("handler_panics_total"), 0);
    server.assert_serves_not_upgraded();
}

impl TestServer {
    /// It still tells what is no WebSocket.
    fn assert_serves_not_upgraded(&self) {
        let mut client = self.connect();
        client.stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        assert_eq!(client.response().status, 400);
    }
}

#[test]
fn messages_go_over_tls_too() {
    use crate::tls::{connect, identity, trusting};
    let (certificate, key) = identity();
    let trusts = Arc::new(trusting(certificate.clone()));
    let config = straightline::rustls::ServerConfig::builder().with_no_client_auth();
    let config = config.with_single_cert(vec![certificate], key).unwrap();
    for model in MODELS {
        let (upgrade, config) = (Upgrade::new(), config.clone());
        let server = TestServer::with(
            move |server| model.apply_to(server).tls(config),
            move |request, response| {
                upgrade.serve(request, response, |socket| {
                    while let Some(message) = socket.recv()? {
                        socket.send(message)?;
                    }
                    Ok(())
                })
            },
        );
        let stream = connect(server.address, Arc::clone(&trusts));
        let (mut socket, _) = tungstenite::client("ws://localhost/", stream).unwrap();
        let long = tungstenite::Message::binary(vec![7; 500_000]);
        // Several in one record: what is decrypted and not read yet is reported by nobody.
        let short: Vec<_> = (0..20).map(|number| tungstenite::Message::text(number.to_string())).collect();
        short.iter().for_each(|message| socket.write(message.clone()).unwrap());
        socket.flush().unwrap();
        short.iter().for_each(|message| assert_eq!(socket.read().unwrap(), *message, "{model}"));
        socket.send(long.clone()).unwrap();
        assert!(socket.read().unwrap() == long, "{model}");
        server.handle().drain(Duration::from_secs(5));
        match socket.read().unwrap() {
            tungstenite::Message::Close(Some(said)) => assert_eq!(u16::from(said.code), 1001, "{model}"),
            other => panic!("{model}: {other:?}"),
        }
        while socket.read().is_ok() {}
    }
}
