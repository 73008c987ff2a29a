//! What a handler asks Redis by.

use super::config::Config;
use super::error::Error;
use super::pool::Place;
use super::wire::{Value, Wire};
use crate::kit::host::addresses;
use crate::rt::TcpStream;
use crate::rt::waker::deadline_in;
use std::io;
use std::time::{Duration, Instant};

/// Commands that change the connection for whoever uses it next, or are answered more than once or not at all.
const REFUSED: [&str; 18] = [
    "AUTH",
    "CLIENT",
    "DISCARD",
    "EXEC",
    "HELLO",
    "MONITOR",
    "MULTI",
    "PSUBSCRIBE",
    "PSYNC",
    "PUNSUBSCRIBE",
    "QUIT",
    "RESET",
    "SELECT",
    "SSUBSCRIBE",
    "SUBSCRIBE",
    "SYNC",
    "UNWATCH",
    "WATCH",
];

/// A command: its name and its arguments.
pub type Words<'w> = &'w [&'w [u8]];

/// One session.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) wire: Wire,
    broken: bool,
}

/// A connection to Redis, for one user at a time. One of a pool goes back there when it is dropped.
#[derive(Debug)]
pub struct Client {
    /// `None` only while it is dropped.
    connection: Option<Box<Connection>>,
    command_time: Duration,
    /// Where it goes back to.
    place: Option<Place>,
}

impl Connection {
    /// Opens a session before `deadline`.
    pub(super) fn open(config: &Config, deadline: Instant) -> Result<Self, Error> {
        let deadline = deadline.min(deadline_in(config.connect_time));
        let mut connection = Self { wire: Wire::over(reach(config, deadline)?), broken: false };
        connection.begin(config, deadline).map_err(Error::of_connecting)?;
        Ok(connection)
    }

    fn begin(&mut self, config: &Config, deadline: Instant) -> Result<(), Error> {
        let mut hello: Vec<&[u8]> = vec![b"HELLO", b"3"];
        if let Some((user, password)) = &config.login {
            hello.extend([b"AUTH", user.as_bytes(), password.as_bytes()]);
        }
        self.wire.write(&hello);
        let number = config.database.to_string();
        if config.database != 0 {
            self.wire.write(&[b"SELECT", number.as_bytes()]);
        }
        self.wire.send(deadline)?;
        for _ in 0..1 + usize::from(config.database != 0) {
            well(self.wire.answer(deadline)?)?;
        }
        Ok(())
    }
}

/// The first address of the host that answers.
fn reach(config: &Config, deadline: Instant) -> Result<TcpStream, Error> {
    let mut outcome = Err(Error::Connect(io::Error::new(io::ErrorKind::NotFound, "the host has no address")));
    let addresses = addresses(&config.host, config.port).map_err(Error::of_stream)?;
    for address in addresses.map_err(Error::Connect)? {
        let left = deadline.saturating_duration_since(Instant::now());
        match TcpStream::connect_timeout(address, left).map_err(Error::of_stream) {
            Err(error @ Error::Cancelled(_)) => return Err(error),
            reached => outcome = reached.map_err(Error::of_connecting),
        }
        if outcome.is_ok() {
            break;
        }
    }
    outcome
}

impl Client {
    /// Opens a connection that belongs to no pool.
    ///
    /// # Errors
    ///
    /// [`Error`] says why there is none.
    pub fn connect(config: &Config) -> Result<Self, Error> {
        let connection = Connection::open(config, deadline_in(config.connect_time))?;
        Ok(Self::over(config, Box::new(connection), None))
    }

    pub(super) fn over(config: &Config, connection: Box<Connection>, place: Option<Place>) -> Self {
        Self { connection: Some(connection), command_time: config.command_time, place }
    }

    /// Whether the connection is of no use any more. The pool replaces it.
    pub fn is_broken(&self) -> bool {
        self.connection.as_ref().is_none_or(|connection| connection.broken)
    }

    /// What a key has; `None` if there is none.
    ///
    /// # Errors
    ///
    /// [`Error::Server`] if it has something else than a text; otherwise those of the connection.
    pub fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>, Error> {
        match self.command(&[b"GET", key.as_bytes()])? {
            Value::Bytes(bytes) => Ok(Some(bytes)),
            Value::Null => Ok(None),
            _ => Err(Error::Kind("a text")),
        }
    }

    /// Gives a key a value.
    ///
    /// # Errors
    ///
    /// As [`Client::command`].
    pub fn set(&mut self, key: &str, value: &[u8]) -> Result<(), Error> {
        self.command(&[b"SET", key.as_bytes(), value]).map(drop)
    }

    /// Gives a key a value for some time, counted in whole milliseconds and at least one.
    ///
    /// # Errors
    ///
    /// As [`Client::command`].
    pub fn set_for(&mut self, key: &str, value: &[u8], time: Duration) -> Result<(), Error> {
        let time = time.as_millis().max(1).to_string();
        self.command(&[b"SET", key.as_bytes(), value, b"PX", time.as_bytes()]).map(drop)
    }

