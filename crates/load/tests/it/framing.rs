//! What must hold for any bytes that a server may send. The fuzzer outside of the tree runs the same check.

use load::schedule::{Arrival, Dispatch, Intensity, Pace, Part};
use load::session::http3::piece::Piece;
use load::session::{
    Answers, End, EventStreams, Fate, Http1, Http2, Http3, Protocol, Sending, Session, Span, Spec, Upgrade,
    WebSocket, enveloped, message,
};

/// When every request was sent, on the clock of these tests.
const BEGIN: u64 = 1_000;
/// Requests that wait for an answer.
const ASKED: u32 = 4;
/// Longest beginning of an answer that is kept: the longest head that is read (`http1::limits::HEAD_BYTES`).
const KEPT_BYTES: usize = 32 * 1024;
/// Longest answer that waits for a server that reads none: as much as it has sent, and some.
const KEPT_UNSENT_BYTES: usize = 128 * 1024;
/// What is asked where nothing else is.
const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";
/// Longest input: what one read of a worker brings.
const READ_BYTES: usize = 64 * 1024;

/// What became of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) answers: u64,
    pub(crate) malformed: u64,
    pub(crate) lost: u64,
    /// Whether the connection could go on.
    pub(crate) kept: bool,
}

/// What a server is made to believe that it speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spoken {
    Http1,
    /// HTTP/1.1, all requests of which are HEAD.
    Head,
    /// WebSocket, upgraded already.
    WebSocket,
    /// WebSocket, where the input is what the server says to being asked for it.
    Upgrade,
    /// Streams of events, complete after two.
    Events,
    Http2,
    Grpc,
    /// HTTP/3, whose input says in two bytes to which stream each of its parts belongs.
    Http3,
}

/// Reads `bytes` at once and in pieces: the same must come of it, no more may be kept than a head is long, and every
/// request is counted once.
pub(crate) fn check(bytes: &[u8], spoken: Spoken) -> Verdict {
    let bytes = &bytes[..bytes.len().min(READ_BYTES)];
    let whole = read(bytes, bytes.len().max(1), spoken);
    for piece in [1, 7, 61] {
        // Single bytes of a long input would only repeat what those of a short one show.
        if bytes.len() / piece <= 4096 {
            let pieces = read(bytes, piece, spoken);
            assert_eq!(pieces, whole, "in pieces of {piece}");
        }
    }
    whole
}

fn read(bytes: &[u8], piece: usize, spoken: Spoken) -> Verdict {
    const UPGRADED: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: yes\r\n\r\n";
    let post = [
        &b"POST /a.B/C HTTP/1.1\r\nHost: x\r\nContent-Type: application/grpc\r\n\r\n"[..],
        &enveloped(b"hello").unwrap(),
    ]
    .concat();
    let http2 = |request, grpc| Http2::new(ASKED, ASKED, Some(request), false, grpc);
    match spoken {
        Spoken::Http1 | Spoken::Head => {
            drive(Http1, spec(GET, ASKED, spoken == Spoken::Head), NOTHING, bytes, piece)
        }
        Spoken::Events => {
            drive(EventStreams::new(1, Some(2)), spec(GET, ASKED, false), NOTHING, bytes, piece)
        }
        Spoken::WebSocket | Spoken::Upgrade => {
            let upgrade = Upgrade { request: GET.to_vec(), accept: "yes".to_owned() };
            let hello = message(b"hello", [1, 2, 3, 4]);
            // What is upgraded is asked, and answers.
            let around = match spoken {
                Spoken::WebSocket => Around { begin: UPGRADED, end: &[] },
                _ => Around { begin: &[], end: b"\x81\x01a" },
            };
            drive(WebSocket::new(upgrade), spec(&hello, ASKED, false), around, bytes, piece)
        }
        Spoken::Http2 => drive(http2(GET, None), spec(GET, 1, false), NOTHING, bytes, piece),
        Spoken::Http3 => drive_streams(bytes, piece),
        Spoken::Grpc => drive(http2(&post, Some(Answers::Any)), spec(&post, 1, false), NOTHING, bytes, piece),
    }
}

/// What a server says before an input, and after it once it was asked again.
#[derive(Clone, Copy)]
struct Around {
    begin: &'static [u8],
    end: &'static [u8],
}

const NOTHING: Around = Around { begin: &[], end: &[] };

/// Sends [`ASKED`] requests and reads `bytes`, so many at a time, between what is `around` them.
fn drive<P: Protocol>(mut protocol: P, spec: Spec, around: Around, bytes: &[u8], piece: usize) -> Verdict {
    const END: u64 = 1 << 40;
    let mut session = Session::new(spec);
    let Around { begin, end } = around;
    let mut buf = vec![0; KEPT_BYTES + piece.max(begin.len()).max(end.len())];
    assert_eq!(protocol.opened(&mut session, 0, BEGIN), Fate::Keep);
    write(&mut protocol, &mut session);
    if !begin.is_empty() {
        assert_eq!(protocol.received(&mut session, 0, begin, begin.len(), BEGIN), Fate::Keep);
    }
    session.begin_window(Span { start_ns: BEGIN - 100, end_ns: END });
    session.pace(BEGIN);
    write(&mut protocol, &mut session);
    let mut kept = true;
    for (part, ends) in bytes.chunks(piece).map(|part| (part, false)).chain([(end, true)]) {
        if part.is_empty() {
            continue;
        }
        if ends {
            session.pace(BEGIN);
            write(&mut protocol, &mut session);
        }
        let begun = protocol.unstash(&mut session, 0, &mut buf);
        assert!(begun <= KEPT_BYTES, "{begun} bytes of one head are kept");
        buf[begun..begun + part.len()].copy_from_slice(part);
        let fate = protocol.received(&mut session, 0, &buf[..begun + part.len()], part.len(), BEGIN + 1);
        // What it answers is not read by anyone.
        assert!(protocol.outgoing(&session, 0).len() <= KEPT_UNSENT_BYTES);
        if fate == Fate::Replace {
            kept = false;
            break;
        }
    }
    if kept {
        let _ = protocol.ended(&mut session, 0, End::Closed, BEGIN + 2);
    }
    verdict(session, kept)
}

