//! Random faults on connections of HTTP/2. Half of them are treated well: of what these ask nothing is lost.

use super::{handle, leave, outlast};
use crate::http2::raw::{Frame, Raw, block, data, frame, get, post, setting};
use crate::support::{Random, TestServer, in_own_process, say};
use ::http2::{PREFACE, frame as kind};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

/// What each of the handler's paths is answered with; nothing where its stream is broken off amid the answer.
const PATHS: [(&str, Option<&str>); 7] = [
    ("/", Some("200")),
    ("/panic", Some("500")),
    ("/error", Some("500")),
    ("/sleep", Some("200")),
    ("/child", Some("200")),
    ("/stream", Some("200")),
    ("/panic-in-stream", None),
];
/// Streams of one connection, at most.
const STREAMS: u64 = 8;
/// A window that holds all answers of a connection, in bytes.
const WINDOW: u32 = 1 << 24;
/// The setting of the windows of streams.
const INITIAL_WINDOW_SIZE: u16 = 4;

/// Requests whose answers were read and found right.
static ANSWERED: AtomicU64 = AtomicU64::new(0);

/// What becomes of one stream.
struct Asked {
    status: Option<&'static str>,
    ended: bool,
}

/// A request, and the same as frames.
fn request(random: &mut Random, stream: u32) -> (Option<&'static str>, Vec<u8>) {
    let (path, status) = PATHS[random.below(PATHS.len() as u64) as usize];
    let bytes = match random.below(3) {
        0 => get(stream, path),
        1 => [post(stream, path, &[]), data(stream, &[7; 1000], false), data(stream, b"", true)].concat(),
        _ => {
            let length = random.below(3_000) as usize;
            let promised = length.to_string();
            let mut bytes = post(stream, path, &[("content-length", &promised)]);
            bytes.extend(data(stream, &vec![3; length], true));
            bytes
        }
    };
    (status, bytes)
}

/// What a client says first.
fn greeting() -> Vec<u8> {
    let window = frame(kind::WINDOW_UPDATE, 0, 0, &(WINDOW - 65_535).to_be_bytes());
    [PREFACE.to_vec(), setting(INITIAL_WINDOW_SIZE, WINDOW), window].concat()
}

/// Asks, and reads every answer to its end.
fn ask_well(address: SocketAddr, random: &mut Random) -> u64 {
    let mut raw = Raw::at(address);
    let (mut asked, mut bytes) = (Vec::new(), greeting());
    for index in 0..=random.below(STREAMS) {
        let (status, request) = request(random, 2 * index as u32 + 1);
        asked.push(Asked { status, ended: false });
        bytes.extend(request);
    }
    assert!(raw.send(&bytes), "the server reads");
    while asked.iter().any(|asked| !asked.ended) {
        let frame = raw.next().expect("no answer is lost with its connection");
        hear(&mut raw, &frame, &mut asked);
    }
    ANSWERED.fetch_add(asked.len() as u64, Ordering::Relaxed);
    asked.len() as u64
}

/// Checks one frame against what was asked.
fn hear(raw: &mut Raw, frame: &Frame, asked: &mut [Asked]) {
    assert!(frame.head.kind != kind::GOAWAY, "a good connection ends: {frame:?}");
    // A list of fields is read in any case: the next ones may refer to it.
    let fields = if frame.head.kind == kind::HEADERS { raw.fields(frame) } else { Vec::new() };
    let Some(index) = frame.head.stream.checked_sub(1) else { return };
    let asked = &mut asked[index as usize / 2];
    assert!(!asked.ended, "something follows the end of a stream: {frame:?}");
    match (frame.head.kind, asked.status) {
        (kind::RST_STREAM, None) => asked.ended = true,
        (kind::RST_STREAM, Some(_)) => panic!("a stream was broken off: {frame:?}"),
        (kind::HEADERS, wanted) => {
            let status = fields.iter().find(|(name, _)| name == ":status").map(|(_, value)| value.as_str());
            assert_eq!(status, Some(wanted.unwrap_or("200")));
        }
        _ => {}
    }
    asked.ended |= frame.head.has(kind::END_STREAM) && matches!(frame.head.kind, kind::HEADERS | kind::DATA);
    assert!(!asked.ended || asked.status.is_some() || frame.head.kind == kind::RST_STREAM, "it looks whole");
}

/// What a client does wrong, as frames.
fn fault(random: &mut Random, stream: u32) -> Vec<u8> {
    match random.below(8) {
        0 | 1 => frame(kind::RST_STREAM, 0, stream, &8u32.to_be_bytes()),
        2 => frame(kind::WINDOW_UPDATE, 0, stream, &0x7fff_ffffu32.to_be_bytes()),
        3 => frame(kind::HEADERS, kind::END_HEADERS, stream, &block(&[(":method", "GET"), ("Bad", "x")])),
        4 => frame(kind::HEADERS, 0, stream + 2, &block(&[(":method", "GET")])),
        5 => data(stream, b"too late", true),
        6 => frame(kind::GOAWAY, 0, 0, &[0; 8]),
        _ => frame(kind::PING, 0, 0, b"8 bytes!"),
    }
}

/// Asks, and breaks off, sends half frames, flips a bit or goes away at any point.
fn ask_badly(address: SocketAddr, random: &mut Random) -> u64 {
    let mut raw = Raw::at(address);
    let (count, mut bytes) = (1 + random.below(STREAMS), greeting());
    for index in 0..count {
        let stream = 2 * index as u32 + 1;
        bytes.extend(request(random, stream).1);
        if random.below(3) == 0 {
            bytes.extend(fault(random, stream));
        }
    }
    if random.below(4) == 0 {
        let at = PREFACE.len() as u64 + random.below((bytes.len() - PREFACE.len()) as u64);
        bytes[at as usize] ^= 1 << random.below(8);
    }
    let cut = if random.below(2) == 0 { bytes.len() } else { random.below(bytes.len() as u64) as usize };
    let pieces = if random.below(10) == 0 { 97 } else { bytes.len() };
    for piece in bytes[..cut].chunks(pieces) {
        if !raw.send(piece) {
            break;
        }
    }
    // Some hear a little of the answers before they go.
    for _ in 0..random.below(3) {
        if cut < bytes.len() || raw.next().is_none() {
            break;
        }
    }
    leave(raw.stream, random);
    count
}

fn torment(address: SocketAddr, random: &mut Random) -> u64 {
    match random.below(2) {
        0 => ask_well(address, random),
        _ => ask_badly(address, random),
    }
}

/// Runs in a process of its own, where nothing else opens descriptors.
#[test]
fn random_faults_leave_nothing_behind() {
    in_own_process("soak::http2::torment_a_server");
}

pub(crate) fn torment_a_server() {
    let server = TestServer::with(|server| server.workers(2), handle);
    let connections = outlast(&server, torment, "HTTP/2");
    let answered = ANSWERED.load(Ordering::Relaxed);
    say(&format!("HTTP/2: {answered} requests on good connections, each answered"));
    assert!(answered > connections / 4, "too few were treated well: {answered} of {connections} connections");
    assert!(server.metric("requests_total") >= answered);
    assert!(server.metric("refused_total") > 0, "nothing was found to be wrong");
    assert_eq!(server.metric("accepted_total"), connections);
    server.until("every handler ends", |server| server.metric("coroutines") == 0);
    server.assert_serves("the soak");
}
