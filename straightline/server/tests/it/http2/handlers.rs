//! What handlers see of HTTP/2: as much as of HTTP/1.1.

use super::raw::{Raw, asking, block, data, frame, get, handle, post, server, setting};
use crate::support::{MODELS, Model, TestServer, in_own_process, resident_kib, say};
use http2::ErrorCode;
use http2::frame::{
    DATA, END_HEADERS, END_STREAM, FrameHead, GOAWAY, HEAD_BYTES, HEADERS, PING, RST_STREAM, WINDOW_UPDATE,
};
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use straightline::{FieldLine, Limits};

#[test]
fn a_request_reads_as_one_of_http_1() {
    let server = TestServer::new(|request, response| {
        let mut body = String::new();
        request.read_to_string(&mut body)?;
        let fields: Vec<String> = request
            .headers()
            .map(|(name, value)| format!("{name}={}", String::from_utf8_lossy(value)))
            .collect();
        let trailers: Vec<String> = request.trailers().map(|(name, _)| name.to_owned()).collect();
        let (method, path, query, host) = (request.method(), request.path(), request.query(), request.host());
        let text = format!("{method} {path} {query:?} {host} {fields:?} {body} {trailers:?}");
        response
            .status(201)
            .header("X-Case", "Kept")?
            .header("content-type", "text/plain")?
            .send(text.as_bytes())
    });
    let mut raw = Raw::open(&server);
    raw.send(&post(1, "/a?b=c", &[("cookie", "a=1"), ("x", "y"), ("cookie", "b=2")]));
    raw.send(&data(1, b"hel", false));
    raw.send(&data(1, b"lo", false));
    raw.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &block(&[("sum", "1")])));
    let answer = raw.answer(1);
    assert_eq!(answer.status(), "201");
    assert_eq!(answer.field("x-case"), Some("Kept"));
    assert_eq!(answer.field("content-length"), Some(answer.body.len().to_string().as_str()));
    assert!(answer.field("date").is_some());
    let wanted = r#"POST /a Some("b=c") x ["host=x", "x=y", "cookie=a=1; b=2"] hello ["sum"]"#;
    assert_eq!(answer.text(), wanted);
}

#[test]
fn answers_are_framed_by_streams() {
    let server = TestServer::new(|request, response| match request.path() {
        "/trailers" => {
            let mut response = response.header("Connection", "close")?.start()?;
            response.write_all(b"one ")?;
            response.flush()?;
            response.write_all(b"two")?;
            response.end_with_trailers(&[("X-Sum", "7")])
        }
        "/promised" => {
            let mut response = response.header("content-length", "5")?.start()?;
            response.write_all(b"short")?;
            response.end()
        }
        "/less" => {
            let mut response = response.header("content-length", "5")?.start()?;
            response.write_all(b"less")?;
            response.flush()?;
            response.end()
        }
        "/nothing" => response.status(204).start()?.end(),
        "/error" => Err(straightline::StatusError::new(404, "there is none").into()),
        "/panic" => panic!("meant to"),
        "/long" => {
            let mut response = response.start()?;
            (0..1000).try_for_each(|_| response.write_all(&[b'x'; 300]))?;
            response.end()
        }
        _ => response.send(b"whole"),
    });
    let mut raw = Raw::open(&server);
    let mut ask = |stream: u32, method: &str, path: &str| {
        let fields = block(&asking(method, path));
        raw.send(&frame(HEADERS, END_HEADERS | END_STREAM, stream, &fields));
        raw.send(&frame(WINDOW_UPDATE, 0, stream, &300_000u32.to_be_bytes()));
        raw.send(&frame(WINDOW_UPDATE, 0, 0, &300_000u32.to_be_bytes()));
        if path == "/less" {
            raw.assert_reset(stream, ErrorCode::InternalError, "fewer bytes than promised");
            return Default::default();
        }
        raw.answer(stream)
    };
    let answer = ask(1, "GET", "/trailers");
    assert_eq!((answer.text().as_str(), answer.field("transfer-encoding")), ("one two", None));
    assert_eq!(answer.trailers, [("x-sum".to_owned(), "7".to_owned())]);
    let answer = ask(3, "GET", "/promised");
    assert_eq!((answer.text().as_str(), answer.field("content-length")), ("short", Some("5")));
    ask(5, "GET", "/less");
    let answer = ask(7, "GET", "/nothing");
    assert_eq!((answer.status(), answer.field("content-length"), answer.body.len()), ("204", None, 0));
    let answer = ask(9, "GET", "/error");
    assert_eq!((answer.status(), answer.text().as_str()), ("404", "there is none\n"));
    let answer = ask(11, "GET", "/panic");
    assert_eq!((answer.status(), answer.text().as_str()), ("500", "the handler panicked\n"));
    assert_eq!(ask(13, "GET", "/long").body.len(), 300_000);
    let answer = ask(15, "HEAD", "/");
    assert_eq!((answer.field("content-length"), answer.body.len()), (Some("5"), 0));
    assert_eq!((server.metric("handler_panics_total"), server.metric("handler_errors_total")), (1, 2));
}

