//! Heads of responses: what is accepted and as what, what is refused and why.

use crate::parsing::{every_prefix, response};
use crate::request::{REFUSED_FIELDS, wire};
use http1::response::ResponseError::{self, *};
use http1::response::{Framing, ResponseHead, headers, parse_head, unfold};
use http1::{FieldError, HeadLimits};

/// Input, status, framing, and whether the connection can be used again.
const ACCEPTED: &[(&str, u16, Framing, bool)] = &[
    ("HTTP/1.1 200 OK\nContent-Length: 13\n\n", 200, Framing::Length(13), true),
    ("HTTP/1.1 200 OK\nContent-Length: 13\nX: y\ncontent-length: 13\n\n", 200, Framing::Length(13), true),
    ("HTTP/1.1 200 OK\nContent-Length: 0\n\n", 200, Framing::Length(0), true),
    ("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n", 200, Framing::Chunked, true),
    ("HTTP/1.1 200 OK\nTransfer-Encoding: Chunked\nConnection: close\n\n", 200, Framing::Chunked, false),
    ("HTTP/1.1 200 OK\n\n", 200, Framing::UntilClose, false),
    ("HTTP/1.1 200 OK\nConnection: keep-alive\n\n", 200, Framing::UntilClose, false),
    ("HTTP/1.1 200 \nContent-Length: 1\n\n", 200, Framing::Length(1), true),
    ("HTTP/1.1 200\nContent-Length: 1\n\n", 200, Framing::Length(1), true),
    ("HTTP/1.1 200 é\t a~ \nContent-Length: 1\n\n", 200, Framing::Length(1), true),
    ("HTTP/1.1 200 OK\nX: a\n b\n\t c\nContent-Length: 1\n\n", 200, Framing::Length(1), true),
    ("HTTP/1.1 200 OK\nX:\n \nContent-Length: 1\n\n", 200, Framing::Length(1), true),
    ("HTTP/1.1 999 ?\nContent-Length: 1\n\n", 999, Framing::Length(1), true),
    ("HTTP/1.0 200 OK\nContent-Length: 1\n\n", 200, Framing::Length(1), false),
    ("HTTP/1.0 200 OK\nContent-Length: 1\nConnection: Keep-Alive\n\n", 200, Framing::Length(1), true),
    ("HTTP/1.0 200 OK\n\n", 200, Framing::UntilClose, false),
    ("HTTP/1.1 100 Continue\n\n", 100, Framing::None, true),
    ("HTTP/1.1 101 Switching Protocols\nUpgrade: x\nConnection: Upgrade\n\n", 101, Framing::None, true),
    ("HTTP/1.1 204 No Content\n\n", 204, Framing::None, true),
    ("HTTP/1.1 204 No Content\nContent-Length: 5\n\n", 204, Framing::None, true),
    ("HTTP/1.1 304 Not Modified\nContent-Length: 5\n\n", 304, Framing::None, true),
    (
        "HTTP/1.1 304 Not Modified\nTransfer-Encoding: chunked\nConnection: close\n\n",
        304,
        Framing::None,
        false,
    ),
];

/// Input, and why it is refused.
const REFUSED: &[(&str, ResponseError)] = &[
    ("\nHTTP/1.1 200 OK\n\n", Version),
    ("HTTP/2.0 200 OK\n\n", Version),
    ("HTTP/1.x 200 OK\n\n", Version),
    ("HTTP/1.1\t200 OK\n\n", Version),
    ("HTTP/1.1200 OK\n\n", Version),
    ("http/1.1 200 OK\n\n", Version),
    ("ICY 200 OK\n\n", Version),
    ("<html></html>", Version),
    ("HTTP/1.1 099 OK\n\n", Status),
    ("HTTP/1.1 20 OK\n\n", Status),
    ("HTTP/1.1 2000 OK\n\n", Status),
    ("HTTP/1.1 +20 OK\n\n", Status),
    ("HTTP/1.1  200 OK\n\n", Status),
    ("HTTP/1.1 200\tOK\n\n", Status),
    ("HTTP/1.1 200␊\n", Status),
    ("HTTP/1.1 200 OK␊\n", Reason),
    ("HTTP/1.1 200 OK␍ \n", Reason),
    ("HTTP/1.1 200 O\u{0}K\n\n", Reason),
    ("HTTP/1.1 200 OK\n first: line\n\n", ResponseError::Field(FieldError::Folded)),
    ("HTTP/1.1 200 OK\nContent-Length:\n 5\n\n", ResponseError::Field(FieldError::ContentLengthInvalid)),
    ("HTTP/1.1 200 OK\nContent-Length: 5\n 6\n\n", ResponseError::Field(FieldError::Folded)),
    ("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n , gzip\n\n", ResponseError::Field(FieldError::Folded)),
    ("HTTP/1.1 200 OK\nConnection: a,\n\tclose\n\n", ResponseError::Field(FieldError::Folded)),
    ("HTTP/1.1 200 OK\nX: a\n b\u{0}\n\n", ResponseError::Field(FieldError::Control)),
    ("HTTP/1.1 200 OK\nX: a\n b␊\n", ResponseError::Field(FieldError::BareLf)),
];

