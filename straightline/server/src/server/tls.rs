//! TLS between a connection and its socket, by rustls. No call blocks.

use super::conn::Io;
use crate::rt::sys;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustls::{ServerConfig, ServerConnection};
use std::cell::{Cell, RefCell};
use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;

/// HTTP/2 among the protocols of ALPN.
pub(crate) const HTTP2: &[u8] = b"h2";

/// Whether `config` offers HTTP/2 by its own choice.
pub(crate) fn names_http2(config: &ServerConfig) -> bool {
    config.alpn_protocols.iter().any(|protocol| protocol == HTTP2)
}

/// `config` with protocols for ALPN, if it names none.
pub(crate) fn offering(mut config: ServerConfig, threads: bool) -> Arc<ServerConfig> {
    if config.alpn_protocols.is_empty() {
        let both = [HTTP2.to_vec(), b"http/1.1".to_vec()];
        config.alpn_protocols.extend(both.into_iter().skip(usize::from(threads)));
    }
    Arc::new(config)
}

/// One TLS session.
pub(crate) struct Tls {
    session: RefCell<ServerConnection>,
    /// Whether encrypted bytes came since the last decrypted ones did.
    amid: Cell<bool>,
    /// Whether the socket took anything since that was last asked.
    moved: Cell<bool>,
}

/// The socket as rustls wants to see it.
struct Wire<'s>(&'s OwnedFd);

impl Read for Wire<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        Ok(sys::recv(self.0, into)?)
    }
}

impl Write for Wire<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(sys::send(self.0, bytes)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The system's number of an error; an error of the protocol has none.
fn errno(error: &io::Error) -> Errno {
    match error.kind() {
        ErrorKind::WouldBlock => Errno::AGAIN,
        _ => Errno::from_io_error(error).unwrap_or(Errno::PROTO),
    }
}

impl Tls {
    pub(crate) fn new(config: &Arc<ServerConfig>) -> io::Result<Self> {
        let session = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
        Ok(Self { session: RefCell::new(session), amid: Cell::new(true), moved: Cell::new(false) })
    }

    /// Decrypted bytes; the handshake, and whatever else the protocol has to say, goes on as needed.
    pub(crate) fn recv(&self, socket: &OwnedFd, into: &mut [u8]) -> Io {
        let session = &mut *self.session.borrow_mut();
        loop {
            match session.reader().read(into) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // The stream was cut off without the word that ends it: nothing of it can be the whole.
                Err(_) => return Err(Errno::CONNRESET),
                Ok(count) => {
                    self.amid.set(false);
                    return Ok(count);
                }
            }
            session.read_tls(&mut Wire(socket)).map_err(|error| errno(&error))?;
            self.amid.set(true);
            let outcome = session.process_new_packets();
            // The answer may be an alert that says what is wrong.
            let pushed = self.push(session, socket);
            outcome.map_err(|_| Errno::PROTO)?;
            pushed?;
        }
    }

    /// Whether the client agreed to HTTP/2.
    pub(crate) fn is_http2(&self) -> bool {
        self.session.borrow().alpn_protocol() == Some(HTTP2)
    }

    /// Whether a handshake or a record is under way that has given no bytes yet.
    pub(crate) fn is_amid(&self) -> bool {
        self.amid.get()
    }

    /// Encrypts as much of `bytes` as may be held, and sends it as far as the socket takes it.
    pub(crate) fn send(&self, socket: &OwnedFd, bytes: &[u8]) -> Io {
        let session = &mut *self.session.borrow_mut();
        if !self.push(session, socket)? {
            return Err(Errno::AGAIN);
        }
        let count = session.writer().write(bytes).map_err(|error| errno(&error))?;
        self.push(session, socket)?;
        Ok(count)
    }

    /// Sends what is encrypted and held; whether everything went.
    pub(crate) fn flush(&self, socket: &OwnedFd) -> sys::Result<bool> {
        self.push(&mut self.session.borrow_mut(), socket)
    }

    /// Tells the client that the stream ends here.
    pub(crate) fn say_goodbye(&self, socket: &OwnedFd) {
        let session = &mut *self.session.borrow_mut();
        session.send_close_notify();
        // A client that takes nothing any more does not hear it.
        self.push(session, socket).ok();
    }

    /// Whether the socket took anything since that was last asked.
    pub(crate) fn take_moved(&self) -> bool {
        self.moved.take()
    }

    /// Sends what is encrypted, as far as the socket takes it; whether everything went.
    fn push(&self, session: &mut ServerConnection, socket: &OwnedFd) -> sys::Result<bool> {
        while session.wants_write() {
            match session.write_tls(&mut Wire(socket)) {
                Ok(_) => self.moved.set(true),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(errno(&error)),
            }
        }
        Ok(true)
    }
}
