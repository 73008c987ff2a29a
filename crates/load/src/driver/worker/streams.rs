//! A worker whose connections speak HTTP/2: each stream is a lane of the session.
//!
//! So the session decides as ever what is due and who sends it, and what waits for a stream waits in the schedule with
//! its stamp. A request that has a lane but no room on the server's side (its limit of concurrent streams) is not sent
//! yet either.

use super::{READS_IN_A_ROW, Worker};
use crate::LoadError;
use crate::driver::clock::now_ns;
use crate::driver::http2::{Ended, Http2, Lost, parse};
use crate::driver::socket::Moved;
use crate::session::Fate;

/// Bytes that may wait for a server that does not read them: more than its windows let us send of bodies, so that it can
/// only be answers to a flood of control frames.
const MOST_UNSENT_BYTES: usize = 64 * 1024 * 1024;

impl Worker<'_> {
    /// An open connection begins to speak HTTP/2.
    #[cold]
    pub(super) fn begin_streams(&mut self, connection: u32, streams: u32, now: u64) {
        match Http2::new(streams, self.session.listens()) {
            Ok(http2) => self.slots[connection as usize].http2 = Some(Box::new(http2)),
            Err(lost) => return self.lose(connection, streams, lost, now),
        }
        self.flush_streams(connection, streams, now);
        (0..streams).for_each(|stream| self.session.opened(connection * streams + stream));
    }

    /// Begins the stream for the request of `lane`, or lets it wait for room.
    pub(super) fn ask(&mut self, lane: u32, streams: u32, at: u64) {
        let connection = lane / streams;
        let Some(http2) = &mut self.slots[connection as usize].http2 else { return };
        let begun = match http2.is_open() {
            Ok(()) if http2.has_room() => self.begin_stream(lane, streams, at),
            Ok(()) => return http2.wait(lane % streams),
            Err(lost) => Err(lost),
        };
        match begun {
            Ok(()) => self.note_asked(connection),
            Err(lost) => self.lose(connection, streams, lost, at),
        }
    }

    fn begin_stream(&mut self, lane: u32, streams: u32, at: u64) -> Result<(), Lost> {
        let mut bytes = Vec::new();
        while !self.session.outgoing(lane).is_empty() {
            let outgoing = self.session.outgoing(lane);
            let length = outgoing.len();
            if self.pattern.is_none() {
                bytes.extend_from_slice(outgoing);
            }
            self.session.wrote(lane, length, at);
        }
        let secure = self.setup.tls.is_some();
        let Some((request, body)) = self.pattern.clone().or_else(|| parse(&bytes, secure)) else {
            self.hopeless
                .get_or_insert(LoadError::Request("what is to be sent is not a request of HTTP/1.1"));
            return Ok(());
        };
        let http2 = self.slots[(lane / streams) as usize].http2.as_mut();
        http2.map_or(Ok(()), |http2| http2.ask(lane % streams, request, body))
    }

    fn note_asked(&mut self, connection: u32) {
        let http2 = self.slots[connection as usize].http2.as_mut();
        if http2.is_some_and(|http2| !std::mem::replace(&mut http2.asked, true)) {
            self.asked.push(connection);
        }
    }

    /// Sends what was asked on all connections, each by one call.
    pub(super) fn flush_asked(&mut self, streams: u32, now: u64) {
        while let Some(connection) = self.asked.pop() {
            if let Some(http2) = &mut self.slots[connection as usize].http2 {
                http2.asked = false;
            }
            self.drive(connection, streams, now);
        }
    }

    /// The request of `lane` is given up; its connection stays.
    pub(super) fn cancel(&mut self, lane: u32, streams: u32) {
        let connection = lane / streams;
        if let Some(http2) = &mut self.slots[connection as usize].http2 {
            http2.cancel(lane % streams);
            self.session.opened(lane);
            self.note_asked(connection);
        }
    }

    /// Reads until nothing is left, and answers at once to what that makes possible.
    pub(super) fn read_streams(&mut self, connection: u32, streams: u32, closing: bool) {
        for _ in 0..READS_IN_A_ROW {
            let slot = &mut self.slots[connection as usize];
            let (Some(link), Some(http2)) = (&mut slot.link, &mut slot.http2) else { return };
            let (moved, more) = link.read(&mut self.buf, closing);
            let now = now_ns();
            if now > self.last_ns {
                return;
            }
            match moved {
                Moved::Bytes(bytes) => {
                    http2.receive(&self.buf[..bytes]);
                    self.session.count_bytes(bytes, now);
                    self.drive(connection, streams, now);
                }
                Moved::Later => return,
                Moved::End | Moved::Broken => {
                    self.note_reason(connection);
                    self.lose(connection, streams, Lost::BROKEN, now);
                }
            }
            self.transmit(now);
            if !more {
                return;
            }
        }
        self.unread.push(connection);
    }

    /// Goes as far as a connection can: takes what has ended, begins what waited, and sends.
    fn drive(&mut self, connection: u32, streams: u32, now: u64) {
        let mut ended = std::mem::take(&mut self.ended);
        while let Some(http2) = &mut self.slots[connection as usize].http2 {
            let advanced = http2.advance(|stream, how| ended.push((stream, how)));
            for (stream, how) in ended.drain(..) {
                self.stream_ended(connection * streams + stream, streams, how, now);
            }
            if let Err(lost) = advanced {
                self.flush_streams(connection, streams, now);
                self.lose(connection, streams, lost, now);
                break;
            }
            if !self.begin_waiting(connection, streams, now) {
                break;
            }
        }
        self.ended = ended;
        self.flush_streams(connection, streams, now);
    }

    fn stream_ended(&mut self, lane: u32, streams: u32, how: Ended, now: u64) {
        let http2 = self.slots[(lane / streams) as usize].http2.as_mut();
        if let Some(heard) = http2.and_then(|http2| http2.take_heard(lane % streams)) {
            self.session.stream_heard(lane, heard);
        }
        let fate = match how {
            Ended::Answered(status) => self.session.stream_answered(lane, status, now),
            Ended::Reset => self.session.failed(lane, false, now),
        };
        if fate == Fate::Replace {
            // The connection stays, and the lane with it.
            self.session.opened(lane);
        }
    }

    /// Begins requests that waited for room; true if there were any.
    fn begin_waiting(&mut self, connection: u32, streams: u32, now: u64) -> bool {
        let mut begun = false;
        while let Some(http2) = &mut self.slots[connection as usize].http2 {
            let Some(stream) = http2.next_waiting() else { break };
            begun = true;
            if let Err(lost) = self.begin_stream(connection * streams + stream, streams, now) {
                self.lose(connection, streams, lost, now);
            }
        }
        begun
    }

    /// Writes what a connection has to send, as far as the socket takes it.
    pub(super) fn flush_streams(&mut self, connection: u32, streams: u32, now: u64) {
        let slot = &mut self.slots[connection as usize];
        let (Some(link), Some(http2)) = (&mut slot.link, &mut slot.http2) else { return };
        let outgoing = http2.outgoing();
        let mut written = 0;
        while written < outgoing.len() {
            match link.write(&outgoing[written..]) {
                Moved::Bytes(bytes) => written += bytes,
                // The edge that says that there is room again finds the rest. A break is found by the next read.
                Moved::Later | Moved::End | Moved::Broken => break,
            }
        }
        outgoing.drain(..written);
        if outgoing.len() > MOST_UNSENT_BYTES {
            self.lose(connection, streams, Lost::BROKEN, now);
        }
    }

    /// A connection is over: what was sent on it fails, and another takes its place.
    #[cold]
    fn lose(&mut self, connection: u32, streams: u32, lost: Lost, now: u64) {
        let slot = &mut self.slots[connection as usize];
        if slot.link.take().is_none() {
            return;
        }
        slot.http2 = None;
        for lane in connection * streams..(connection + 1) * streams {
            let _ = self.session.stream_lost(lane, lost.malformed, now);
        }
        if lost.malformed && self.session.completed() == 0 {
            let address = self.setup.address.to_string();
            self.hopeless.get_or_insert(LoadError::Http2 { address });
        }
        self.opener.lost(connection);
    }
}
