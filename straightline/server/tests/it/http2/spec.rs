//! The cases of h2spec, by the sections of RFC 9113 and RFC 7541 that they stand for.

use super::raw::{Raw, asking, block, data, frame, get, post, server, setting};
use crate::support::TestServer;
use http2::ErrorCode::{
    self, CompressionError, FlowControlError, FrameSizeError, ProtocolError, RefusedStream, StreamClosed,
};
use http2::frame::{
    ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PADDED, PING, PRIORITIZED, PRIORITY,
    PUSH_PROMISE, RST_STREAM, SETTINGS, WINDOW_UPDATE,
};

/// What must come of a case.
#[derive(Clone, Copy, Debug)]
enum Then {
    /// The connection ends with this code.
    Broken(ErrorCode),
    /// Stream 1 ends with this code, and the connection goes on.
    Reset(ErrorCode),
    /// Stream 1 is answered with this status.
    Answer(&'static str),
    /// Nothing.
    Alive,
}
use Then::{Alive, Answer, Broken, Reset};
use std::io::Read;

type Case = (&'static str, Vec<u8>, Then);

fn check(cases: Vec<Case>) {
    check_on(&server(), cases);
}

fn check_on(server: &TestServer, cases: Vec<Case>) {
    assert!(!cases.is_empty());
    for (what, bytes, then) in cases {
        let mut raw = Raw::open(server);
        raw.send(&bytes);
        match then {
            Broken(code) => raw.assert_broken(code, what),
            Reset(code) => {
                raw.assert_reset(1, code, what);
                raw.assert_alive(what);
            }
            Answer(status) => assert_eq!(raw.answer(1).status(), status, "{what}"),
            Alive => raw.assert_alive(what),
        }
    }
    server.assert_serves("all cases");
}

fn cat(parts: &[Vec<u8>]) -> Vec<u8> {
    parts.concat()
}

/// Fields of stream 1, and its end.
fn asked(fields: &[(&str, &str)]) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, 1, &block(fields))
}

/// A good request with one field more.
fn with(name: &str, value: &str) -> Vec<u8> {
    asked(&[&asking("GET", "/")[..], &[(name, value)]].concat())
}

fn head() -> Vec<u8> {
    block(&asking("GET", "/"))
}

fn update(stream: u32, bytes: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes())
}

#[test]
fn section_3_4_the_preface() {
    let server = server();
    let mut raw = Raw::silent(&server);
    raw.send(http2::PREFACE);
    raw.send(&get(1, "/"));
    raw.assert_broken(ProtocolError, "3.4 the first frame is not SETTINGS");
    let mut raw = Raw::silent(&server);
    raw.send(b"INVALID CONNECTION PREFACE\r\n\r\n");
    let mut answer = String::new();
    raw.stream.read_to_string(&mut answer).unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 400 "),
        "3.4 a preface that is none is a bad request of HTTP/1.1: {answer}"
    );
    let mut raw = Raw::silent(&server);
    for byte in http2::PREFACE {
        raw.send(&[*byte]);
    }
    raw.send(&cat(&[frame(SETTINGS, 0, 0, &[]), get(1, "/")]));
    assert_eq!(raw.answer(1).status(), "200", "3.4 byte by byte");
}

#[test]
fn section_4_frames_and_fields() {
    let long = vec![0; 16 * 1024 + 1];
    check(vec![
        ("4.1 a frame of an unknown kind", frame(0x16, 0, 0, &[0; 8]), Alive),
        ("4.1 flags without a meaning", frame(PING, 0x16, 0, &[0; 8]), Alive),
        ("4.1 the reserved bit", frame(PING, 0, 1 << 31, &[0; 8]), Alive),
        (
            "4.2 DATA of the longest length",
            cat(&[post(1, "/", &[]), data(1, &long[1..], true)]),
            Answer("200"),
        ),
        (
            "4.2 DATA that is too long",
            cat(&[post(1, "/", &[]), data(1, &long, true)]),
            Broken(FrameSizeError),
        ),
        ("4.2 HEADERS that are too long", frame(HEADERS, 5, 1, &long), Broken(FrameSizeError)),
        (
            "4.3 fields that stand for nothing",
            frame(HEADERS, 5, 1, &[0x82, 0x84, 0xff]),
            Broken(CompressionError),
        ),
        (
            "4.3 PRIORITY amid fields",
            cat(&[frame(HEADERS, 1, 1, &head()), frame(PRIORITY, 0, 1, &[0; 5])]),
            Broken(ProtocolError),
        ),
        (
            "4.3 HEADERS of another stream amid fields",
            cat(&[frame(HEADERS, 1, 1, &head()), get(3, "/")]),
            Broken(ProtocolError),
        ),
    ]);
}

