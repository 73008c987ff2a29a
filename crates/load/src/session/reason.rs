//! What a server itself says of why it fails a request, or ends a connection before its time.

use std::collections::BTreeSet;
use std::fmt;

use model::record::status_name;

/// Different reasons that are kept: what a server says is mostly one thing, and a text may hold something new each time.
const MOST: usize = 4;
/// Characters of a server's own words that are kept.
const MOST_CHARS: usize = 100;

/// Codes of HTTP/2, by their numbers. Source: RFC 9113, section 7.
const HTTP2: [&str; 14] = [
    "NO_ERROR",
    "PROTOCOL_ERROR",
    "INTERNAL_ERROR",
    "FLOW_CONTROL_ERROR",
    "SETTINGS_TIMEOUT",
    "STREAM_CLOSED",
    "FRAME_SIZE_ERROR",
    "REFUSED_STREAM",
    "CANCEL",
    "COMPRESSION_ERROR",
    "CONNECT_ERROR",
    "ENHANCE_YOUR_CALM",
    "INADEQUATE_SECURITY",
    "HTTP_1_1_REQUIRED",
];

/// The first code of HTTP/3, and the names from it on. Source: RFC 9114, section 8.1.
const FIRST_OF_HTTP3: u64 = 0x100;
const HTTP3: [&str; 17] = [
    "H3_NO_ERROR",
    "H3_GENERAL_PROTOCOL_ERROR",
    "H3_INTERNAL_ERROR",
    "H3_STREAM_CREATION_ERROR",
    "H3_CLOSED_CRITICAL_STREAM",
    "H3_FRAME_UNEXPECTED",
    "H3_FRAME_ERROR",
    "H3_EXCESSIVE_LOAD",
    "H3_ID_ERROR",
    "H3_SETTINGS_ERROR",
    "H3_MISSING_SETTINGS",
    "H3_REQUEST_REJECTED",
    "H3_REQUEST_CANCELLED",
    "H3_REQUEST_INCOMPLETE",
    "H3_MESSAGE_ERROR",
    "H3_CONNECT_ERROR",
    "H3_VERSION_FALLBACK",
];

/// The first code with which WebSocket is closed, and the names from it on; one is reserved.
///
/// Source: RFC 6455, section 7.4.1, and IANA's registry of WebSocket close codes.
const FIRST_OF_WEBSOCKET: u64 = 1000;
const WEBSOCKET: [&str; 15] = [
    "Normal Closure",
    "Going Away",
    "Protocol Error",
    "Unsupported Data",
    "reserved",
    "No Status Received",
    "Abnormal Closure",
    "Invalid Payload Data",
    "Policy Violation",
    "Message Too Big",
    "Mandatory Extension",
    "Internal Error",
    "Service Restart",
    "Try Again Later",
    "Bad Gateway",
];

/// By what a server says why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sign {
    /// GOAWAY of HTTP/2.
    Goaway,
    /// RST_STREAM of HTTP/2.
    Reset,
    /// A reset of a stream of HTTP/3.
    Reset3,
    /// A close frame of WebSocket.
    Close,
    /// A status of gRPC other than 0; its code is as tallies count it.
    Call,
}

impl Sign {
    /// How its codes are introduced, the number of the first that has a name, and the names.
    fn codes(self) -> (&'static str, u64, &'static [&'static str]) {
        match self {
            Self::Goaway => ("GOAWAY", 0, &HTTP2),
            Self::Reset => ("RST_STREAM", 0, &HTTP2),
            Self::Reset3 => ("reset of a stream", FIRST_OF_HTTP3, &HTTP3),
            Self::Close => ("close", FIRST_OF_WEBSOCKET, &WEBSOCKET),
            Self::Call => ("grpc-status", 0, &[]),
        }
    }
}

/// One reason.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reason {
    sign: Sign,
    code: u64,
    /// What the server says beside the code.
    words: String,
}

