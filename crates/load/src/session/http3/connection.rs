//! One connection of HTTP/3: which stream is whose, and what comes on it.

use std::collections::{HashMap, VecDeque};

use super::answer::{Answer, Heads, Wrong};
use super::code;
use super::control::{Inbound, Server, ours};
use super::piece::Piece;
use super::request::{Framed, framed};
use crate::session::carrier::{Came, Carrier};
use crate::session::{Heard, Reason, Sign};

/// Our control stream: the first that a client begins in one direction. Source: RFC 9000, section 2.1.
const CONTROL_STREAM: u64 = 2;
/// Lowest bits of a stream's number: who begins it, and whether it goes one way.
const KIND: u64 = 0b11;
const OURS: u64 = 0b00;
const OF_SERVER: u64 = 0b11;
/// Streams of a server that are open at once at most: three that it needs, and some of unknown kinds.
pub(crate) const MOST_INBOUND: u32 = 16;

/// One connection.
#[derive(Debug)]
pub struct Connection {
    /// What is to be sent, as pieces.
    out: Vec<u8>,
    lanes: Box<[Lane]>,
    /// The lane of each stream that is under way.
    of_stream: HashMap<u64, u32>,
    /// Streams that may be begun.
    rooms: VecDeque<u64>,
    inbound: HashMap<u64, Inbound>,
    server: Server,
    /// Whether it has answered anything: one that only ever refuses fails.
    proven: bool,
    /// Why the server broke off streams.
    reasons: Vec<Reason>,
}

#[derive(Debug, Default)]
struct Lane {
    /// The stream that is under way.
    stream: Option<u64>,
    answer: Answer,
    /// Whether any of it has come.
    begun: bool,
    bodiless: bool,
    /// The answer as it comes, where somebody wants to hear it.
    heard: Option<Box<Heard>>,
}

impl Connection {
    fn give_up(&mut self, lane: u32, code: u64) {
        if let Some(stream) = self.lanes[lane as usize].stream.take() {
            self.of_stream.remove(&stream);
            Piece::Reset { stream, code }.write(&mut self.out);
        }
    }

    /// More of an answer has come: to which lane, and what that means where it means anything.
    #[inline]
    fn answered(
        &mut self,
        stream: u64,
        bytes: &[u8],
        last: bool,
        heads: &mut Heads,
    ) -> Result<Option<(u32, Came)>, u64> {
        // What was given up may still be answered.
        let Some(lane) = self.of_stream.get(&stream).copied() else { return Ok(None) };
        let place = &mut self.lanes[lane as usize];
        match place.answer.take(bytes, last, place.bodiless, heads, place.heard.as_deref_mut()) {
            Ok(None) => Ok((!std::mem::replace(&mut place.begun, true)).then_some((lane, Came::Begun))),
            Ok(Some(status)) => {
                self.proven = true;
                place.stream = None;
                self.of_stream.remove(&stream);
                Ok(Some((lane, Came::Answered(status))))
            }
            Err(Wrong::Answer(error)) => {
                self.give_up(lane, code::MESSAGE_ERROR);
                Ok(Some((lane, Came::Malformed(error.into()))))
            }
            Err(Wrong::Connection(code)) => Err(code),
        }
    }

    /// More of a stream of the server's own has come.
    fn take_server_stream(
        &mut self,
        stream: u64,
        bytes: &[u8],
        last: bool,
        report: &mut impl FnMut(u32, Came),
    ) -> Result<(), u64> {
        let before = self.server.leaves_at;
        if self.inbound.len() >= MOST_INBOUND as usize && !self.inbound.contains_key(&stream) {
            return Err(code::EXCESSIVE_LOAD);
        }
        let taken = self.inbound.entry(stream).or_default().take(bytes, last, &mut self.server);
        if last {
            self.inbound.remove(&stream);
        }
        // A farewell counts also where what comes right after it breaks the protocol.
        if self.server.leaves_at != before {
            self.refuse(report);
        }
        taken
    }

    /// The server answers nothing from some stream on.
    #[cold]
    fn refuse(&mut self, report: &mut impl FnMut(u32, Came)) {
        let from = self.server.leaves_at.unwrap_or(u64::MAX);
        let mut refused: Vec<(u64, u32)> =
            self.of_stream.iter().map(|(stream, lane)| (*stream, *lane)).collect();
        let open = refused.len();
        refused.retain(|(stream, _)| *stream >= from);
        refused.sort_unstable();
        // Streams have no order among each other: what it goes on with may be answered only after the farewell.
        let looks = refused.len() < open;
        for (_, lane) in refused {
            self.give_up(lane, code::REQUEST_CANCELLED);
            report(lane, if self.proven || looks { Came::Refused { farewell: true } } else { Came::Reset });
        }
    }
}

