//! From an address to a session: connecting, TLS, logging in.

use super::config::{Config, SslMode};
use super::connection::Connection;
use super::error::{Error, ServerError};
use super::patience::Patience;
use super::tls;
use super::wire::{Stream, Wire, server_error};
use crate::kit::host::addresses;
use crate::rt::{self, TcpStream};
use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};
use postgres_protocol::message::backend::{AuthenticationSaslBody, Message};
use postgres_protocol::message::frontend;
use std::io::{self, Read, Write};
use std::time::Duration;

/// What the server says of itself when it has no room for one more.
///
/// Source: PostgreSQL 15, appendix A, `too_many_connections` and `cannot_connect_now`.
const NO_ROOM: [&str; 2] = ["53300", "57P03"];
/// Longest time for telling the server to cancel a statement: it answers at once, or not at all.
const CANCEL_TIME: Duration = Duration::from_secs(2);

/// Opens a session.
pub(super) fn connect(config: &Config, patience: &Patience<'_>) -> Result<Connection, Error> {
    let within = Patience::lasting(config.connect_time);
    let sooner = patience.deadline.into_iter().chain(within.deadline).min();
    let patience = Patience { deadline: sooner, client: patience.client };
    let mut wire = Wire::over(open(config, &patience)?);
    let settings =
        [("user", config.user.as_str()), ("database", &config.database), ("client_encoding", "UTF8")];
    let more = config.settings.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    frontend::startup_message(settings.into_iter().chain(more), &mut wire.output)
        .map_err(|error| Error::Config(error.to_string()))?;
    wire.send(&patience).map_err(of_connecting)?;
    log_in(&mut wire, config, &patience).map_err(of_connecting)?;
    until_ready(wire, &patience).map_err(of_connecting)
}

/// Tells the server on a second connection to cancel what the session with this key does, and waits until it knows.
pub(super) fn cancel(config: &Config, process_id: i32, secret_key: i32) -> Result<(), Error> {
    let patience = Patience::lasting(CANCEL_TIME.min(config.connect_time));
    let mut wire = Wire::over(open(config, &patience)?);
    frontend::cancel_request(process_id, secret_key, &mut wire.output);
    wire.send(&patience)?;
    // It closes once the other session was told: whatever that does next is not cancelled by mistake.
    wire.until_end(&patience)
}

/// An error of connecting, where a deadline is one more way not to be reached.
fn of_connecting(error: Error) -> Error {
    match error {
        Error::Deadline => Error::Connect(io::ErrorKind::TimedOut.into()),
        Error::Closed(None) => Error::Connect(io::ErrorKind::ConnectionReset.into()),
        Error::Lost(error) => Error::Connect(error),
        other => other,
    }
}

/// A refusal before the session began.
fn refused(said: Box<ServerError>) -> Error {
    if NO_ROOM.contains(&said.code.as_str()) { Error::TooManyConnections(said) } else { Error::Refused(said) }
}

/// Connects, and speaks TLS if that is to be.
fn open(config: &Config, patience: &Patience<'_>) -> Result<Stream, Error> {
    let mut socket = reach(config, patience)?;
    if config.ssl_mode == SslMode::Disable {
        return Ok(Stream::Plain(socket));
    }
    let left = patience.left().map_err(of_connecting)?;
    socket.set_read_timeout(left);
    socket.set_write_timeout(left);
    let (mut asked, mut answer) = (BytesMut::new(), [0]);
    frontend::ssl_request(&mut asked);
    let of_stream = |error| of_connecting(Error::of_stream(error));
    socket.write_all(&asked).map_err(of_stream)?;
    // One byte and no more: what somebody may have put behind it must not be taken for something that came encrypted.
    socket.read_exact(&mut answer).map_err(of_stream)?;
    match (&answer, config.ssl_mode) {
        (b"S", _) => encrypt(config, socket),
        (b"N", SslMode::Prefer) => Ok(Stream::Plain(socket)),
        (b"N", _) => Err(Error::Tls("the server has none".to_owned())),
        (b"E", _) => Err(Error::TooManyConnections(Box::new(ServerError {
            message: "the server cannot take the connection".to_owned(),
            code: NO_ROOM[0].to_owned(),
            ..ServerError::default()
        }))),
        _ => Err(Error::Protocol("the question for TLS is answered by something else".to_owned())),
    }
}

fn encrypt(config: &Config, socket: TcpStream) -> Result<Stream, Error> {
    let mut tls = rustls::StreamOwned::new(tls::session(config)?, socket);
    let shaken = tls.conn.complete_io(&mut tls.sock);
    match shaken {
        Ok(_) => Ok(Stream::Tls(Box::new(tls))),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(Error::Tls(error.to_string())),
        Err(error) => Err(of_connecting(Error::of_stream(error))),
    }
}

