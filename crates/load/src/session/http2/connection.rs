//! One connection of HTTP/2: which stream is whose, what may be sent on it, and what came.

use std::collections::VecDeque;
use std::sync::Arc;

use http2::frame::{self, ErrorCode, PAYLOAD_BYTES, STREAM_MASK, WINDOW_BEGINS};
use http2::settings::{self, Settings};
use http2::{PREFACE, frame::FrameHead};

use super::answer::{Answer, Blocks};
use super::request::{Request, Writer};
use crate::session::carrier::{Came, Carrier};
use crate::session::fields::FIELDS_BYTES;
use crate::session::{Answers, Heard, Malformed, Reason};

/// Window of one stream and of the connection, in bytes: a server must not wait for us to read, which we do at once.
pub(super) const WINDOW_BYTES: u32 = 16 * 1024 * 1024;
/// Size of the table in which a server's fields are kept, in bytes: that which every server begins with.
const TABLE_BYTES: usize = 4096;
/// Streams that are opened at a time before the server has said how many it takes: the least that any should.
///
/// Source: RFC 9113, section 6.5.2.
const UNTOLD_STREAMS: u32 = 100;

/// What all connections of a session have in common.
#[derive(Debug, Clone, Copy)]
pub struct Manner {
    /// Whether TLS is spoken below.
    pub(super) secure: bool,
    /// How calls are answered, where answers are those of gRPC.
    pub(super) grpc: Option<Answers>,
}

/// What the server did that ends the connection, in the words that it is told.
#[derive(Debug, Clone, Copy)]
pub struct Fault(pub(super) ErrorCode, pub(super) &'static str);

/// The body of a request of which not all is sent.
#[derive(Debug)]
struct Unsent {
    body: Arc<[u8]>,
    from: usize,
}

impl Unsent {
    /// Sends as much as the windows of stream and connection allow; whether that is all.
    fn send(&mut self, out: &mut Vec<u8>, stream: u32, [of_stream, of_all]: [&mut i64; 2]) -> bool {
        while self.from < self.body.len() {
            let room = (*of_stream).min(*of_all).min(PAYLOAD_BYTES as i64);
            if room <= 0 {
                return false;
            }
            let piece = &self.body[self.from..self.body.len().min(self.from + room as usize)];
            self.from += piece.len();
            let flags = if self.from == self.body.len() { frame::END_STREAM } else { 0 };
            frame::whole(out, frame::DATA, flags, stream, piece);
            *of_stream -= piece.len() as i64;
            *of_all -= piece.len() as i64;
        }
        true
    }
}

/// A stream that was answered before all of its body was sent: it goes on until the server has all, or says that it wants no more.
///
/// Source: RFC 9113, section 8.1.
#[derive(Debug)]
pub(super) struct Ebb {
    pub(super) stream: u32,
    pub(super) may_send: i64,
    unsent: Unsent,
}

#[derive(Debug, Default)]
pub(super) struct Lane {
    /// The stream that is under way; 0 if none is.
    pub(super) stream: u32,
    pub(super) bodiless: bool,
    pub(super) answer: Answer,
    /// The answer as it comes, where somebody wants to hear it.
    pub(super) heard: Option<Box<Heard>>,
    /// Bytes that came since the server was given leave to send more.
    pub(super) came: u32,
    /// Bytes that may still be sent; below zero where the server took leave back.
    pub(super) may_send: i64,
    unsent: Option<Unsent>,
}

/// Fields that are not whole yet.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) stream: u32,
    pub(super) ends: bool,
    pub(super) block: Vec<u8>,
}

/// A frame of a body of which not all has come.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    /// Whose it is, if anyone wants it.
    pub(super) lane: Option<u32>,
    /// Bytes that are still to come.
    pub(super) left: usize,
    pub(super) ends: bool,
}

/// One connection.
#[derive(Debug)]
pub struct Connection {
    pub(super) grpc: Option<Answers>,
    pub(super) out: Vec<u8>,
    /// The begin of a frame that is not there whole.
    stash: Vec<u8>,
    pub(super) part: Option<Part>,
    pub(super) pending: Option<Pending>,
    pub(super) lanes: Box<[Lane]>,
    /// Which lane a stream is probably of, by the last bits of its number.
    guesses: Box<[u32]>,
    /// Lanes whose answers have begun in what is read now.
    pub(super) begun: Vec<(u32, u32)>,
    pub(super) active: u32,
    /// The number of the next stream.
    next: u32,
    /// Lanes with a body that the windows did not let through.
    held_back: VecDeque<u32>,
    pub(super) ebbing: VecDeque<Ebb>,
    pub(super) blocks: Blocks,
    pub(super) writer: Writer,
    pub(super) settings: Settings,
    /// Whether the server has said what it takes.
    pub(super) told: bool,
    /// Whether the server takes no more streams.
    pub(super) leaving: bool,
    /// Whether it has answered any: one that only ever refuses fails.
    pub(super) proven: bool,
    /// Bytes of answers to pings and settings since nothing waited to be sent.
    pub(super) acknowledged: usize,
    pub(super) came: u32,
    pub(super) may_send: i64,
    /// Why the server broke off streams, or the connection.
    pub(super) reasons: Vec<Reason>,
}

