//! One test for each published flaw of another HTTP/1 implementation that a parser or a writer can have.
//!
//! Where the flaw was in what a server did with the parts (bodies left unread, an upgrade taken for granted), the test
//! shows that this crate tells the server where the next message begins.

use crate::parsing::{decode, request};
use crate::request::wire;
use http1::FieldError::*;
use http1::chunked::ChunkError;
use http1::request::{Framing, RequestError};
use http1::write::{self, WriteError};

/// Why a request with these fields is refused.
fn refused(fields: &str) -> RequestError {
    request(&wire(&format!("POST / HTTP/1.1\nHost: h\n{fields}\n"))).unwrap_err()
}

fn refused_body(text: &str) -> ChunkError {
    decode([&wire(text)[..]]).unwrap_err()
}

/// Where the second of two requests begins, for a server that skips the body of the first.
fn second_request(text: &str) -> Vec<u8> {
    let bytes = wire(text);
    let (head, _) = request(&bytes).unwrap().unwrap();
    let body = &bytes[head.head_bytes..];
    let length = match head.framing {
        Framing::None => 0,
        Framing::Length(length) => length as usize,
        Framing::Chunked => decode([body]).unwrap().unwrap().2,
    };
    body[length..].to_vec()
}

/// hyper wrote header values with line ends as they were, so that a value could split a message in two.
#[test]
fn cve_2017_18587() {
    let mut out = Vec::new();
    let value = b"name=Sean\r\nLocation: /";
    assert_eq!(write::header(&mut out, "Set-Cookie", value), Err(WriteError::HeaderValue));
    assert_eq!(write::header(&mut out, "X\r\nY", b"z"), Err(WriteError::HeaderName));
    assert_eq!(out, b"");
}

/// hyper took the body of a GET for the next request.
#[test]
fn cve_2020_35863() {
    let next = "GET /next HTTP/1.1\nHost: h\n\n";
    for body in ["Content-Length: 5\n\nhello", "Transfer-Encoding: chunked\n\n5\nhello\n0\n\n"] {
        assert_eq!(second_request(&format!("GET / HTTP/1.1\nHost: h\n{body}{next}")), wire(next));
    }
}

/// hyper looked at the wrong one of several Transfer-Encoding fields.
#[test]
fn cve_2021_21299() {
    for fields in [
        "Transfer-Encoding: chunked\nTransfer-Encoding: identity\n",
        "Transfer-Encoding: identity\nTransfer-Encoding: chunked\n",
        "Transfer-Encoding: chunked\nTransfer-Encoding: cow\n",
        "Transfer-Encoding: chunked\nX: y\ntransfer-encoding: chunked\n",
    ] {
        assert_eq!(refused(fields), RequestError::Field(TransferEncodingUnknown));
        assert_eq!(refused(fields).status(), 501);
    }
}

/// hyper accepted a plus sign before the digits of Content-Length, as the number parser of its language does.
#[test]
fn cve_2021_32715() {
    assert_eq!(refused("Content-Length: +3\n"), RequestError::Field(ContentLengthInvalid));
}

/// hyper let the size of a chunk overflow, so that a large chunk was a small one.
#[test]
fn cve_2021_32714() {
    for size in ["f0000000000000003", "10000000000000003", "ffffffffffffffff", "8000000000000000"] {
        assert_eq!(refused_body(&format!("{size}\nabc\n0\n\n")), ChunkError::SizeTooLarge);
    }
}

/// actix-http did not notice invalid framing: both lengths, a length given twice, a length that is not a number.
#[test]
fn cve_2021_38512() {
    let cases = [
        ("Content-Length: 5\nTransfer-Encoding: chunked\n", LengthAndEncoding),
        ("Content-Length: 5\nContent-Length: 6\n", ContentLengthRepeated),
        ("Content-Length: 5, 6\n", ContentLengthRepeated),
        ("Content-Length: five\n", ContentLengthInvalid),
        ("Transfer-Encoding: xchunked\n", TransferEncodingUnknown),
    ];
    for (fields, error) in cases {
        assert_eq!(refused(fields), RequestError::Field(error));
    }
}

/// tiny_http read a malformed Transfer-Encoding as if it were not there, or as if it were well-formed.
#[test]
fn cve_2020_35884() {
    let cases = [
        ("Transfer-Encoding : chunked\n", SpaceBeforeColon),
        ("Transfer-Encoding: chunked\n , identity\n", Folded),
        ("Transfer-Encoding: \u{b}chunked\n", Control),
        ("Transfer-Encoding\u{0}: chunked\n", Control),
        ("Transfer-Encoding: \"chunked\"\n", TransferEncodingUnknown),
        ("Transfer_Encoding: chunked\nTransfer-Encoding: chunked,\n", TransferEncodingUnknown),
        ("X: y␊Transfer-Encoding: chunked\n", BareLf),
    ];
    for (fields, error) in cases {
        assert_eq!(refused(fields), RequestError::Field(error));
    }
}

