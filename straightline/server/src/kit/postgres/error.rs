//! What can go wrong between a handler and its database.

use super::wire::MESSAGE_BYTES_MAX;
use crate::StatusError;
use crate::rt::is_cancelled;
use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend::ErrorFields;
use std::error::Error as StdError;
use std::fmt;
use std::io;

/// Why something cannot be had from the database.
///
/// Returned from a handler by `?` it is answered with 503 where the database is busy, cannot be reached or ended the connection,
/// with 504 after a deadline, and with 500 for the rest; its text goes to nobody.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The URL of the database is malformed.
    Config(String),
    /// Nobody answers at its address.
    Connect(io::Error),
    /// It has as many connections as it may have.
    TooManyConnections(Box<ServerError>),
    /// No connection of the pool came free in time.
    Busy,
    /// It does not let us in.
    Refused(Box<ServerError>),
    /// We cannot log in in the way that it asks for.
    Authentication(String),
    /// There is no TLS, or it failed.
    Tls(String),
    /// It refused a statement; the connection is as good as before.
    Server(Box<ServerError>),
    /// The connection is gone, after what the server may have said about it.
    Closed(Option<Box<ServerError>>),
    /// The connection broke.
    Lost(io::Error),
    /// What came is not the protocol of PostgreSQL.
    Protocol(String),
    /// A row is longer than the 256 MiB that are taken; so many bytes.
    TooLarge(usize),
    /// The statement took too long, and was cancelled.
    Deadline,
    /// Whoever asked has gone. A statement that ran was cancelled; one for which no connection was free was not run.
    ClientGone,
    /// The coroutine was cancelled while it waited.
    Cancelled(io::Error),
    /// The transaction that was to be committed had failed before, and was rolled back.
    RolledBack,
    /// The statement cannot be sent: its text has a NUL, say.
    Unsendable(io::Error),
    /// A parameter cannot be turned into what the statement takes.
    Parameter {
        /// Which one, counted from 0.
        index: usize,
        /// Why not.
        cause: Box<dyn StdError + Send + Sync>,
    },
    /// The statement takes another number of parameters.
    ParameterCount {
        /// How many it takes.
        takes: usize,
        /// How many there were.
        given: usize,
    },
    /// A column is not there, or cannot be turned into what was asked for.
    Column {
        /// Its name or number.
        column: String,
        /// Why not.
        cause: Box<dyn StdError + Send + Sync>,
    },
    /// Another number of rows came than the one that was asked for.
    RowCount(usize),
    /// The statement wants something else than parameters and rows, such as a copy.
    Unsupported(&'static str),
}

