//! How bytes get from and to a socket. As they are; an encrypted way would be another variant.

use super::conn::Io;
use crate::rt::sys;
use rustix::fd::OwnedFd;

/// The way between a connection and its socket. No call blocks.
pub(crate) enum Transport {
    Plain,
}

impl Transport {
    #[inline]
    pub(crate) fn recv(&self, socket: &OwnedFd, into: &mut [u8]) -> Io {
        match self {
            Self::Plain => sys::recv(socket, into),
        }
    }

    /// Whether a read that filled less than its buffer left nothing behind.
    #[inline]
    pub(crate) fn is_drained(&self) -> bool {
        match self {
            Self::Plain => true,
        }
    }

    #[inline]
    pub(crate) fn send(&self, socket: &OwnedFd, bytes: &[u8]) -> Io {
        match self {
            Self::Plain => sys::send(socket, bytes),
        }
    }

    /// Sends `first`, then `second`, as one.
    pub(crate) fn send_two(&self, socket: &OwnedFd, first: &[u8], second: &[u8]) -> Io {
        match self {
            Self::Plain if first.is_empty() => sys::send(socket, second),
            Self::Plain => sys::send_two(socket, first, second),
        }
    }

    /// Sends what the way itself holds back; whether everything went.
    #[inline]
    pub(crate) fn flush(&self, _socket: &OwnedFd) -> sys::Result<bool> {
        match self {
            Self::Plain => Ok(true),
        }
    }

    /// Says that nothing more will come, as far as the way has words for it.
    pub(crate) fn say_goodbye(&self, _socket: &OwnedFd) {
        match self {
            Self::Plain => {}
        }
    }
}