#[test]
fn one_handler_that_waits_holds_up_no_other_stream() {
    let server = server();
    let mut raw = Raw::open(&server);
    raw.send(&[get(1, "/wait"), get(3, "/a"), get(5, "/b")].concat());
    assert_eq!(raw.answer(3).text(), "GET /a 0");
    assert_eq!(raw.answer(5).text(), "GET /b 0");
    assert_eq!(raw.answer(1).text(), "GET /wait 0");
}

#[test]
fn answers_to_requests_that_came_together_go_out_together() {
    let server = server();
    let mut raw = Raw::open(&server);
    let asks: Vec<Vec<u8>> = (0..50).map(|index| get(2 * index + 1, "/")).collect();
    raw.send(&asks.concat());
    // Each write is a segment of its own on this way, and a read that waits returns with the first.
    let mut bytes = vec![0; 64 * 1024];
    let count = raw.stream.read(&mut bytes).unwrap();
    let (mut rest, mut ended) = (&bytes[..count], 0);
    while let Some(head) = FrameHead::read(rest) {
        ended += usize::from(head.has(END_STREAM));
        rest = &rest[HEAD_BYTES + head.length..];
    }
    assert_eq!(ended, 50, "the answers in the first write");
}

#[test]
fn a_body_larger_than_every_window_is_read_as_it_comes() {
    let server = server();
    let mut raw = Raw::open(&server);
    raw.send(&post(1, "/", &[]));
    let (mut connection, mut stream, mut left) = (1i64 << 20, 65_535i64, 4i64 << 20);
    while left > 0 {
        let piece = left.min(16 * 1024).min(connection).min(stream);
        if piece > 0 {
            raw.send(&data(1, &vec![b'x'; piece as usize], piece == left));
            (connection, stream, left) = (connection - piece, stream - piece, left - piece);
            continue;
        }
        let update = raw.until(|frame| frame.head.kind == WINDOW_UPDATE);
        let window = if update.head.stream == 0 { &mut connection } else { &mut stream };
        *window += i64::from(update.number(0));
    }
    assert_eq!(raw.answer(1).text(), "POST / 4194304");
}

#[test]
fn a_handler_hears_that_its_stream_was_broken_off() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&heard);
    let server = TestServer::new(move |request, response| {
        let before = request.client_gone();
        let read = request.read(&mut [0; 10]).map_err(|error| error.kind());
        told.lock().unwrap().push((before, read, request.client_gone()));
        response.send(b"")
    });
    let mut raw = Raw::open(&server);
    raw.send(&post(1, "/", &[]));
    raw.assert_alive("the handler waits");
    raw.send(&frame(RST_STREAM, 0, 1, &8u32.to_be_bytes()));
    server.until("the handler hears of it", |_| !heard.lock().unwrap().is_empty());
    assert_eq!(*heard.lock().unwrap(), [(false, Err(io::ErrorKind::ConnectionReset), true)]);
    raw.assert_alive("one stream is not all");
}

