//! Messages to and from the server over one connection.

use super::error::{Error, ServerError};
use super::patience::Patience;
use crate::rt::waker::is_timeout;
use crate::rt::{TcpStream, sys};
use bytes::{Buf, BytesMut};
use postgres_protocol::message::backend::{Header, Message};
use postgres_protocol::message::frontend;
use rustix::io::Errno;
use std::fmt;
use std::io::{self, Read, Write};

/// Most bytes of one message of the server, a row, say: one of this size is a mistake that must not take the memory of all
/// others.
pub(super) const MESSAGE_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Most bytes of a message that PostgreSQL can make.
///
/// Source: `MaxAllocSize` of its `memutils.h`.
const SENT_BYTES_MAX: usize = 0x3fff_ffff;
/// Room for one read in bytes: what a small answer takes in one.
const READ_BYTES: usize = 8 * 1024;
/// Memory for output that is kept, in bytes; what one large parameter took is given back.
const KEPT_BYTES: usize = 64 * 1024;

/// The bytes below the messages.
pub(super) enum Stream {
    Plain(TcpStream),
    Tls(Box<rustls::StreamOwned<rustls::ClientConnection, TcpStream>>),
}

impl Stream {
    pub(super) fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(tls) => &tls.sock,
        }
    }

    /// Whether bytes were received and decrypted that nobody has read.
    fn holds_bytes(&mut self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(tls) => {
                tls.conn.process_new_packets().is_ok_and(|state| state.plaintext_bytes_to_read() > 0)
            }
        }
    }

    pub(super) fn is_tls(&self) -> bool {
        matches!(self, Self::Tls(_))
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(into),
            Self::Tls(tls) => tls.read(into),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(bytes),
            Self::Tls(tls) => tls.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Tls(tls) => tls.flush(),
        }
    }
}

/// A message of an answer.
pub(super) enum Said {
    /// The values were taken.
    Bound,
    /// The statement was run, and changed or gave as many rows.
    Done(u64),
    /// The server is ready for the next statement, in a transaction or not.
    Ready(u8),
    /// Any other.
    Other(Message),
}

/// Messages over a stream.
pub(super) struct Wire {
    pub(super) stream: Stream,
    input: BytesMut,
    scratch: Box<[u8; READ_BYTES]>,
    /// Messages that wait to be sent.
    pub(super) output: BytesMut,
}

impl fmt::Debug for Wire {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Wire").field("socket", self.stream.socket()).finish_non_exhaustive()
    }
}

impl Wire {
    pub(super) fn over(stream: Stream) -> Self {
        let scratch = Box::new([0; READ_BYTES]);
        Self { stream, input: BytesMut::new(), scratch, output: BytesMut::new() }
    }

    /// Sends what waits to be sent.
    pub(super) fn send(&mut self, patience: &Patience<'_>) -> Result<(), Error> {
        self.stream.socket().set_write_timeout(patience.left()?);
        let sent = self.stream.write_all(&self.output).and_then(|()| self.stream.flush());
        self.output.clear();
        if self.output.capacity() > KEPT_BYTES {
            self.output = BytesMut::new();
        }
        // Nobody knows how much of it went: there is no going on after any failure.
        sent.map_err(|error| match is_timeout(&error) {
            true => Error::Lost(error),
            false => Error::of_stream(error),
        })
    }

    /// The next message that is about what was asked.
    pub(super) fn next(&mut self, patience: &Patience<'_>) -> Result<Message, Error> {
        loop {
            match self.parse()? {
                Some(message) if comes_at_any_time(&message) => {}
                Some(message) => return Ok(message),
                None => self.fill(patience)?,
            }
        }
    }

    /// The same, with what every answer says read where it lies.
    pub(super) fn next_of_answer(&mut self, patience: &Patience<'_>) -> Result<Said, Error> {
        loop {
            if let Some((said, bytes)) = brief(&self.input) {
                self.input.advance(bytes);
                return Ok(said);
            }
            match self.parse()? {
                Some(message) if comes_at_any_time(&message) => {}
                Some(message) => return Ok(Said::Other(message)),
                None => self.fill(patience)?,
            }
        }
    }

    fn parse(&mut self) -> Result<Option<Message>, Error> {
        let not_ours = |error: io::Error| Error::Protocol(error.to_string());
        let Some(header) = Header::parse(&self.input).map_err(not_ours)? else { return Ok(None) };
        let bytes = usize::try_from(header.len()).unwrap_or(usize::MAX);
        if bytes > SENT_BYTES_MAX {
            return Err(Error::Protocol(format!("a message of {bytes} bytes")));
        }
        if bytes > MESSAGE_BYTES_MAX {
            return Err(Error::TooLarge(bytes));
        }
        // The parser would set all of that aside before it came.
        if self.input.len() <= bytes {
            return Ok(None);
        }
        Message::parse(&mut self.input).map_err(not_ours)
    }