#[test]
fn section_5_1_states_of_streams() {
    let wait = || get(1, "/wait");
    let gone = || cat(&[wait(), frame(RST_STREAM, 0, 1, &[0, 0, 0, 8])]);
    check(vec![
        ("5.1 idle: DATA", data(1, b"x", true), Broken(ProtocolError)),
        ("5.1 idle: RST_STREAM", frame(RST_STREAM, 0, 1, &[0; 4]), Broken(ProtocolError)),
        ("5.1 idle: WINDOW_UPDATE", update(1, 100), Broken(ProtocolError)),
        ("5.1 idle: CONTINUATION", frame(CONTINUATION, 5, 1, &head()), Broken(ProtocolError)),
        ("5.1 half closed: DATA", cat(&[wait(), data(1, b"x", true)]), Reset(StreamClosed)),
        ("5.1 half closed: HEADERS", cat(&[wait(), get(1, "/")]), Reset(StreamClosed)),
        (
            "5.1 half closed: CONTINUATION",
            cat(&[wait(), frame(CONTINUATION, 4, 1, &head())]),
            Broken(ProtocolError),
        ),
        ("5.1 half closed: WINDOW_UPDATE", cat(&[wait(), update(1, 1)]), Answer("200")),
        ("5.1 closed by RST_STREAM: DATA", cat(&[gone(), data(1, b"x", true)]), Reset(StreamClosed)),
        ("5.1 closed by RST_STREAM: HEADERS", cat(&[gone(), get(1, "/")]), Reset(StreamClosed)),
        (
            "5.1 closed by RST_STREAM: CONTINUATION",
            cat(&[gone(), frame(CONTINUATION, 4, 1, &head())]),
            Broken(ProtocolError),
        ),
        ("5.1 closed: PRIORITY", cat(&[get(1, "/"), frame(PRIORITY, 0, 1, &[0, 0, 0, 0, 9])]), Alive),
        ("5.1.1 an even stream", get(2, "/"), Broken(ProtocolError)),
        ("5.1.1 a smaller stream", cat(&[get(5, "/"), get(3, "/")]), Broken(ProtocolError)),
        ("5.1.1 stream 0", get(0, "/"), Broken(ProtocolError)),
    ]);
    let server = server();
    for (what, bytes) in [("DATA", data(1, b"x", true)), ("HEADERS", get(1, "/"))] {
        let mut raw = Raw::open(&server);
        raw.send(&get(1, "/"));
        assert_eq!(raw.answer(1).status(), "200");
        raw.send(&bytes);
        raw.assert_broken(StreamClosed, &format!("5.1 closed: {what}"));
    }
    let mut raw = Raw::open(&server);
    raw.send(&gone());
    std::thread::sleep(std::time::Duration::from_millis(600));
    raw.send(&data(1, b"x", true));
    raw.assert_reset(1, StreamClosed, "5.1 closed by RST_STREAM, and let go: DATA");
}

