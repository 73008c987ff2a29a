//! What must hold for any bytes at all. The fuzzers in and out of the tree run these.
//!
//! httparse is the outside witness: what we accept it must accept, and read alike; what it accepts and we refuse must be
//! one of the rules by which we are stricter.

use http1::chunked::{ChunkError, ChunkedDecoder, EXTENSION_BYTES, Event, TRAILER_BYTES};
use http1::request::{self, NO_SLOTS, RequestError, RequestHead, Slots};
use http1::response::{self, ResponseError, ResponseHead};
use http1::{FieldError, HeadLimits};
use httparse::{Header, Status};

/// Room for more fields than our limit, so that httparse is not the one to complain.
const THEIR_HEADERS: usize = 400;

/// Inputs up to so many bytes are checked by every prefix, longer ones by a few.
const EVERY_PREFIX_BYTES: usize = if cfg!(miri) { 20 } else { 400 };

/// What became of an input, for the counts that the tests print.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Accepted,
    Partial,
    Refused,
}

fn outcome<T, E>(result: &Result<Option<T>, E>) -> Outcome {
    match result {
        Ok(Some(_)) => Outcome::Accepted,
        Ok(None) => Outcome::Partial,
        Err(_) => Outcome::Refused,
    }
}

/// Checks a request head.
pub(crate) fn request(bytes: &[u8]) -> Outcome {
    let parse = |bytes: &[u8]| -> Result<Option<(RequestHead, Slots)>, RequestError> {
        let mut slots = NO_SLOTS;
        Ok(request::parse(bytes, &mut slots, &HeadLimits::DEFAULT)?.map(|head| (head, slots)))
    };
    let ours = parse(bytes);
    let mut headers = [httparse::EMPTY_HEADER; THEIR_HEADERS];
    let mut theirs = httparse::Request::new(&mut headers);
    let status = theirs.parse(bytes);
    match &ours {
        Ok(Some((head, slots))) if head.minor_version <= 1 => {
            assert_eq!(status, Ok(Status::Complete(head.head_bytes)));
            same_request(bytes, head, slots, &theirs);
        }
        Ok(Some(_)) => {
            assert_eq!(status, Err(httparse::Error::Version), "a version that httparse does not know")
        }
        Ok(None) => assert!(!is_complete(&status), "httparse has a head, we want more"),
        Err(error) if is_complete(&status) => {
            assert!(stricter_request(*error, bytes), "{error:?} is not a rule")
        }
        Err(_) => {}
    }
    every_prefix(bytes, &ours, parse, |(head, _)| head.head_bytes);
    outcome(&ours)
}

fn is_complete(status: &httparse::Result<usize>) -> bool {
    matches!(status, Ok(Status::Complete(_)))
}

fn same_request(bytes: &[u8], head: &RequestHead, slots: &Slots, theirs: &httparse::Request<'_, '_>) {
    let ours = head.view(bytes, slots);
    assert_eq!(Some(ours.method()), theirs.method);
    assert_eq!(Some(ours.target()), theirs.path);
    assert_eq!(Some(head.minor_version), theirs.version);
    assert_eq!(usize::from(head.headers), theirs.headers.len());
    let theirs = theirs.headers.iter().map(|header| (header.name, header.value));
    assert!(ours.headers().eq(theirs), "fields differ");
}

/// Whether a request that httparse accepts may be refused for `error`.
fn stricter_request(error: RequestError, bytes: &[u8]) -> bool {
    let has = |byte: u8| bytes.contains(&byte);
    match error {
        RequestError::Method => bytes.starts_with(b"\n") || bytes.starts_with(b"\r\n"),
        RequestError::Target => true,
        RequestError::TargetNotAscii => !bytes.is_ascii(),
        RequestError::TargetFragment => has(b'#'),
        RequestError::TargetUserInfo => has(b'@'),
        RequestError::TargetTooLong => bytes.len() > usize::from(HeadLimits::DEFAULT.target_bytes),
        RequestError::Version => has_bare_lf(bytes),
        RequestError::VersionUnsupported => false,
        RequestError::HeadTooLong => bytes.len() > usize::from(HeadLimits::DEFAULT.head_bytes),
        RequestError::TooManyHeaders => bytes.len() > usize::from(HeadLimits::DEFAULT.headers),
        RequestError::HostMissing | RequestError::HostRepeated | RequestError::HostInvalid => true,
        RequestError::Field(error) => stricter_field(error, bytes),
    }
}

