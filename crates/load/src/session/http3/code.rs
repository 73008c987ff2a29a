//! Codes with which streams and connections are given up.
//!
//! Source: RFC 9114, section 8.1; RFC 9204, section 6.

/// Nothing is wrong.
pub(crate) const NO_ERROR: u64 = 0x100;
/// A stream of a kind that the other side may not begin.
pub(super) const STREAM_CREATION: u64 = 0x103;
/// A stream has ended that a connection cannot be without.
pub(super) const CLOSED_CRITICAL_STREAM: u64 = 0x104;
/// A frame that may not be where it is.
pub(super) const FRAME_UNEXPECTED: u64 = 0x105;
/// A frame that is not laid out as its kind is.
pub(super) const FRAME_ERROR: u64 = 0x106;
/// More than we keep.
pub(super) const EXCESSIVE_LOAD: u64 = 0x107;
/// A number of a stream or push that cannot be.
pub(super) const ID_ERROR: u64 = 0x108;
/// Settings that cannot be.
pub(super) const SETTINGS_ERROR: u64 = 0x109;
/// The first frame of the control stream is none of settings.
pub(super) const MISSING_SETTINGS: u64 = 0x10a;
/// The server has not looked at the request.
pub(super) const REQUEST_REJECTED: u64 = 0x10b;
/// We want the answer no more.
pub(crate) const REQUEST_CANCELLED: u64 = 0x10c;
/// The answer is none.
pub(super) const MESSAGE_ERROR: u64 = 0x10e;
/// Fields that cannot be decoded.
pub(super) const DECOMPRESSION_FAILED: u64 = 0x200;
/// Instructions to our decoder that cannot be.
pub(super) const ENCODER_STREAM_ERROR: u64 = 0x201;
/// Instructions to our encoder that cannot be.
pub(super) const DECODER_STREAM_ERROR: u64 = 0x202;

/// What the server did, where the connection is over by `code`.
pub(super) fn words(code: u64) -> &'static str {
    match code {
        STREAM_CREATION => "it begins a stream of a kind that only clients begin",
        CLOSED_CRITICAL_STREAM => "it ends a stream that a connection cannot be without",
        FRAME_UNEXPECTED => "a frame comes where it may not",
        FRAME_ERROR => "a frame is not laid out as its kind is",
        EXCESSIVE_LOAD => "it sends more fields or streams than are kept",
        ID_ERROR => "it names a stream or push that cannot be",
        SETTINGS_ERROR => "its settings cannot be",
        MISSING_SETTINGS => "its control stream does not begin with settings",
        MESSAGE_ERROR => "an answer is malformed",
        DECOMPRESSION_FAILED => "the compressed fields stand for nothing",
        ENCODER_STREAM_ERROR | DECODER_STREAM_ERROR => "its instructions on compressed fields cannot be",
        _ => "it breaks a rule of HTTP/3",
    }
}
