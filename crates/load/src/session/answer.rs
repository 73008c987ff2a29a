use super::fields::FieldsError;
use super::grpc::GrpcError;
use super::websocket::{FrameError, Frames};
use http1::HeadLimits;
use http1::chunked::{ChunkError, ChunkedDecoder, Event};
use http1::response::{Framing, ResponseError, ResponseHead, parse_head};

/// Longest head that is remembered for comparison; a longer one is parsed each time.
const REMEMBERED_BYTES: usize = 4096;

/// One complete answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Whether the connection may carry another.
    pub(crate) keep_alive: bool,
}

/// Why the bytes are not an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Its head.
    #[error(transparent)]
    Head(#[from] ResponseError),
    /// Its chunked body.
    #[error(transparent)]
    Body(#[from] ChunkError),
    /// 101, which was not asked for.
    #[error("the server switches protocols unasked")]
    Switched,
    /// An answer of gRPC.
    #[error(transparent)]
    Grpc(#[from] GrpcError),
    /// An answer of HTTP/2 or HTTP/3.
    #[error(transparent)]
    Fields(#[from] FieldsError),
    /// A frame of WebSocket.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A connection with streams whose server breaks its rules.
    #[error("the server breaks the protocol: {0}")]
    Broken(&'static str),
    /// Another status than 101 where WebSocket was asked for.
    #[error("the server answers {0} where it is asked to speak WebSocket")]
    NotUpgraded(u16),
    /// An upgrade to WebSocket with an extension that was not asked for. Source: RFC 6455, section 4.1.
    #[error(
        "the server speaks WebSocket with an extension that it was not asked for (Sec-WebSocket-Extensions)"
    )]
    UnaskedExtension,
    /// The same with a subprotocol.
    #[error(
        "the server speaks WebSocket with a subprotocol that it was not asked for (Sec-WebSocket-Protocol)"
    )]
    UnaskedProtocol,
    /// A server that has not read what it was sent.
    #[error("the server takes the upgrade to WebSocket without having read our key")]
    WrongAccept,
    /// An answer that is no stream of events where one was asked for.
    #[error("the answer is no stream of events: its content type is not text/event-stream")]
    NoEvents,
    /// A stream of events that is compressed.
    #[error(
        "the stream of events is compressed (Content-Encoding), and compressed streams cannot be read: leave Accept-Encoding out"
    )]
    CompressedEvents,
    /// A stream without any event.
    #[error("a stream of events ends without one event (a line 'data:', and a blank line after it)")]
    NoEvent,
    /// A stream that ends before the blank line that ends an event.
    #[error(
        "a stream ends in the middle of an event: the blank line that ends it is missing, and whoever reads it drops that event"
    )]
    CutEvent,
    /// A stream with fewer events than asked for.
    #[error("a stream ends before it has had the events that --events asks for")]
    FewEvents,
    /// Bytes that answer nothing.
    #[error("the server answers more often than it is asked")]
    Unasked,
    /// A body where there is none: a status that has none, or an answer to HEAD.
    #[error("a {0} with a body, which it must not have")]
    BodyForNone(u16),
    /// A body after an answer to HEAD.
    #[error("an answer to HEAD with a body, which it must not have")]
    BodyForHead,
    /// Bytes after a body of a known length.
    #[error("more bytes than Content-Length says")]
    Longer,
    /// Bytes after the last chunk of a body.
    #[error("more bytes after the last chunk of a body")]
    AfterLastChunk,
    /// A line of a head that ends with LF alone.
    #[error("a line of the answer's head ends with a line feed alone (LF without CR)")]
    BareLf,
    /// A carriage return within a line of a head.
    #[error("a carriage return in the answer's head has no line feed after it (CR without LF)")]
    BareCr,
    /// The end of a connection that was to be the end of an answer, without the farewell of TLS.
    #[error(
        "an answer ends with its connection, and the server says no farewell of TLS before (close_notify): it may be truncated"
    )]
    Truncated,
}

impl Malformed {
    /// Whether the server may well speak something else altogether.
    #[must_use]
    pub fn is_foreign(&self) -> bool {
        matches!(
            self,
            Self::Head(ResponseError::Version)
                | Self::Frame(_)
                | Self::NotUpgraded(_)
                | Self::NoEvents
                | Self::Grpc(GrpcError::ContentType)
        )
    }
}

/// Parses heads, and knows the last one by its bytes: a server that says the same again costs a comparison.
#[derive(Debug)]
pub(crate) struct Heads {
    limits: HeadLimits,
    /// Whether the requests are HEAD, whose answers have no body.
    bodiless: bool,
    bytes: Vec<u8>,
    head: Option<ResponseHead>,
}

impl Heads {
    pub(crate) fn new(bodiless: bool) -> Self {
        Self { limits: HeadLimits::DEFAULT, bodiless, bytes: Vec::new(), head: None }
    }

