//! One connection's way to its server: bytes as they are, or through TLS or QUIC.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;

use super::quic::Quic;
use super::secured::Secured;
use super::socket::{self, Moved};
use super::stamps::Stamps;
use crate::Address;
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
    Quic(Box<Quic>),
}

impl Link {
    /// On a socket to `address` of the kind that `client` asks for.
    pub(crate) fn new(socket: OwnedFd, client: Option<&Client>, address: &Address) -> Result<Self, Refusal> {
        Ok(match (client, client.and_then(|client| client.quic.as_ref()), address) {
            (None, ..) => Self::Plain(socket),
            (_, Some(quic), Address::Tcp(remote)) => Self::Quic(Box::new(Quic::new(socket, quic, *remote)?)),
            (Some(client), ..) => Self::Tls(Box::new(Secured::new(socket, client)?)),
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
            Self::Quic(quic) => quic.establish(),
        }
    }

    /// The socket has something new to say.
    #[inline]
    pub(crate) fn rouse(&mut self) {
        match self {
            Self::Plain(_) => {}
            Self::Tls(secured) => secured.rouse(),
            Self::Quic(quic) => quic.rouse(),
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
            Self::Quic(quic) => quic.read(buf),
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
            Self::Quic(quic) => quic.write(buf),
        }
    }

    /// Sends what TLS or QUIC still holds.
    #[inline]
    pub(crate) fn flush(&mut self) {
        match self {
            Self::Plain(_) => {}
            Self::Tls(secured) => secured.flush(),
            Self::Quic(quic) => quic.flush(),
        }
    }

    /// Does what is due by itself; true if something was.
    pub(crate) fn tick(&mut self) -> bool {
        match self {
            Self::Plain(_) | Self::Tls(_) => false,
            Self::Quic(quic) => quic.tick(),
        }
    }

    /// When something is due by itself; `u64::MAX` if never.
    pub(crate) fn wake_ns(&mut self) -> u64 {
        match self {
            Self::Plain(_) | Self::Tls(_) => u64::MAX,
            Self::Quic(quic) => quic.wake_ns(),
        }
    }

    /// Why the server broke off an open connection, if it gave a reason.
    pub(crate) fn reason(&self) -> Option<String> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(secured) => secured.reason(),
            Self::Quic(quic) => quic.reason(),
        }
    }
}