#[test]
fn what_comes_after_an_early_answer_is_looked_at_all_the_same() {
    let server = TestServer::new(|_, response| response.send(b"early"));
    let open = |more: &[(&str, &str)]| post(1, "/", more);
    let fields = |flags, fields: &[(&str, &str)]| frame(HEADERS, flags, 1, &block(fields));
    let reset = frame(RST_STREAM, 0, 1, &[0, 0, 0, 8]);
    check_on(
        &server,
        vec![
            (
                "5.1 reset, then DATA",
                cat(&[open(&[]), reset.clone(), data(1, b"x", true)]),
                Reset(StreamClosed),
            ),
            ("5.1 reset, then HEADERS", cat(&[open(&[]), reset, get(1, "/")]), Reset(StreamClosed)),
            (
                "5.1 DATA after the end",
                cat(&[open(&[]), data(1, b"x", true), data(1, b"x", true)]),
                Broken(StreamClosed),
            ),
            ("6.9 an increment of nothing", cat(&[open(&[]), update(1, 0)]), Reset(ProtocolError)),
            (
                "6.9.1 the window grows too large",
                cat(&[open(&[]), update(1, (1 << 31) - 1), update(1, (1 << 31) - 1)]),
                Reset(FlowControlError),
            ),
            (
                "8.1 a second HEADERS without END_STREAM",
                cat(&[open(&[]), data(1, b"test", false), fields(END_HEADERS, &[("x", "y")])]),
                Reset(ProtocolError),
            ),
            (
                "8.1.2.1 a pseudo-field as trailer",
                cat(&[open(&[]), data(1, b"test", false), fields(5, &[(":method", "200")])]),
                Reset(ProtocolError),
            ),
            (
                "8.1.2.6 more than was promised",
                cat(&[open(&[("content-length", "1")]), data(1, b"test", true)]),
                Reset(ProtocolError),
            ),
            (
                "8.1.2.6 the same in two",
                cat(&[open(&[("content-length", "1")]), data(1, b"te", false), data(1, b"st", true)]),
                Reset(ProtocolError),
            ),
        ],
    );
    server.until("every connection ends", |server| server.metric("open_connections") == 0);
}

#[test]
fn section_5_1_2_more_streams_than_are_allowed_are_refused() {
    let server = server();
    let mut raw = Raw::open(&server);
    let streams = http2::limits::STREAMS;
    let asks: Vec<Vec<u8>> = (0..=streams).map(|index| get(2 * index + 1, "/wait")).collect();
    raw.send(&cat(&asks));
    raw.assert_reset(2 * streams + 1, RefusedStream, "5.1.2 one stream more");
    raw.assert_alive("5.1.2");
}

#[test]
fn section_5_5_extensions() {
    check(vec![
        ("5.5 an unknown frame", cat(&[frame(0xfa, 0xff, 7, b"?"), get(1, "/")]), Answer("200")),
        (
            "5.5 an unknown frame amid fields",
            cat(&[frame(HEADERS, 1, 1, &head()), frame(0xfa, 0, 0, &[])]),
            Broken(ProtocolError),
        ),
    ]);
}

#[test]
fn section_6_1_data() {
    let padded =
        |padding: u8, bytes: &[u8]| frame(DATA, PADDED | END_STREAM, 1, &[&[padding], bytes].concat());
    check(vec![
        ("6.1 on stream 0", data(0, b"x", false), Broken(ProtocolError)),
        ("6.1 on a stream that is not open", data(3, b"x", false), Broken(ProtocolError)),
        ("6.1 padded", cat(&[post(1, "/", &[]), padded(2, b"ab\0\0")]), Answer("200")),
        ("6.1 all of it padding", cat(&[post(1, "/", &[]), padded(4, b"\0\0\0\0")]), Answer("200")),
        (
            "6.1 more padding than bytes",
            cat(&[post(1, "/", &[]), padded(5, b"\0\0\0\0")]),
            Broken(ProtocolError),
        ),
        (
            "6.1 padded, and empty",
            cat(&[post(1, "/", &[]), frame(DATA, PADDED, 1, &[])]),
            Broken(FrameSizeError),
        ),
    ]);
}

