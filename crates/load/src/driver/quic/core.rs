//! One connection of QUIC without a socket and without a clock: datagrams in and out, pieces of streams in and out.
//!
//! `quinn-proto` is the state machine; here its streams become pieces ([`crate::session::http3::piece`]) and its errors
//! sentences.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use quinn_proto::{
    Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir, Endpoint, Event, FinishError,
    ReadError, Side, StreamEvent, StreamId, Transmit, VarInt, WriteError,
};
use rustls::{AlertDescription, CertificateError, Error};

use super::client::Client;
use crate::driver::link::Refusal;
use crate::session::http3::code;
use crate::session::http3::piece::{HEAD_BYTES, Piece, head_of_data, room};
use crate::tls::explain;

/// Codes of errors of TLS begin here. Source: RFC 9001, section 4.8.
const OF_TLS: u64 = 0x100;

/// A connection.
pub(super) struct Core {
    endpoint: Endpoint,
    handle: ConnectionHandle,
    connection: Connection,
    remote: SocketAddr,
    /// Streams of ours that were begun and not used, and how many of them there may be.
    unused: u32,
    ahead: u32,
    /// Those of them that HTTP/3 was not told of.
    rooms: VecDeque<u64>,
    readable: VecDeque<StreamId>,
    /// What flow control does not let go yet, in the order in which it came.
    held: VecDeque<Held>,
    open: bool,
    lost: Option<ConnectionError>,
    /// Whether there may be something to send.
    restless: bool,
}

/// Bytes of a stream that wait for room.
struct Held {
    stream: StreamId,
    bytes: Bytes,
    last: bool,
}

impl Core {
    pub(super) fn new(
        client: &Client,
        remote: SocketAddr,
        search: bool,
        now: Instant,
    ) -> Result<Self, String> {
        let mut endpoint = Endpoint::new(Arc::clone(&client.endpoint), None, search, None);
        let (handle, connection) = endpoint
            .connect(now, client.config.clone(), remote, &client.name)
            .map_err(|error| error.to_string())?;
        Ok(Self {
            endpoint,
            handle,
            connection,
            remote,
            unused: 0,
            ahead: client.ahead,
            rooms: VecDeque::new(),
            readable: VecDeque::new(),
            held: VecDeque::new(),
            open: false,
            lost: None,
            restless: true,
        })
    }

