//! How a worker's connections are opened, and given up.

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

use model::units::format_ns;
use rustix::event::epoll;

use super::Worker;
use crate::Address;
use crate::driver::clock::now_ns;
use crate::driver::link::{Link, Refusal};
use crate::driver::socket;
use crate::driver::stamps::Stamps;
use crate::histogram::Record as _;
use crate::session::Protocol;

impl<P: Protocol> Worker<'_, P> {
    #[cold]
    pub(super) fn open(&mut self, lane: u32, now: u64) {
        let source = self.source(lane);
        let slot = &mut self.slots[lane as usize];
        slot.generation = slot.generation.wrapping_add(1);
        slot.connecting = true;
        let data = epoll::EventData::new_u64(u64::from(slot.generation) << 32 | u64::from(lane));
        // Edges, asked for once: no call per request. A short read says that nothing is left.
        let flags =
            epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        let opened = self.socket(source).and_then(|socket| {
            if self.stamps.is_some() {
                Stamps::ask(&socket, true);
            }
            epoll::add(&self.epoll, &socket, data, flags).map(|()| socket).map_err(Into::into)
        });
        match opened.map_err(Refusal::from).and_then(|socket| self.link(socket)) {
            Ok(link) => {
                let slot = &mut self.slots[lane as usize];
                slot.link = Some(link);
                self.opener.begun(lane, slot, now);
            }
            Err(refusal) => self.open_failed(lane, refusal, now),
        }
    }

    fn socket(&self, source: Option<IpAddr>) -> io::Result<OwnedFd> {
        match &self.setup.address {
            Address::Tcp(remote) if self.setup.tls.is_some_and(|client| client.quic.is_some()) => {
                socket::open_udp(*remote, source)
            }
            address => socket::open(address, source),
        }
    }

    fn link(&self, socket: OwnedFd) -> Result<Link, Refusal> {
        Link::new(socket, self.setup.tls, &self.setup.address)
    }

    /// The address that a lane's connection comes from: each in turn.
    fn source(&self, lane: u32) -> Option<IpAddr> {
        let sources = self.setup.sources;
        (!sources.is_empty()).then(|| sources[lane as usize % sources.len()])
    }

    #[cold]
    pub(super) fn open_failed(&mut self, lane: u32, refusal: Refusal, now: u64) {
        self.opener.failed(lane, &mut self.slots[lane as usize], refusal, now);
        self.session.connect_failed(now);
    }

    /// Gives up attempts to connect that take too long.
    pub(super) fn end_attempts(&mut self, now: u64) {
        while let Some((lane, generation)) = self.opener.overdue(now) {
            let slot = &self.slots[lane as usize];
            if slot.connecting && slot.generation == generation {
                let refusal = self.unanswered(slot.is_connected());
                self.open_failed(lane, refusal, now);
            }
        }
    }

    /// Nobody answered the attempt to open a connection, or, where it is `connected`, the handshake on it.
    fn unanswered(&self, connected: bool) -> Refusal {
        let within = format_ns(self.opener.attempt_ns as f64);
        match self.setup.tls {
            Some(client) if client.quic.is_some() => Refusal::Tls(format!(
                "the server did not finish the handshake of QUIC within {within} (--timeout): does it speak HTTP/3 on this port of UDP?"
            )),
            Some(_) if connected => Refusal::Tls(format!(
                "the server did not finish the handshake within {within} (--timeout): does it speak TLS on this port?"
            )),
            _ => Refusal::System(io::ErrorKind::TimedOut.into()),
        }
    }

    /// A connection that is being opened has something to say.
    #[cold]
    pub(super) fn connected(&mut self, lane: u32) {
        let slot = &mut self.slots[lane as usize];
        let connected_ns = now_ns();
        let Some(link) = &mut slot.link else { return };
        let established = link.establish();
        slot.note_connected(connected_ns);
        match established {
            Ok(true) => {
                slot.connecting = false;
                self.opener.succeeded(slot);
                let now = now_ns();
                let [connect_ns, tls_ns] = slot.opening_ns(now);
                let opening = self.opening.get_or_insert_default();
                opening.connect.note(connect_ns);
                if self.setup.tls.is_some() {
                    opening.tls.note(tls_ns);
                }
                let fate = self.protocol.opened(&mut self.session, lane, now);
                self.settle(lane, fate, now);
                self.write(lane, now);
            }
            Ok(false) => {}
            Err(refusal) => self.open_failed(lane, refusal, now_ns()),
        }
    }
}
