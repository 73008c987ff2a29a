//! Why a request is refused.

use crate::field::FieldError;
use std::fmt;

/// Why a request head is refused. The connection must be closed after the answer: where the next request begins
/// cannot be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// The request does not begin with a token and one space.
    Method,
    /// The target is empty, has a character that none can have, or has not the form that its method asks for.
    Target,
    /// A byte above 127 in the target.
    TargetNotAscii,
    /// A `#` in the target: fragments stay with the client.
    TargetFragment,
    /// An `@` in the authority of the target: names and passwords do not belong there.
    TargetUserInfo,
    /// The target is longer than [`crate::HeadLimits::target_bytes`].
    TargetTooLong,
    /// The request line does not end with one space, a version and CRLF.
    Version,
    /// A version of HTTP other than 1.x.
    VersionUnsupported,
    /// The head is longer than [`crate::HeadLimits::head_bytes`].
    HeadTooLong,
    /// There are more fields than [`crate::HeadLimits::headers`], or than there are slots.
    TooManyHeaders,
    /// No `Host` on HTTP/1.1.
    HostMissing,
    /// More than one `Host`.
    HostRepeated,
    /// A `Host` that is not a host, or a host and a port.
    HostInvalid,
    /// A field line, or what the framing fields say together.
    Field(FieldError),
}

impl RequestError {
    /// The status to answer with before closing: 400, 414, 431, 501 or 505.
    pub const fn status(self) -> u16 {
        match self {
            Self::TargetTooLong => 414,
            Self::HeadTooLong | Self::TooManyHeaders => 431,
            Self::Field(FieldError::TransferEncodingUnknown) => 501,
            Self::VersionUnsupported => 505,
            _ => 400,
        }
    }
}

impl From<FieldError> for RequestError {
    fn from(error: FieldError) -> Self {
        Self::Field(error)
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Method => "the request does not begin with a method and one space",
            Self::Target => "the target is malformed",
            Self::TargetNotAscii => "the target has a byte that is not ASCII",
            Self::TargetFragment => "the target has a fragment",
            Self::TargetUserInfo => "the target has user information",
            Self::TargetTooLong => "the target is too long",
            Self::Version => "the request line does not end with one space, a version and CRLF",
            Self::VersionUnsupported => "the version is not HTTP/1.x",
            Self::HeadTooLong => "the head is too long",
            Self::TooManyHeaders => "there are too many header fields",
            Self::HostMissing => "Host is missing",
            Self::HostRepeated => "Host is given more than once",
            Self::HostInvalid => "Host is not a host with or without a port",
            Self::Field(error) => return error.fmt(out),
        })
    }
}

impl std::error::Error for RequestError {}