#[test]
fn a_client_that_allows_nothing_is_waited_for_no_longer_than_the_limit() {
    let limits = Limits { write_stall: Duration::from_millis(300), ..Limits::default() };
    let server = TestServer::with(|server| server.workers(1).limits(limits), handle);
    let mut raw = Raw::open(&server);
    raw.send(&[setting(4, 0), get(1, "/bytes/10")].concat());
    let begun = Instant::now();
    raw.assert_reset(1, ErrorCode::InternalError, "the window stays shut");
    assert!(begun.elapsed() >= Duration::from_millis(290), "{:?}", begun.elapsed());
    raw.assert_alive("other streams may go on");
    server.until("it is counted", |server| server.metric("timeouts_total") == 1);
}

#[test]
fn an_answer_before_the_body_breaks_the_rest_off_without_an_error() {
    let server = TestServer::new(|request, mut response| {
        let limited = request.limit_body(3);
        response = response.header("x-limited", limited.is_err().to_string())?;
        response.status(413).send(b"no")
    });
    let mut raw = Raw::open(&server);
    raw.send(&post(1, "/", &[("content-length", "100000")]));
    raw.assert_reset(1, ErrorCode::NoError, "the rest is not needed");
    raw.send(&data(1, b"0123456789", true));
    raw.assert_alive("what was on its way is no error");
    // Nobody knows how long it will be.
    raw.send(&post(3, "/", &[]));
    for _ in 0..3 {
        raw.send(&data(3, &[b'x'; 8000], false));
    }
    raw.assert_reset(3, ErrorCode::NoError, "it was followed long enough");
}

#[test]
fn a_short_rest_after_an_early_answer_is_passed_over() {
    let server = TestServer::new(|_, response| response.status(413).send(b"no"));
    let mut raw = Raw::open(&server);
    // More than a connection's window in the end, and more than may be open at a time.
    let most = http2::limits::STREAMS;
    for stream in (1..4 * most).step_by(2) {
        raw.send(&post(stream, "/", &[("content-length", "10000")]));
        assert_eq!(raw.answer(stream).status(), "413");
        raw.send(&data(stream, &[b'x'; 10_000], true));
    }
    raw.send(&post(4 * most + 1, "/", &[]));
    raw.send(&post(4 * most + 3, "/", &[]));
    let ended = |raw: &mut Raw, stream| {
        raw.until(|frame| {
            frame.head.stream == stream && frame.head.has(END_STREAM) || frame.head.kind == RST_STREAM
        })
    };
    for stream in [4 * most + 1, 4 * most + 3] {
        assert_eq!(ended(&mut raw, stream).head.kind, DATA, "no stream was reset");
    }
}

#[test]
fn who_never_ends_what_is_answered_may_ask_on() {
    let server = TestServer::new(|_, response| response.send(b"early"));
    let mut raw = Raw::open(&server);
    let most = http2::limits::STREAMS;
    for stream in (1..=2 * most + 1).step_by(2) {
        raw.send(&post(stream, "/", &[]));
    }
    raw.assert_reset(1, ErrorCode::NoError, "the first one makes room");
    raw.assert_alive("all were answered");
}

#[test]
fn expectations_are_met_when_the_body_is_wanted() {
    let server = server();
    let mut raw = Raw::open(&server);
    raw.send(&post(1, "/", &[("expect", "100-continue"), ("content-length", "2")]));
    let first = raw.until(|frame| frame.head.kind == HEADERS);
    assert_eq!(raw.fields(&first), [(":status".to_owned(), "100".to_owned())]);
    assert!(!first.head.has(END_STREAM));
    raw.send(&data(1, b"ab", true));
    assert_eq!(raw.answer(1).text(), "POST / 2");
}

#[test]
fn a_drain_answers_what_is_under_way_and_on_its_way() {
    let mut server = server();
    let mut raw = Raw::open(&server);
    raw.send(&get(1, "/wait"));
    raw.assert_alive("the handler waits");
    server.handle().drain(Duration::from_secs(3));
    let last_call = raw.until(|frame| frame.head.kind == GOAWAY);
    assert_eq!((last_call.number(0), last_call.number(4)), ((1 << 31) - 1, 0));
    let ping = raw.until(|frame| frame.head.kind == PING);
    raw.send(&get(3, "/on-its-way"));
    raw.send(&frame(PING, 1, 0, &ping.payload));
    let (mut answered, mut last) = (0, None);
    while let Some(frame) = raw.next() {
        answered += usize::from(frame.head.has(END_STREAM) && frame.head.kind <= HEADERS);
        if frame.head.kind == GOAWAY {
            last = Some((frame.number(0), frame.number(4)));
        }
    }
    assert_eq!((answered, last), (2, Some((3, 0))));
    drop(raw);
    server.assert_drained();
}

