//! Chunked bodies, cut everywhere.

use crate::parsing::{Body, decode};
use crate::request::wire;
use crate::support::Guarded;
use http1::chunked::ChunkError::{self, *};
use http1::chunked::{EXTENSION_BYTES, TRAILER_BYTES, trailers};

/// Input, its data, its trailers, and what is left for the next message.
const ACCEPTED: &[(&str, &str, &str, &str)] = &[
    ("0\n\n", "", "", ""),
    ("d\nHello, World!\n0\n\n", "Hello, World!", "", ""),
    ("D\nHello, World!\n0\n\nGET / HTTP/1.1\n", "Hello, World!", "", "GET / HTTP/1.1\n"),
    ("1\na\n2\nbc\n00\n\n\n", "abc", "", "\n"),
    ("000000000000000a\n0123456789\n0000000000000000\n\n", "0123456789", "", ""),
    ("1;\na\n0;\n\n", "a", "", ""),
    ("1;name=value;other=\"a b\t;\"\na\n0;last\n\n", "a", "", ""),
    ("1;é\na\n0\n\n", "a", "", ""),
    ("3\n\u{0}\u{1}\u{7f}\n0\n\n", "\u{0}\u{1}\u{7f}", "", ""),
    ("2\n\n\n0\n\n", "\n", "", ""),
    ("0\nA: b\n\nx", "", "A: b\n", "x"),
    ("1\na\n0\nA: b\nContent-Length:\t5 \nC:\n\n", "a", "A: b\nContent-Length:\t5 \nC:\n", ""),
];

/// Input, and why it is refused.
const REFUSED: &[(&str, ChunkError)] = &[
    ("\n", SizeInvalid),
    (";a\n", SizeInvalid),
    ("g\n", SizeInvalid),
    ("+1\na\n", SizeInvalid),
    ("-1\na\n", SizeInvalid),
    ("0x1\na\n", SizeInvalid),
    ("1_0\n", SizeInvalid),
    (" 1\na\n", SizeInvalid),
    ("1 \na\n", SizeInvalid),
    ("1\t\na\n", SizeInvalid),
    ("1 ;a\na\n", SizeInvalid),
    ("1 1\n", SizeInvalid),
    ("1,\n", SizeInvalid),
    ("\u{0}1\n", SizeInvalid),
    ("１\n", SizeInvalid),
    ("␊1\na\n", SizeInvalid),
    ("00000000000000001\na\n", SizeTooLarge),
    ("8000000000000000\n", SizeTooLarge),
    ("ffffffffffffffff\n", SizeTooLarge),
    ("f0000000000000003\nabc\n", SizeTooLarge),
    ("1␊a\n", LineEnd),
    ("1␍a\n", LineEnd),
    ("1␍␍\na\n", LineEnd),
    ("1;a␊a\n", LineEnd),
    ("1;a␍b\na\n", LineEnd),
    ("1;\"␊\"\na\n", LineEnd),
    ("1;\u{0}\na\n", ExtensionControl),
    ("1;\u{7f}\na\n", ExtensionControl),
    ("1\nab\n", DataEnd),
    ("1\na␊0\n\n", DataEnd),
    ("1\na␍0\n\n", DataEnd),
    ("1\na0\n\n", DataEnd),
    ("0\n␊", LineEnd),
    ("0␊\n", LineEnd),
    ("0\n␍x", LineEnd),
    ("0\nA: b␊\n", LineEnd),
    ("0\nA: b␍c\n\n", LineEnd),
    ("0\nA\n\n", TrailerInvalid),
    ("0\nA : b\n\n", TrailerInvalid),
    ("0\n: b\n\n", TrailerInvalid),
    ("0\nA: b\n c\n\n", TrailerInvalid),
    ("0\nA: \u{0}\n\n", TrailerInvalid),
    ("0\nGET / HTTP/1.1\nHost: h\n\n", TrailerInvalid),
];

type Decoded = Result<Option<Body>, ChunkError>;

/// Under Miri, which takes a thousand times as long, every so manieth first cut stands for all.
const STEP: usize = if cfg!(miri) { 11 } else { 1 };

