//! What can go wrong between a handler and Redis.

use crate::StatusError;
use crate::rt::is_cancelled;
use std::error::Error as StdError;
use std::fmt;
use std::io;

/// Why something cannot be had from Redis.
///
/// Returned from a handler by `?` it is answered with 503 where the server is busy, cannot be reached or ended the connection, with
/// 504 after a deadline, and with 500 for the rest; its text goes to nobody.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The URL of the server is malformed.
    Config(String),
    /// Nobody answers at its address.
    Connect(io::Error),
    /// It has as many connections as it may have.
    TooManyConnections(String),
    /// No connection of the pool came free in time.
    Busy,
    /// It does not let us in.
    Refused(String),
    /// It refused a command; the connection is as good as before.
    Server(String),
    /// The server closed the connection.
    Closed,
    /// The connection broke.
    Lost(io::Error),
    /// What came is not the protocol of Redis.
    Protocol(String),
    /// The answer did not come in time. Whether the command was done, nobody knows.
    Deadline,
    /// The coroutine was cancelled while it waited.
    Cancelled(io::Error),
    /// The answer is of another kind than the command gives.
    Kind(&'static str),
    /// The command is none that a pool's connection may be sent.
    Unsupported(String),
}

impl Error {
    /// Whether the connection is of no use after it.
    pub(super) fn breaks(&self) -> bool {
        !matches!(self, Self::Server(_) | Self::Kind(_) | Self::Unsupported(_))
    }

    /// What an error of the stream means once it is open.
    pub(super) fn of_stream(error: io::Error) -> Self {
        match error.kind() {
            _ if is_cancelled(&error) => Self::Cancelled(error),
            io::ErrorKind::TimedOut => Self::Deadline,
            io::ErrorKind::UnexpectedEof => Self::Closed,
            _ => Self::Lost(error),
        }
    }

    /// The same, where a session is only to begin.
    pub(super) fn of_connecting(self) -> Self {
        match self {
            Self::Deadline => Self::Connect(io::ErrorKind::TimedOut.into()),
            Self::Closed => Self::Connect(io::ErrorKind::ConnectionReset.into()),
            Self::Lost(error) => Self::Connect(error),
            // Source: `networking.c` of Redis, what a client is told beyond `maxclients`.
            Self::Server(said) if said.contains("max number of clients") => Self::TooManyConnections(said),
            Self::Server(said) => Self::Refused(said),
            other => other,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(why) => write!(out, "the URL of Redis is malformed: {why}"),
            Self::Connect(cause) => write!(out, "Redis cannot be reached: {cause}"),
            Self::TooManyConnections(said) => write!(out, "Redis takes no more connections: {said}"),
            Self::Busy => out.write_str("no connection to Redis came free in time"),
            Self::Refused(said) => write!(out, "Redis does not let us in: {said}"),
            Self::Server(said) => write!(out, "Redis refuses: {said}"),
            Self::Closed => out.write_str("Redis closed the connection"),
            Self::Lost(cause) => write!(out, "the connection to Redis broke: {cause}"),
            Self::Protocol(why) => write!(out, "this is not the protocol of Redis: {why}"),
            Self::Deadline => out.write_str("Redis did not answer in time"),
            Self::Cancelled(cause) => cause.fmt(out),
            Self::Kind(wanted) => write!(out, "Redis answered something else than {wanted}"),
            Self::Unsupported(what) => {
                write!(out, "{what} cannot be sent on a connection that others use next")
            }
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Connect(cause) | Self::Lost(cause) | Self::Cancelled(cause) => Some(cause),
            _ => None,
        }
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Busy | Error::TooManyConnections(_) => {
                StatusError::new(503, "the store is busy").because(error).into()
            }
            Error::Connect(_) => StatusError::new(503, "the store cannot be reached").because(error).into(),
            Error::Closed | Error::Lost(_) => {
                StatusError::new(503, "the connection to the store ended").because(error).into()
            }
            Error::Deadline => StatusError::new(504, "the store takes too long").because(error).into(),
            Error::Cancelled(cause) => cause,
            other => Self::other(other),
        }
    }
}