#[test]
fn section_6_2_headers() {
    let with_padding =
        |padding: u8| frame(HEADERS, 0x5 | PADDED, 1, &[&[padding][..], &head(), &[0; 3]].concat());
    let prioritized = [&[0, 0, 0, 0, 15][..], &head()].concat();
    check(vec![
        ("6.2 padded", with_padding(3), Answer("200")),
        ("6.2 more padding than bytes", with_padding(200), Broken(ProtocolError)),
        ("6.2 with a priority", frame(HEADERS, 0x5 | PRIORITIZED, 1, &prioritized), Answer("200")),
        ("6.2 with a cut priority", frame(HEADERS, 0x5 | PRIORITIZED, 1, &[0; 4]), Broken(FrameSizeError)),
        (
            "6.2 HEADERS before CONTINUATION ends",
            cat(&[frame(HEADERS, 0, 1, &head()), get(1, "/")]),
            Broken(ProtocolError),
        ),
    ]);
}

#[test]
fn section_6_3_to_6_4_priority_and_reset() {
    check(vec![
        ("6.3 on stream 0", frame(PRIORITY, 0, 0, &[0; 5]), Broken(ProtocolError)),
        (
            "6.3 of another length",
            cat(&[get(1, "/wait"), frame(PRIORITY, 0, 1, &[0; 4])]),
            Reset(FrameSizeError),
        ),
        (
            "5.3.1 of RFC 7540: HEADERS that depend on their own stream",
            frame(HEADERS, 0x5 | PRIORITIZED, 1, &[&[0, 0, 0, 1, 15][..], &head()].concat()),
            Reset(ProtocolError),
        ),
        (
            "5.3.1 of RFC 7540: the same, continued",
            cat(&[
                frame(HEADERS, END_STREAM | PRIORITIZED, 1, &[&[0, 0, 0, 1, 15][..], &head()].concat()),
                frame(CONTINUATION, END_HEADERS, 1, &[]),
            ]),
            Reset(ProtocolError),
        ),
        (
            "5.3.1 of RFC 7540: PRIORITY of a stream on itself",
            frame(PRIORITY, 0, 1, &[0, 0, 0, 1, 15]),
            Broken(ProtocolError),
        ),
        (
            "5.3.1 of RFC 7540: the same amid a request",
            cat(&[post(1, "/wait", &[]), frame(PRIORITY, 0, 1, &[0, 0, 0, 1, 15])]),
            Reset(ProtocolError),
        ),
        ("6.3 on an idle stream", cat(&[frame(PRIORITY, 0, 9, &[0; 5]), get(1, "/")]), Answer("200")),
        ("6.4 on stream 0", frame(RST_STREAM, 0, 0, &[0; 4]), Broken(ProtocolError)),
        (
            "6.4 of another length",
            cat(&[get(1, "/wait"), frame(RST_STREAM, 0, 1, &[0; 3])]),
            Broken(FrameSizeError),
        ),
    ]);
}

#[test]
fn section_6_5_settings() {
    check(vec![
        ("6.5 an answer with a payload", frame(SETTINGS, ACK, 0, &[0; 6]), Broken(FrameSizeError)),
        ("6.5 on a stream", frame(SETTINGS, 0, 1, &[0; 6]), Broken(ProtocolError)),
        ("6.5 of another length", frame(SETTINGS, 0, 0, &[0; 7]), Broken(FrameSizeError)),
        ("6.5.2 ENABLE_PUSH", setting(2, 2), Broken(ProtocolError)),
        ("6.5.2 INITIAL_WINDOW_SIZE", setting(4, 1 << 31), Broken(FlowControlError)),
        ("6.5.2 MAX_FRAME_SIZE too small", setting(5, 16_383), Broken(ProtocolError)),
        ("6.5.2 MAX_FRAME_SIZE too large", setting(5, 1 << 24), Broken(ProtocolError)),
        ("6.5.2 an unknown setting", cat(&[setting(0xff, 1), get(1, "/")]), Answer("200")),
    ]);
    let server = server();
    let mut raw = Raw::open(&server);
    raw.send(&frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 9, 0, 4, 0, 0, 0, 1]));
    raw.until(|frame| frame.head.kind == SETTINGS && frame.head.has(ACK));
    raw.send(&get(1, "/bytes/5"));
    let first = raw.until(|frame| frame.head.kind == DATA);
    assert_eq!(first.payload.len(), 1, "6.5.3 of two values the last one counts");
}