impl Carrier for Connection {
    const NAME: &'static str = "HTTP/3";
    const TIMED: bool = true;
    type Common = Heads;
    type Request = Framed;
    type Fault = u64;

    fn open(_: &Heads, lanes: u32, hears: bool) -> Self {
        let mut out = Vec::new();
        Piece::Data { stream: CONTROL_STREAM, bytes: &ours(), last: false }.write(&mut out);
        Self {
            out,
            lanes: (0..lanes).map(|_| Lane { heard: hears.then(Box::default), ..Lane::default() }).collect(),
            of_stream: HashMap::new(),
            rooms: VecDeque::new(),
            inbound: HashMap::new(),
            server: Server::default(),
            proven: false,
            reasons: Vec::new(),
        }
    }

    fn request(_: &Heads, bytes: &[u8]) -> Option<Framed> {
        framed(bytes)
    }

    fn has_room(&self) -> bool {
        self.server.leaves_at.is_none() && !self.rooms.is_empty()
    }

    fn is_over(&self) -> bool {
        self.server.leaves_at.is_some() && self.of_stream.is_empty()
    }

    fn ask(&mut self, lane: u32, request: &Framed, _: bool) {
        let Some(stream) = self.rooms.pop_front() else { return };
        Piece::Data { stream, bytes: &request.bytes, last: true }.write(&mut self.out);
        self.of_stream.insert(stream, lane);
        let place = &mut self.lanes[lane as usize];
        (place.stream, place.begun, place.bodiless) = (Some(stream), false, request.head);
        place.answer = Answer::default();
    }

    fn cancel(&mut self, lane: u32) {
        self.give_up(lane, code::REQUEST_CANCELLED);
    }

    /// Takes in pieces. A fault is the code with which the connection is over.
    fn receive(
        &mut self,
        heads: &mut Heads,
        mut received: &[u8],
        bytes_of_streams: &mut usize,
        mut report: impl FnMut(u32, Came),
    ) -> Result<(), u64> {
        while let Some(piece) = Piece::next(&mut received) {
            if let Piece::Data { bytes, .. } = piece {
                *bytes_of_streams += bytes.len();
            }
            match piece {
                Piece::Room { stream } => self.rooms.push_back(stream),
                Piece::Data { stream, bytes, last } if stream & KIND == OURS => {
                    if let Some((lane, how)) = self.answered(stream, bytes, last, heads)? {
                        report(lane, how);
                    }
                }
                Piece::Data { stream, bytes, last } if stream & KIND == OF_SERVER => {
                    self.take_server_stream(stream, bytes, last, &mut report)?;
                }
                // We have allowed no such stream.
                Piece::Data { .. } => return Err(code::STREAM_CREATION),
                Piece::Reset { stream, code } if stream & KIND == OURS => {
                    if let Some(lane) = self.of_stream.remove(&stream) {
                        self.lanes[lane as usize].stream = None;
                        self.reasons.push(Reason::new(Sign::Reset3, code, b""));
                        let refused = code == code::REQUEST_REJECTED && self.proven;
                        report(lane, if refused { Came::Refused { farewell: false } } else { Came::Reset });
                    }
                }
                Piece::Reset { stream, .. } => {
                    let inbound = self.inbound.remove(&stream);
                    if inbound.is_some_and(|inbound| !inbound.may_be_reset()) {
                        return Err(code::CLOSED_CRITICAL_STREAM);
                    }
                }
                Piece::Close { .. } => {}
            }
        }
        Ok(())
    }

    fn is_proven(&self) -> bool {
        self.proven
    }

    /// Both sides have agreed on the protocol before anything was said.
    fn breach(&self, fault: u64) -> Option<&'static str> {
        Some(code::words(fault))
    }

    fn close(&mut self, fault: Option<u64>) {
        Piece::Close { code: fault.unwrap_or(code::NO_ERROR) }.write(&mut self.out);
    }

    fn outgoing(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    fn take_reason(&mut self) -> Option<Reason> {
        self.reasons.pop()
    }

    fn take_heard(&mut self, lane: u32) -> Option<Heard> {
        self.lanes[lane as usize].heard.as_deref_mut().map(std::mem::take)
    }
}
