//! Each limit, at its value and one beyond.

use http1::HeadLimits;
use http1::limits::{HEAD_BYTES, HEADERS, TARGET_BYTES};
use http1::request::{self, NO_SLOTS, RequestError, RequestHead, Slot};
use http1::response::{ResponseError, parse_head};

fn parse(text: &str) -> Result<Option<RequestHead>, RequestError> {
    request::parse(text.as_bytes(), &mut NO_SLOTS.clone(), &HeadLimits::DEFAULT)
}

/// A request of exactly `bytes` bytes.
fn request_of(bytes: usize) -> String {
    let (start, end) = ("GET / HTTP/1.1\r\nHost: h\r\nX: ", "\r\n\r\n");
    format!("{start}{}{end}", "x".repeat(bytes - start.len() - end.len()))
}

fn fields(count: u16) -> String {
    "X: y\r\n".repeat(usize::from(count))
}

#[test]
fn defaults_are_those_of_the_documentation() {
    assert_eq!((HEAD_BYTES, HEADERS, TARGET_BYTES), (32 * 1024, 100, 8 * 1024));
    assert_eq!(HeadLimits::default(), HeadLimits::DEFAULT);
}

#[test]
fn the_length_of_a_head_is_bounded() {
    let limit = usize::from(HEAD_BYTES);
    let longest = request_of(limit);
    assert_eq!(parse(&longest).unwrap().unwrap().head_bytes, limit);
    assert_eq!(parse(&longest[..limit - 1]), Ok(None));
    assert_eq!(parse(&request_of(limit + 1)), Err(RequestError::HeadTooLong));
    assert_eq!(parse(&request_of(limit + 1)[..limit]), Err(RequestError::HeadTooLong));
    assert_eq!(parse(&"M".repeat(limit)), Err(RequestError::HeadTooLong));
}

#[test]
fn a_limit_below_the_default_holds_too() {
    let limits = HeadLimits { head_bytes: 40, headers: 2, target_bytes: 3 };
    let parse = |text: &str| request::parse(text.as_bytes(), &mut NO_SLOTS.clone(), &limits).map(|_| ());
    assert_eq!(parse(&request_of(40)), Ok(()));
    assert_eq!(parse(&request_of(41)), Err(RequestError::HeadTooLong));
    assert_eq!(parse("GET /ab HTTP/1.1\r\nHost: h\r\nX: y\r\n\r\n"), Ok(()));
    assert_eq!(parse("GET /abc HTTP/1.1\r\n"), Err(RequestError::TargetTooLong));
    assert_eq!(parse("GET / HTTP/1.1\r\nHost: h\r\nX:y\r\nZ:\r\n\r\n"), Err(RequestError::TooManyHeaders));
}

#[test]
fn the_number_of_fields_is_bounded() {
    let head = |count| format!("GET / HTTP/1.1\r\nHost: h\r\n{}\r\n", fields(count));
    assert_eq!(parse(&head(HEADERS - 1)).unwrap().unwrap().headers, HEADERS);
    assert_eq!(parse(&head(HEADERS)), Err(RequestError::TooManyHeaders));
}

#[test]
fn fewer_slots_are_a_lower_limit() {
    let text = b"GET / HTTP/1.1\r\nHost: h\r\nX: y\r\n\r\n";
    let parse = |slots: &mut [Slot]| request::parse(text, slots, &HeadLimits::DEFAULT).map(|_| ());
    assert_eq!(parse(&mut [Slot::default(); 2]), Ok(()));
    assert_eq!(parse(&mut [Slot::default(); 1]), Err(RequestError::TooManyHeaders));
    assert_eq!(parse(&mut []), Err(RequestError::TooManyHeaders));
}

#[test]
fn the_length_of_a_target_is_bounded() {
    let limit = usize::from(TARGET_BYTES);
    let head = |bytes: usize| format!("GET /{} HTTP/1.1\r\nHost: h\r\n\r\n", "x".repeat(bytes - 1));
    assert!(parse(&head(limit)).unwrap().is_some());
    assert_eq!(parse(&head(limit + 1)), Err(RequestError::TargetTooLong));
    // It is refused before its end is seen.
    assert_eq!(parse(&head(limit + 1)[..4 + limit]), Ok(None));
    assert_eq!(parse(&head(limit + 1)[..4 + limit + 1]), Err(RequestError::TargetTooLong));
}

#[test]
fn heads_of_responses_are_bounded_alike() {
    let parse =
        |text: &str| parse_head(text.as_bytes(), false, &HeadLimits::DEFAULT).map(|head| head.is_some());
    let head = |count| format!("HTTP/1.1 200 OK\r\n{}\r\n", fields(count));
    assert_eq!(parse(&head(HEADERS)), Ok(true));
    assert_eq!(parse(&head(HEADERS + 1)), Err(ResponseError::TooManyHeaders));
    let limit = usize::from(HEAD_BYTES);
    let long = |bytes: usize| format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(bytes - 24));
    assert_eq!(parse(&long(limit)), Ok(true));
    assert_eq!(parse(&long(limit + 1)), Err(ResponseError::TooLong));
    assert_eq!(parse(&long(limit + 1)[..limit]), Err(ResponseError::TooLong));
    assert_eq!(parse(&long(limit + 1)[..limit - 1]), Ok(false));
}