    /// The next answer is one to HEAD, or not.
    #[inline]
    pub(crate) fn expect(&mut self, bodiless: bool) {
        if bodiless != self.bodiless {
            *self = Self::new(bodiless);
        }
    }

    /// Whether the next answer is one to HEAD.
    pub(crate) fn is_bodiless(&self) -> bool {
        self.bodiless
    }

    #[inline]
    fn parse(&mut self, buf: &[u8]) -> Result<Option<ResponseHead>, ResponseError> {
        match self.head {
            Some(head) if buf.starts_with(&self.bytes) => Ok(Some(head)),
            _ => self.parse_new(buf),
        }
    }

    fn parse_new(&mut self, buf: &[u8]) -> Result<Option<ResponseHead>, ResponseError> {
        let parsed = parse_head(buf, self.bodiless, &self.limits)?;
        if let Some(head) = parsed.filter(|head| head.head_bytes <= REMEMBERED_BYTES) {
            self.bytes.clear();
            self.bytes.extend_from_slice(&buf[..head.head_bytes]);
            self.head = Some(head);
        }
        Ok(parsed)
    }
}

/// How the last answer of a connection ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Last {
    /// There was none.
    #[default]
    Nothing,
    /// With its head.
    Head,
    /// With as many bytes as it said.
    Length,
    /// With its last chunk.
    Chunk,
}

/// What the next byte belongs to.
#[derive(Debug, Clone, Default)]
enum Part {
    #[default]
    Head,
    /// A body with so many bytes to come.
    Length(u64),
    Chunked(ChunkedDecoder),
    UntilClose,
    /// A connection that was upgraded.
    Frames(Frames),
}

/// Who is given answers as they come.
pub(crate) trait Body {
    /// An answer begins, with its head as HTTP/1.1 writes it.
    fn begin(&mut self, status: u16, head: &[u8]);

    /// More of its body, without its framing.
    fn more(&mut self, body: &[u8]);
}

/// Cuts the bytes of one connection into answers.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    part: Part,
    status: u16,
    keep_alive: bool,
    last: Last,
    /// Whether the server has asked for a body that waits.
    continued: bool,
    /// Whether it has said something before the answer itself: 100, 103.
    informed: bool,
    /// The begin of a head whose end has not come; empty, and without memory, almost always.
    stash: Vec<u8>,
}

impl Reader {
    /// Moves what was kept of an unfinished head to the front of `buf`, where the next read continues it.
    pub(crate) fn unstash(&mut self, buf: &mut [u8]) -> usize {
        let kept = self.stash.len();
        buf[..kept].copy_from_slice(&self.stash);
        self.stash.clear();
        kept
    }

    /// What comes after the answer to an upgrade are frames.
    pub(super) fn begin_messages(&mut self) {
        self.part = Part::Frames(Frames::default());
    }

    /// The frames of a connection that was upgraded.
    pub(super) fn frames(&mut self) -> &mut Frames {
        if !matches!(self.part, Part::Frames(_)) {
            self.begin_messages();
        }
        let Part::Frames(frames) = &mut self.part else { unreachable!("it was made so above") };
        frames
    }

    /// Whether the server has asked for the body since this was last called.
    pub(crate) fn take_continued(&mut self) -> bool {
        std::mem::take(&mut self.continued)
    }

    /// Whether nothing of the next answer has come.
    #[inline]
    pub(crate) fn is_between_answers(&self) -> bool {
        matches!(self.part, Part::Head) && self.stash.is_empty()
    }

    /// Whether the server has said anything to the oldest request.
    pub(crate) fn has_begun(&self) -> bool {
        self.informed || !self.is_between_answers()
    }

    /// Keeps the rest of a buffer that [`Reader::next`] had no use for.
    pub(crate) fn stash(&mut self, rest: &[u8]) {
        self.stash.extend_from_slice(rest);
    }

    /// The next complete answer in `buf` from `at` on; `at` moves past what was used, and `heard` is given it.
    #[inline]
    pub(super) fn next<B: Body>(
        &mut self,
        buf: &[u8],
        at: &mut usize,
        heads: &mut Heads,
        mut heard: Option<&mut B>,
    ) -> Result<Option<Answer>, Malformed> {
        // What comes with the end of an answer may be more of it; what comes later is of another.
        let last = if *at == 0 { Last::Nothing } else { self.last };
        while *at < buf.len() {
            let complete = match &mut self.part {
                Part::Head => match self::head(heads, &buf[*at..], last)? {
                    None => return Ok(None),
                    Some(head) => {
                        self.last = Last::of(head.framing);
                        if let Some(heard) = &mut heard {
                            heard.begin(head.status, &buf[*at..*at + head.head_bytes]);
                        }
                        *at += head.head_bytes;
                        self.begin_body(&head)?
                    }
                },
                Part::Frames(_) => return Ok(None),
                Part::Length(left) => skip(left, buf, at, heard.as_deref_mut()),
                Part::Chunked(decoder) => decode(decoder, buf, at, heard.as_deref_mut())?,
                Part::UntilClose => {
                    let mut endless = u64::MAX;
                    skip(&mut endless, buf, at, heard.as_deref_mut())
                }
            };
            if complete {
                self.part = Part::Head;
                return Ok(Some(Answer { status: self.status, keep_alive: self.keep_alive }));
            }
        }
        Ok(None)
    }