    fn fill(&mut self, patience: &Patience<'_>) -> Result<(), Error> {
        let mut waited = false;
        loop {
            self.stream.socket().set_read_timeout(patience.next_wait(waited)?);
            match self.stream.read(&mut *self.scratch) {
                Ok(0) => return Err(Error::Closed(None)),
                Ok(count) => {
                    self.input.extend_from_slice(&self.scratch[..count]);
                    return Ok(());
                }
                Err(error) if is_timeout(&error) => waited = true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::of_stream(error)),
            }
        }
    }

    /// Waits for the end of the stream, whatever comes before.
    pub(super) fn until_end(&mut self, patience: &Patience<'_>) -> Result<(), Error> {
        loop {
            match self.fill(patience) {
                Ok(()) => self.input.clear(),
                Err(Error::Closed(_) | Error::Lost(_)) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Nothing is left of the last answer but what comes at any time. What the server says beyond it belongs to no statement, and
    /// would be taken for the answer to the next.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`] if it says why it closes; [`Error::Protocol`].
    pub(super) fn end_of_answers(&mut self) -> Result<(), Error> {
        while !self.is_empty() {
            match self.parse()? {
                Some(message) if comes_at_any_time(&message) => {}
                Some(Message::ErrorResponse(body)) => return Err(Error::Closed(Some(server_error(&body)?))),
                None if self.input.first().is_some_and(|kind| AT_ANY_TIME.contains(kind)) => return Ok(()),
                _ => return Err(Error::Protocol("an answer that nobody asked for".to_owned())),
            }
        }
        Ok(())
    }

    /// Whether all that was received was read. What TLS holds back comes to the rest.
    pub(super) fn is_empty(&mut self) -> bool {
        while self.input.is_empty() && self.stream.holds_bytes() {
            match self.stream.read(&mut *self.scratch) {
                Ok(count @ 1..) => self.input.extend_from_slice(&self.scratch[..count]),
                _ => break,
            }
        }
        self.input.is_empty()
    }

    /// Whether the server is there and has said nothing that nobody asked for, up to this moment: a look at the socket, which
    /// takes less than a hundredth of a statement.
    pub(super) fn is_quiet(&mut self) -> bool {
        self.is_empty() && matches!(sys::peek(self.stream.socket()), Err(Errno::AGAIN))
    }

    /// Tells the server that this was all, if that can be told without waiting.
    pub(super) fn say_goodbye(&mut self) {
        if let Stream::Plain(socket) = &self.stream {
            let mut farewell = BytesMut::new();
            frontend::terminate(&mut farewell);
            sys::send(socket, &farewell).ok();
        }
    }
}

/// The message at the beginning of `input` and its bytes, if it is there as a whole and is one of those that every answer has.
fn brief(input: &[u8]) -> Option<(Said, usize)> {
    let (&[kind, ref length @ ..], rest) = input.split_first_chunk::<5>()?;
    // The length counts itself.
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    let said = match (kind, rest.get(..length.checked_sub(4)?)?) {
        (b'2', []) => Said::Bound,
        (b'Z', &[status]) => Said::Ready(status),
        (b'C', [tag @ .., 0]) => Said::Done(count_of(tag)?),
        _ => return None,
    };
    Some((said, 1 + length))
}

/// The number at the end of `INSERT 0 5`, `SELECT 5`.
fn count_of(tag: &[u8]) -> Option<u64> {
    let digits = tag.rsplit(|byte| *byte == b' ').next().filter(|digits| !digits.is_empty())?;
    digits.iter().try_fold(0_u64, |count, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        count.checked_mul(10)?.checked_add(digit)
    })
}

/// How the messages of [`comes_at_any_time`] begin.
///
/// Source: PostgreSQL 15, section 55.7: `NoticeResponse`, `ParameterStatus`, `NotificationResponse`.
const AT_ANY_TIME: &[u8] = b"NSA";

/// Notices, settings that changed, and what other sessions tell.
fn comes_at_any_time(message: &Message) -> bool {
    matches!(
        message,
        Message::NoticeResponse(_) | Message::ParameterStatus(_) | Message::NotificationResponse(_)
    )
}

/// What the server said in an error.
pub(super) fn server_error(
    body: &postgres_protocol::message::backend::ErrorResponseBody,
) -> Result<Box<ServerError>, Error> {
    match ServerError::read(body.fields()) {
        Ok(said) => Ok(Box::new(said)),
        Err(error) => Err(Error::Protocol(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::{Said, brief};

    #[test]
    fn what_every_answer_says_is_read_when_it_is_there_as_a_whole() {
        let said = |input: &[u8]| match brief(input) {
            Some((Said::Bound, bytes)) => format!("bound {bytes}"),
            Some((Said::Done(rows), bytes)) => format!("done {rows} {bytes}"),
            Some((Said::Ready(status), bytes)) => format!("ready {} {bytes}", char::from(status)),
            Some((Said::Other(_), _)) | None => "other".to_owned(),
        };
        assert_eq!(said(b"2\0\0\0\x04Z"), "bound 5");
        assert_eq!(said(b"Z\0\0\0\x05T2"), "ready T 6");
        assert_eq!(said(b"C\0\0\0\x0dSELECT 7\0"), "done 7 14");
        assert_eq!(said(b"C\0\0\0\x10INSERT 0 123\0"), "other", "cut short");
        assert_eq!(said(b"C\0\0\0\x11INSERT 0 123\0"), "done 123 18");
        for other in [
            &b""[..],
            b"2\0\0\0",
            b"2\0\0\0\x03",
            b"2\0\0\0\x05x",
            b"2\xff\xff\xff\xff",
            b"Z\0\0\0\x05",
            b"C\0\0\0\x0aBEGIN\0",
            b"C\0\0\0\x05\0",
            b"C\0\0\0\x0dSELECT 7x",
            b"C\0\0\0\x1aX 99999999999999999999\0",
            b"D\0\0\0\x04",
        ] {
            assert_eq!(said(other), "other", "{other:?}");
        }
    }
}
