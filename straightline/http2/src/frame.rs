//! Frames: their kinds and flags, and how they are written.
//!
//! Source: RFC 9113, sections 4 and 6.

/// Length of what every frame begins with, in bytes.
pub const HEAD_BYTES: usize = 9;
/// Longest payload that an endpoint takes unless it says otherwise, and that is sent, in bytes.
pub const PAYLOAD_BYTES: usize = 16 * 1024;
/// Largest window, in bytes.
pub const WINDOW_MAX: i64 = (1 << 31) - 1;
/// Window that every stream and connection begins with, in bytes.
pub const WINDOW_BEGINS: i64 = 65_535;
/// The bits of an identifier; the first of the 32 says nothing.
pub const STREAM_MASK: u32 = (1 << 31) - 1;

/// Bytes of a body.
pub const DATA: u8 = 0;
/// Compressed fields.
pub const HEADERS: u8 = 1;
/// What nobody minds any more.
pub const PRIORITY: u8 = 2;
/// The end of a stream, now.
pub const RST_STREAM: u8 = 3;
/// What an endpoint takes.
pub const SETTINGS: u8 = 4;
/// An answer to a request that was not made; a client sends none.
pub const PUSH_PROMISE: u8 = 5;
/// Are you there?
pub const PING: u8 = 6;
/// The end of a connection.
pub const GOAWAY: u8 = 7;
/// Leave to send more.
pub const WINDOW_UPDATE: u8 = 8;
/// More compressed fields.
pub const CONTINUATION: u8 = 9;

/// Flag of SETTINGS and PING: an answer.
pub const ACK: u8 = 0x1;
/// Flag of DATA and HEADERS: nothing follows on the stream.
pub const END_STREAM: u8 = 0x1;
/// Flag of HEADERS and CONTINUATION: the fields are whole.
pub const END_HEADERS: u8 = 0x4;
/// Flag of DATA and HEADERS: the payload begins with the length of its padding.
pub const PADDED: u8 = 0x8;
/// Flag of HEADERS: five bytes of priority come before the fields.
pub const PRIORITIZED: u8 = 0x20;

/// Why a stream or a connection ends.
///
/// Source: RFC 9113, section 7.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ErrorCode {
    /// Nothing is wrong.
    NoError = 0x0,
    /// The protocol was not kept.
    ProtocolError = 0x1,
    /// The endpoint itself failed.
    InternalError = 0x2,
    /// More was sent than the window allowed.
    FlowControlError = 0x3,
    /// Settings were not acknowledged in time.
    SettingsTimeout = 0x4,
    /// A frame came on a stream that was ended.
    StreamClosed = 0x5,
    /// A frame has a length that it cannot have.
    FrameSizeError = 0x6,
    /// The stream was not looked at, and may be asked again.
    RefusedStream = 0x7,
    /// Nobody needs the stream any more.
    Cancel = 0x8,
    /// The compressed fields stand for nothing.
    CompressionError = 0x9,
    /// A tunnel broke.
    ConnectError = 0xa,
    /// The peer asks for too much.
    EnhanceYourCalm = 0xb,
    /// The way is not safe enough.
    InadequateSecurity = 0xc,
    /// HTTP/1.1 is asked for.
    Http11Required = 0xd,
}

/// What a frame begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead {
    /// Length of the payload in bytes.
    pub length: usize,
    /// Which frame it is.
    pub kind: u8,
    /// Flags, by kind.
    pub flags: u8,
    /// The stream it belongs to; 0 for the connection.
    pub stream: u32,
}

impl FrameHead {
    /// Reads it; `None` if `bytes` are too few.
    #[inline]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let [a, b, c, kind, flags, stream @ ..] = bytes.first_chunk::<HEAD_BYTES>()?;
        let length = usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c);
        Some(Self { length, kind: *kind, flags: *flags, stream: u32::from_be_bytes(*stream) & STREAM_MASK })
    }

    /// Whether a flag is set.
    #[inline]
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Its payload without the padding.
    ///
    /// # Errors
    ///
    /// The code and the reason with which the connection is to end, if the padding does not fit.
    pub fn unpadded<'p>(&self, payload: &'p [u8]) -> Result<&'p [u8], (ErrorCode, &'static str)> {
        if !self.has(PADDED) {
            return Ok(payload);
        }
        let (padding, rest) =
            payload.split_first().ok_or((ErrorCode::FrameSizeError, "a padded frame is empty"))?;
        let length = rest.len().checked_sub(usize::from(*padding));
        let too_long = (ErrorCode::ProtocolError, "the padding is longer than its frame");
        length.map(|length| &rest[..length]).ok_or(too_long)
    }
}

/// Appends the head of a frame.
#[inline]
pub fn head(out: &mut Vec<u8>, length: usize, kind: u8, flags: u8, stream: u32) {
    let [_, a, b, c] = (length as u32).to_be_bytes();
    let [d, e, f, g] = stream.to_be_bytes();
    out.extend_from_slice(&[a, b, c, kind, flags, d, e, f, g]);
}

/// Appends a frame.
#[inline]
pub fn whole(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    head(out, payload.len(), kind, flags, stream);
    out.extend_from_slice(payload);
}

/// Appends the end of a stream.
pub fn reset(out: &mut Vec<u8>, stream: u32, code: ErrorCode) {
    whole(out, RST_STREAM, 0, stream, &(code as u32).to_be_bytes());
}

/// Appends leave to send `bytes` more.
pub fn window_update(out: &mut Vec<u8>, stream: u32, bytes: u32) {
    whole(out, WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes());
}

/// Appends the end of the connection, and why.
pub fn goaway(out: &mut Vec<u8>, last: u32, code: ErrorCode, why: &str) {
    head(out, 8 + why.len(), GOAWAY, 0, 0);
    out.extend_from_slice(&last.to_be_bytes());
    out.extend_from_slice(&(code as u32).to_be_bytes());
    out.extend_from_slice(why.as_bytes());
}

/// Appends compressed fields, in as many frames as they take.
pub fn fields(out: &mut Vec<u8>, stream: u32, end_stream: bool, block: &[u8]) {
    let mut pieces = block.chunks(PAYLOAD_BYTES).peekable();
    let (mut kind, mut flags) = (HEADERS, if end_stream { END_STREAM } else { 0 });
    while let Some(piece) = pieces.next() {
        let last = if pieces.peek().is_none() { END_HEADERS } else { 0 };
        whole(out, kind, flags | last, stream, piece);
        (kind, flags) = (CONTINUATION, 0);
    }
}
