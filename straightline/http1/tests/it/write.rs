//! What is written: as it should be, and read back.

use crate::parsing::{decode, describe, request, response};
use http1::request::Framing;
use http1::write::{self, WriteError::*};

/// Header names that are refused.
const BAD_NAMES: &[&str] = &["", "A B", "A:", "A\r\n", "É", "A\0", "A\t", "(A)"];

/// Header values that are refused.
const BAD_VALUES: &[&[u8]] =
    &[b"a\r\nB: c", b"\r", b"\n", b"\0", b"a\x7f", b"\x1b[31m", b"0123456789abcdef\r\nX: y"];

/// Times and how they are written. Checked with `date -u -d @TIME`.
const DATES: &[(u64, &str)] = &[
    (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
    (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
    (951_782_399, "Mon, 28 Feb 2000 23:59:59 GMT"),
    (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
    (951_868_800, "Wed, 01 Mar 2000 00:00:00 GMT"),
    (1_709_164_800, "Thu, 29 Feb 2024 00:00:00 GMT"),
    (1_735_689_599, "Tue, 31 Dec 2024 23:59:59 GMT"),
    (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
    (4_107_542_399, "Sun, 28 Feb 2100 23:59:59 GMT"),
    (253_402_300_799, "Fri, 31 Dec 9999 23:59:59 GMT"),
    (u64::MAX, "Fri, 31 Dec 9999 23:59:59 GMT"),
];

fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    write(&mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn dates_are_those_of_the_calendar() {
    for &(unix_s, expected) in DATES {
        assert_eq!(write::date(unix_s).escape_ascii().to_string(), expected);
    }
}

#[test]
fn days_follow_each_other() {
    let names = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    let text = |day: u64| String::from_utf8(write::date(day * 86_400).to_vec()).unwrap();
    let number = |text: &str| text[5..7].parse::<u32>().unwrap();
    let mut previous = number(&text(0));
    let days = if cfg!(miri) { 400 } else { 400 * 366 };
    for day in 1..days {
        let text = text(day);
        assert_eq!(&text[..3], names[day as usize % 7]);
        let number = number(&text);
        assert!(number == previous + 1 || (number == 1 && (28..=31).contains(&previous)), "{text}");
        previous = number;
    }
}

#[test]
fn names_and_values_that_would_split_a_message_are_refused() {
    let mut out = b"kept".to_vec();
    for name in BAD_NAMES {
        assert_eq!(write::header(&mut out, name, b"v"), Err(HeaderName), "{name:?}");
    }
    for value in BAD_VALUES {
        assert_eq!(write::header(&mut out, "n", value), Err(HeaderValue), "{}", value.escape_ascii());
    }
    assert_eq!(out, b"kept");
    write::header(&mut out, "N", "tab\t and é".as_bytes()).unwrap();
    assert_eq!(out, "keptN: tab\t and é\r\n".as_bytes());
}

#[test]
fn a_written_response_is_read_back() {
    for status in 100..=999 {
        let text = written(|out| {
            write::status_line(out, status).unwrap();
            write::header(out, "Date", &write::date(0)).unwrap();
            write::content_length(out, u64::from(status));
            write::end_of_head(out);
        });
        let head = response(text.as_bytes()).unwrap().unwrap();
        assert_eq!((head.status, head.head_bytes), (status, text.len()), "{text}");
    }
    let mut out = Vec::new();
    assert_eq!(write::status_line(&mut out, 99), Err(Status));
    assert_eq!(write::status_line(&mut out, 1000), Err(Status));
    assert_eq!(out, b"");
    assert_eq!(written(|out| write::status_line(out, 404).unwrap()), "HTTP/1.1 404 Not Found\r\n");
    assert_eq!(written(|out| write::status_line(out, 299).unwrap()), "HTTP/1.1 299 \r\n");
}

#[test]
fn lengths_are_written_in_decimal() {
    for (length, expected) in [(0, "0"), (9, "9"), (10, "10"), (u64::MAX, "18446744073709551615")] {
        let text = written(|out| write::content_length(out, length));
        assert_eq!(text, format!("Content-Length: {expected}\r\n"));
        assert_eq!(write::digits(length, &mut [0; write::DIGITS]), expected.as_bytes());
    }
}

#[test]
fn written_chunks_are_read_back() {
    let data: Vec<u8> = (0..70_000_u32).map(|index| index as u8).collect();
    let mut out = Vec::new();
    for length in [1, 15, 16, 255, 256, 4095, 4096, 65_535, 65_536] {
        write::chunk(&mut out, &data[..length]);
    }
    write::chunk(&mut out, b"");
    let before_end = out.len();
    write::last_chunk(&mut out);
    let (read, trailers, taken) = decode([&out[..]]).unwrap().unwrap();
    assert_eq!(
        (read.len(), trailers.len(), taken),
        (1 + 15 + 16 + 255 + 256 + 4095 + 4096 + 65_535 + 65_536, 0, out.len())
    );
    out.truncate(before_end);
    write::last_chunk_with_trailers(&mut out, [("Digest", &b"x"[..])]).unwrap();
    assert_eq!(decode([&out[..]]).unwrap().unwrap().1, b"Digest: x\r\n");
    for (size, expected) in [(0, "0\r\n"), (10, "a\r\n"), (16, "10\r\n"), (u64::MAX, "ffffffffffffffff\r\n")]
    {
        assert_eq!(written(|out| write::chunk_size(out, size)), expected);
    }
}

#[test]
fn trailers_that_would_frame_are_refused() {
    for name in ["Content-Length", "transfer-encoding", "HOST"] {
        let mut out = b"kept".to_vec();
        let result = write::last_chunk_with_trailers(&mut out, [("A", &b"b"[..]), (name, b"5")]);
        assert_eq!((result, out.as_slice()), (Err(Reserved), &b"kept"[..]));
    }
}

#[test]
fn a_written_request_is_read_back() {
    let headers = [("Accept", &b"*/*"[..]), ("X", b"")];
    for (framing, expected) in [
        (Framing::None, "GET Origin /a 1.1 ?b @h:1 keep"),
        (Framing::Length(7), "GET Origin /a 1.1 ?b @h:1 length=7 keep"),
        (Framing::Chunked, "GET Origin /a 1.1 ?b @h:1 chunked keep"),
    ] {
        let text = written(|out| write::request_head(out, "GET", "/a?b", "h:1", headers, framing).unwrap());
        let (head, slots) = request(text.as_bytes()).unwrap().unwrap();
        assert_eq!(describe(text.as_bytes(), &head, &slots), expected);
    }
}

#[test]
fn a_request_that_would_be_refused_is_not_written() {
    let none: [(&str, &[u8]); 0] = [];
    let write = |method, target, host| {
        write::request_head(&mut Vec::new(), method, target, host, none, Framing::None)
    };
    assert_eq!(write("G T", "/", "h"), Err(Method));
    assert_eq!(write("", "/", "h"), Err(Method));
    for target in ["", "/a b", "/\r\nX: y", "/#", "/é", "/\0"] {
        assert_eq!(write("GET", target, "h"), Err(Target), "{target:?}");
    }
    for host in ["", "a b", "u@h", "h\r\nX: y", "h:x"] {
        assert_eq!(write("GET", "/", host), Err(Host), "{host:?}");
    }
    let mut out = b"kept".to_vec();
    for (name, value, error) in [
        ("Host", &b"i"[..], Reserved),
        ("content-length", b"1", Reserved),
        ("", b"", HeaderName),
        ("X", b"\n", HeaderValue),
    ] {
        let headers = [("A", &b"b"[..]), (name, value)];
        assert_eq!(write::request_head(&mut out, "GET", "/", "h", headers, Framing::None), Err(error));
        assert_eq!(out, b"kept");
        assert!(!error.to_string().is_empty());
    }
}