    /// Removes a key; whether it was there.
    ///
    /// # Errors
    ///
    /// As [`Client::command`].
    pub fn remove(&mut self, key: &str) -> Result<bool, Error> {
        self.number(&[b"DEL", key.as_bytes()]).map(|count| count > 0)
    }

    /// Adds one to a number, which begins at 0; what it is now.
    ///
    /// # Errors
    ///
    /// [`Error::Server`] if the key has no number; otherwise those of the connection.
    pub fn increment(&mut self, key: &str) -> Result<i64, Error> {
        self.number(&[b"INCR", key.as_bytes()])
    }

    fn number(&mut self, words: Words<'_>) -> Result<i64, Error> {
        match self.command(words)? {
            Value::Integer(number) => Ok(number),
            _ => Err(Error::Kind("a number")),
        }
    }

    /// Sends any command that is answered once.
    ///
    /// ```no_run
    /// # use straightline::kit::redis::{Client, Error};
    /// # fn set(client: &mut Client) -> Result<(), Error> {
    /// client.command(&[b"HSET", b"user:1", b"name", b"ada"])?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Server`] is what the server says against it; [`Error::Unsupported`] refuses those that would change the
    /// connection for others; the rest is about the connection.
    pub fn command(&mut self, words: Words<'_>) -> Result<Value, Error> {
        allowed(words)?;
        self.with(|connection, deadline| {
            connection.wire.write(words);
            connection.wire.send(deadline)?;
            well(connection.wire.answer(deadline)?)
        })
    }

    /// Sends many commands at once, and then reads their answers. Each stands for itself, and its error is in its place.
    ///
    /// # Errors
    ///
    /// Those of the connection, after which nobody knows how many were done.
    pub fn pipeline(&mut self, commands: &[Words<'_>]) -> Result<Vec<Result<Value, Error>>, Error> {
        commands.iter().try_for_each(|words| allowed(words))?;
        self.with(|connection, deadline| {
            commands.iter().for_each(|words| connection.wire.write(words));
            connection.wire.send(deadline)?;
            commands.iter().map(|_| Ok(well(connection.wire.answer(deadline)?))).collect()
        })
    }

    /// Sends many commands that are done together, with nobody's in between: `MULTI` and `EXEC`.
    ///
    /// # Errors
    ///
    /// [`Error::Server`] if one of them cannot be done at all, and none was; those of the connection. What fails only as it is
    /// done is in its place, and the others are done, for Redis takes nothing back.
    pub fn transaction(&mut self, commands: &[Words<'_>]) -> Result<Vec<Result<Value, Error>>, Error> {
        commands.iter().try_for_each(|words| allowed(words))?;
        self.with(|connection, deadline| {
            connection.wire.write(&[b"MULTI"]);
            commands.iter().for_each(|words| connection.wire.write(words));
            connection.wire.write(&[b"EXEC"]);
            connection.wire.send(deadline)?;
            // `OK`, and that each is queued or why not; the last answer says it again.
            for _ in 0..=commands.len() {
                connection.wire.answer(deadline)?;
            }
            match well(connection.wire.answer(deadline)?)? {
                Value::Array(values) => Ok(values.into_iter().map(well).collect()),
                _ => Err(Error::Kind("as many answers as commands")),
            }
        })
    }

    /// Does something with the connection, and leaves it in good order or marked as broken.
    fn with<T>(
        &mut self,
        act: impl FnOnce(&mut Connection, Instant) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let connection = self.connection.as_mut().expect("it is there until the client is dropped");
        if connection.broken {
            return Err(Error::Closed);
        }
        // A panic amid an answer leaves it so.
        connection.broken = true;
        let outcome = act(connection, deadline_in(self.command_time));
        connection.broken = outcome.as_ref().is_err_and(Error::breaks);
        outcome
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if let (Some(connection), Some(place)) = (self.connection.take(), self.place.take()) {
            let is_clean = !connection.broken && !connection.wire.has_surplus();
            place.give_back(connection, is_clean);
        }
    }
}

/// An answer, or the error that it is.
fn well(value: Value) -> Result<Value, Error> {
    match value {
        Value::Error(said) => Err(Error::Server(said)),
        value => Ok(value),
    }
}

fn allowed(words: Words<'_>) -> Result<(), Error> {
    let name = words.first().copied().unwrap_or_default();
    if name.is_empty() {
        return Err(Error::Unsupported("a command without a name".to_owned()));
    }
    match REFUSED.iter().find(|refused| name.eq_ignore_ascii_case(refused.as_bytes())) {
        Some(refused) => Err(Error::Unsupported((*refused).to_owned())),
        None => Ok(()),
    }
}