impl Reason {
    /// With what a server says beside its code, of which as much is kept as can be printed.
    pub(super) fn new(sign: Sign, code: u64, words: &[u8]) -> Self {
        let words = String::from_utf8_lossy(words);
        let words = words.chars().filter(|letter| !letter.is_control()).take(MOST_CHARS).collect();
        Self { sign, code, words }
    }

    /// A call that fails, with a message that is percent-encoded. Source: gRPC over HTTP2, "Status-Message".
    pub(super) fn of_call(status: u16, message: &[u8]) -> Self {
        Self::new(Sign::Call, u64::from(status), &decoded(message))
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sign, first, names) = self.sign.codes();
        let name = self.code.checked_sub(first).and_then(|index| names.get(usize::try_from(index).ok()?));
        match (self.sign, name) {
            (Sign::Call, _) => {
                let name = u16::try_from(self.code).map_or_else(|_| self.code.to_string(), status_name);
                write!(f, "{sign} {name}")?;
            }
            (Sign::Close, Some(name)) => write!(f, "{sign} {} {name}", self.code)?,
            (_, Some(name)) => write!(f, "{sign} {name}")?,
            (_, None) => write!(f, "{sign} {}", self.code)?,
        }
        if self.words.is_empty() { Ok(()) } else { write!(f, " \"{}\"", self.words) }
    }
}

/// The bytes that percent-encoded ones stand for; what is not encoded right stands for itself.
fn decoded(text: &[u8]) -> Vec<u8> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let pair = after.first().and_then(digit).zip(after.get(1).and_then(digit));
        (rest, _) = match (first, pair) {
            (b'%', Some((high, low))) => (&after[2..], bytes.push((high << 4 | low) as u8)),
            _ => (after, bytes.push(*first)),
        };
    }
    bytes
}

/// The different reasons that were given in one window, as many as are kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Reasons(BTreeSet<Reason>);

impl Reasons {
    /// One more.
    pub(super) fn add(&mut self, reason: Reason) {
        if self.0.len() < MOST {
            self.0.insert(reason);
        }
    }

    /// Each in words.
    pub(crate) fn words(&self) -> impl Iterator<Item = String> + '_ {
        self.0.iter().map(ToString::to_string)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_said_by_the_name_of_its_code_and_the_words_of_the_server() {
        for (reason, text) in [
            (Reason::new(Sign::Goaway, 11, b"calm down"), "GOAWAY ENHANCE_YOUR_CALM \"calm down\""),
            (Reason::new(Sign::Reset, 7, b""), "RST_STREAM REFUSED_STREAM"),
            (Reason::new(Sign::Reset, 99, b""), "RST_STREAM 99"),
            (Reason::new(Sign::Reset3, 0x10b, b""), "reset of a stream H3_REQUEST_REJECTED"),
            (Reason::new(Sign::Reset3, 7, b""), "reset of a stream 7"),
            (Reason::new(Sign::Close, 1013, b"later\r\n"), "close 1013 Try Again Later \"later\""),
            (Reason::new(Sign::Close, 4000, b"own"), "close 4000 \"own\""),
            (Reason::of_call(1012, b"no%20such%2method"), "grpc-status UNIMPLEMENTED \"no such%2method\""),
            (Reason::of_call(1014, b"\xff"), "grpc-status UNAVAILABLE \"\u{fffd}\""),
        ] {
            assert_eq!(reason.to_string(), text);
        }
    }

    #[test]
    fn of_many_reasons_few_are_kept_and_of_long_words_the_begin() {
        let mut reasons = Reasons::default();
        for code in 0..1_000 {
            reasons.add(Reason::new(Sign::Close, 4_000 + code, &[b'x'; 10_000]));
        }
        let words: Vec<String> = reasons.words().collect();
        assert_eq!(words.len(), MOST);
        assert!(words.iter().all(|text| text.len() < 2 * MOST_CHARS), "{words:?}");
    }
}
