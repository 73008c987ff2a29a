use http1::chunked::{ChunkError, ChunkedDecoder, Event};

/// Why the text that a script returned cannot be cut into requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CutError {
    /// There is nothing.
    #[error("it is empty")]
    Empty,
    /// Its first line.
    #[error("its first line is not 'METHOD /path HTTP/1.1'")]
    FirstLine,
    /// The blank line is missing.
    #[error("its head does not end with an empty line")]
    EndlessHead,
    /// The length of the body is not known.
    #[error("its Content-Length is not a number")]
    Length,
    /// The body ends early.
    #[error("its body is shorter than its Content-Length")]
    ShortBody,
    /// The chunks.
    #[error("its chunked body does not end, or is malformed")]
    Chunks,
}

impl From<ChunkError> for CutError {
    fn from(_: ChunkError) -> Self {
        Self::Chunks
    }
}

/// How a body is delimited.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Body {
    Length(usize),
    Chunked,
}

/// The requests in `text`, which follow one another and are to be sent as they are, however odd.
///
/// Like wrk, it takes a bare line feed for the end of a line, and blank lines between requests. They stay with the
/// request before them, those at the begin with the first.
///
/// # Errors
/// [`CutError`] where the end of a request cannot be found; the iterator is over then.
pub fn requests(text: &[u8]) -> impl Iterator<Item = Result<&[u8], CutError>> {
    let mut rest = text;
    let mut first = true;
    std::iter::from_fn(move || {
        if rest.is_empty() && !first {
            return None;
        }
        first = false;
        match length(rest) {
            Ok(bytes) => {
                let (request, after) = rest.split_at(bytes);
                rest = after;
                Some(Ok(request))
            }
            Err(error) => {
                rest = &[];
                Some(Err(error))
            }
        }
    })
}

/// Length of the first request and of the blank lines around it.
fn length(text: &[u8]) -> Result<usize, CutError> {
    let blank = blank_bytes(text);
    if blank == text.len() {
        return Err(CutError::Empty);
    }
    let (head, body) = head(&text[blank..])?;
    let body_from = blank + head;
    let there = &text[body_from..];
    let body = match body {
        Body::Length(length) if length > there.len() => return Err(CutError::ShortBody),
        Body::Length(length) => length,
        Body::Chunked => chunked_bytes(there)?,
    };
    let end = body_from + body;
    Ok(end + blank_bytes(&text[end..]))
}

fn blank_bytes(text: &[u8]) -> usize {
    text.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count()
}

/// Length of the head, blank line included, and what it says of the body.
fn head(text: &[u8]) -> Result<(usize, Body), CutError> {
    let mut body = Body::Length(0);
    let mut from = 0;
    loop {
        let end = from + memchr::memchr(b'\n', &text[from..]).ok_or(CutError::EndlessHead)?;
        let line = text[from..end].strip_suffix(b"\r").unwrap_or(&text[from..end]);
        if line.is_empty() {
            return Ok((end + 1, body));
        }
        match line[0] {
            _ if from == 0 => check_first(line)?,
            b'C' | b'c' | b'T' | b't' => note(line, &mut body)?,
            _ => {}
        }
        from = end + 1;
    }
}

fn check_first(line: &[u8]) -> Result<(), CutError> {
    let mut words = line.split(|byte| *byte == b' ');
    let right = words.next().is_some_and(|method| method.iter().all(u8::is_ascii_alphabetic))
        && words.next().is_some_and(|target| !target.is_empty())
        && line.rsplit(|byte| *byte == b' ').next().is_some_and(|version| version.starts_with(b"HTTP/1."));
    if right { Ok(()) } else { Err(CutError::FirstLine) }
}

/// Notes what a field says of the body.
fn note(line: &[u8], body: &mut Body) -> Result<(), CutError> {
    let Some(colon) = memchr::memchr(b':', line) else { return Ok(()) };
    let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
    if name.eq_ignore_ascii_case(b"content-length") && *body != Body::Chunked {
        let number = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
        *body = Body::Length(number.ok_or(CutError::Length)?);
    } else if name.eq_ignore_ascii_case(b"transfer-encoding") && value.eq_ignore_ascii_case(b"chunked") {
        *body = Body::Chunked;
    }
    Ok(())
}

fn chunked_bytes(text: &[u8]) -> Result<usize, CutError> {
    let mut decoder = ChunkedDecoder::new();
    let mut at = 0;
    loop {
        let step = decoder.decode(&text[at..])?;
        at += step.consumed;
        match step.event {
            Event::Done => return Ok(at),
            Event::Partial => return Err(CutError::Chunks),
            Event::Data(_) | Event::Trailer(_) => {}
        }
    }
}
