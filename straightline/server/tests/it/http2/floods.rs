//! What a client may do to a server, and how that ends.

use super::raw::{Raw, asking, block, data, frame, get, handle, post, server, setting};
use crate::support::{TestServer, in_own_process, resident_kib, say};
use http2::ErrorCode::EnhanceYourCalm;
use http2::frame::{
    ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, PRIORITY, RST_STREAM,
    WINDOW_UPDATE,
};
use std::time::{Duration, Instant};
use straightline::Limits;

/// What it is, what comes before it, and its frames by number.
type Flood = (&'static str, Vec<u8>, Box<dyn Fn(u32) -> Vec<u8>>);

/// Leave to send so many bytes more.
fn leave(stream: u32, bytes: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes())
}

#[test]
fn floods_end_the_connection() {
    let empty = |stream| data(stream, b"", false);
    // Each flood has two seconds' worth of what is allowed, and some more.
    let floods: Vec<Flood> = vec![
        (
            "rapid reset",
            Vec::new(),
            Box::new(|n| [get(2 * n + 1, "/wait"), frame(RST_STREAM, 0, 2 * n + 1, &[0, 0, 0, 8])].concat()),
        ),
        (
            "rapid reset of what is answered at once",
            Vec::new(),
            Box::new(|n| [get(2 * n + 1, "/"), frame(RST_STREAM, 0, 2 * n + 1, &[0, 0, 0, 8])].concat()),
        ),
        (
            "made to reset, by windows",
            Vec::new(),
            Box::new(|n| {
                [post(2 * n + 1, "/wait", &[]), frame(WINDOW_UPDATE, 0, 2 * n + 1, &[0; 4])].concat()
            }),
        ),
        (
            "made to reset, by malformed requests",
            Vec::new(),
            Box::new(|n| frame(HEADERS, 5, 2 * n + 1, &block(&[(":method", "GET")]))),
        ),
        ("PING", Vec::new(), Box::new(|_| frame(PING, 0, 0, &[0; 8]))),
        ("SETTINGS", Vec::new(), Box::new(|_| setting(4, 1000))),
        ("answers to no SETTINGS", Vec::new(), Box::new(|_| frame(4, ACK, 0, &[]))),
        ("PRIORITY", Vec::new(), Box::new(|_| frame(PRIORITY, 0, 1, &[0; 5]))),
        ("unknown frames", Vec::new(), Box::new(|_| frame(0x77, 0, 0, &[]))),
        ("GOAWAY", Vec::new(), Box::new(|_| frame(GOAWAY, 0, 0, &[0; 8]))),
        ("leave to send nothing that was asked for", Vec::new(), Box::new(|_| leave(0, 1))),
        ("leave on a stream", post(1, "/wait", &[]), Box::new(|_| leave(1, 1))),
        ("empty DATA", post(1, "/wait", &[]), Box::new(move |_| empty(1))),
        ("padding alone", post(1, "/wait", &[]), Box::new(|_| frame(DATA, 8, 1, &[1, 0]))),
    ];
    let server = server();
    for (what, first, flood) in floods {
        let mut raw = Raw::open(&server);
        raw.send(&first);
        let mut sent = 0;
        while sent < 4000 && raw.send(&(sent..sent + 50).flat_map(&flood).collect::<Vec<u8>>()) {
            sent += 50;
        }
        raw.assert_broken(EnhanceYourCalm, what);
    }
    server.assert_serves("all floods");
}

#[test]
fn leave_in_small_pieces_for_what_was_sent_is_no_flood() {
    const BYTES: u32 = 2_000_000;
    const PIECE: u32 = 512;
    let server = server();
    let mut raw = Raw::open(&server);
    raw.send(&get(1, &format!("/bytes/{BYTES}")));
    let mut taken = 0;
    while taken < BYTES {
        let came = raw.until(|frame| frame.head.kind == DATA).payload.len() as u32;
        taken += came;
        let pieces = (0..came).step_by(PIECE as usize).map(|at| PIECE.min(came - at));
        raw.send(&pieces.flat_map(|piece| [leave(0, piece), leave(1, piece)].concat()).collect::<Vec<u8>>());
    }
    raw.assert_alive("7800 frames of leave for 2 MB");
}

#[test]
fn fields_that_go_on_end_the_connection() {
    let fields = block(&asking("GET", "/"));
    let server = server();
    let begin = |raw: &mut Raw| raw.send(&frame(HEADERS, END_STREAM, 1, &fields));
    for (what, piece) in [("empty CONTINUATION", Vec::new()), ("long CONTINUATION", vec![0; 16_000])] {
        let mut raw = Raw::open(&server);
        begin(&mut raw);
        for _ in 0..40 {
            raw.send(&frame(CONTINUATION, 0, 1, &piece));
        }
        raw.assert_broken(EnhanceYourCalm, what);
    }
}

#[test]
fn a_list_of_fields_that_is_too_long_is_refused_and_the_table_stays_right() {
    let server = server();
    let mut raw = Raw::open(&server);
    // A field of 4 000 bytes goes into the table, and is named 12 000 times by one byte each: 48 MB.
    let mut bomb = block(&asking("GET", "/"));
    bomb.extend_from_slice(b"\x40\x01a\x7f\xa1\x1e");
    bomb.extend_from_slice(&[b'x'; 4000]);
    bomb.extend_from_slice(&[0xbe; 12_000]);
    for stream in [1, 3] {
        raw.send(&frame(HEADERS, END_STREAM, stream, &bomb[..16_000]));
        raw.send(&frame(CONTINUATION, END_HEADERS, stream, &bomb[16_000..]));
        assert_eq!(raw.answer(stream).status(), "431");
    }
    raw.send(&frame(HEADERS, 5, 5, &[&block(&asking("GET", "/"))[..], &[0xbe]].concat()));
    assert_eq!(raw.answer(5).status(), "200", "the field is still in the table");
}

#[test]
fn what_nobody_reads_takes_no_memory() {
    in_own_process("http2::floods::unheard");
}

pub(crate) fn unheard() {
    const MOST_KIB: u64 = 8 * 1024;
    let limits = Limits { write_stall: Duration::from_millis(500), ..Limits::default() };
    let server = TestServer::with(|server| server.workers(1).limits(limits), handle);
    let before = resident_kib();
    let mut clients: Vec<Raw> = (0..8).map(|_| Raw::open(&server)).collect();
    let mut streams = 0;
    let begun = Instant::now();
    // Window is given for all that is asked, each asks for answers to pings as well, and nothing is read.
    for raw in &mut clients {
        raw.send(&setting(4, (1 << 31) - 1));
        raw.send(&frame(WINDOW_UPDATE, 0, 0, &(1u32 << 30).to_be_bytes()));
        for stream in 0..100u32 {
            streams += u64::from(raw.send(&get(2 * stream + 1, "/bytes/1000000")));
            raw.send(&frame(PING, 0, 0, &[0; 8]));
        }
    }
    server.until("those who take nothing are given up", |server| server.metric("open_connections") == 0);
    let grown = resident_kib().saturating_sub(before);
    say(&format!("{streams} answers of 1 MB that nobody takes: {grown} KiB, {:?}", begun.elapsed()));
    // Each handler has its body of 1 MB, most of which is never touched again; what counts is what the server keeps.
    assert!(grown < MOST_KIB + streams * 1024, "{grown} KiB");
}