    /// Whether the answer is complete with its head.
    #[inline]
    fn begin_body(&mut self, head: &ResponseHead) -> Result<bool, Malformed> {
        const CONTINUE: u16 = 100;
        const SWITCHING_PROTOCOLS: u16 = 101;
        if head.status < 200 {
            self.continued |= head.status == CONTINUE;
            self.informed = true;
            return if head.status == SWITCHING_PROTOCOLS { Err(Malformed::Switched) } else { Ok(false) };
        }
        (self.status, self.keep_alive, self.informed) = (head.status, head.keep_alive, false);
        self.part = match head.framing {
            Framing::None | Framing::Length(0) => return Ok(true),
            Framing::Length(bytes) => Part::Length(bytes),
            Framing::Chunked => Part::Chunked(ChunkedDecoder::new()),
            Framing::UntilClose => Part::UntilClose,
        };
        Ok(false)
    }

    /// What `surplus` is, which came with the answer that was complete before it, and was not asked for.
    #[cold]
    pub(super) fn surplus(&self, surplus: &[u8], to_head: bool) -> Malformed {
        const BEGIN: &[u8] = b"HTTP/";
        if surplus.starts_with(BEGIN) || BEGIN.starts_with(surplus) {
            return Malformed::Unasked;
        }
        match self.last {
            Last::Head if to_head => Malformed::BodyForHead,
            Last::Head if matches!(self.status, 204 | 304) => Malformed::BodyForNone(self.status),
            Last::Chunk => Malformed::AfterLastChunk,
            Last::Head | Last::Length | Last::Nothing => Malformed::Longer,
        }
    }

    /// Whether the end of the connection completes the answer.
    pub(super) fn ends_with_connection(&self) -> bool {
        matches!(self.part, Part::UntilClose)
    }

    /// The answer that the end of the connection completes, if it does.
    pub(crate) fn end(&mut self) -> Option<Answer> {
        self.ends_with_connection().then_some(Answer { status: self.status, keep_alive: false })
    }
}

impl Last {
    fn of(framing: Framing) -> Self {
        match framing {
            Framing::None => Self::Head,
            Framing::Length(_) => Self::Length,
            Framing::Chunked => Self::Chunk,
            Framing::UntilClose => Self::Nothing,
        }
    }
}

/// The head at the begin of `buf`. What is none where an answer has ended before is more of that one.
#[inline]
fn head(heads: &mut Heads, buf: &[u8], last: Last) -> Result<Option<ResponseHead>, Malformed> {
    heads.parse(buf).map_err(|error| match error {
        ResponseError::Version if last == Last::Chunk => Malformed::AfterLastChunk,
        ResponseError::Version if last == Last::Length => Malformed::Longer,
        ResponseError::Reason | ResponseError::Status => bare_end(buf).unwrap_or(error.into()),
        _ => error.into(),
    })
}

/// A line end of the head at the begin of `buf` that is half a one.
#[cold]
fn bare_end(buf: &[u8]) -> Option<Malformed> {
    let line = buf.iter().position(|byte| matches!(byte, b'\r' | b'\n'))?;
    match (buf[line], buf.get(line + 1)) {
        (b'\n', _) => Some(Malformed::BareLf),
        (_, Some(next)) if *next != b'\n' => Some(Malformed::BareCr),
        _ => None,
    }
}

/// Passes over bytes of a body; true at its end.
#[inline]
fn skip<B: Body>(left: &mut u64, buf: &[u8], at: &mut usize, heard: Option<&mut B>) -> bool {
    let there = (buf.len() - *at) as u64;
    let taken = there.min(*left);
    let from = *at;
    *left -= taken;
    *at += taken as usize;
    if let Some(heard) = heard {
        heard.more(&buf[from..*at]);
    }
    *left == 0
}

fn decode<B: Body>(
    decoder: &mut ChunkedDecoder,
    buf: &[u8],
    at: &mut usize,
    heard: Option<&mut B>,
) -> Result<bool, ChunkError> {
    let step = decoder.decode(&buf[*at..])?;
    if let (Some(heard), Event::Data(data)) = (heard, &step.event) {
        heard.more(&buf[*at + data.start..*at + data.end]);
    }
    *at += step.consumed;
    Ok(step.event == Event::Done)
}
