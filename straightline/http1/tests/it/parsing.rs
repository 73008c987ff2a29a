//! The ways in which every input of a table is parsed.

use crate::support::Guarded;
use http1::chunked::{ChunkError, ChunkedDecoder, Event};
use http1::request::{self, NO_SLOTS, RequestError, RequestHead, Slots};
use http1::response::{self, ResponseError, ResponseHead};
use http1::{HeadLimits, request::Framing};

/// A request parsed with default limits, flush against a protected page.
pub(crate) fn request(bytes: &[u8]) -> Result<Option<(RequestHead, Slots)>, RequestError> {
    let mut guarded = Guarded::new(bytes.len());
    let mut slots = NO_SLOTS;
    let head = request::parse(guarded.copy(bytes), &mut slots, &HeadLimits::DEFAULT)?;
    Ok(head.map(|head| (head, slots)))
}

/// As [`request`], of a response to a request other than HEAD.
pub(crate) fn response(bytes: &[u8]) -> Result<Option<ResponseHead>, ResponseError> {
    let mut guarded = Guarded::new(bytes.len());
    response::parse_head(guarded.copy(bytes), false, &HeadLimits::DEFAULT)
}

/// Asserts that every prefix says "more bytes", up to one from which on all say the same as the whole.
pub(crate) fn every_prefix<T: PartialEq + std::fmt::Debug, E: PartialEq + std::fmt::Debug>(
    bytes: &[u8],
    parse: impl Fn(&[u8]) -> Result<Option<T>, E>,
) {
    let whole = parse(bytes);
    let shown = bytes.escape_ascii();
    let mut decided = false;
    for length in 0..bytes.len() {
        let prefix = parse(&bytes[..length]);
        assert!(!(decided && prefix == Ok(None)), "{shown}: undecided again at {length}");
        decided |= prefix != Ok(None);
        assert!(!decided || prefix == whole, "{shown}: at {length} {prefix:?}, in the end {whole:?}");
    }
    assert!(whole != Ok(None), "{shown}: the table must have whole inputs");
}

/// A request in one line: what a handler would see of it.
pub(crate) fn describe(bytes: &[u8], head: &RequestHead, slots: &Slots) -> String {
    let view = head.view(bytes, slots);
    let mut line = format!("{} {:?} {} 1.{}", view.method(), head.form, view.path(), head.minor_version);
    let mut add = |word: &str| line.push_str(&format!(" {word}"));
    if let Some(query) = view.query() {
        add(&format!("?{query}"));
    }
    add(&format!("@{}", view.host()));
    match head.framing {
        Framing::None => {}
        Framing::Length(length) => add(&format!("length={length}")),
        Framing::Chunked => add("chunked"),
    }
    add(if head.keep_alive { "keep" } else { "close" });
    head.expect_continue.then(|| add("expect"));
    head.upgrade.then(|| add("upgrade"));
    line
}

/// What a chunked body came to: its data, its trailers, and how many bytes it took; `None` if it is unfinished.
pub(crate) type Body = (Vec<u8>, Vec<u8>, usize);

/// Decodes input that arrives in the given pieces.
pub(crate) fn decode<'p>(pieces: impl IntoIterator<Item = &'p [u8]>) -> Result<Option<Body>, ChunkError> {
    let mut decoder = ChunkedDecoder::new();
    let (mut data, mut trailers, mut taken) = (Vec::new(), Vec::new(), 0);
    for piece in pieces {
        let mut rest = piece;
        loop {
            let step = decoder.decode(rest)?;
            match &step.event {
                Event::Data(range) => data.extend_from_slice(not_empty(&rest[range.clone()])),
                Event::Trailer(range) => trailers.extend_from_slice(not_empty(&rest[range.clone()])),
                Event::Partial => assert_eq!(step.consumed, rest.len(), "a partial step uses everything up"),
                Event::Done => return Ok(Some((data, trailers, taken + step.consumed))),
            }
            taken += step.consumed;
            rest = &rest[step.consumed..];
            if step.event == Event::Partial {
                break;
            }
        }
    }
    Ok(None)
}

fn not_empty(bytes: &[u8]) -> &[u8] {
    assert!(!bytes.is_empty(), "a step without progress");
    bytes
}