/// async-h1 left a body that the handler had not read in the stream, where it was the next request.
#[test]
fn cve_2020_26281() {
    let smuggled = "GET /admin HTTP/1.1\nHost: h\n\n";
    let length = wire(smuggled).len();
    let text = format!("POST / HTTP/1.1\nHost: h\nContent-Length: {length}\n\n{smuggled}GET /next");
    assert_eq!(second_request(&text), b"GET /next");
}

/// Pingora answered from its cache and left the body of the request in the stream.
#[test]
fn cve_2025_4366() {
    let smuggled = "GET /admin HTTP/1.1\nHost: h\n\n";
    let size = wire(smuggled).len();
    let text = format!(
        "GET / HTTP/1.1\nHost: h\nTransfer-Encoding: chunked\n\n{size:x}\n{smuggled}\n0\n\nGET /next"
    );
    assert_eq!(second_request(&text), b"GET /next");
}

/// Pingora passed on what followed a request with Upgrade before the other side had agreed to it.
#[test]
fn cve_2026_2833() {
    let next = "GET /admin HTTP/1.1\nHost: h\n\n";
    let upgrade = format!("GET / HTTP/1.1\nHost: h\nConnection: upgrade\nUpgrade: foo\n\n{next}");
    let (head, _) = request(&wire(&upgrade)).unwrap().unwrap();
    assert!(head.upgrade);
    assert_eq!((head.framing, second_request(&upgrade)), (Framing::None, wire(next)));
}

/// Pingora read requests of HTTP/1.0 up to the end of the connection, and several codings as one.
#[test]
fn cve_2026_2835() {
    let old = |fields: &str| request(&wire(&format!("POST / HTTP/1.0\nHost: h\n{fields}\n"))).map(|_| ());
    let error = |error| Err(RequestError::Field(error));
    assert_eq!(old("Transfer-Encoding: chunked\n"), error(TransferEncodingOn10));
    assert_eq!(old("Transfer-Encoding: chunked\nContent-Length: 5\n"), error(LengthAndEncoding));
    assert_eq!(old("Transfer-Encoding: identity, chunked\n"), error(TransferEncodingUnknown));
    assert_eq!(
        refused("Transfer-Encoding: identity, chunked\n"),
        RequestError::Field(TransferEncodingUnknown)
    );
    let next = "GET /next HTTP/1.0\n\n";
    assert_eq!(second_request(&format!("POST / HTTP/1.0\n\n{next}")), wire(next));
}

/// Go took a line feed alone for the end of a chunk size line, where others saw an extension go on.
#[test]
fn cve_2025_22871() {
    for text in ["5␊hello\n0\n\n", "5;x␊hello\n0\n\n", "5;␊\nhello\n0\n\n"] {
        assert_eq!(refused_body(text), ChunkError::LineEnd);
    }
}

/// Go read extensions without end: a large one on each byte of data.
#[test]
fn cve_2023_39326() {
    let flood = format!("1;{}\na\n", "x".repeat(1000)).repeat(5);
    assert_eq!(refused_body(&flood), ChunkError::ExtensionTooLong);
    assert_eq!(refused_body(&format!("1;{}", "x".repeat(5000))), ChunkError::ExtensionTooLong);
}

/// Kestrel took a carriage return or a line feed alone for the end of a chunk extension.
#[test]
fn cve_2025_55315() {
    for text in ["2;␊xx\n4c\n0\n\n", "2;␍xx\n0\n\n", "2;a␊b\nxx\n0\n\n"] {
        assert_eq!(refused_body(text), ChunkError::LineEnd);
    }
}

/// protocol-http1 accepted signs, `0x` and underscores in lengths and sizes, and a line feed in an extension.
#[test]
fn cve_2023_38697() {
    for length in ["+5", "0x5", "1_0"] {
        assert_eq!(
            refused(&format!("Content-Length: {length}\n")),
            RequestError::Field(ContentLengthInvalid)
        );
        assert_eq!(refused_body(&format!("{length}\nhello\n0\n\n")), ChunkError::SizeInvalid);
    }
    assert_eq!(refused_body("5;a␊b\nhello\n0\n\n"), ChunkError::LineEnd);
}
