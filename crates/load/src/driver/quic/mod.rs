//! QUIC between a worker and a socket: what TLS and TCP are for the other protocols.

mod client;
mod core;
#[cfg(test)]
mod hostile;

use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use quinn_proto::Transmit;
use quinn_udp::{RecvMeta, UdpSocketState};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

pub(crate) use self::client::Client;
use self::core::Core;
use super::clock::now_ns;
use super::link::Refusal;
use super::socket::{self, Moved};
use crate::session::http3::code;

/// Bytes of what one message of the kernel holds: with receive offload, many datagrams.
const MESSAGE_BYTES: usize = 64 * 1024;
/// Messages that one call takes.
const MESSAGES: usize = 2;
/// Bytes that a socket is asked to hold of what was not read yet; the system may allow less.
const SOCKET_BYTES: usize = 4 * 1024 * 1024;

/// A connection of QUIC and its socket.
pub(crate) struct Quic {
    core: Core,
    socket: OwnedFd,
    state: UdpSocketState,
    remote: SocketAddr,
    /// Datagrams that the socket had no room for.
    unsent: Option<Transmit>,
    /// What is being sent.
    out: Vec<u8>,
    /// Whether the last read took all there was.
    drained: bool,
    /// Why the socket is of no use.
    broken: Option<io::Error>,
}

impl fmt::Debug for Quic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Quic").field("remote", &self.remote).finish_non_exhaustive()
    }
}

impl Quic {
    pub(crate) fn new(socket: OwnedFd, client: &Client, remote: SocketAddr) -> Result<Self, Refusal> {
        let state = UdpSocketState::new((&socket).into())?;
        // What is refused leaves it as it is.
        let _ = state.set_recv_buffer_size((&socket).into(), SOCKET_BYTES);
        let core = Core::new(client, remote, !state.may_fragment(), Instant::now()).map_err(Refusal::Tls)?;
        Ok(Self { core, socket, state, remote, unsent: None, out: Vec::new(), drained: false, broken: None })
    }

    /// Goes on with the handshake as far as it can; true when it is over.
    pub(crate) fn establish(&mut self) -> Result<bool, Refusal> {
        socket::connected(&self.socket)?;
        let mut buf = vec![0; MESSAGES * MESSAGE_BYTES];
        while self.take_in(&mut buf) && !self.core.is_open() {}
        self.core.turn();
        self.transmit();
        if let Some(error) = self.broken.take() {
            return Err(error.into());
        }
        match self.core.refusal() {
            Some(refusal) => Err(refusal),
            None => Ok(self.core.is_open()),
        }
    }

    pub(crate) fn rouse(&mut self) {
        self.drained = false;
    }

    /// Takes in what the socket has, then gives pieces of streams; whether there is more.
    pub(crate) fn read(&mut self, buf: &mut [u8]) -> (Moved, bool) {
        let more = !self.drained && self.take_in(buf);
        self.core.turn();
        let bytes = self.core.give(buf);
        if bytes > 0 {
            return (Moved::Bytes(bytes), more || self.core.has_more());
        }
        match (self.broken.is_some() || self.core.is_broken(), self.core.is_ended()) {
            (_, true) => (Moved::End, false),
            (true, false) => (Moved::Broken, false),
            // What came may have been nothing but confirmations.
            (false, false) => (Moved::Later, more),
        }
    }

    /// Takes pieces and sends what they bring.
    pub(crate) fn write(&mut self, pieces: &[u8]) -> Moved {
        if self.unsent.is_some() || !self.core.has_room() {
            self.transmit();
            if self.unsent.is_some() || !self.core.has_room() {
                return Moved::Later;
            }
        }
        let now = Instant::now();
        if self.core.take_pieces(now, pieces).is_err() {
            // What is broken off is found by the next read.
            self.broken.get_or_insert_with(|| io::ErrorKind::ConnectionAborted.into());
            self.core.close(now, code::NO_ERROR);
            return Moved::Broken;
        }
        self.transmit();
        Moved::Bytes(pieces.len())
    }