#[test]
fn section_6_6_to_6_8_push_ping_and_goaway() {
    check(vec![
        ("6.6 a client cannot push", frame(PUSH_PROMISE, 4, 1, &[0; 8]), Broken(ProtocolError)),
        ("6.7 on a stream", frame(PING, 0, 1, &[0; 8]), Broken(ProtocolError)),
        ("6.7 of another length", frame(PING, 0, 0, &[0; 6]), Broken(FrameSizeError)),
        ("6.7 an answer that nobody asked for", frame(PING, ACK, 0, &[0; 8]), Alive),
        ("6.8 on a stream", frame(GOAWAY, 0, 1, &[0; 8]), Broken(ProtocolError)),
        ("6.8 cut off", frame(GOAWAY, 0, 0, &[0; 7]), Broken(FrameSizeError)),
        (
            "6.8 streams after it are answered",
            cat(&[frame(GOAWAY, 0, 0, &[0; 8]), get(1, "/")]),
            Answer("200"),
        ),
    ]);
}

#[test]
fn section_6_9_flow_control() {
    let most = (1u32 << 31) - 1;
    check(vec![
        ("6.9 nothing for the connection", update(0, 0), Broken(ProtocolError)),
        ("6.9 nothing for a stream", cat(&[get(1, "/wait"), update(1, 0)]), Reset(ProtocolError)),
        ("6.9 of another length", frame(WINDOW_UPDATE, 0, 0, &[0; 3]), Broken(FrameSizeError)),
        (
            "6.9.1 too much for the connection",
            cat(&[update(0, most), update(0, most)]),
            Broken(FlowControlError),
        ),
        ("6.9.1 too much for a stream", cat(&[get(1, "/wait"), update(1, most)]), Reset(FlowControlError)),
        (
            "6.9.2 too much by a setting",
            cat(&[get(1, "/wait"), update(1, most - 65_535), setting(4, 65_536)]),
            Broken(FlowControlError),
        ),
        (
            "6.9.1 more than a stream was allowed",
            cat(&[post(1, "/wait", &[]), data(1, &[0; 16_384], false).repeat(4)]),
            Reset(FlowControlError),
        ),
    ]);
}

#[test]
fn section_6_9_windows_are_kept() {
    let server = server();
    let mut raw = Raw::open(&server);
    raw.send(&cat(&[setting(4, 1), get(1, "/bytes/5")]));
    let first = raw.until(|frame| frame.head.kind == DATA);
    assert_eq!(first.payload.len(), 1, "6.9.2 one byte");
    raw.send(&setting(4, 3));
    assert_eq!(raw.until(|frame| frame.head.kind == DATA).payload.len(), 2, "6.9.2 two more");
    raw.send(&setting(4, 0));
    raw.assert_alive("6.9.2 a window below zero");
    raw.send(&update(1, 4));
    assert_eq!(
        raw.until(|frame| frame.head.kind == DATA).payload.len(),
        1,
        "6.9.2 it had one less than nothing"
    );
    raw.send(&update(1, 5));
    let last = raw.until(|frame| frame.head.kind == DATA);
    assert_eq!((last.payload.len(), last.head.has(END_STREAM)), (1, true), "6.9.2 the last one");
}

#[test]
fn section_6_10_continuation() {
    let (first, rest) = (head()[..5].to_vec(), head()[5..].to_vec());
    let begun = || frame(HEADERS, END_STREAM, 1, &first);
    check(vec![
        ("6.10 two pieces", cat(&[begun(), frame(CONTINUATION, END_HEADERS, 1, &rest)]), Answer("200")),
        (
            "6.10 many pieces, some empty",
            cat(&[
                begun(),
                frame(CONTINUATION, 0, 1, &[]),
                frame(CONTINUATION, 0, 1, &rest),
                frame(CONTINUATION, END_HEADERS, 1, &[]),
            ]),
            Answer("200"),
        ),
        ("6.10 another frame between", cat(&[begun(), data(1, b"x", true)]), Broken(ProtocolError)),
        ("6.10 on stream 0", cat(&[begun(), frame(CONTINUATION, 4, 0, &rest)]), Broken(ProtocolError)),
        ("6.10 of another stream", cat(&[begun(), frame(CONTINUATION, 4, 3, &rest)]), Broken(ProtocolError)),
        (
            "6.10 after whole HEADERS",
            cat(&[get(1, "/wait"), frame(CONTINUATION, 4, 1, &rest)]),
            Broken(ProtocolError),
        ),
        (
            "6.10 after DATA",
            cat(&[post(1, "/", &[]), data(1, b"x", false), frame(CONTINUATION, 4, 1, &rest)]),
            Broken(ProtocolError),
        ),
    ]);
}

