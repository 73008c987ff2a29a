//! Heads of responses.

use http1::HeadLimits;
use http1::response::{Framing, headers, parse_head};

#[test]
fn reads_a_common_head() {
    let text = b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\nX:  y \r\n\r\nHello";
    let head = parse_head(text, false, &HeadLimits::DEFAULT).unwrap().unwrap();
    assert_eq!((head.status, head.minor_version, head.framing), (200, 1, Framing::Length(13)));
    assert!(head.keep_alive);
    assert_eq!(head.head_bytes, text.len() - 5);
    let fields: Vec<_> = headers(&text[..head.head_bytes]).collect();
    assert_eq!(fields, [(&b"Content-Length"[..], &b"13"[..]), (&b"X"[..], &b"y"[..])]);
}