    /// Takes in datagrams that came together, each but the last of `stride` bytes.
    pub(super) fn take_in(
        &mut self,
        now: Instant,
        datagrams: &[u8],
        stride: usize,
        ecn: Option<quinn_udp::EcnCodepoint>,
    ) {
        let ecn = ecn.and_then(|ecn| quinn_proto::EcnCodepoint::from_bits(ecn as u8));
        let mut rest = BytesMut::from(datagrams);
        // What is answered without a connection is none of ours.
        let mut ignored = Vec::new();
        while !rest.is_empty() {
            let datagram = rest.split_to(rest.len().min(stride.max(1)));
            let event = self.endpoint.handle(now, self.remote, None, ecn, datagram, &mut ignored);
            if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
                self.connection.handle_event(event);
            }
        }
        self.restless = true;
    }

    /// Hears what has happened on the connection.
    pub(super) fn turn(&mut self) {
        while let Some(event) = self.connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.connection.handle_event(event);
            }
        }
        while let Some(event) = self.connection.poll() {
            match event {
                Event::Connected => self.open = true,
                Event::ConnectionLost { reason } => _ = self.lost.get_or_insert(reason),
                Event::Stream(event) => self.heed(event),
                Event::HandshakeDataReady | Event::DatagramReceived | Event::DatagramsUnblocked => {}
            }
        }
        if self.open && self.lost.is_none() {
            self.begin_ahead();
            self.release();
        }
    }

    fn heed(&mut self, event: StreamEvent) {
        match event {
            StreamEvent::Readable { id } => self.readable.push_back(id),
            StreamEvent::Opened { dir } => {
                while let Some(id) = self.connection.streams().accept(dir) {
                    self.readable.push_back(id);
                }
            }
            // The server wants no more of a request.
            StreamEvent::Stopped { id, .. } => {
                self.held.retain(|held| held.stream != id);
                let _ = self.connection.send_stream(id).reset(code_of(code::REQUEST_CANCELLED));
            }
            StreamEvent::Writable { .. } | StreamEvent::Finished { .. } | StreamEvent::Available { .. } => {}
        }
    }

    /// Begins streams before they are needed: so HTTP/3 knows how many the server allows.
    fn begin_ahead(&mut self) {
        while self.unused < self.ahead {
            let Some(id) = self.connection.streams().open(Dir::Bi) else { return };
            self.unused += 1;
            self.rooms.push_back(id.into());
        }
    }

    /// Whether there is more to give.
    pub(super) fn has_more(&self) -> bool {
        !self.rooms.is_empty() || !self.readable.is_empty()
    }

    /// Writes pieces to `buf`; gives how many bytes.
    pub(super) fn give(&mut self, buf: &mut [u8]) -> usize {
        let mut used = 0;
        while buf.len() - used >= HEAD_BYTES {
            let Some(stream) = self.rooms.pop_front() else { break };
            buf[used..used + HEAD_BYTES].copy_from_slice(&room(stream));
            used += HEAD_BYTES;
        }
        while let Some(id) = self.readable.front().copied() {
            let (bytes, whole) = self.give_stream(id, &mut buf[used..]);
            used += bytes;
            if !whole {
                break;
            }
            self.readable.pop_front();
        }
        used
    }

    /// Writes what has come on a stream; how many bytes, and whether that is all there is now.
    fn give_stream(&mut self, id: StreamId, buf: &mut [u8]) -> (usize, bool) {
        /// The least that is worth a piece.
        const LEAST_BYTES: usize = 2 * HEAD_BYTES;
        let mut used = 0;
        // The piece before, to which an end can be added.
        let mut before: Option<(usize, usize)> = None;
        let mut stream = self.connection.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else { return (0, true) };
        let whole = loop {
            let room = buf.len() - used;
            if room < LEAST_BYTES {
                break false;
            }
            match chunks.next(room - HEAD_BYTES) {
                Ok(Some(chunk)) => {
                    let length = chunk.bytes.len();
                    buf[used..used + HEAD_BYTES].copy_from_slice(&head_of_data(id.into(), length, false));
                    buf[used + HEAD_BYTES..used + HEAD_BYTES + length].copy_from_slice(&chunk.bytes);
                    before = Some((used, length));
                    used += HEAD_BYTES + length;
                }
                Ok(None) => {
                    let (at, length) = before.unwrap_or((used, 0));
                    buf[at..at + HEAD_BYTES].copy_from_slice(&head_of_data(id.into(), length, true));
                    used = used.max(at + HEAD_BYTES);
                    break true;
                }
                Err(ReadError::Blocked) => break true,
                Err(ReadError::Reset(code)) => {
                    let mut piece = Vec::new();
                    Piece::Reset { stream: id.into(), code: code.into_inner() }.write(&mut piece);
                    buf[used..used + piece.len()].copy_from_slice(&piece);
                    used += piece.len();
                    break true;
                }
            }
        };
        self.restless |= chunks.finalize().should_transmit();
        (used, whole)
    }

    /// Takes pieces from HTTP/3.
    ///
    /// # Errors
    /// The connection allows less than HTTP/3 needs.
    pub(super) fn take_pieces(&mut self, now: Instant, mut pieces: &[u8]) -> Result<(), ()> {
        while let Some(piece) = Piece::next(&mut pieces) {
            match piece {
                Piece::Data { stream, bytes, last } => self.send(stream, bytes, last)?,
                Piece::Reset { stream, code } => self.give_up(stream, code),
                Piece::Close { code } => self.close(now, code),
                Piece::Room { .. } => {}
            }
        }
        self.begin_ahead();
        self.restless = true;
        Ok(())
    }

    fn send(&mut self, stream: u64, bytes: &[u8], last: bool) -> Result<(), ()> {
        let stream = self.begun(stream)?;
        let written = match self.held.is_empty() {
            true => self.write(stream, bytes),
            false => 0,
        };
        if written == bytes.len() {
            if last {
                self.finish(stream);
            }
        } else {
            self.held.push_back(Held { stream, bytes: Bytes::copy_from_slice(&bytes[written..]), last });
        }
        Ok(())
    }

    /// The stream of that number, which is begun if it is one that goes to the server alone.
    fn begun(&mut self, number: u64) -> Result<StreamId, ()> {
        let stream = StreamId::from(VarInt::from_u64(number).map_err(drop)?);
        match stream.dir() {
            Dir::Bi => {
                self.unused = self.unused.saturating_sub(1);
                Ok(stream)
            }
            Dir::Uni => match self.connection.streams().open(Dir::Uni) {
                Some(opened) if opened == stream && stream.initiator() == Side::Client => Ok(stream),
                _ => Err(()),
            },
        }
    }

    /// Hands bytes to a stream; how many of them it took.
    fn write(&mut self, stream: StreamId, bytes: &[u8]) -> usize {
        let mut written = 0;
        while written < bytes.len() {
            match self.connection.send_stream(stream).write(&bytes[written..]) {
                Ok(more) => written += more,
                Err(WriteError::Blocked) => break,
                // The server wants no more of it.
                Err(WriteError::Stopped(_) | WriteError::ClosedStream) => return bytes.len(),
            }
        }
        written
    }

    fn finish(&mut self, stream: StreamId) {
        match self.connection.send_stream(stream).finish() {
            Ok(()) | Err(FinishError::Stopped(_) | FinishError::ClosedStream) => {}
        }
    }

    /// Hands over what was held, as far as there is room.
    fn release(&mut self) {
        while let Some(mut held) = self.held.pop_front() {
            let written = self.write(held.stream, &held.bytes);
            self.restless |= written > 0;
            if written < held.bytes.len() {
                _ = held.bytes.split_to(written);
                self.held.push_front(held);
                return;
            }
            if held.last {
                self.finish(held.stream);
                self.restless = true;
            }
        }
    }

    /// Whether more can be taken.
    pub(super) fn has_room(&self) -> bool {
        self.held.is_empty()
    }

    fn give_up(&mut self, stream: u64, code: u64) {
        let Ok(number) = VarInt::from_u64(stream) else { return };
        let stream = StreamId::from(number);
        self.held.retain(|held| held.stream != stream);
        // What is over is not to be given up any more.
        let _ = self.connection.send_stream(stream).reset(code_of(code));
        let _ = self.connection.recv_stream(stream).stop(code_of(code));
    }

    /// Closes the connection; nothing more is sent but that.
    pub(super) fn close(&mut self, now: Instant, code: u64) {
        if !self.connection.is_closed() {
            self.connection.close(now, code_of(code), Bytes::new());
            self.restless = true;
        }
    }

    /// Datagrams to send, appended to `out`, `segments` at most.
    pub(super) fn transmit(&mut self, now: Instant, segments: usize, out: &mut Vec<u8>) -> Option<Transmit> {
        let transmit = self.connection.poll_transmit(now, segments, out);
        self.restless = transmit.is_some();
        transmit
    }

    /// Whether there may be something to send.
    pub(super) fn is_restless(&self) -> bool {
        self.restless
    }

    /// When something is to be done by itself.
    pub(super) fn deadline(&mut self) -> Option<Instant> {
        self.connection.poll_timeout()
    }

    /// Does what is due; true if something was.
    pub(super) fn tick(&mut self, now: Instant) -> bool {
        let due = self.connection.poll_timeout().is_some_and(|deadline| deadline <= now);
        if due {
            self.connection.handle_timeout(now);
            self.restless = true;
        }
        due
    }

    /// Whether streams can be used.
    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    /// Whether the server has closed the connection in good order.
    pub(super) fn is_ended(&self) -> bool {
        matches!(&self.lost, Some(ConnectionError::ApplicationClosed(close)) if close.error_code.into_inner() == code::NO_ERROR)
    }

    /// Whether the connection is over, in whatever way.
    pub(super) fn is_broken(&self) -> bool {
        self.lost.is_some()
    }

    /// Why the handshake failed, if it did.
    pub(super) fn refusal(&self) -> Option<Refusal> {
        self.lost.as_ref().map(|lost| Refusal::Tls(why(lost)))
    }

    /// Why the server broke off an open connection, if it gave a reason that is one of TLS.
    pub(super) fn reason(&self) -> Option<String> {
        match self.lost.as_ref()? {
            ConnectionError::ConnectionClosed(close) => {
                alert_of(close.error_code.into()).map(|alert| explain(&Error::AlertReceived(alert)))
            }
            _ => None,
        }
    }
}

