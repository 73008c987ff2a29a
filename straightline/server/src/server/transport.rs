//! How bytes get from and to a socket: as they are, or encrypted.

use super::conn::Io;
#[cfg(feature = "tls")]
use super::tls::Tls;
use crate::rt::sys;
use rustix::fd::OwnedFd;

/// What was agreed on before the first byte of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Agreed {
    Nothing,
    #[cfg(feature = "tls")]
    Http1,
    #[cfg(feature = "tls")]
    Http2,
}

/// The way between a connection and its socket. No call blocks.
pub(crate) enum Transport {
    Plain,
    #[cfg(feature = "tls")]
    Tls(Box<Tls>),
}

impl Transport {
    /// Whether bytes go out as they are.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self, Self::Plain)
    }

    #[inline]
    pub(crate) fn recv(&self, socket: &OwnedFd, into: &mut [u8]) -> Io {
        match self {
            Self::Plain => sys::recv(socket, into),
            #[cfg(feature = "tls")]
            Self::Tls(tls) => tls.recv(socket, into),
        }
    }

    /// Whether a read that filled less than its buffer left nothing behind.
    #[inline]
    pub(crate) fn is_drained(&self) -> bool {
        // A record that was read gives no more than itself, though the next may be there already.
        self.is_plain()
    }

    /// Whether bytes came that are the beginning of something, and nothing for the connection yet.
    #[inline]
    pub(crate) fn is_amid(&self) -> bool {
        match self {
            Self::Plain => false,
            #[cfg(feature = "tls")]
            Self::Tls(tls) => tls.is_amid(),
        }
    }

    /// Which protocol the client agreed to by ALPN, once bytes came.
    pub(crate) fn agreed_on(&self) -> Agreed {
        match self {
            Self::Plain => Agreed::Nothing,
            #[cfg(feature = "tls")]
            Self::Tls(tls) if tls.is_http2() => Agreed::Http2,
            #[cfg(feature = "tls")]
            Self::Tls(_) => Agreed::Http1,
        }
    }

    #[inline]
    pub(crate) fn send(&self, socket: &OwnedFd, bytes: &[u8]) -> Io {
        match self {
            Self::Plain => sys::send(socket, bytes),
            #[cfg(feature = "tls")]
            Self::Tls(tls) => tls.send(socket, bytes),
        }
    }

    /// Sends `first`, then `second`, as one.
    pub(crate) fn send_two(&self, socket: &OwnedFd, first: &[u8], second: &[u8]) -> Io {
        match self {
            Self::Plain if first.is_empty() => sys::send(socket, second),
            Self::Plain => sys::send_two(socket, first, second),
            #[cfg(feature = "tls")]
            Self::Tls(tls) if first.is_empty() => tls.send(socket, second),
            #[cfg(feature = "tls")]
            Self::Tls(tls) => tls.send(socket, first),
        }
    }

    /// Sends what the way itself holds back; whether everything went.
    #[inline]
    #[cfg_attr(
        not(feature = "tls"),
        expect(unused_variables, reason = "what goes out as it is, is not held back")
    )]
    pub(crate) fn flush(&self, socket: &OwnedFd) -> sys::Result<bool> {
        match self {
            Self::Plain => Ok(true),
            #[cfg(feature = "tls")]
            Self::Tls(tls) => tls.flush(socket),
        }
    }

    /// Whether the way moved anything since that was last asked; `None` if it holds nothing back.
    #[inline]
    pub(crate) fn take_moved(&self) -> Option<bool> {
        match self {
            Self::Plain => None,
            #[cfg(feature = "tls")]
            Self::Tls(tls) => Some(tls.take_moved()),
        }
    }

    /// Says that nothing more will come, as far as the way has words for it.
    #[cfg_attr(
        not(feature = "tls"),
        expect(unused_variables, reason = "the end of a plain stream says it all")
    )]
    pub(crate) fn say_goodbye(&self, socket: &OwnedFd) {
        match self {
            Self::Plain => {}
            #[cfg(feature = "tls")]
            Self::Tls(tls) => tls.say_goodbye(socket),
        }
    }
}