/// Whether fields that httparse accepts may be refused for `error`.
fn stricter_field(error: FieldError, bytes: &[u8]) -> bool {
    let names =
        |name: &str| bytes.to_ascii_lowercase().windows(name.len()).any(|part| part == name.as_bytes());
    match error {
        FieldError::BareLf => has_bare_lf(bytes),
        FieldError::ContentLengthInvalid | FieldError::ContentLengthRepeated => names("content-length"),
        FieldError::LengthAndEncoding => names("content-length") && names("transfer-encoding"),
        FieldError::TransferEncodingUnknown | FieldError::TransferEncodingOn10 => names("transfer-encoding"),
        _ => false,
    }
}

fn has_bare_lf(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\n") || bytes.windows(2).any(|pair| pair[0] != b'\r' && pair[1] == b'\n')
}

/// Whether a field goes on in the next line, which a reader of responses takes as more of it.
fn has_fold(head: &[u8]) -> bool {
    head.windows(3).any(|three| matches!(three, [b'\r', b'\n', b' ' | b'\t']))
}

/// Checks a response head, as the answer to HEAD and to another method.
pub(crate) fn response(bytes: &[u8]) -> Outcome {
    let parse = |bytes: &[u8]| response::parse_head(bytes, false, &HeadLimits::DEFAULT);
    let ours = parse(bytes);
    let to_head = response::parse_head(bytes, true, &HeadLimits::DEFAULT);
    assert_eq!(outcome(&ours), outcome(&to_head));
    let mut headers = [httparse::EMPTY_HEADER; THEIR_HEADERS];
    let mut theirs = httparse::Response::new(&mut headers);
    let status = theirs.parse(bytes);
    match &ours {
        Ok(Some(head)) if has_fold(&bytes[..head.head_bytes]) => {
            assert!(!is_complete(&status), "httparse takes no fold unless asked to");
        }
        Ok(Some(head)) if head.minor_version <= 1 => same_response(bytes, head, &theirs, status),
        Ok(Some(_)) => {
            assert_eq!(status, Err(httparse::Error::Version), "a version that httparse does not know")
        }
        Ok(None) => assert!(!is_complete(&status), "httparse has a head, we want more"),
        Err(error) if is_complete(&status) => {
            assert!(stricter_response(*error, bytes), "{error:?} is not a rule")
        }
        Err(_) => {}
    }
    every_prefix(bytes, &ours, parse, |head| head.head_bytes);
    outcome(&ours)
}

fn same_response(
    bytes: &[u8],
    head: &ResponseHead,
    theirs: &httparse::Response<'_, '_>,
    status: httparse::Result<usize>,
) {
    assert_eq!(status, Ok(Status::Complete(head.head_bytes)));
    assert_eq!((Some(head.status), Some(head.minor_version)), (theirs.code, theirs.version));
    let theirs = theirs.headers.iter().map(|header| (header.name.as_bytes(), header.value));
    assert!(response::headers(&bytes[..head.head_bytes]).eq(theirs), "fields differ");
}

/// Whether a response that httparse accepts may be refused for `error`.
fn stricter_response(error: ResponseError, bytes: &[u8]) -> bool {
    match error {
        ResponseError::Version => bytes.starts_with(b"\n") || bytes.starts_with(b"\r\n"),
        ResponseError::Status => has_bare_lf(bytes) || bytes.windows(2).any(|pair| pair == b" 0"),
        ResponseError::Reason => has_bare_lf(bytes),
        ResponseError::TooLong => bytes.len() > usize::from(HeadLimits::DEFAULT.head_bytes),
        ResponseError::TooManyHeaders => bytes.len() > usize::from(HeadLimits::DEFAULT.headers),
        ResponseError::Field(error) => stricter_field(error, bytes),
    }
}

/// A prefix is undecided, or says what the whole says; bytes after the head say nothing.
fn every_prefix<T: PartialEq + std::fmt::Debug, E: PartialEq + std::fmt::Debug>(
    bytes: &[u8],
    whole: &Result<Option<T>, E>,
    parse: impl Fn(&[u8]) -> Result<Option<T>, E>,
    head_bytes: impl Fn(&T) -> usize,
) {
    let step = bytes.len() / EVERY_PREFIX_BYTES + 1;
    let needed = whole.as_ref().ok().and_then(Option::as_ref).map(head_bytes);
    let mut decided = false;
    for length in (0..bytes.len()).step_by(step) {
        let prefix = parse(&bytes[..length]);
        decided |= prefix != Ok(None);
        assert!(!decided || prefix == *whole, "{prefix:?} at {length}, {whole:?} in the end");
        assert!(
            needed.is_none_or(|needed| decided == (length >= needed)),
            "decided too early or late: {length}"
        );
    }
}