fn code_of(code: u64) -> VarInt {
    VarInt::from_u64(code).unwrap_or(VarInt::MAX)
}

/// The alert of TLS that a code stands for.
fn alert_of(code: u64) -> Option<AlertDescription> {
    Some(AlertDescription::from(u8::try_from(code.checked_sub(OF_TLS)?).ok()?))
}

/// Why a handshake failed, in a sentence that says what would allow it.
fn why(lost: &ConnectionError) -> String {
    match lost {
        ConnectionError::TransportError(error) => match alert_of(error.code.into()) {
            Some(alert) => refusal(alert, &error.reason),
            None => format!("what the server says is not QUIC ({error})"),
        },
        ConnectionError::ConnectionClosed(close) => match alert_of(close.error_code.into()) {
            Some(AlertDescription::NoApplicationProtocol) => not_spoken(),
            Some(alert) => explain(&Error::AlertReceived(alert)),
            None => format!("the server broke the handshake off ({lost})"),
        },
        ConnectionError::VersionMismatch => "the server speaks no version of QUIC that we do".to_owned(),
        ConnectionError::TimedOut => "the server did not answer in time".to_owned(),
        other => format!("the server broke the handshake off ({other})"),
    }
}

fn not_spoken() -> String {
    "the server does not speak HTTP/3 on this port: leave --http3 out".to_owned()
}

/// Why we refused the server, from the alert that it was sent: QUIC keeps only that and a text.
fn refusal(alert: AlertDescription, text: &str) -> String {
    use CertificateError as E;
    let certificate = match alert {
        AlertDescription::UnknownCA | AlertDescription::DecryptError => E::UnknownIssuer,
        AlertDescription::CertificateExpired if text.contains("not valid yet") => E::NotValidYet,
        AlertDescription::CertificateExpired => E::Expired,
        AlertDescription::BadCertificate if text.contains("not valid for name") => E::NotValidForName,
        AlertDescription::NoApplicationProtocol => return not_spoken(),
        _ => return text.to_owned(),
    };
    explain(&Error::InvalidCertificate(certificate))
}