#[test]
fn section_8_1_messages() {
    let trailers = |flags: u8, fields: &[(&str, &str)]| frame(HEADERS, flags, 1, &block(fields));
    let whole = END_HEADERS | END_STREAM;
    let begun = || cat(&[post(1, "/", &[]), data(1, b"four", false)]);
    check(vec![
        ("8.1 trailers", cat(&[begun(), trailers(whole, &[("x-sum", "1")])]), Answer("200")),
        (
            "8.1 fields amid a body",
            cat(&[begun(), trailers(END_HEADERS, &[("x-sum", "1")])]),
            Reset(ProtocolError),
        ),
        (
            "8.3 trailers with :path",
            cat(&[begun(), trailers(whole, &[(":path", "/")])]),
            Reset(ProtocolError),
        ),
        ("8.2.1 upper case", with("X-Upper", "1"), Reset(ProtocolError)),
        ("8.2.1 no name", with("", "1"), Reset(ProtocolError)),
        ("8.2.1 a space in a name", with("a b", "1"), Reset(ProtocolError)),
        ("8.2.1 a colon in a name", with("a:b", "1"), Reset(ProtocolError)),
        ("8.2.1 a line end in a value", with("a", "1\r\nb: 2"), Reset(ProtocolError)),
        ("8.2.1 NUL in a value", with("a", "1\0"), Reset(ProtocolError)),
        ("8.2.1 space around a value", with("a", " 1"), Reset(ProtocolError)),
        ("8.2.2 connection", with("connection", "keep-alive"), Reset(ProtocolError)),
        ("8.2.2 transfer-encoding", with("transfer-encoding", "chunked"), Reset(ProtocolError)),
        ("8.2.2 upgrade", with("upgrade", "websocket"), Reset(ProtocolError)),
        ("8.2.2 te", with("te", "trailers, deflate"), Reset(ProtocolError)),
        ("8.2.2 te: trailers", with("te", "trailers"), Answer("200")),
        ("8.3 an unknown pseudo-field", with(":test", "ok"), Reset(ProtocolError)),
        ("8.3 one of an answer", with(":status", "200"), Reset(ProtocolError)),
        ("8.3 host and :authority differ", with("host", "other"), Reset(ProtocolError)),
        ("8.3 host and :authority agree", with("host", "x"), Answer("200")),
    ]);
}

#[test]
fn section_8_3_1_what_is_asked() {
    let [method, scheme, path, authority] = asking("GET", "/");
    let connect = (":method", "CONNECT");
    let twice = |field| asked(&[method, scheme, path, authority, field]);
    check(vec![
        ("8.3.1 an empty path", asked(&[method, scheme, (":path", ""), authority]), Reset(ProtocolError)),
        ("8.3.1 a relative path", asked(&[method, scheme, (":path", "a"), authority]), Reset(ProtocolError)),
        (
            "8.3.1 a space in a path",
            asked(&[method, scheme, (":path", "/a b"), authority]),
            Reset(ProtocolError),
        ),
        (
            "8.3.1 a line end in a path",
            asked(&[method, scheme, (":path", "/\r\n"), authority]),
            Reset(ProtocolError),
        ),
        ("8.3.1 no method", asked(&[scheme, path, authority]), Reset(ProtocolError)),
        ("8.3.1 no scheme", asked(&[method, path, authority]), Reset(ProtocolError)),
        ("8.3.1 no path", asked(&[method, scheme, authority]), Reset(ProtocolError)),
        ("8.3.1 no host at all", asked(&[method, scheme, path]), Answer("400")),
        ("8.3.1 host alone", asked(&[method, scheme, path, ("host", "x")]), Answer("200")),
        ("8.3.1 two methods", twice(method), Reset(ProtocolError)),
        ("8.3.1 two schemes", twice(scheme), Reset(ProtocolError)),
        ("8.3.1 two paths", twice(path), Reset(ProtocolError)),
        ("8.3 a field before", asked(&[("a", "b"), method, scheme, path, authority]), Reset(ProtocolError)),
        (
            "8.3.1 OPTIONS *",
            asked(&[(":method", "OPTIONS"), scheme, (":path", "*"), authority]),
            Answer("200"),
        ),
        ("8.5 CONNECT with a path", asked(&[connect, scheme, path, authority]), Reset(ProtocolError)),
        ("8.5 CONNECT is not granted", asked(&[connect, (":authority", "x:1")]), Answer("500")),
    ]);
}

