//! Nanoseconds per head, beside httparse with the same bytes.
//!
//! `cargo bench -p straightline-http1` prints, for each case, the median over blocks of the mean time per head in a block, blocks of
//! both parsers alternating. httparse is asked for less: it does not read the framing, the host or the target form.
//!
//! `cargo bench -p straightline-http1 -- NAME N` parses the heads of one case N times by http1 alone and prints nothing, to be
//! counted: `valgrind --tool=callgrind`.
#![allow(clippy::print_stdout, reason = "a benchmark prints its results")]

use http1::chunked::{ChunkedDecoder, Event};
use http1::{HeadLimits, request, response};
use std::hint::black_box;
use std::time::Instant;

/// Heads parsed in one block: about a millisecond.
const HEADS_PER_BLOCK: u32 = 10_000;

/// Blocks of each parser: enough for a median that a busy machine does not move.
const BLOCKS: usize = 201;

const WRK: &[u8] = b"GET /plaintext HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n";

const BROWSER: &[u8] = b"GET /articles/2024/05/how-to-measure?page=2 HTTP/1.1\r\n\
    Host: www.example.com\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:126.0) Gecko/20100101 Firefox/126.0\r\n\
    Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8\r\n\
    Accept-Language: en-US,en;q=0.5\r\n\
    Accept-Encoding: gzip, deflate, br, zstd\r\n\
    Connection: keep-alive\r\n\
    Cookie: session=0123456789abcdef; theme=dark\r\n\
    Upgrade-Insecure-Requests: 1\r\n\
    Cache-Control: max-age=0\r\n\r\n";

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\n\
    Server: straightline\r\n\
    Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n\
    Content-Type: text/plain\r\n\
    Content-Length: 13\r\n\r\nHello, World!";

const SHORT_ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\nHello, World!";

const CHUNKS: &[u8] = b"d\r\nHello, World!\r\n0\r\n\r\n";

/// One thing to parse, by name, with its bytes repeated as on a pipelined connection.
struct Case {
    name: &'static str,
    bytes: &'static [u8],
    ours: fn(&[u8]) -> usize,
    theirs: Option<fn(&[u8]) -> usize>,
}

const CASES: &[Case] = &[
    Case { name: "request-wrk", bytes: WRK, ours: request, theirs: Some(request_httparse) },
    Case { name: "request-browser", bytes: BROWSER, ours: request, theirs: Some(request_httparse) },
    Case { name: "response", bytes: ANSWER, ours: response, theirs: Some(response_httparse) },
    Case { name: "response-short", bytes: SHORT_ANSWER, ours: response, theirs: Some(response_httparse) },
    Case { name: "chunked-body", bytes: CHUNKS, ours: chunked, theirs: None },
];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    match words.as_slice() {
        [] => CASES.iter().for_each(compare),
        [name, count] => run_only(name, count.parse().expect("the second word is a count")),
        _ => println!("words: none, or a case and a count"),
    }
}

fn run_only(name: &str, count: u32) {
    let case = CASES.iter().find(|case| case.name == name).expect("the first word names a case");
    let stream = case.bytes.repeat(2);
    for _ in 0..count {
        black_box((case.ours)(black_box(&stream)));
    }
}

fn compare(case: &Case) {
    let stream = case.bytes.repeat(2);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..BLOCKS {
        ours.push(block_ns(case.ours, &stream));
        theirs.extend(case.theirs.map(|parser| block_ns(parser, &stream)));
    }
    let beside =
        if theirs.is_empty() { String::new() } else { format!("httparse {:6.1} ns", median(theirs)) };
    println!("{:16} {:4} bytes  http1 {:6.1} ns  {beside}", case.name, case.bytes.len(), median(ours));
    println!("{:16} n = {BLOCKS} blocks of {HEADS_PER_BLOCK} each, median of means", "");
}

fn block_ns(parser: fn(&[u8]) -> usize, stream: &[u8]) -> f64 {
    let start = Instant::now();
    for _ in 0..HEADS_PER_BLOCK {
        black_box(parser(black_box(stream)));
    }
    start.elapsed().as_nanos() as f64 / f64::from(HEADS_PER_BLOCK)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn request(stream: &[u8]) -> usize {
    thread_local!(static SLOTS: std::cell::RefCell<request::Slots> = const { std::cell::RefCell::new(request::NO_SLOTS) });
    SLOTS.with_borrow_mut(|slots| {
        let head = request::parse(stream, slots, &HeadLimits::DEFAULT);
        head.expect("the head is good").expect("the head is complete").head_bytes
    })
}

fn request_httparse(stream: &[u8]) -> usize {
    let mut headers = [const { std::mem::MaybeUninit::uninit() }; 100];
    let mut request = httparse::Request::new(&mut []);
    let status = request.parse_with_uninit_headers(stream, &mut headers);
    status.expect("the head is good").unwrap()
}

fn response(stream: &[u8]) -> usize {
    let head = response::parse_head(stream, false, &HeadLimits::DEFAULT);
    head.expect("the head is good").expect("the head is complete").head_bytes
}

fn response_httparse(stream: &[u8]) -> usize {
    let mut headers = [const { std::mem::MaybeUninit::uninit() }; 100];
    let mut response = httparse::Response::new(&mut []);
    let config = httparse::ParserConfig::default();
    let status = config.parse_response_with_uninit_headers(&mut response, stream, &mut headers);
    status.expect("the head is good").unwrap()
}

fn chunked(stream: &[u8]) -> usize {
    let mut decoder = ChunkedDecoder::new();
    let mut at = 0;
    loop {
        let step = decoder.decode(&stream[at..]).expect("the body is good");
        at += step.consumed;
        if step.event == Event::Done {
            return at;
        }
    }
}