/// Decodes the input whole and flush against a protected page, byte by byte, and cut at every one and two places,
/// and asserts that all agree.
fn every_split(bytes: &[u8]) -> Decoded {
    let mut guarded = Guarded::new(bytes.len());
    let whole = decode([guarded.copy(bytes)]);
    let shown = bytes.escape_ascii();
    assert_eq!(decode(bytes.chunks(1)), whole, "{shown} byte by byte");
    for second in 0..=bytes.len() {
        for first in (0..=second).step_by(STEP) {
            let pieces = [&bytes[..first], &bytes[first..second], &bytes[second..]];
            assert_eq!(decode(pieces), whole, "{shown} cut at {first} and {second}");
        }
    }
    whole
}

#[test]
fn accepts_as_the_table_says() {
    for (text, data, trailers, rest) in ACCEPTED {
        let bytes = wire(text);
        let expected = (wire(data), wire(trailers), bytes.len() - wire(rest).len());
        assert_eq!(every_split(&bytes), Ok(Some(expected.clone())), "{text}");
        for length in 0..expected.2 {
            assert_eq!(decode([&bytes[..length]]), Ok(None), "{text} up to {length}");
        }
    }
    println!("{} bodies accepted", ACCEPTED.len());
}

#[test]
fn refuses_as_the_table_says() {
    for (text, error) in REFUSED {
        let bytes = wire(text);
        assert_eq!(every_split(&bytes), Err(*error), "{text}");
        assert!(!error.to_string().is_empty());
        let refused_from = (0..bytes.len()).find(|&length| decode([&bytes[..length]]).is_err());
        for length in refused_from.unwrap_or(bytes.len())..bytes.len() {
            assert_eq!(decode([&bytes[..length]]), Err(*error), "{text} up to {length}");
        }
    }
    println!("{} bodies refused", REFUSED.len());
}

#[test]
fn the_largest_size_is_that_of_a_signed_number() {
    let decoded = decode([&b"7fffffffffffffff\r\nabc"[..]]);
    assert_eq!(decoded, Ok(None));
}

#[test]
fn extensions_are_bounded_each_and_together() {
    let limit = EXTENSION_BYTES as usize;
    let with = |length: usize| format!("1;{}\r\na\r\n0\r\n\r\n", "x".repeat(length)).into_bytes();
    assert!(decode([&with(limit)[..]]).unwrap().is_some());
    assert_eq!(decode([&with(limit + 1)[..]]), Err(ExtensionTooLong));
    assert_eq!(decode(with(limit + 1).chunks(1)), Err(ExtensionTooLong));
    // Eleven bytes of extension for one of data: nine are not paid for.
    let flood = |chunks: usize| [&b"1;0123456789\r\na\r\n".repeat(chunks)[..], b"0\r\n\r\n"].concat();
    assert!(decode([&flood(limit / 9)[..]]).unwrap().is_some());
    assert_eq!(decode([&flood(limit / 8 + 1)[..]]), Err(ExtensionTooLong));
    // A sender that signs its chunks pays with their data.
    let signed = [&b"64;0123456789012345678901234567890123456789\r\n"[..], &[b'x'; 100], b"\r\n"]
        .concat()
        .repeat(1000);
    assert_eq!(decode([&signed[..]]), Ok(None));
}

#[test]
fn trailers_are_bounded_and_listed() {
    let limit = TRAILER_BYTES as usize;
    let with = |length: usize| format!("0\r\nA:{}\r\n\r\n", "x".repeat(length - 4)).into_bytes();
    let (_, section, _) = decode([&with(limit)[..]]).unwrap().unwrap();
    let listed: Vec<_> = trailers(&section).map(|(name, value)| (name.len(), value.len())).collect();
    assert_eq!(listed, [(1, limit - 4)]);
    assert_eq!(decode([&with(limit + 1)[..]]), Err(TrailerTooLong));
    let listed: Vec<_> = trailers(b"A: b\r\nc:d\r\n").collect();
    assert_eq!(listed, [(&b"A"[..], &b"b"[..]), (b"c", b"d")]);
}