impl Connection {
    /// The lane of a stream that is under way.
    #[inline]
    pub(super) fn lane_of(&self, stream: u32) -> Option<u32> {
        let guess = self.guesses[(stream >> 1) as usize & (self.guesses.len() - 1)];
        if self.lanes[guess as usize].stream == stream {
            return Some(guess);
        }
        self.lanes.iter().position(|lane| lane.stream == stream).map(|lane| lane as u32)
    }

    /// Whether nothing was asked on a stream yet, or never can be.
    #[inline]
    pub(super) fn is_idle(&self, stream: u32) -> bool {
        stream >= self.next || stream.is_multiple_of(2)
    }

    /// Nothing more is to be said on the stream of a lane.
    #[inline]
    pub(super) fn forget(&mut self, lane: u32) {
        let place = &mut self.lanes[lane as usize];
        if place.unsent.take().is_some() {
            self.held_back.retain(|other| *other != lane);
        }
        place.stream = 0;
        self.active -= 1;
    }

    /// The stream of a lane is answered.
    #[inline]
    pub(super) fn end(&mut self, lane: u32) {
        if self.lanes[lane as usize].unsent.is_some() {
            self.let_ebb(lane);
        }
        self.forget(lane);
    }

    /// The rest of a body is no lane's any more. There are no more of these than lanes: the oldest is ended.
    #[cold]
    fn let_ebb(&mut self, lane: u32) {
        let place = &mut self.lanes[lane as usize];
        if let Some(unsent) = place.unsent.take() {
            self.ebbing.push_back(Ebb { stream: place.stream, may_send: place.may_send, unsent });
            self.held_back.retain(|other| *other != lane);
        }
        if self.ebbing.len() > self.lanes.len()
            && let Some(oldest) = self.ebbing.pop_front()
        {
            frame::reset(&mut self.out, oldest.stream, ErrorCode::Cancel);
        }
    }

    /// Ends the stream of a lane before its time.
    #[cold]
    pub(super) fn break_off(&mut self, lane: u32, code: ErrorCode) {
        frame::reset(&mut self.out, self.lanes[lane as usize].stream, code);
        if let Some(part) = self.part.as_mut().filter(|part| part.lane == Some(lane)) {
            part.lane = None;
        }
        self.forget(lane);
    }

    /// The answer of a lane is none.
    #[cold]
    pub(super) fn refuse(&mut self, lane: u32, malformed: Malformed, report: &mut impl FnMut(u32, Came)) {
        self.break_off(lane, ErrorCode::ProtocolError);
        report(lane, Came::Malformed(malformed));
    }

    /// Sends as much of the body of a lane as the windows allow; whether that is all.
    fn send_body(&mut self, lane: u32) -> bool {
        let place = &mut self.lanes[lane as usize];
        let Some(unsent) = &mut place.unsent else { return true };
        let all = unsent.send(&mut self.out, place.stream, [&mut place.may_send, &mut self.may_send]);
        if all {
            place.unsent = None;
        }
        all
    }

    /// Windows have grown: bodies go on, those that waited longest first.
    pub(super) fn send_more(&mut self) {
        for _ in 0..self.held_back.len() {
            let Some(lane) = self.held_back.pop_front() else { return };
            if !self.send_body(lane) {
                self.held_back.push_back(lane);
            }
        }
        let (out, all) = (&mut self.out, &mut self.may_send);
        self.ebbing.retain_mut(|ebb| !ebb.unsent.send(out, ebb.stream, [&mut ebb.may_send, all]));
    }

    /// Deals with all frames that are whole, and with parts of bodies.
    fn take(&mut self, mut bytes: &[u8], report: &mut impl FnMut(u32, Came)) -> Result<(), Fault> {
        loop {
            if let Some(part) = self.part.take() {
                let (now, rest) = bytes.split_at(bytes.len().min(part.left));
                self.body(part, now, report);
                if self.part.is_some() {
                    return Ok(());
                }
                bytes = rest;
            }
            if self.is_over() {
                return Ok(());
            }
            let Some(head) = FrameHead::read(bytes) else { break };
            self.check_order(&head)?;
            let after = &bytes[frame::HEAD_BYTES..];
            if head.kind == frame::DATA && !head.has(frame::PADDED) {
                self.part = Some(self.begin_data(&head, head.length)?);
                bytes = after;
                continue;
            }
            let Some((payload, rest)) = after.split_at_checked(head.length) else { break };
            self.take_frame(&head, payload, report)?;
            bytes = rest;
        }
        self.stash.extend_from_slice(bytes);
        Ok(())
    }
}