/// All inputs of this table with the reason for each that is refused.
fn refused() -> Vec<(Vec<u8>, ResponseError)> {
    let lines = REFUSED.iter().map(|(text, error)| (wire(text), *error));
    // A value may go on in the next line of a response.
    let folds = |fields: &str| fields.starts_with("X: a\n") && fields[5..].starts_with([' ', '\t']);
    let fields = REFUSED_FIELDS
        .iter()
        .filter(|(fields, _)| !folds(fields))
        .map(|(fields, error)| (wire(&format!("HTTP/1.1 200 OK\n{fields}\n")), ResponseError::Field(*error)));
    let old = wire("HTTP/1.0 200 OK\nTransfer-Encoding: chunked\n\n");
    lines.chain(fields).chain([(old, ResponseError::Field(FieldError::TransferEncodingOn10))]).collect()
}

#[test]
fn accepts_as_the_table_says() {
    for &(text, status, framing, keep_alive) in ACCEPTED {
        let bytes = wire(text);
        let minor_version = bytes[7] - b'0';
        let head_bytes = bytes.len();
        let expected = ResponseHead { status, minor_version, framing, keep_alive, head_bytes };
        assert_eq!(response(&bytes), Ok(Some(expected)), "{text}");
        every_prefix(&bytes, response);
        let longer = [bytes.as_slice(), b"HTTP/1.1 \0"].concat();
        assert_eq!(response(&longer), Ok(Some(expected)), "{text} and more");
    }
    println!("{} responses accepted", ACCEPTED.len());
}

#[test]
fn refuses_as_the_table_says() {
    let table = refused();
    for (bytes, expected) in &table {
        assert_eq!(response(bytes), Err(*expected), "{}", bytes.escape_ascii());
        assert!(!expected.to_string().is_empty());
        every_prefix(bytes, response);
    }
    println!("{} responses refused", table.len());
}

#[test]
fn an_answer_to_head_has_no_body_but_is_checked_all_the_same() {
    let parse = |text: &str| parse_head(&wire(text), true, &HeadLimits::DEFAULT);
    let head = parse("HTTP/1.1 200 OK\nContent-Length: 13\n\n").unwrap().unwrap();
    assert_eq!((head.framing, head.keep_alive), (Framing::None, true));
    let bare = parse("HTTP/1.1 200 OK\n\n").unwrap().unwrap();
    assert_eq!((bare.framing, bare.keep_alive), (Framing::None, true));
    let both = parse("HTTP/1.1 200 OK\nContent-Length: 13\nTransfer-Encoding: chunked\n\n");
    assert_eq!(both, Err(ResponseError::Field(FieldError::LengthAndEncoding)));
}

#[test]
fn fields_are_listed_in_order() {
    let bytes = wire("HTTP/1.1 200 OK\nA:1\nb:\t x y \nA:\n\nbody: no\n");
    let fields: Vec<_> = headers(&bytes).collect();
    assert_eq!(fields, [(&b"A"[..], &b"1"[..]), (b"b", b"x y"), (b"A", b"")]);
    let mut folded = wire("HTTP/1.1 200 OK\nA: 1\n 2\n\t3 \nB:\n b\n\n");
    let firsts: Vec<_> = headers(&folded).map(|(_, value)| value).collect();
    assert_eq!(firsts, [&b"1"[..], b""]);
    unfold(&mut folded);
    let whole: Vec<_> = headers(&folded).map(|(_, value)| value).collect();
    assert_eq!(whole, [&b"1   2  \t3"[..], b"b"]);
    assert!(folded.ends_with(b"\r\n\r\n"));
    assert_eq!(headers(b"HTTP/1.1 200").count(), 0);
    assert_eq!(headers(b"").count(), 0);
}
