//! TLS between a worker and a socket.

use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustls::ClientConnection;

use super::link::Refusal;
use super::socket::Moved;
use crate::tls::{Asked, Client, certificate_required, explain};

/// A socket through which TLS is spoken.
#[derive(Debug)]
pub(crate) struct Secured {
    tls: ClientConnection,
    raw: Raw,
    /// Decrypted bytes that were not read yet.
    left: usize,
    /// Whether the server has said, by an alert, that nothing follows.
    farewell: bool,
    /// Whether the server must take up the protocol that is offered.
    picky: bool,
    failure: Option<rustls::Error>,
    /// Whether the server has asked for a certificate of ours that we have not.
    asked: Arc<Asked>,
}

/// The socket as rustls reads and writes it.
#[derive(Debug)]
struct Raw {
    socket: OwnedFd,
    /// Whether the last read was short: nothing is left until the next event.
    drained: bool,
}

impl Read for Raw {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let (bytes, _) = recv(&self.socket, &mut *buf, RecvFlags::empty())?;
        self.drained = bytes < buf.len();
        Ok(bytes)
    }
}

impl Write for Raw {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        Ok(send(&self.socket, buf, SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// How far a flush came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flushed {
    All,
    Part,
    Broken,
}

impl Secured {
    pub(crate) fn new(socket: OwnedFd, client: &Client) -> Result<Self, Refusal> {
        let tls = ClientConnection::new(Arc::clone(&client.config), client.name.clone())
            .map_err(|error| Refusal::Tls(explain(&error)))?;
        Ok(Self {
            tls,
            raw: Raw { socket, drained: false },
            left: 0,
            farewell: false,
            picky: client.protocol == "h2",
            failure: None,
            asked: Arc::clone(&client.asked),
        })
    }

    pub(crate) fn socket(&self) -> &OwnedFd {
        &self.raw.socket
    }

    /// Goes on with the handshake as far as it can; true when it is over.
    pub(crate) fn shake(&mut self) -> Result<bool, Refusal> {
        loop {
            match self.push() {
                Flushed::All => {}
                Flushed::Part => return Ok(false),
                Flushed::Broken => return Err(broken_off("a write failed")),
            }
            if !self.tls.is_handshaking() {
                return self.agree();
            }
            match self.pull() {
                Ok(0) => return Err(broken_off("the server closed it")),
                Ok(_) => {}
                Err(error) if is_later(&error) => return Ok(false),
                Err(error) => return Err(broken_off(&error.to_string())),
            }
            if let Some(error) = &self.failure {
                return Err(Refusal::Tls(explain(error)));
            }
        }
    }

    /// Whether the server speaks what we do: one that passes an offer over speaks HTTP/1.1.
    ///
    /// Source: RFC 7301, section 3.2; RFC 9113, section 3.2.
    fn agree(&self) -> Result<bool, Refusal> {
        if self.picky && self.tls.alpn_protocol().is_none() {
            return Err(Refusal::Tls(
                "the server does not speak HTTP/2 (ALPN): leave --http2 out".to_owned(),
            ));
        }
        Ok(true)
    }

    pub(crate) fn rouse(&mut self) {
        self.raw.drained = false;
    }

    pub(crate) fn read(&mut self, buf: &mut [u8], closing: bool) -> (Moved, bool) {
        loop {
            match self.tls.reader().read(buf) {
                Ok(0) => return (Moved::End, false),
                Ok(bytes) => {
                    self.left = self.left.saturating_sub(bytes);
                    let more = closing || self.left > 0 || self.farewell || !self.raw.drained;
                    return (Moved::Bytes(bytes), more);
                }
                Err(error) if is_later(&error) => {}
                // The socket ended without a word: who can cut the line can cut an answer short.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return (Moved::Cut, false),
                Err(_) => return (Moved::Broken, false),
            }
            if self.raw.drained && !closing {
                return (Moved::Later, false);
            }
            match self.pull() {
                Ok(_) if self.failure.is_none() => {}
                Err(error) if is_later(&error) => return (Moved::Later, false),
                Ok(_) | Err(_) => return (Moved::Broken, false),
            }
        }
    }

    pub(crate) fn write(&mut self, buf: &[u8]) -> Moved {
        // One batch at a time: what is stamped as sent does not pile up here.
        match self.push() {
            Flushed::All => {}
            Flushed::Part => return Moved::Later,
            Flushed::Broken => return Moved::Broken,
        }
        match self.tls.writer().write(buf) {
            Ok(bytes) if bytes > 0 && self.push() != Flushed::Broken => Moved::Bytes(bytes),
            _ => Moved::Broken,
        }
    }

    pub(crate) fn flush(&mut self) {
        // A broken connection is found by the next read.
        let _ = self.push();
    }

    /// Why the server broke the connection off.
    pub(crate) fn reason(&self) -> Option<String> {
        let alert = self.failure.as_ref().filter(|error| matches!(error, rustls::Error::AlertReceived(_)));
        // Not every server says so before it closes.
        alert.map(explain).or_else(|| self.asked.is_so().then(certificate_required))
    }

    fn push(&mut self) -> Flushed {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut self.raw) {
                Ok(_) => {}
                Err(error) if is_later(&error) => return Flushed::Part,
                Err(_) => return Flushed::Broken,
            }
        }
        Flushed::All
    }

    /// Reads from the socket once and decrypts; 0 at its end.
    fn pull(&mut self) -> io::Result<usize> {
        let bytes = self.tls.read_tls(&mut self.raw)?;
        match self.tls.process_new_packets() {
            Ok(state) => {
                self.left = state.plaintext_bytes_to_read();
                self.farewell = state.peer_has_closed();
            }
            Err(error) => self.failure = Some(error),
        }
        // Answers of the protocol itself, among them the alert that tells the server of a failure.
        self.flush();
        Ok(bytes)
    }
}

impl Drop for Secured {
    fn drop(&mut self) {
        self.tls.send_close_notify();
        self.flush();
    }
}

fn is_later(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::AGAIN | Errno::INTR))
        || error.kind() == io::ErrorKind::WouldBlock
}

fn broken_off(why: &str) -> Refusal {
    Refusal::Tls(format!("the connection broke in the middle of the handshake: {why}"))
}
