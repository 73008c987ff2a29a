//! gRPC: messages within the body of an answer of HTTP/2, and the status in the fields after it.
//!
//! Source: gRPC over HTTP2, <https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>.

use model::record::GRPC_STATUS;

/// Bytes before each message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;
/// Codes that are defined; each above counts as one of them. Source: gRPC's doc/statuscodes.md.
const LAST_CODE: u16 = 16;
/// Code of what has none of those.
const UNKNOWN: u16 = 2;
/// Status of a call that went well, in the tallies: they know answers by statuses of HTTP.
const WELL: u16 = 200;

/// Why an answer is none of gRPC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GrpcError {
    /// Its fields say that it is something else.
    #[error("the answer is not of gRPC: its content type is not application/grpc")]
    ContentType,
    /// A message is compressed, and no way to do that was agreed on.
    #[error("a message of the answer is compressed, which was not agreed on")]
    Compressed,
    /// The first byte of a message is neither 0 nor 1.
    #[error("a message of the answer begins with {0}, which is neither 0 nor 1")]
    Flag(u8),
    /// The body ends within a message.
    #[error("the answer ends within a message")]
    Cut,
    /// No status came.
    #[error("the answer ends without grpc-status")]
    NoStatus,
    /// The status is no number.
    #[error("grpc-status of the answer is not a number")]
    Status,
    /// A method that does not stream was answered with so many messages.
    #[error("the answer of a method that does not stream holds {0} messages instead of one")]
    Count(u32),
}

/// How many messages answer a call that goes well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answers {
    /// One: the method does not stream.
    One,
    /// Any number: it streams, or nothing is known of it.
    Any,
}

/// Cuts the body of an answer into messages, whose content is passed over.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Messages {
    prefix: [u8; PREFIX_BYTES],
    /// Bytes of the prefix that are there.
    have: usize,
    /// Bytes of the message that are still to come.
    left: u32,
    /// Messages that are over.
    ended: u32,
}

impl Messages {
    /// Takes the next bytes of the body.
    pub(crate) fn take(&mut self, mut bytes: &[u8]) -> Result<(), GrpcError> {
        while !bytes.is_empty() {
            if self.have < PREFIX_BYTES {
                let taken = bytes.len().min(PREFIX_BYTES - self.have);
                self.prefix[self.have..self.have + taken].copy_from_slice(&bytes[..taken]);
                (self.have, bytes) = (self.have + taken, &bytes[taken..]);
                match self.prefix[0] {
                    0 => {}
                    1 => return Err(GrpcError::Compressed),
                    flag => return Err(GrpcError::Flag(flag)),
                }
                if self.have < PREFIX_BYTES {
                    break;
                }
                let [_, length @ ..] = self.prefix;
                self.left = u32::from_be_bytes(length);
            }
            let taken = bytes.len().min(self.left as usize);
            self.left -= taken as u32;
            bytes = &bytes[taken..];
            if self.left == 0 {
                self.have = 0;
                self.ended = self.ended.saturating_add(1);
            }
        }
        Ok(())
    }

    /// The body ends here.
    pub(crate) fn end(&self) -> Result<(), GrpcError> {
        if self.have == 0 { Ok(()) } else { Err(GrpcError::Cut) }
    }

    /// Whether as many came as answer a call with this status, as tallies count it. One that fails needs none.
    pub(crate) fn check(&self, answers: Answers, status: u16) -> Result<(), GrpcError> {
        match answers {
            Answers::One if status == WELL && self.ended != 1 => Err(GrpcError::Count(self.ended)),
            Answers::One | Answers::Any => Ok(()),
        }
    }
}

/// The status of an answer as tallies count it, of its `grpc-status`.
pub(crate) fn status(field: Option<&[u8]>) -> Result<u16, GrpcError> {
    let text = std::str::from_utf8(field.ok_or(GrpcError::NoStatus)?).map_err(|_| GrpcError::Status)?;
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(GrpcError::Status);
    }
    Ok(match text.parse() {
        Ok(0) => WELL,
        Ok(code @ 1..=LAST_CODE) => GRPC_STATUS + code,
        _ => GRPC_STATUS + UNKNOWN,
    })
}

/// Whether a content type is one of gRPC.
pub(crate) fn is_grpc(content_type: Option<&[u8]>) -> bool {
    const GRPC: &[u8] = b"application/grpc";
    content_type.is_some_and(|value| {
        value.strip_prefix(GRPC).is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';' | b' ')))
    })
}

/// A message as it stands in a body, uncompressed; nothing where it is longer than 4 GiB.
#[must_use]
pub fn enveloped(message: &[u8]) -> Option<Vec<u8>> {
    let length = u32::try_from(message.len()).ok()?;
    Some([&[0][..], &length.to_be_bytes(), message].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_counted_wherever_their_bytes_are_cut() {
        let bytes =
            [enveloped(b"").unwrap(), enveloped(&[7; 300]).unwrap(), enveloped(b"a").unwrap()].concat();
        for step in 1..=bytes.len() {
            let mut messages = Messages::default();
            bytes.chunks(step).for_each(|part| messages.take(part).unwrap());
            assert_eq!((messages.ended, messages.end()), (3, Ok(())), "{step}");
        }
        for cut in [1, 4, 6, 100, bytes.len() - 1] {
            let mut messages = Messages::default();
            messages.take(&bytes[..cut]).unwrap();
            assert_eq!(messages.end(), Err(GrpcError::Cut), "{cut}");
        }
    }

    #[test]
    fn what_no_server_may_send_is_refused() {
        assert_eq!(Messages::default().take(&[1, 0, 0, 0, 0]), Err(GrpcError::Compressed));
        assert_eq!(Messages::default().take(b"<"), Err(GrpcError::Flag(b'<')));
        for (field, wanted) in [
            (None, Err(GrpcError::NoStatus)),
            (Some(&b"0"[..]), Ok(200)),
            (Some(b"14"), Ok(1014)),
            (Some(b"17"), Ok(1002)),
            (Some(b"99999999999999999999"), Ok(1002)),
            (Some(b""), Err(GrpcError::Status)),
            (Some(b"-1"), Err(GrpcError::Status)),
            (Some(b"\xff"), Err(GrpcError::Status)),
        ] {
            assert_eq!(status(field), wanted, "{field:?}");
        }
        for (value, wanted) in [
            (None, false),
            (Some("application/grpc"), true),
            (Some("application/grpc+proto"), true),
            (Some("application/grpc-web"), false),
            (Some("text/html"), false),
        ] {
            assert_eq!(is_grpc(value.map(str::as_bytes)), wanted, "{value:?}");
        }
    }
}
