//! Messages to and from the server over one connection.

use super::error::{Error, ServerError};
use super::patience::Patience;
use crate::rt::{TcpStream, sys};
use bytes::BytesMut;
use postgres_protocol::message::backend::{Header, Message};
use postgres_protocol::message::frontend;
use rustix::io::Errno;
use std::fmt;
use std::io::{self, Read, Write};

/// Most bytes of one message of the server: the longest value that PostgreSQL has is 1 GiB, and a row of this size is a
/// mistake that must not take the memory of all others.
const MESSAGE_BYTES_MAX: usize = 256 * 1024 * 1024;
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
        sent.map_err(|error| match error.kind() {
            io::ErrorKind::TimedOut => Error::Lost(error),
            _ => Error::of_stream(error),
        })
    }

    /// The next message that is about what was asked.
    pub(super) fn next(&mut self, patience: &Patience<'_>) -> Result<Message, Error> {
        loop {
            match self.parse()? {
                // Notices, settings that changed, and what other sessions tell come at any time.
                Some(
                    Message::NoticeResponse(_)
                    | Message::ParameterStatus(_)
                    | Message::NotificationResponse(_),
                ) => {}
                Some(message) => return Ok(message),
                None => self.fill(patience)?,
            }
        }
    }

    fn parse(&mut self) -> Result<Option<Message>, Error> {
        let not_ours = |error: io::Error| Error::Protocol(error.to_string());
        let Some(header) = Header::parse(&self.input).map_err(not_ours)? else { return Ok(None) };
        let bytes = usize::try_from(header.len()).unwrap_or(usize::MAX);
        if bytes > MESSAGE_BYTES_MAX {
            return Err(Error::Protocol(format!("a message of {bytes} bytes")));
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
                Err(error) if error.kind() == io::ErrorKind::TimedOut => waited = true,
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

    /// Whether the server is there and has said nothing that nobody asked for.
    pub(super) fn is_quiet(&self) -> bool {
        self.input.is_empty() && matches!(sys::peek(self.stream.socket()), Err(Errno::AGAIN))
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

/// What the server said in an error.
pub(super) fn server_error(
    body: &postgres_protocol::message::backend::ErrorResponseBody,
) -> Result<Box<ServerError>, Error> {
    match ServerError::read(body.fields()) {
        Ok(said) => Ok(Box::new(said)),
        Err(error) => Err(Error::Protocol(error.to_string())),
    }
}
