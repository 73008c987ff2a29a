//! What can go wrong before a server runs, and what a handler's error may say.

use crate::rt::is_cancelled;
use std::fmt;
use std::io;
use std::net::SocketAddr;

/// Why a server does not start.
#[derive(Debug)]
pub enum Error {
    /// The address is malformed or its name does not resolve.
    Address(io::Error),
    /// Somebody listens on this port already.
    PortInUse(SocketAddr),
    /// The address is not one of this machine.
    NotOurAddress(SocketAddr),
    /// The port is below 1024, say, and the process may not have it.
    NotPermitted(SocketAddr),
    /// The address could not be bound for another reason.
    Bind {
        /// What was asked for.
        address: SocketAddr,
        /// What the kernel said.
        cause: io::Error,
    },
    /// The service manager handed over no listening socket.
    NoSocketHandedOver,
    /// The socket is no listening one: that of a connection, say.
    NotListening,
    /// A limit that lets nothing through, or more than there can be.
    Limit {
        /// Which one.
        name: &'static str,
        /// What it may be.
        range: &'static str,
    },
    /// [`Server::threads`](crate::Server::threads) together with `h2` among the protocols that TLS offers.
    Http2OnThreads,
    /// The kernel refused a descriptor, memory or a thread.
    Io(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(cause) => write!(out, "this is no address: {cause}"),
            Self::PortInUse(address) => write!(out, "{address} is in use: somebody listens there already"),
            Self::NotOurAddress(address) => write!(out, "{address} is not an address of this machine"),
            Self::NotPermitted(address) => write!(out, "{address} may not be bound by this user"),
            Self::Bind { address, cause } => write!(out, "{address} cannot be bound: {cause}"),
            Self::NoSocketHandedOver => out.write_str(
                "no listening socket was handed over: LISTEN_PID and LISTEN_FDS are not set for us",
            ),
            Self::NotListening => out.write_str(
                "the socket does not listen, so no connection can be accepted: hand over a listening one \
                 (`Accept=no` in a systemd socket unit)",
            ),
            Self::Limit { name, range } => {
                write!(out, "the limit `{name}` is out of range: it may be {range}")
            }
            Self::Http2OnThreads => out.write_str(
                "HTTP/2 needs coroutines: leave out `.threads()`, or `h2` among the ALPN protocols of the TLS configuration",
            ),
            Self::Io(cause) => cause.fmt(out),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Address(cause) | Self::Bind { cause, .. } | Self::Io(cause) => Some(cause),
            _ => None,
        }
    }
}

impl From<io::Error> for Error {
    fn from(cause: io::Error) -> Self {
        Self::Io(cause)
    }
}

/// An error with the status that says it to the client.
///
/// A handler may return one, as an `io::Error`, before it has begun to answer:
///
/// ```
/// # use straightline::StatusError;
/// # fn find() -> std::io::Result<()> {
/// return Err(StatusError::new(404, "there is no such book").into());
/// # }
/// # assert_eq!(StatusError::status_of(&find().unwrap_err()), Some(404));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusError {
    status: u16,
    message: std::borrow::Cow<'static, str>,
    cause: Option<Box<str>>,
}

impl StatusError {
    /// An error that is answered with `status` and `message` as its text. A status outside 400 to 599 is no error's,
    /// and may allow no text: it becomes 500.
    pub fn new(status: u16, message: impl Into<std::borrow::Cow<'static, str>>) -> Self {
        let status = if (400..=599).contains(&status) { status } else { 500 };
        Self { status, message: message.into(), cause: None }
    }

    /// The same with what lies behind it: the client is not told that, but [`Event::HandlerFailed`](crate::Event::HandlerFailed)
    /// and the access log say it.
    pub fn because(mut self, cause: impl fmt::Display) -> Self {
        self.cause = Some(cause.to_string().into());
        self
    }

    /// The status that `error` is answered with, if it says one: that of a `StatusError`, and 503 where the coroutine was cancelled or the
    /// time of the handler was over.
    pub fn status_of(error: &io::Error) -> Option<u16> {
        said_by(error).map(|(status, _)| status)
    }
}

/// What the client of a handler that failed with `error` is told. What else the error says stays with the server.
pub(crate) fn answer_to(error: &io::Error) -> (u16, &str) {
    said_by(error).unwrap_or((500, "the handler failed"))
}

/// Whether a cancelled coroutine was so because the time of its handler is over.
fn is_late(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::TimedOut
}

/// The status and the text that an error says by itself.
fn said_by(error: &io::Error) -> Option<(u16, &str)> {
    if is_cancelled(error) {
        return Some(match is_late(error) {
            true => (503, "the request took too long"),
            // By a drain: the next server may answer it.
            false => (503, "the request was cancelled"),
        });
    }
    let said = error.get_ref()?.downcast_ref::<StatusError>()?;
    Some((said.status, &said.message))
}

impl fmt::Display for StatusError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} ({})", self.message, self.status)?;
        self.cause.iter().try_for_each(|cause| write!(out, ": {cause}"))
    }
}

impl std::error::Error for StatusError {}

impl From<StatusError> for io::Error {
    fn from(error: StatusError) -> Self {
        let kind = match error.status {
            408 => io::ErrorKind::TimedOut,
            400 | 413 => io::ErrorKind::InvalidData,
            404 => io::ErrorKind::NotFound,
            _ => io::ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}