#[test]
fn idle_and_half_said_connections_end() {
    let short = Duration::from_millis(200);
    let limits = Limits { idle_time: short, head_time: short, ..Limits::default() };
    let server = TestServer::with(|server| server.workers(1).limits(limits), handle);
    let said: [(&str, Vec<u8>); 4] = [
        ("nothing", Vec::new()),
        ("half a frame", get(1, "/")[..10].to_vec()),
        ("fields without end", frame(HEADERS, 1, 1, &block(&asking("GET", "/")))),
        ("one request", get(1, "/")),
    ];
    for (what, bytes) in said {
        let mut raw = Raw::open(&server);
        raw.send(&bytes);
        raw.assert_broken(ErrorCode::NoError, what);
    }
}

#[test]
fn threads_speak_http_1_alone() {
    for model in MODELS {
        let server = TestServer::of_model(model, handle);
        let mut client = server.connect();
        client.send(http2::PREFACE);
        if model == Model::Threads {
            assert_eq!(client.response().status, 505);
        }
    }
}

#[test]
fn many_streams_on_many_connections_are_all_answered() {
    let asked = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&asked);
    let server = TestServer::with(
        |server| server.workers(2),
        move |request, response| {
            if count.fetch_add(1, Ordering::Relaxed).is_multiple_of(3) {
                straightline::rt::sleep(Duration::from_millis(1))?;
            }
            handle(request, response)
        },
    );
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut raw = Raw::open(&server);
                for round in 0..20u32 {
                    let ids = (0..50).map(|index| 2 * (50 * round + index) + 1);
                    let asks: Vec<Vec<u8>> = ids.map(|id| get(id, "/")).collect();
                    raw.send(&asks.concat());
                    let mut ended = 0;
                    while ended < 50 {
                        let frame = raw.until(|frame| frame.head.kind <= HEADERS);
                        ended += usize::from(frame.head.has(END_STREAM));
                        // Leave for the 7 bytes of each answer.
                        if ended == 50 {
                            raw.send(&frame_of_leave(50 * 7));
                        }
                    }
                }
            });
        }
    });
    assert_eq!(asked.load(Ordering::Relaxed), 4000);
}

fn frame_of_leave(bytes: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, 0, &bytes.to_be_bytes())
}

#[test]
fn a_body_that_nobody_reads_takes_no_more_than_its_window() {
    in_own_process("http2::handlers::unread");
}

pub(crate) fn unread() {
    /// Windows of the connections, stacks and pools, in KiB.
    const MOST_KIB: u64 = 16 * 1024;
    let server = TestServer::new(|_, response| {
        straightline::rt::sleep(Duration::from_secs(1))?;
        response.send(b"")
    });
    let before = resident_kib();
    let mut clients: Vec<Raw> = (0..4).map(|_| Raw::open(&server)).collect();
    for raw in &mut clients {
        for stream in 0..16u32 {
            raw.send(&post(2 * stream + 1, "/", &[]));
            raw.send(&data(2 * stream + 1, &[b'x'; 16_000], false).repeat(4));
        }
        raw.assert_alive("all of it is within the windows");
    }
    let grown = resident_kib().saturating_sub(before);
    say(&format!("4 connections with 16 bodies of 64 000 bytes that nobody reads: {grown} KiB"));
    assert!(grown < MOST_KIB, "{grown} KiB");
}

#[test]
fn a_client_that_sends_no_more_is_answered_what_it_asked() {
    let server = server();
    let mut raw = Raw::open(&server);
    raw.send(&[get(1, "/wait"), get(3, "/now"), post(5, "/never", &[])].concat());
    raw.stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut ended = Vec::new();
    while let Some(frame) = raw.next() {
        if frame.head.has(END_STREAM) && frame.head.kind <= HEADERS {
            ended.push(frame.head.stream);
        }
    }
    assert_eq!(ended, [3, 1], "in this order, and the third never came");
}

