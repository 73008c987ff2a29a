//! Servers that send what they should not: each costs what it costs, wherever the bytes are cut.

use std::panic::catch_unwind;
use std::time::{Duration, Instant};

use model::plan::SplitMix64;

use crate::framing::{Spoken, Verdict, check};

const OK: &str = "HTTP/1.1 200 OK\r\n";

/// Answers, malformed ones, requests lost, and whether the connection could go on.
type Cost = (u64, u64, u64, bool);

fn cost(bytes: &[u8], head: bool) -> Cost {
    let spoken = if head { Spoken::Head } else { Spoken::Http1 };
    let Verdict { answers, malformed, lost, kept } = check(bytes, spoken);
    (answers, malformed, lost, kept)
}

/// What a server sends, whether to HEAD, and what that costs.
type Fault = (&'static str, String, bool, Cost);

/// Four requests were sent. What is malformed costs one, and those behind it are lost with the connection.
fn faults_of_heads() -> Vec<Fault> {
    let long = "x".repeat(40_000);
    vec![
        ("nothing", String::new(), false, (0, 0, 4, true)),
        ("four answers", format!("{OK}Content-Length: 1\r\n\r\nx").repeat(4), false, (4, 0, 0, true)),
        ("five answers", format!("{OK}Content-Length: 1\r\n\r\nx").repeat(5), false, (4, 0, 0, false)),
        ("garbage", "\0\u{1}\u{2}\r\n\r\n".to_owned(), false, (0, 1, 3, false)),
        ("another protocol", "SSH-2.0-OpenSSH_9.2\r\n".to_owned(), false, (0, 1, 3, false)),
        ("an endless head", format!("{OK}X: {long}"), false, (0, 1, 3, false)),
        ("an endless status line", format!("HTTP/1.1 200 {long}"), false, (0, 1, 3, false)),
        ("too many fields", format!("{OK}{}\r\n", "X: y\r\n".repeat(2_000)), false, (0, 1, 3, false)),
        ("a length that is none", format!("{OK}Content-Length: 1x\r\n\r\n"), false, (0, 1, 3, false)),
        (
            "two lengths",
            format!("{OK}Content-Length: 1\r\nContent-Length: 2\r\n\r\nx"),
            false,
            (0, 1, 3, false),
        ),
        (
            "a length beyond 64 bits",
            format!("{OK}Content-Length: 99999999999999999999\r\n\r\n"),
            false,
            (0, 1, 3, false),
        ),
    ]
}

/// Faults of the body, and answers that are right but rare.
fn faults_of_chunks() -> Vec<Fault> {
    let long = "x".repeat(40_000);
    vec![
        (
            "a huge chunk",
            format!("{OK}Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n"),
            false,
            (0, 1, 3, false),
        ),
        (
            "a chunk size that is none",
            format!("{OK}Transfer-Encoding: chunked\r\n\r\nxyz\r\n"),
            false,
            (0, 1, 3, false),
        ),
        (
            "an endless chunk size",
            format!("{OK}Transfer-Encoding: chunked\r\n\r\n1;{long}"),
            false,
            (0, 1, 3, false),
        ),
        (
            "endless trailers",
            format!("{OK}Transfer-Encoding: chunked\r\n\r\n0\r\nX: {long}"),
            false,
            (0, 1, 3, false),
        ),
        (
            "no end of a chunk",
            format!("{OK}Transfer-Encoding: chunked\r\n\r\n1\r\nxy\r\n"),
            false,
            (0, 1, 3, false),
        ),
        (
            "a close in a chunk",
            format!("{OK}Transfer-Encoding: chunked\r\n\r\n5\r\nhe"),
            false,
            (0, 0, 4, true),
        ),
    ]
}

fn faults_of_bodies() -> Vec<Fault> {
    vec![
        ("too short a length", format!("{OK}Content-Length: 2\r\n\r\nhello"), false, (1, 1, 2, false)),
        ("too long a length", format!("{OK}Content-Length: 9\r\n\r\nhello"), false, (0, 0, 4, true)),
        ("a switch unasked", "HTTP/1.1 101 Switching Protocols\r\n\r\n".to_owned(), false, (0, 1, 3, false)),
        ("early hints without end", "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(500), false, (0, 0, 4, true)),
        (
            "early hints, then an answer",
            format!("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n{OK}Content-Length: 1\r\n\r\nx").repeat(4),
            false,
            (4, 0, 0, true),
        ),
        (
            "lengths that agree",
            format!("{OK}Content-Length: 1\r\nContent-Length: 1\r\n\r\nx").repeat(4),
            false,
            (4, 0, 0, true),
        ),
        (
            "an encoding twice",
            format!("{OK}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
            false,
            (0, 1, 3, false),
        ),
        (
            "a folded field",
            format!("{OK}X: a\r\n b\r\nContent-Length: 0\r\n\r\n").repeat(4),
            false,
            (4, 0, 0, true),
        ),
        ("a folded length", format!("{OK}Content-Length:\r\n 0\r\n\r\n"), false, (0, 1, 3, false)),
        ("line feeds alone", "HTTP/1.1 200 OK\nContent-Length: 0\n\n".to_owned(), false, (0, 1, 3, false)),
        ("a body until the end", format!("{OK}\r\nhello"), false, (1, 0, 0, true)),
        ("a body to HEAD", format!("{OK}Content-Length: 5\r\n\r\nhello"), true, (1, 1, 2, false)),
        ("no body to HEAD", format!("{OK}Content-Length: 5\r\n\r\n").repeat(4), true, (4, 0, 0, true)),
        (
            "a close announced",
            format!("{OK}Connection: close\r\nContent-Length: 0\r\n\r\n"),
            false,
            (1, 0, 0, false),
        ),
    ]
}

#[test]
fn each_fault_costs_what_it_must() {
    for (name, bytes, head, wanted) in [faults_of_heads(), faults_of_chunks(), faults_of_bodies()].concat() {
        assert_eq!(cost(bytes.as_bytes(), head), wanted, "{name}");
    }
}

/// Whole answers, with which inputs begin.
const WHOLE: [&str; 4] = [
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    "HTTP/1.1 204 No Content\r\n\r\n",
    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: y\r\n\r\n",
];

/// Parts of answers, from which the rest is made.
const PARTS: [&str; 22] = [
    "HTTP/1.1 200 OK\r\n",
    "HTTP/1.0 200 OK\r\n",
    "HTTP/1.1 204 No Content\r\n",
    "HTTP/1.1 304 Not Modified\r\n",
    "HTTP/1.1 100 Continue\r\n\r\n",
    "HTTP/1.1 101 Switching Protocols\r\n",
    "Content-Length: 5\r\n",
    "Content-Length: 0\r\n",
    "Content-Length: 18446744073709551615\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Connection: close\r\n",
    "Connection: keep-alive\r\n",
    "X: y\r\n",
    "\r\n",
    "hello",
    "5\r\nhello\r\n",
    "0\r\n\r\n",
    "0\r\nX: y\r\n\r\n",
    "ffffffffffffffff\r\n",
    "1;a=b\r\nx\r\n",
    "\n",
    "\0",
];

/// Messages of WebSocket that are whole, and parts of others.
const MESSAGES: [&[u8]; 3] = [b"\x81\x05hello", b"\x02\x01a\x89\x02hi\x80\x01b", b"\x82\x7e\x00\x03abc"];
const FRAMES: [&[u8]; 8] = [
    b"\x81",
    b"\x80\x00",
    b"\x01\x02hi",
    b"\x88\x00",
    b"\x8a\x01x",
    b"\x81\x85abcd",
    b"\xc1\x00",
    b"\x82\x7f\xff\xff",
];

/// Answers to a request for WebSocket that are whole, and parts of others.
const UPGRADES: [&[u8]; 2] = [
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: yes\r\n\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\nsec-websocket-accept:yes\r\nX: y\r\n\r\n",
];
const UPGRADE_PARTS: [&[u8]; 10] = [
    b"HTTP/1.1 101 Switching Protocols\r\n",
    b"HTTP/1.1 200 OK\r\n",
    b"HTTP/1.1 103 Early Hints\r\n\r\n",
    b"Upgrade: websocket\r\n",
    b"Sec-WebSocket-Accept: yes\r\n",
    b"Sec-WebSocket-Accept: no\r\n",
    b"Sec-WebSocket-Extensions: permessage-deflate\r\n",
    b"Sec-WebSocket-Protocol: chat\r\n",
    b"\r\n",
    b"\n",
];

/// Streams of events that are whole, and parts of others.
const STREAMS: [&[u8]; 2] = [
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n12\r\ndata: a\n\ndata: b\n\n\r\n0\r\n\r\n",
    b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
];
const EVENTS: [&[u8]; 8] = [
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n",
    b"data: a\n\n",
    b"data: a\r\n\r\n",
    b": b\n",
    b"\n",
    b"0\r\n\r\n",
    b"9\r\ndata: a\n\n\r\n",
];

/// What h2 must have first, with answers to the first two streams: HEADERS with a static field, DATA, trailers.
const CALLS: [&[u8]; 2] = [
    // :status 200, END_STREAM; for gRPC an answer of another kind.
    b"\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x01\x01\x05\x00\x00\x00\x01\x88",
    // :status 200, content-type: application/grpc; a message; grpc-status: 0.
    b"\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x14\x01\x04\x00\x00\x00\x01\x88\x0f\x10\x10application/grpc\
      \x00\x00\x06\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x01a\
      \x00\x00\x0f\x01\x05\x00\x00\x00\x01\x00\x0bgrpc-status\x010",
];
const PIECES: [&[u8]; 12] = [
    b"\x00\x00\x00\x04\x00\x00\x00\x00\x00",
    b"\x00\x00\x01\x01\x04\x00\x00\x00\x03\x88",
    b"\x00\x00\x06\x00\x01\x00\x00\x00\x03\x00\x00\x00\x00\x01a",
    b"\x00\x00\x08\x06\x00\x00\x00\x00\x0012345678",
    b"\x00\x00\x04\x03\x00\x00\x00\x00\x05\x00\x00\x00\x08",
    b"\x00\x00\x08\x07\x00\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x00",
    b"\x00\x00\x04\x08\x00\x00\x00\x00\x00\x7f\xff\xff\xff",
    b"\x00\x00\x02\x01\x05\x00\x00\x00\x07\x88\x80",
    // A promise, fields in two frames, fewer streams, and a priority.
    b"\x00\x00\x05\x05\x04\x00\x00\x00\x03\x00\x00\x00\x02\x82",
    b"\x00\x00\x01\x01\x00\x00\x00\x00\x05\x88\x00\x00\x01\x09\x04\x00\x00\x00\x05\x8a",
    b"\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x01",
    b"\x00\x00\x05\x02\x00\x00\x00\x00\x01\x00\x00\x00\x00\x10",
];

/// Streams of HTTP/3, each with two bytes before it that `framing.rs` explains: the control stream and answers, and parts of
/// others.
const WHOLE_STREAMS: [&[u8]; 3] =
    [b"\x04\x03\x00\x04\x00", b"\x08\x05\x01\x03\x00\x00\xd9", b"\x09\x0a\x01\x03\x00\x00\xd9\x00\x03abc"];
const STREAM_PARTS: [&[u8]; 10] = [
    b"\x02\x05\x01\x03\x00\x00\xd9",
    b"\x0a\x04\x00\x02hi",
    b"\x0b\x00",
    b"\x0b\x05\x01\x03\x00\x00\xc1",
    b"\x05\x02\x02\x20",
    b"\x06\x03\x21\x01\x02",
    b"\x04\x03\x07\x01\x08",
    b"\x11\x00",
    b"\x03\x08\x40\x21\x02xy\x01\x03\x00",
    b"\x07\x01\x03",
];

/// What one input is made of: whole answers, parts of others, and bytes that were exchanged.
fn generated(random: &mut SplitMix64, spoken: Spoken) -> Vec<u8> {
    let text = |texts: &[&'static str]| texts.iter().map(|text| text.as_bytes()).collect::<Vec<_>>();
    let (whole, parts): (Vec<&[u8]>, Vec<&[u8]>) = match spoken {
        Spoken::Http1 | Spoken::Head => (text(&WHOLE), text(&PARTS)),
        Spoken::WebSocket => (MESSAGES.to_vec(), FRAMES.to_vec()),
        // What follows the upgrade are messages.
        Spoken::Upgrade if random.below(2) == 0 => (UPGRADES.to_vec(), MESSAGES.to_vec()),
        Spoken::Upgrade => (UPGRADES.to_vec(), UPGRADE_PARTS.to_vec()),
        Spoken::Events => (STREAMS.to_vec(), EVENTS.to_vec()),
        Spoken::Http3 => (WHOLE_STREAMS.to_vec(), STREAM_PARTS.to_vec()),
        Spoken::Http2 | Spoken::Grpc => (CALLS.to_vec(), PIECES.to_vec()),
    };
    let mut bytes = Vec::new();
    // A connection is upgraded once.
    let most = if spoken == Spoken::Upgrade { 2 } else { 3 };
    for _ in 0..random.below(most) {
        bytes.extend_from_slice(whole[random.below(whole.len() as u64) as usize]);
    }
    for _ in 0..=random.below(8) {
        bytes.extend_from_slice(parts[random.below(parts.len() as u64) as usize]);
    }
    for _ in 0..random.below(3) {
        let place = random.below(bytes.len() as u64) as usize;
        bytes[place] = random.below(256) as u8;
    }
    bytes
}

#[test]
fn a_flood_of_control_frames_costs_no_memory_and_no_request() {
    let lost = Verdict { answers: 0, malformed: 0, lost: 4, kept: true };
    assert_eq!(check(&b"\x89\x00".repeat(30_000), Spoken::WebSocket), lost);
    let settings = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00";
    let pings = b"\x00\x00\x08\x06\x00\x00\x00\x00\x0012345678".repeat(3_000);
    assert_eq!(check(&[&settings[..], &pings].concat(), Spoken::Grpc), lost);
    assert_eq!(check(&settings.repeat(5_000), Spoken::Http2), lost);
}

/// Generated inputs of one protocol for as long as `FUZZ_SECONDS` says (2 by default), from `FUZZ_SEED` (0 by default) on, and at
/// least so many. `FUZZ_SECONDS=60 cargo test -p whyslow-load hostile -- --nocapture` is what CI runs.
#[expect(clippy::print_stdout, reason = "a check says how much it checked")]
fn fuzz(spoken: Spoken) {
    const INPUTS: u64 = 200;
    let number =
        |name, default| std::env::var(name).map_or(default, |value| value.parse().expect("it is a number"));
    let (time, first) = (Duration::from_secs(number("FUZZ_SECONDS", 2)), number("FUZZ_SEED", 0));
    let start = Instant::now();
    let (mut inputs, mut answered, mut refused) = (0, 0, 0);
    while inputs < INPUTS || start.elapsed() < time {
        let seed = first + inputs;
        let bytes = generated(&mut SplitMix64::fork(seed, "hostile", 0), spoken);
        let verdict = catch_unwind(|| check(&bytes, spoken))
            .unwrap_or_else(|_| panic!("seed {seed}, {spoken:?}: \"{}\"", bytes.escape_ascii()));
        inputs += 1;
        answered += u64::from(verdict.answers > 0);
        refused += u64::from(verdict.malformed > 0);
    }
    println!(
        "hostile answers, {} s: {inputs} inputs of {spoken:?}: {answered} answered, {refused} refused",
        time.as_secs()
    );
    // Inputs that say nothing of either would prove nothing.
    assert!(answered > inputs / 20 && refused > inputs / 20, "{spoken:?}: {answered}, {refused} of {inputs}");
}

/// A test for each protocol, so that none takes the time of another; their names begin as CI looks for them.
macro_rules! each_protocol {
    ($($name:ident: $spoken:ident,)*) => {
        $(
            #[test]
            fn $name() {
                fuzz(Spoken::$spoken);
            }
        )*
    };
}

each_protocol! {
    fuzz_bytes_of_http1: Http1,
    fuzz_bytes_to_head: Head,
    fuzz_bytes_of_websocket: WebSocket,
    fuzz_bytes_of_an_upgrade: Upgrade,
    fuzz_bytes_of_events: Events,
    fuzz_bytes_of_http2: Http2,
    fuzz_bytes_of_grpc: Grpc,
    fuzz_bytes_of_http3: Http3,
}

#[test]
fn a_farewell_counts_although_what_follows_it_breaks_the_protocol() {
    // Settings, GOAWAY from the third stream on, GOAWAY of a stream that is not ours, in one piece: two requests of the four are
    // to be asked again; of the other two one is what the error is charged to, and one is lost.
    let verdict = check(b"\x04\x09\x00\x04\x00\x07\x01\x08\x07\x01\x03", Spoken::Http3);
    assert_eq!(verdict, Verdict { answers: 0, malformed: 1, lost: 1, kept: false });
}

#[test]
fn what_follows_the_last_event_that_is_wanted_changes_nothing() {
    const STREAM: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n\
                          12\r\ndata: a\n\ndata: b\n\n";
    for after in ["", "\r\n0\r\n\r\n", "\r\u{c8}0\r\n\r\n", "no chunk"] {
        let verdict = check([STREAM, after].concat().as_bytes(), Spoken::Events);
        assert_eq!((verdict.answers, verdict.malformed), (1, 0), "{after:?}");
    }
}