    /// Sends what there is to send, of whatever kind.
    pub(crate) fn flush(&mut self) {
        if self.unsent.is_some() || self.core.is_restless() {
            self.transmit();
        }
    }

    /// Does what is due; true if something was.
    pub(crate) fn tick(&mut self) -> bool {
        self.core.tick(Instant::now())
    }

    /// When something is due by itself, on the clock of [`now_ns`]; `u64::MAX` if never.
    pub(crate) fn wake_ns(&mut self) -> u64 {
        let Some(deadline) = self.core.deadline() else { return u64::MAX };
        let left = deadline.saturating_duration_since(Instant::now());
        now_ns().saturating_add(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Why the server broke off an open connection, if it gave a reason that is one of TLS.
    pub(crate) fn reason(&self) -> Option<String> {
        self.core.reason()
    }

    /// One read of the socket; whether there may be more.
    fn take_in(&mut self, buf: &mut [u8]) -> bool {
        let mut metas = [RecvMeta::default(); MESSAGES];
        let (first, second) = buf.split_at_mut(MESSAGE_BYTES);
        let mut parts = [IoSliceMut::new(first), IoSliceMut::new(&mut second[..MESSAGE_BYTES])];
        let messages = match self.state.recv((&self.socket).into(), &mut parts, &mut metas) {
            Ok(messages) => messages,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.drained = true;
                return false;
            }
            Err(error) => {
                self.drained = true;
                self.broken.get_or_insert(error);
                return false;
            }
        };
        let now = Instant::now();
        for (meta, part) in metas[..messages].iter().zip(&parts) {
            self.core.take_in(now, &part[..meta.len], meta.stride, meta.ecn);
        }
        self.drained = messages < MESSAGES;
        !self.drained
    }

    /// Sends until nothing is left or the socket is full.
    fn transmit(&mut self) {
        loop {
            let transmit = match self.unsent.take() {
                Some(transmit) => transmit,
                None => {
                    self.out.clear();
                    let segments = self.state.max_gso_segments();
                    match self.core.transmit(Instant::now(), segments, &mut self.out) {
                        Some(transmit) => transmit,
                        None => return,
                    }
                }
            };
            let sent = self.state.try_send(
                (&self.socket).into(),
                &quinn_udp::Transmit {
                    destination: transmit.destination,
                    ecn: transmit.ecn.and_then(|ecn| quinn_udp::EcnCodepoint::from_bits(ecn as u8)),
                    contents: &self.out[..transmit.size],
                    segment_size: transmit.segment_size,
                    src_ip: None,
                },
            );
            match sent {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.unsent = Some(transmit);
                    return;
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    self.broken.get_or_insert(error);
                    return;
                }
                // Too large for the path, or lost on the way: what was lost is sent again.
                Ok(()) | Err(_) => {}
            }
        }
    }
}

impl Drop for Quic {
    fn drop(&mut self) {
        self.core.close(Instant::now(), code::NO_ERROR);
        self.transmit();
    }
}

/// Tries to open a connection within `limit`.
///
/// # Errors
/// Why that fails.
pub(crate) fn probe(remote: SocketAddr, client: &Client, limit: Duration) -> Result<(), Refusal> {
    let deadline = Instant::now() + limit;
    let socket = socket::open_udp(remote, None)?;
    let mut quic = Quic::new(socket, client, remote)?;
    while !quic.establish()? {
        let now = Instant::now();
        if now >= deadline {
            return Err(Refusal::System(io::ErrorKind::TimedOut.into()));
        }
        let until = quic.core.deadline().unwrap_or(deadline).min(deadline);
        let wait = Timespec::try_from(until.saturating_duration_since(now)).unwrap_or_default();
        // A signal only makes the wait short.
        let _ = poll(&mut [PollFd::new(&quic.socket, PollFlags::IN)], Some(&wait));
        quic.rouse();
        quic.tick();
    }
    Ok(())
}