/// The first address of the host that answers.
fn reach(config: &Config, patience: &Patience<'_>) -> Result<TcpStream, Error> {
    let mut outcome = Err(Error::Connect(io::Error::new(io::ErrorKind::NotFound, "the host has no address")));
    let addresses = addresses(&config.host, config.port).map_err(Error::of_stream)?;
    for address in addresses.map_err(Error::Connect)? {
        let connected = match patience.left().map_err(of_connecting)? {
            Some(left) => TcpStream::connect_timeout(address, left),
            None => TcpStream::connect(address),
        };
        match connected {
            Ok(socket) => return Ok(socket),
            Err(error) if rt::is_cancelled(&error) => return Err(Error::Cancelled(error)),
            Err(error) => outcome = Err(Error::Connect(error)),
        }
    }
    outcome
}

/// Answers whatever the server asks in order to know us.
fn log_in(wire: &mut Wire, config: &Config, patience: &Patience<'_>) -> Result<(), Error> {
    let password = || {
        let missing = || Error::Authentication("a password, and the URL has none".to_owned());
        config.password.as_deref().ok_or_else(missing)
    };
    loop {
        match wire.next(patience)? {
            Message::AuthenticationOk => return Ok(()),
            Message::AuthenticationMd5Password(body) => {
                let hash = md5_hash(config.user.as_bytes(), password()?.as_bytes(), body.salt());
                answer(wire, patience, |out| frontend::password_message(hash.as_bytes(), out))?;
            }
            Message::AuthenticationCleartextPassword if wire.stream.is_tls() => {
                let password = password()?.as_bytes();
                answer(wire, patience, |out| frontend::password_message(password, out))?;
            }
            Message::AuthenticationSasl(body) => scram(wire, &body, password()?, patience)?,
            Message::AuthenticationCleartextPassword => {
                return Err(Error::Authentication("the password itself, without TLS".to_owned()));
            }
            Message::ErrorResponse(body) => return Err(refused(server_error(&body)?)),
            Message::AuthenticationGss
            | Message::AuthenticationSspi
            | Message::AuthenticationKerberosV5
            | Message::AuthenticationScmCredential => {
                return Err(Error::Authentication("a way to log in that is not spoken here".to_owned()));
            }
            _ => return Err(Error::Protocol("something else than a question who we are".to_owned())),
        }
    }
}

fn answer(
    wire: &mut Wire,
    patience: &Patience<'_>,
    write: impl FnOnce(&mut BytesMut) -> io::Result<()>,
) -> Result<(), Error> {
    write(&mut wire.output).map_err(|error| Error::Config(error.to_string()))?;
    wire.send(patience)
}

/// SCRAM-SHA-256: both sides show that they know the password, and neither says it.
///
/// Source: RFC 5802, RFC 7677.
fn scram(
    wire: &mut Wire,
    body: &AuthenticationSaslBody,
    password: &str,
    patience: &Patience<'_>,
) -> Result<(), Error> {
    let mechanisms = body.mechanisms().map(|name| Ok(name.to_owned())).collect::<Vec<_>>();
    let mechanisms = mechanisms.map_err(|error| Error::Protocol(error.to_string()))?;
    if !mechanisms.iter().any(|name| name == SCRAM_SHA_256) {
        return Err(Error::Authentication(mechanisms.join(", ")));
    }
    let mut scram = ScramSha256::new(password.as_bytes(), ChannelBinding::unsupported());
    answer(wire, patience, |out| frontend::sasl_initial_response(SCRAM_SHA_256, scram.message(), out))?;
    let challenge = match wire.next(patience)? {
        Message::AuthenticationSaslContinue(body) => body.data().to_vec(),
        Message::ErrorResponse(body) => return Err(refused(server_error(&body)?)),
        _ => return Err(Error::Protocol("no challenge came".to_owned())),
    };
    // Thousands of hashes, as many as the server says: not on the shard.
    let computed = rt::blocking(move || scram.update(&challenge).map(|()| scram));
    let not_ours = |error: io::Error| Error::Authentication(error.to_string());
    let mut scram = computed.map_err(Error::of_stream)?.map_err(not_ours)?;
    answer(wire, patience, |out| frontend::sasl_response(scram.message(), out))?;
    match wire.next(patience)? {
        Message::AuthenticationSaslFinal(body) => scram.finish(body.data()).map_err(not_ours),
        Message::ErrorResponse(body) => Err(refused(server_error(&body)?)),
        _ => Err(Error::Protocol("the server does not show that it knows the password".to_owned())),
    }
}

/// Waits until the session can be used.
fn until_ready(mut wire: Wire, patience: &Patience<'_>) -> Result<Connection, Error> {
    let mut key = None;
    loop {
        match wire.next(patience)? {
            Message::BackendKeyData(body) => key = Some((body.process_id(), body.secret_key())),
            Message::ReadyForQuery(_) => return Ok(Connection::new(wire, key)),
            Message::ErrorResponse(body) => return Err(refused(server_error(&body)?)),
            _ => return Err(Error::Protocol("the session does not begin".to_owned())),
        }
    }
}