impl Error {
    /// The code of the server's error, if it is one, such as `23505` for a duplicate key.
    ///
    /// Source: PostgreSQL 15, appendix A.
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::TooManyConnections(said) | Self::Refused(said) | Self::Server(said) => Some(&said.code),
            Self::Closed(said) => said.as_ref().map(|said| said.code.as_str()),
            _ => None,
        }
    }

    /// Whether it is about one statement, and others can be run.
    pub(super) fn is_of_statement(&self) -> bool {
        match self {
            Self::Server(said) => !said.is_fatal(),
            Self::Unsendable(_)
            | Self::Parameter { .. }
            | Self::ParameterCount { .. }
            | Self::Unsupported(_) => true,
            _ => false,
        }
    }

    /// Whether the connection is of no use after it.
    pub(super) fn breaks(&self) -> bool {
        matches!(
            self,
            Self::Closed(_)
                | Self::Lost(_)
                | Self::Protocol(_)
                | Self::TooLarge(_)
                | Self::Cancelled(_)
                | Self::Authentication(_)
        )
    }

    /// The same failure for others whom it concerns.
    pub(super) fn alike(&self) -> Self {
        match self {
            Self::Deadline => Self::Deadline,
            Self::Connect(cause) => Self::Connect(io::Error::new(cause.kind(), cause.to_string())),
            Self::TooManyConnections(said) => Self::TooManyConnections(said.clone()),
            Self::Refused(said) => Self::Refused(said.clone()),
            Self::Authentication(why) => Self::Authentication(why.clone()),
            Self::Tls(why) => Self::Tls(why.clone()),
            Self::Protocol(why) => Self::Protocol(why.clone()),
            Self::Closed(said) => Self::Closed(said.clone()),
            Self::Lost(cause) => Self::Lost(io::Error::new(cause.kind(), cause.to_string())),
            Self::Server(said) => Self::Closed(Some(said.clone())),
            _ => Self::Closed(None),
        }
    }

    /// What an error of the stream means once it is open.
    pub(super) fn of_stream(error: io::Error) -> Self {
        match error.kind() {
            _ if is_cancelled(&error) => Self::Cancelled(error),
            io::ErrorKind::TimedOut => Self::Deadline,
            io::ErrorKind::UnexpectedEof => Self::Closed(None),
            io::ErrorKind::InvalidData if error.get_ref().is_some() => Self::Protocol(error.to_string()),
            _ => Self::Lost(error),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(why) => write!(out, "the database's URL is malformed: {why}"),
            Self::Connect(cause) => write!(out, "the database cannot be reached: {cause}"),
            Self::TooManyConnections(said) => write!(out, "the database takes no more connections: {said}"),
            Self::Busy => out.write_str("no connection to the database came free in time"),
            Self::Refused(said) => write!(out, "the database does not let us in: {said}"),
            Self::Authentication(why) => write!(out, "the database asks for what we cannot give: {why}"),
            Self::Tls(why) => write!(out, "no TLS with the database: {why}"),
            Self::Server(said) => write!(out, "the database refuses: {said}"),
            Self::Closed(Some(said)) => write!(out, "the database closed the connection: {said}"),
            Self::Closed(None) => out.write_str("the database closed the connection"),
            Self::Lost(cause) => write!(out, "the connection to the database broke: {cause}"),
            Self::Protocol(why) => write!(out, "this is not the protocol of PostgreSQL: {why}"),
            Self::TooLarge(bytes) => {
                write!(
                    out,
                    "a row of the database has {bytes} bytes, more than the {MESSAGE_BYTES_MAX} that are taken"
                )
            }
            Self::Deadline => out.write_str("the statement took too long, and was cancelled"),
            Self::ClientGone => out.write_str("whoever asked was gone before the statement was done"),
            Self::Cancelled(cause) => cause.fmt(out),
            Self::RolledBack => {
                out.write_str("the transaction was rolled back, for one of its statements had failed")
            }
            Self::Unsendable(cause) => write!(out, "the statement cannot be sent: {cause}"),
            Self::Parameter { index, cause } => write!(out, "parameter {index} does not fit: {cause}"),
            Self::ParameterCount { takes, given } => {
                write!(out, "the statement takes {takes} parameters, and {given} were given")
            }
            Self::Column { column, cause } => write!(out, "column {column}: {cause}"),
            Self::RowCount(rows) => write!(out, "one row was asked for, and {rows} came"),
            Self::Unsupported(what) => write!(out, "the statement wants {what}"),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Connect(cause) | Self::Lost(cause) | Self::Cancelled(cause) | Self::Unsendable(cause) => {
                Some(cause)
            }
            Self::Parameter { cause, .. } | Self::Column { cause, .. } => Some(&**cause),
            Self::TooManyConnections(said) | Self::Refused(said) | Self::Server(said) => Some(said),
            _ => None,
        }
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Busy | Error::TooManyConnections(_) => {
                StatusError::new(503, "the database is busy").because(error).into()
            }
            Error::Connect(_) => {
                StatusError::new(503, "the database cannot be reached").because(error).into()
            }
            Error::Closed(_) | Error::Lost(_) => {
                StatusError::new(503, "the connection to the database ended").because(error).into()
            }
            Error::Server(ref said) if said.is_fatal() => {
                StatusError::new(503, "the connection to the database ended").because(error).into()
            }
            Error::Deadline => StatusError::new(504, "the database takes too long").because(error).into(),
            Error::Cancelled(cause) => cause,
            other => Self::other(other),
        }
    }
}

/// What the server says of an error.
///
/// Source: PostgreSQL 15, section 55.8.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerError {
    /// `ERROR`, `FATAL` or `PANIC`.
    pub severity: String,
    /// Five letters and digits that say what it is.
    pub code: String,
    /// The same in words.
    pub message: String,
    /// More of it.
    pub detail: Option<String>,
    /// What to do about it.
    pub hint: Option<String>,
    /// The table that it is about.
    pub table: Option<String>,
    /// The column that it is about.
    pub column: Option<String>,
    /// The constraint that was broken.
    pub constraint: Option<String>,
    /// Where in the statement, in characters from 1.
    pub position: Option<u32>,
    /// Whether it is said of a plan that was made before a table was changed.
    pub(super) stale_plan: bool,
}

impl ServerError {
    pub(super) fn read(fields: ErrorFields<'_>) -> io::Result<Self> {
        let mut said = Self::default();
        fields.for_each(|field| {
            let text = || String::from_utf8_lossy(field.value_bytes()).into_owned();
            match field.type_() {
                // In English, whatever language the server speaks.
                b'V' => said.severity = text(),
                b'S' if said.severity.is_empty() => said.severity = text(),
                b'C' => said.code = text(),
                b'M' => said.message = text(),
                b'D' => said.detail = Some(text()),
                b'H' => said.hint = Some(text()),
                b't' => said.table = Some(text()),
                b'c' => said.column = Some(text()),
                b'n' => said.constraint = Some(text()),
                b'P' => said.position = text().parse().ok(),
                b'R' => said.stale_plan = field.value_bytes() == b"RevalidateCachedQuery",
                _ => {}
            }
            Ok(())
        })?;
        Ok(said)
    }

    /// Whether the server ends the connection after it.
    pub(super) fn is_fatal(&self) -> bool {
        matches!(self.severity.as_str(), "FATAL" | "PANIC")
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} ({})", self.message, self.code)?;
        self.detail.iter().try_for_each(|detail| write!(out, "; {detail}"))
    }
}

impl StdError for ServerError {}