/// Sends [`ASKED`] requests over HTTP/3 and reads the parts that `bytes` are made of, of each so many bytes at a time: its
/// first byte says of which stream it is and whether it ends or resets it, the second how long it is.
fn drive_streams(bytes: &[u8], piece: usize) -> Verdict {
    const END: u64 = 1 << 40;
    const STREAMS: [u64; 8] = [0, 4, 8, 12, 3, 7, 11, 15];
    let mut session = Session::new(spec(GET, 1, false));
    let mut protocol = Http3::new(ASKED, ASKED, Some(GET));
    let take = |session: &mut Session, protocol: &mut Http3, pieces: &[Piece<'_>]| {
        let mut buf = Vec::new();
        pieces.iter().for_each(|piece| piece.write(&mut buf));
        let fate = protocol.received(session, 0, &buf, buf.len(), BEGIN);
        assert!(protocol.outgoing(session, 0).len() <= KEPT_UNSENT_BYTES);
        fate == Fate::Keep
    };
    assert_eq!(protocol.opened(&mut session, 0, BEGIN), Fate::Keep);
    let rooms: Vec<Piece<'_>> = STREAMS[..4].iter().map(|stream| Piece::Room { stream: *stream }).collect();
    assert!(take(&mut session, &mut protocol, &rooms));
    session.begin_window(Span { start_ns: BEGIN - 100, end_ns: END });
    session.pace(BEGIN);
    write(&mut protocol, &mut session);
    let (mut kept, mut rest) = (true, bytes);
    while let [selector, length, after @ ..] = rest {
        let stream = STREAMS[usize::from(*selector) % STREAMS.len()];
        let (content, after) = after.split_at(after.len().min(usize::from(*length)));
        rest = after;
        let ends = selector & 8 != 0;
        let mut parts: Vec<Piece<'_>> =
            content.chunks(piece).map(|bytes| Piece::Data { stream, bytes, last: false }).collect();
        match parts.last_mut() {
            Some(Piece::Data { last, .. }) => *last = ends,
            _ => parts.push(Piece::Data { stream, bytes: &[], last: ends }),
        }
        if selector & 16 != 0 {
            parts = vec![Piece::Reset { stream, code: 0x10c }];
        }
        if !parts.iter().all(|part| take(&mut session, &mut protocol, &[*part])) {
            kept = false;
            break;
        }
    }
    if kept {
        let _ = protocol.ended(&mut session, 0, End::Closed, BEGIN + 2);
    }
    verdict(session, kept)
}

/// Writes all that is to be written.
fn write<P: Protocol>(protocol: &mut P, session: &mut Session) {
    while let Some(lane) = session.next_write() {
        if protocol.ask(session, lane, BEGIN) == Sending::Now {
            let bytes = protocol.outgoing(session, 0).len();
            protocol.wrote(session, 0, bytes, BEGIN);
        }
    }
    let _ = protocol.gathered(session, BEGIN);
    let bytes = protocol.outgoing(session, 0).len();
    protocol.wrote(session, 0, bytes, BEGIN);
}

fn verdict(mut session: Session, kept: bool) -> Verdict {
    let tally = session.finish(BEGIN + 3).tally;
    let counted = tally.requests + tally.errors.parse + tally.errors.read + tally.unfinished + tally.unsent;
    // An answer to nothing is one more that is wrong.
    assert!((u64::from(ASKED)..=u64::from(ASKED) + 1).contains(&counted), "{counted} of {ASKED}: {tally:?}");
    // An upgrade that fails is a connection that cannot be had.
    let malformed = tally.errors.parse + tally.errors.connect;
    Verdict { answers: tally.requests, malformed, lost: tally.errors.read, kept }
}

/// [`ASKED`] requests on one connection, with as many in flight on each lane as `depth` says, all due in the window.
fn spec(request: &[u8], depth: u32, head: bool) -> Spec {
    let pace = Pace::Open {
        intensity: Intensity::Flat { per_s: 1e9 },
        arrival: Arrival::Constant,
        dispatch: Dispatch::Shared,
    };
    Spec {
        per_connection: None,
        lanes: ASKED / depth,
        depth,
        request: request.to_vec(),
        head,
        hold: None,
        pace,
        seed: 1,
        part: Part { part: 0, parts: 1 },
        requests: Some(u64::from(ASKED)),
        timeout_ns: None,
        slack_ns: 0,
        expected_status: None,
    }
}
