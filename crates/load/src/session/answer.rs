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
    /// A server that has not read what it was sent.
    #[error("the server takes the upgrade to WebSocket without having read our key")]
    WrongAccept,
    /// An answer that is no stream of events where one was asked for.
    #[error("the answer is no stream of events: its content type is not text/event-stream")]
    NoEvents,
    /// A stream with fewer events than asked for.
    #[error("a stream ends before it has had the events that --events asks for")]
    FewEvents,
    /// Bytes that answer nothing.
    #[error("the server answers more often than it is asked")]
    Unasked,
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
        while *at < buf.len() {
            let complete = match &mut self.part {
                Part::Head => match heads.parse(&buf[*at..])? {
                    None => return Ok(None),
                    Some(head) => {
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

    /// The answer that the end of the connection completes, if it does.
    pub(crate) fn end(&mut self) -> Option<Answer> {
        matches!(self.part, Part::UntilClose).then_some(Answer { status: self.status, keep_alive: false })
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
