//! WebSocket, strictly: by tungstenite over the handler's own stream, with checks of our own where that is lenient.
//!
//! ```no_run
//! use straightline::Server;
//! use straightline::kit::websocket::Upgrade;
//!
//! let upgrade = Upgrade::new().message_bytes(64 * 1024);
//! Server::bind("127.0.0.1:8080")?.serve(move |request, response| {
//!     upgrade.serve(request, response, |socket| {
//!         while let Some(message) = socket.recv()? {
//!             socket.send(message)?;
//!         }
//!         Ok(())
//!     })
//! })?;
//! # Ok::<(), straightline::Error>(())
//! ```
//!
//! Frames must be masked, lengths as short as they can be, text UTF-8; frames and messages have limits, and so have pings.
//! A client that breaks a rule is told by its close code, and [`WebSocket::recv`] gives no more. A server that drains
//! closes with 1001. No extension is spoken.
//!
//! Source: RFC 6455.

mod check;
mod handshake;
mod mailbox;
mod wire;

pub use handshake::Upgrade;
pub use mailbox::{Mailbox, Undelivered};
pub use tungstenite::{Bytes, Utf8Bytes};

use crate::Upgraded;
use crate::rt::is_cancelled;
use check::Check;
use mailbox::Shared;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use wire::Wire;

/// Room for reading, in bytes: a connection that only listens keeps no more.
const READ_BYTES: usize = 4 * 1024;
/// Longest wait for a client to answer a close.
const CLOSE_TIME: Duration = Duration::from_secs(1);
/// Most bytes that a client may send after it broke a rule, while it reads which.
const DISCARD_BYTES: u64 = 1024 * 1024;

/// A message. Copies of it share its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Text.
    Text(Utf8Bytes),
    /// Bytes.
    Binary(Bytes),
}

impl Message {
    /// A message of text.
    pub fn text(text: impl Into<Utf8Bytes>) -> Self {
        Self::Text(text.into())
    }

    /// A message of bytes.
    pub fn binary(bytes: impl Into<Bytes>) -> Self {
        Self::Binary(bytes.into())
    }
}

/// How a connection ended.
///
/// Source: RFC 6455, section 7.4.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// The client closed, with this code; 1005 if it gave none.
    ByClient(u16),
    /// We closed, with this code: 1000 in good order, 1001 for a drain, 1002 and more for a rule that the client broke.
    ByServer(u16),
    /// The connection broke, or the client was silent for too long.
    Lost,
}

/// What a connection may bring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    frame_bytes: usize,
    message_bytes: usize,
    silence: Duration,
}

/// A connection that speaks WebSocket.
pub struct WebSocket<'r, 'a> {
    socket: tungstenite::WebSocket<Wire<'r, 'a>>,
    silence: Duration,
    pinged: bool,
    ended: Option<Closed>,
}

impl fmt::Debug for WebSocket<'_, '_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("WebSocket").field("ended", &self.ended).finish_non_exhaustive()
    }
}

