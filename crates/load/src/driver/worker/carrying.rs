//! How a worker carries bytes between its sockets and the session: it writes what is due, and reads what has come.

use rustix::event::epoll;

use super::{WAKER, Worker};
use crate::LoadError;
use crate::driver::clock::now_ns;
use crate::driver::link::Link;
use crate::driver::socket::Moved;
use crate::session::{End, Fate, Protocol, Sending};

/// Full reads of one connection before the others have their turn.
const READS_IN_A_ROW: u32 = 8;

impl<P: Protocol> Worker<'_, P> {
    /// Hands out what is due and writes it, each connection by one call.
    #[inline]
    pub(super) fn transmit(&mut self, now: u64) {
        self.hand_out(now);
        self.write_gathered(now);
    }

    /// Writes what was gathered on connections, each by one call.
    #[inline]
    fn write_gathered(&mut self, now: u64) {
        while let Some((connection, fate)) = self.protocol.gathered(&mut self.session, now) {
            self.write(connection, now);
            self.settle(connection, fate, now);
        }
    }

    #[inline]
    fn hand_out(&mut self, now: u64) {
        let mut at = now;
        loop {
            self.session.pace(at);
            let Some(lane) = self.session.next_write() else { return };
            self.vain.useful();
            match self.protocol.ask(&mut self.session, lane, at) {
                Sending::Now => self.write(lane, at),
                Sending::Later => {}
                Sending::Lost => self.settle(lane / self.protocol.lanes(), Fate::Replace, at),
            }
            if self.session.is_quiet(at) {
                return;
            }
            at = now_ns();
        }
    }

    #[inline]
    pub(super) fn write(&mut self, connection: u32, mut at: u64) {
        self.touch(connection);
        loop {
            let bytes = self.protocol.outgoing(&self.session, connection);
            let slot = &mut self.slots[connection as usize];
            let Some(link) = slot.link.as_mut().filter(|_| !bytes.is_empty()) else { return };
            let offered = bytes.len();
            match link.write(bytes) {
                Moved::Bytes(written) => {
                    self.protocol.wrote(&mut self.session, connection, written, at);
                    if written < offered || self.protocol.outgoing(&self.session, connection).is_empty() {
                        return;
                    }
                }
                // The edge that says that there is room again finds the connection with something to write.
                Moved::Later => return,
                Moved::End | Moved::Cut | Moved::Broken => {
                    self.note_reason(connection);
                    let fate = self.protocol.ended(&mut self.session, connection, End::Writing, at);
                    return self.settle(connection, fate, at);
                }
            }
            at = now_ns();
        }
    }

    #[inline]
    pub(super) fn handle_events(&mut self) {
        self.read_unread();
        for index in 0..self.events.len() {
            let event = self.events[index];
            let data = event.data.u64();
            if data == WAKER {
                self.setup.handle.rest();
                continue;
            }
            let (lane, generation) = (data as u32, (data >> 32) as u32);
            if self.slots[lane as usize].generation == generation {
                self.handle_event(lane, event.flags);
            }
        }
    }

    /// Goes on to read connections that had more than was read in a row.
    #[inline]
    pub(super) fn read_unread(&mut self) {
        for lane in std::mem::take(&mut self.unread) {
            // One that was lost since may be replaced by one that is not open yet.
            if !self.slots[lane as usize].connecting {
                self.read_all(lane, false);
            }
        }
    }

    #[inline]
    fn handle_event(&mut self, lane: u32, flags: epoll::EventFlags) {
        self.touch(lane);
        let slot = &mut self.slots[lane as usize];
        if let Some(link) = &mut slot.link {
            link.rouse();
        }
        if slot.connecting {
            self.connected(lane);
            // What has not failed, and is not open yet, reads for itself.
            if self.slots[lane as usize].connecting {
                return;
            }
        }
        if flags.contains(epoll::EventFlags::OUT) {
            self.write_rest(lane);
        }
        let readable = epoll::EventFlags::IN
            | epoll::EventFlags::RDHUP
            | epoll::EventFlags::HUP
            | epoll::EventFlags::ERR;
        if flags.intersects(readable) {
            let closing = flags.intersects(readable - epoll::EventFlags::IN);
            self.read_all(lane, closing);
        }
    }

    /// There is room again for what an earlier write had to leave.
    #[inline]
    fn write_rest(&mut self, lane: u32) {
        if let Some(link) = &mut self.slots[lane as usize].link {
            link.flush();
        }
        if !self.protocol.outgoing(&self.session, lane).is_empty() {
            self.write(lane, now_ns());
        }
    }

    /// Reads until nothing is left, and answers at once to what that makes possible.
    #[inline]
    pub(super) fn read_all(&mut self, lane: u32, closing: bool) {
        self.touch(lane);
        for _ in 0..READS_IN_A_ROW {
            let Some(link) = &mut self.slots[lane as usize].link else { return };
            let kept = self.protocol.unstash(&mut self.session, lane, &mut self.buf);
            let (moved, more, received_ns) =
                link.read_stamped(self.stamps.as_mut(), &mut self.buf[kept..], closing);
            let now = now_ns();
            let at = received_ns.map_or(now, |at| at.min(now));
            if at > self.last_ns {
                return;
            }
            let (came, before) = (matches!(moved, Moved::Bytes(_)), self.session.completed());
            let fate = self.take_in(lane, kept, moved, at);
            self.note_answer(came, self.session.completed() > before);
            self.settle(lane, fate, now);
            match now <= self.span.end_ns {
                // The end was announced, and what would be asked before it is read could not be answered.
                true if closing && more => {}
                true => self.transmit(now),
                false => self.write_gathered(now),
            }
            if fate == Fate::Replace || !more {
                return;
            }
        }
        self.unread.push(lane);
    }

    #[inline]
    fn take_in(&mut self, lane: u32, kept: usize, moved: Moved, now: u64) -> Fate {
        match moved {
            Moved::Bytes(fresh) => {
                self.protocol.received(&mut self.session, lane, &self.buf[..kept + fresh], fresh, now)
            }
            Moved::Later => {
                self.protocol.restash(&mut self.session, lane, &self.buf[..kept]);
                Fate::Keep
            }
            Moved::End => {
                self.note_reason(lane);
                self.protocol.ended(&mut self.session, lane, End::Closed, now)
            }
            Moved::Cut => {
                self.note_reason(lane);
                self.protocol.ended(&mut self.session, lane, End::Cut, now)
            }
            Moved::Broken => {
                self.note_reason(lane);
                self.protocol.ended(&mut self.session, lane, End::Reading, now)
            }
        }
    }

    /// A server that asks for a certificate may say so only after the handshake: if nothing was ever answered, then
    /// nothing will be.
    #[cold]
    fn note_reason(&mut self, lane: u32) {
        let reason = self.slots[lane as usize].link.as_ref().and_then(Link::reason);
        if let Some(why) = reason.filter(|_| self.session.completed() == 0) {
            self.hopeless.get_or_insert(LoadError::Tls {
                address: self.setup.address.to_string(),
                why,
                after: false,
            });
        }
    }

    #[inline]
    pub(super) fn settle(&mut self, connection: u32, fate: Fate, now: u64) {
        if fate == Fate::Replace {
            self.replace(connection, now);
        }
    }

    /// A connection is over, and another takes its place if there is anything left to send.
    #[cold]
    fn replace(&mut self, connection: u32, now: u64) {
        // A protocol may have last words.
        self.write(connection, now);
        let slot = &mut self.slots[connection as usize];
        let refused = self.protocol.take_refused();
        if slot.link.take().is_some() && !self.session.has_sent_all() {
            match refused {
                true => self.opener.refused(connection, slot, now),
                false => self.opener.lost(connection, slot),
            }
        }
    }
}
