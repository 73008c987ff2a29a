//! Nanoseconds per head, beside httparse.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints its results")]
use http1::HeadLimits;
use std::hint::black_box;
use std::time::Instant;
fn main() {
    let head = b"HTTP/1.1 200 OK\r\nServer: straightline/0.1\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nContent-Type: text/plain\r\nContent-Length: 13\r\nConnection: keep-alive\r\n\r\nHello, World!HTTP/1.1 200 OK";
    println!("{}", head.len());
    for _ in 0..5 {
        let n: u64 = std::env::var("N").ok().and_then(|n| n.parse().ok()).unwrap_or(3_000_000);
        let t = Instant::now();
        for _ in 0..n {
            black_box(http1::response::parse_head(black_box(head), false, &HeadLimits::DEFAULT)).unwrap();
        }
        println!("http1 {:.1} ns", t.elapsed().as_nanos() as f64 / n as f64);
        let t = Instant::now();
        for _ in 0..n {
            let mut h = [httparse::EMPTY_HEADER; 16];
            let mut r = httparse::Response::new(&mut h);
            black_box(r.parse(black_box(head))).unwrap();
        }
        println!("httparse {:.1} ns", t.elapsed().as_nanos() as f64 / n as f64);
    }
}