impl Carrier for Connection {
    const NAME: &'static str = "HTTP/2";
    const TIMED: bool = false;
    type Common = Manner;
    type Request = Request;
    type Fault = Fault;

    fn open(manner: &Manner, lanes: u32, hears: bool) -> Self {
        let mut payload = Vec::new();
        settings::push(&mut payload, settings::ENABLE_PUSH, 0);
        settings::push(&mut payload, settings::INITIAL_WINDOW_SIZE, WINDOW_BYTES);
        settings::push(&mut payload, settings::MAX_HEADER_LIST_SIZE, FIELDS_BYTES as u32);
        let mut out = PREFACE.to_vec();
        frame::whole(&mut out, frame::SETTINGS, 0, 0, &payload);
        frame::window_update(&mut out, 0, WINDOW_BYTES - WINDOW_BEGINS as u32);
        Self {
            grpc: manner.grpc,
            out,
            stash: Vec::new(),
            part: None,
            pending: None,
            lanes: (0..lanes).map(|_| Lane { heard: hears.then(Box::default), ..Lane::default() }).collect(),
            guesses: vec![0; lanes.next_power_of_two() as usize].into(),
            begun: Vec::new(),
            active: 0,
            next: 1,
            held_back: VecDeque::new(),
            ebbing: VecDeque::new(),
            blocks: Blocks::new(TABLE_BYTES, manner.grpc.is_some()),
            writer: Writer::default(),
            settings: Settings { streams: UNTOLD_STREAMS, ..Settings::BEGIN },
            told: false,
            leaving: false,
            proven: false,
            acknowledged: 0,
            came: 0,
            may_send: WINDOW_BEGINS,
            reasons: Vec::new(),
        }
    }

    fn request(manner: &Manner, bytes: &[u8]) -> Option<Request> {
        Request::read(bytes, manner.secure)
    }

    #[inline]
    fn has_room(&self) -> bool {
        self.active + (self.ebbing.len() as u32) < self.settings.streams && !self.leaving
    }

    #[inline]
    fn is_over(&self) -> bool {
        self.leaving && self.active == 0
    }

    #[inline]
    fn ask(&mut self, lane: u32, request: &Request, alike: bool) {
        let stream = self.next;
        self.next += 2;
        // Numbers are not used twice, so that another connection must follow.
        self.leaving |= self.next > STREAM_MASK;
        let has_body = !request.body.is_empty();
        frame::fields(&mut self.out, stream, !has_body, self.writer.block(request, alike));
        let place = &mut self.lanes[lane as usize];
        (place.stream, place.bodiless, place.answer) = (stream, request.head, Answer::default());
        (place.came, place.may_send) = (0, self.settings.window_bytes);
        self.active += 1;
        let guess = (stream >> 1) as usize & (self.guesses.len() - 1);
        self.guesses[guess] = lane;
        if has_body {
            place.unsent = Some(Unsent { body: Arc::clone(&request.body), from: 0 });
            if !self.send_body(lane) {
                self.held_back.push_back(lane);
            }
        }
    }

    fn cancel(&mut self, lane: u32) {
        if self.lanes[lane as usize].stream != 0 {
            self.break_off(lane, ErrorCode::Cancel);
        }
    }

    fn receive(
        &mut self,
        _: &mut Manner,
        received: &[u8],
        bytes: &mut usize,
        mut report: impl FnMut(u32, Came),
    ) -> Result<(), Fault> {
        *bytes += received.len();
        let taken = if self.stash.is_empty() {
            self.take(received, &mut report)
        } else {
            let mut whole = std::mem::take(&mut self.stash);
            whole.extend_from_slice(received);
            self.take(&whole, &mut report)
        };
        for (lane, stream) in self.begun.drain(..) {
            if self.lanes[lane as usize].stream == stream {
                report(lane, Came::Begun);
            }
        }
        taken
    }

    fn is_proven(&self) -> bool {
        self.proven
    }

    fn breach(&self, Fault(_, why): Fault) -> Option<&'static str> {
        self.told.then_some(why)
    }

    fn close(&mut self, fault: Option<Fault>) {
        let Fault(code, why) = fault.unwrap_or(Fault(ErrorCode::NoError, ""));
        frame::goaway(&mut self.out, 0, code, why);
    }

    fn outgoing(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    fn take_reason(&mut self) -> Option<Reason> {
        self.reasons.pop().or_else(|| self.blocks.take_reason())
    }

    fn take_heard(&mut self, lane: u32) -> Option<Heard> {
        self.lanes[lane as usize].heard.as_deref_mut().map(std::mem::take)
    }
}