#[test]
fn section_8_1_1_content_length() {
    let promising = |length: &str| post(1, "/", &[("content-length", length)]);
    check(vec![
        ("8.1.1 as promised", cat(&[promising("4"), data(1, b"four", true)]), Answer("200")),
        ("8.1.1 more", cat(&[promising("1"), data(1, b"four", true)]), Reset(ProtocolError)),
        ("8.1.1 less", cat(&[promising("9"), data(1, b"four", true)]), Reset(ProtocolError)),
        (
            "8.1.1 more in pieces",
            cat(&[promising("5"), data(1, b"four", false).repeat(2)]),
            Reset(ProtocolError),
        ),
        ("8.1.1 none of it", with("content-length", "1"), Reset(ProtocolError)),
        ("8.1.1 nothing promised, nothing sent", with("content-length", "0"), Answer("200")),
        ("8.1.1 no number", cat(&[promising("+4"), data(1, b"four", true)]), Reset(ProtocolError)),
        (
            "8.1.1 twice",
            post(1, "/", &[("content-length", "4"), ("content-length", "4")]),
            Reset(ProtocolError),
        ),
    ]);
}

#[test]
fn rfc_7541_compressed_fields() {
    let broken = |bytes: &[u8]| frame(HEADERS, 0x5, 1, &[&head(), bytes].concat());
    check(vec![
        ("2.3.3 index 70 of an empty table", broken(&[0xc6]), Broken(CompressionError)),
        ("6.1 index 0", broken(&[0x80]), Broken(CompressionError)),
        ("4.2 a size at the end of a block", broken(&[0x20]), Broken(CompressionError)),
        (
            "6.3 a size above what was granted",
            frame(HEADERS, 5, 1, &[&[0x3f, 0xe2, 0x1f][..], &head()].concat()),
            Broken(CompressionError),
        ),
        (
            "6.3 a size that was granted",
            frame(HEADERS, 5, 1, &[&[0x3f, 0xe1, 0x1f][..], &head()].concat()),
            Answer("200"),
        ),
        (
            "4.2 two sizes: the smallest meanwhile, and the last",
            frame(HEADERS, 5, 1, &[&[0x20, 0x3f, 0xe1, 0x1f][..], &head()].concat()),
            Answer("200"),
        ),
        (
            "4.2 three sizes",
            frame(HEADERS, 5, 1, &[&[0x20, 0x20, 0x20][..], &head()].concat()),
            Broken(CompressionError),
        ),
        (
            "5.2 padding of more than 7 bits",
            broken(b"\x00\x85\xf2\xb2\x4a\x84\xff\x84\x49\x50\x9f\xff"),
            Broken(CompressionError),
        ),
        (
            "5.2 padding of zeros",
            broken(b"\x00\x85\xf2\xb2\x4a\x84\xff\x83\x49\x50\x90"),
            Broken(CompressionError),
        ),
        (
            "5.2 the end of a string in it",
            broken(b"\x00\x85\xf2\xb2\x4a\x84\xff\x87\x49\x51\xff\xff\xff\xfa\x7f"),
            Broken(CompressionError),
        ),
        (
            "5.1 an integer without end",
            broken(&[0xff, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01]),
            Broken(CompressionError),
        ),
    ]);
}
