//! One connection's way to its server: bytes as they are, or through TLS.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;

use super::secured::Secured;
use super::socket::{self, Moved};
use super::stamps::Stamps;
use crate::tls::Client;

/// Why a connection could not be opened.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The system or the server's says so.
    System(io::Error),
    /// TLS, in a sentence.
    Tls(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System(error) => error.fmt(f),
            Self::Tls(why) => why.fmt(f),
        }
    }
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

/// A short read says that nothing is left. Only an end that was announced, which is not repeated, says more.
#[inline]
fn may_have_more(moved: &Moved, room: usize, closing: bool) -> bool {
    matches!(moved, Moved::Bytes(bytes) if closing || *bytes == room)
}

/// A connection that is being opened or is open.
#[derive(Debug)]
pub(crate) enum Link {
    Plain(OwnedFd),
    Tls(Box<Secured>),
}

impl Link {
    pub(crate) fn new(socket: OwnedFd, client: Option<&Client>) -> Result<Self, Refusal> {
        Ok(match client {
            None => Self::Plain(socket),
            Some(client) => Self::Tls(Box::new(Secured::new(socket, client)?)),
        })
    }

    /// Has the kernel stamp what is received, or no more; nothing where bytes are not as they come.
    pub(crate) fn stamp(&self, stamped: bool) {
        if let Self::Plain(socket) = self {
            Stamps::ask(socket, stamped);
        }
    }

    /// Goes on opening after an event; true when bytes can be sent.
    pub(crate) fn establish(&mut self) -> Result<bool, Refusal> {
        match self {
            Self::Plain(socket) => Ok(socket::connected(socket).map(|()| true)?),
            Self::Tls(secured) => {
                socket::connected(secured.socket())?;
                secured.shake()
            }
        }
    }

    /// The socket has something new to say.
    #[inline]
    pub(crate) fn rouse(&mut self) {
        if let Self::Tls(secured) = self {
            secured.rouse();
        }
    }

    /// Reads once, and says whether there may be more. `closing` says that the end was announced.
    #[inline]
    pub(crate) fn read(&mut self, buf: &mut [u8], closing: bool) -> (Moved, bool) {
        match self {
            Self::Plain(socket) => {
                let moved = socket::read(socket, buf);
                let more = may_have_more(&moved, buf.len(), closing);
                (moved, more)
            }
            Self::Tls(secured) => secured.read(buf, closing),
        }
    }

    /// The same, and when the kernel received the last byte of it, where that is known.
    #[inline]
    pub(crate) fn read_stamped(
        &mut self,
        stamps: Option<&mut Stamps>,
        buf: &mut [u8],
        closing: bool,
    ) -> (Moved, bool, Option<u64>) {
        match (self, stamps) {
            (Self::Plain(socket), Some(stamps)) => {
                let (moved, at) = stamps.read(socket, buf);
                let more = may_have_more(&moved, buf.len(), closing);
                (moved, more, at)
            }
            (link, _) => {
                let (moved, more) = link.read(buf, closing);
                (moved, more, None)
            }
        }
    }

    #[inline]
    pub(crate) fn write(&mut self, buf: &[u8]) -> Moved {
        match self {
            Self::Plain(socket) => socket::write(socket, buf),
            Self::Tls(secured) => secured.write(buf),
        }
    }

    /// Sends what TLS still holds of earlier writes.
    #[inline]
    pub(crate) fn flush(&mut self) {
        if let Self::Tls(secured) = self {
            secured.flush();
        }
    }

    /// Why the server broke off an open connection, if it gave a reason.
    pub(crate) fn reason(&self) -> Option<String> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(secured) => secured.reason(),
        }
    }
}