impl<'r, 'a> WebSocket<'r, 'a> {
    fn over(stream: Upgraded<'r, 'a>, bounds: Bounds) -> Self {
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BYTES)
            .write_buffer_size(0)
            .max_frame_size(Some(bounds.frame_bytes))
            .max_message_size(Some(bounds.message_bytes));
        let wire = Wire::new(stream, Check::new(bounds.frame_bytes), Shared::new());
        let socket = tungstenite::WebSocket::from_raw_socket(wire, Role::Server, Some(config));
        Self { socket, silence: bounds.silence, pinged: false, ended: None }
    }

    /// What others send messages by to this client.
    pub fn mailbox(&self) -> Mailbox {
        Mailbox { shared: Arc::clone(&self.socket.get_ref().shared) }
    }

    /// How the connection ended, once it did.
    pub fn closed(&self) -> Option<Closed> {
        self.ended
    }

    /// The next message; `None` when the connection ended, as [`WebSocket::closed`] then says. Meanwhile pings are answered,
    /// and what is in the [`Mailbox`] is sent.
    ///
    /// # Errors
    ///
    /// If the coroutine is cancelled.
    pub fn recv(&mut self) -> io::Result<Option<Message>> {
        while self.ended.is_none() {
            while let Some(message) = self.socket.get_ref().shared.take() {
                self.send(message)?;
            }
            if self.ended.is_some() {
                break;
            }
            if self.socket.get_ref().stream.is_draining() {
                self.close(1001, "the server goes away")?;
                break;
            }
            if let Some(message) = self.step()? {
                return Ok(Some(message));
            }
        }
        Ok(None)
    }

    /// Waits until something came, or something else is to be done.
    fn step(&mut self) -> io::Result<Option<Message>> {
        let wire = self.socket.get_mut();
        wire.until = wire.heard + if self.pinged { self.silence } else { self.silence / 2 };
        let outcome = self.socket.read();
        match outcome {
            Ok(tungstenite::Message::Text(text)) => return Ok(Some(Message::Text(text))),
            Ok(tungstenite::Message::Binary(bytes)) => return Ok(Some(Message::Binary(bytes))),
            Ok(tungstenite::Message::Close(said)) => {
                let code =
                    said.map_or(1005, |said| self.socket.get_ref().check.code().unwrap_or(said.code.into()));
                self.end(Closed::ByClient(code));
                // Our answer waits to be sent.
                self.socket.flush().ok();
                let deadline = Instant::now() + CLOSE_TIME;
                self.socket.get_mut().linger(deadline, DISCARD_BYTES);
            }
            Ok(_) => {}
            Err(tungstenite::Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                self.listen()?
            }
            Err(error) => self.fail(error)?,
        }
        if self.socket.get_ref().heard > Instant::now() - self.silence / 2 {
            self.pinged = false;
        }
        Ok(None)
    }

    /// Nothing came: a client that is silent is asked whether it is there, and one that does not say so is gone.
    fn listen(&mut self) -> io::Result<()> {
        let silent = self.socket.get_ref().heard.elapsed();
        if silent >= self.silence {
            self.end(Closed::Lost);
        } else if silent >= self.silence / 2 && !self.pinged {
            self.pinged = true;
            let sent = self.socket.send(tungstenite::Message::Ping(Bytes::new()));
            self.unless_lost(sent)?;
        }
        Ok(())
    }

    /// Tells the client what it did, and ends.
    fn fail(&mut self, error: tungstenite::Error) -> io::Result<()> {
        use tungstenite::error::ProtocolError::ResetWithoutClosingHandshake;
        let (code, why) = match (self.socket.get_ref().check.fault(), error) {
            (Some(fault), _) => (fault.code, fault.why),
            (None, tungstenite::Error::Capacity(_)) => (1009, "the message is too long"),
            (None, tungstenite::Error::Utf8(_)) => (1007, "the text is not UTF-8"),
            (None, tungstenite::Error::Protocol(error)) if error != ResetWithoutClosingHandshake => {
                (1002, "a frame out of place")
            }
            (None, error) => return self.unless_lost(Err(error)),
        };
        let said = self.socket.close(Some(frame(code, why)));
        self.end(Closed::ByServer(code));
        if said.is_ok() {
            let deadline = Instant::now() + CLOSE_TIME;
            self.socket.get_mut().linger(deadline, DISCARD_BYTES);
        }
        Ok(())
    }

    /// Sends a message, and waits until it has gone. To a client that is gone it does nothing.
    ///
    /// # Errors
    ///
    /// If the coroutine is cancelled.
    pub fn send(&mut self, message: Message) -> io::Result<()> {
        if self.ended.is_some() {
            return Ok(());
        }
        let sent = self.socket.send(match message {
            Message::Text(text) => tungstenite::Message::Text(text),
            Message::Binary(bytes) => tungstenite::Message::Binary(bytes),
        });
        self.unless_lost(sent)
    }

    /// Closes the connection, and waits up to a second for the client to agree. `code` is 1000 to 4999; what is no code of an
    /// endpoint's own is 1000.
    ///
    /// # Errors
    ///
    /// If the coroutine is cancelled.
    pub fn close(&mut self, code: u16, reason: &str) -> io::Result<()> {
        if self.ended.is_some() {
            return Ok(());
        }
        let code = if check::is_allowed(code) { code } else { 1000 };
        self.end(Closed::ByServer(code));
        let said = self.socket.close(Some(frame(code, reason)));
        self.unless_lost(said)?;
        let deadline = Instant::now() + CLOSE_TIME;
        self.socket.get_mut().until = deadline;
        self.socket.get_mut().closing = true;
        while Instant::now() < deadline {
            match self.socket.read() {
                Ok(_) => {}
                Err(tungstenite::Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => break,
            }
        }
        Ok(())
    }

    fn end(&mut self, how: Closed) {
        self.ended.get_or_insert(how);
        self.socket.get_ref().shared.close();
    }

    /// A client that is gone is no error; a coroutine that is cancelled is one.
    fn unless_lost(&mut self, outcome: tungstenite::Result<()>) -> io::Result<()> {
        match outcome {
            Ok(()) | Err(tungstenite::Error::ConnectionClosed) => Ok(()),
            Err(tungstenite::Error::Io(error)) if is_cancelled(&error) => Err(error),
            Err(_) => {
                self.end(Closed::Lost);
                Ok(())
            }
        }
    }
}

impl Drop for WebSocket<'_, '_> {
    fn drop(&mut self) {
        self.socket.get_ref().shared.close();
    }
}

/// Longest reason of a close, in bytes: what is left of a control frame.
const REASON_BYTES_MAX: usize = 123;

fn frame(code: u16, reason: &str) -> CloseFrame {
    let reason = &reason[..reason.floor_char_boundary(REASON_BYTES_MAX)];
    CloseFrame { code: CloseCode::from(code), reason: Utf8Bytes::from(reason) }
}