#[test]
fn a_client_that_sends_no_more_gets_what_its_window_takes_and_the_end() {
    let server = TestServer::new(|_, response| response.send(&[b'x'; 1_000]));
    let mut raw = Raw::open(&server);
    raw.send(&[setting(4, 10), get(1, "/")].concat());
    raw.stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut bytes = 0;
    while let Some(frame) = raw.next() {
        bytes += if frame.head.kind == DATA { frame.payload.len() } else { 0 };
    }
    assert_eq!(bytes, 10, "no window grows any more");
}

#[test]
fn requests_say_what_their_client_speaks() {
    let server = TestServer::new(|request, response| response.send(request.version().as_bytes()));
    let mut raw = Raw::open(&server);
    raw.send(&get(1, "/"));
    assert_eq!(raw.answer(1).text(), "HTTP/2");
    for version in ["HTTP/1.1", "HTTP/1.0"] {
        let mut client = server.connect();
        client.send(format!("GET / {version}\r\nHost: x\r\n\r\n").as_bytes());
        assert_eq!(client.response().text(), version);
    }
}

#[test]
fn a_client_with_many_requests_lets_others_have_their_turn() {
    let order = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&order);
    let server = TestServer::new(move |request, response| {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(2) {
            std::hint::spin_loop();
        }
        noted.lock().unwrap().push(request.path().to_owned());
        response.send(b"")
    });
    let (mut many, mut one) = (Raw::open(&server), Raw::open(&server));
    many.send(&(0..200).map(|index| get(2 * index + 1, "/many")).collect::<Vec<_>>().concat());
    server.until("the first is asked", |_| !order.lock().unwrap().is_empty());
    one.send(&get(1, "/one"));
    assert_eq!(one.answer(1).status(), "200");
    assert_eq!(many.answer(399).status(), "200");
    let place = order.lock().unwrap().iter().position(|path| path == "/one").unwrap();
    assert!(place < 150, "asked while the first were answered, served as number {place}");
}

#[test]
fn a_handler_that_waits_longer_than_it_may_ends_its_stream_alone() {
    const LONG: Duration = Duration::from_secs(60);
    let limits = Limits { handler_time: Some(Duration::from_millis(100)), ..Limits::default() };
    let server = TestServer::with(
        |server| server.workers(1).limits(limits),
        |request, response| match request.path() {
            "/sleep" => {
                straightline::rt::sleep(LONG)?;
                response.send(b"never")
            }
            "/body" => {
                request.read_to_end(&mut Vec::new())?;
                response.send(b"never")
            }
            "/begun" => {
                let mut response = response.start()?;
                response.write_all(b"some")?;
                response.flush()?;
                straightline::rt::sleep(LONG)?;
                response.end()
            }
            _ => response.send(b"in time"),
        },
    );
    let mut raw = Raw::open(&server);
    for (stream, request) in [(1, get(1, "/sleep")), (3, post(3, "/body", &[]))] {
        raw.send(&request);
        let answer = raw.answer(stream);
        assert_eq!((answer.status(), answer.text().as_str()), ("503", "the request took too long\n"));
    }
    raw.send(&get(5, "/begun"));
    raw.assert_reset(5, ErrorCode::InternalError, "an answer that was cut short");
    raw.send(&get(7, "/"));
    assert_eq!(raw.answer(7).text(), "in time");
    assert_eq!(server.metric("timeouts_total"), 0, "no client was too slow");
}

#[test]
fn error_bodies_are_those_of_the_service() {
    let server = TestServer::with(
        |server| {
            server.workers(1).error_bodies(FieldLine::new("Content-Type: application/json"), |error, body| {
                write!(body, "{{\"status\":{}}}", error.status)
            })
        },
        |_, _| Err(io::Error::other("no")),
    );
    let mut raw = Raw::open(&server);
    raw.send(&get(1, "/"));
    let answer = raw.answer(1);
    assert_eq!((answer.status(), answer.text().as_str()), ("500", "{\"status\":500}"));
    assert_eq!(answer.field("content-type"), Some("application/json"));
    assert_eq!(answer.field("content-length"), Some("14"));
}