/// A body as far as it was decoded: data, trailers, and bytes used up.
type Body = (Vec<u8>, Vec<u8>, usize);

/// Checks a chunked body: whole, byte by byte and in uneven pieces, against a reader of whole bodies.
pub(crate) fn chunked(bytes: &[u8]) -> Outcome {
    let whole = decode(bytes, |left| left);
    assert_eq!(decode(bytes, |_| 1), whole, "byte by byte");
    let mut size = bytes.len();
    let uneven = |left: usize| {
        size = size.wrapping_mul(31).wrapping_add(left) % 977;
        1 + size % 13
    };
    assert_eq!(decode(bytes, uneven), whole, "in uneven pieces");
    assert_eq!(whole.clone().ok().flatten(), reference(bytes), "the witness decodes otherwise");
    outcome(&whole)
}

/// Decodes pieces whose sizes `next_size` says from the number of bytes left.
fn decode(bytes: &[u8], mut next_size: impl FnMut(usize) -> usize) -> Result<Option<Body>, ChunkError> {
    let mut decoder = ChunkedDecoder::new();
    let (mut data, mut trailers) = (Vec::new(), Vec::new());
    let (mut at, mut end) = (0, 0);
    loop {
        let step = decoder.decode(&bytes[at..end])?;
        assert!(step.consumed <= end - at);
        match step.event {
            Event::Data(range) => data.extend_from_slice(&bytes[at..end][range]),
            Event::Trailer(range) => trailers.extend_from_slice(&bytes[at..end][range]),
            Event::Done => return Ok(Some((data, trailers, at + step.consumed))),
            Event::Partial if end == bytes.len() => return Ok(None),
            Event::Partial => {
                assert_eq!(step.consumed, end - at);
                end = bytes.len().min(end + next_size(bytes.len() - end).max(1));
            }
        }
        at += step.consumed;
    }
}

/// Reads a whole body by httparse, with our stricter rules checked on top; `None` if it is not a whole, good one.
fn reference(bytes: &[u8]) -> Option<Body> {
    let (mut data, mut at, mut unpaid) = (Vec::new(), 0, 0);
    loop {
        let rest = &bytes[at..];
        let line = &rest[..rest.windows(2).position(|pair| pair == b"\r\n")?];
        unpaid += extension_of_strict_size(line)?;
        let Ok(Status::Complete((length, size))) = httparse::parse_chunk_size(rest) else {
            panic!("httparse refuses the size line {}", line.escape_ascii());
        };
        assert_eq!(length, line.len() + 2);
        if unpaid > EXTENSION_BYTES as usize || size > i64::MAX as u64 {
            return None;
        }
        at += length;
        let size = usize::try_from(size).unwrap();
        if size == 0 {
            let trailers = trailer_section(&bytes[at..])?;
            return Some((data, trailers.to_vec(), at + trailers.len() + 2));
        }
        unpaid = unpaid.saturating_sub(size.saturating_mul(2));
        data.extend_from_slice(bytes.get(at..at.checked_add(size)?)?);
        at += size;
        bytes[at..].starts_with(b"\r\n").then_some(())?;
        at += 2;
    }
}

/// The bytes of extension on a size line that keeps our rules.
fn extension_of_strict_size(line: &[u8]) -> Option<usize> {
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let extension = line[digits..].strip_prefix(b";");
    let good = extension.is_some() || digits == line.len();
    let is_text = |byte: &u8| *byte == b'\t' || !byte.is_ascii_control();
    (good && (1..=16).contains(&digits) && extension.unwrap_or_default().iter().all(is_text))
        .then_some(extension.unwrap_or_default().len())
}

/// The trailers at the start of `bytes`, without the blank line.
fn trailer_section(bytes: &[u8]) -> Option<&[u8]> {
    let mut headers: Vec<Header<'_>> = vec![httparse::EMPTY_HEADER; bytes.len() / 3 + 1];
    let Ok(Status::Complete((length, _))) = httparse::parse_headers(bytes, &mut headers) else { return None };
    let section = &bytes[..length];
    let good = !has_bare_lf(section) && length - 2 <= TRAILER_BYTES as usize;
    good.then(|| &section[..length - 2])
}
