//! One connection: its streams, its windows, and what its client may do.

mod frames;
mod respond;

use crate::PREFACE;
use crate::budget::Budget;
use crate::frame::{self, ErrorCode, FrameHead, HEAD_BYTES, PAYLOAD_BYTES, STREAM_MASK, WINDOW_BEGINS};
use crate::head::Fields;
use crate::hpack::{Decoder, Encoder};
use crate::limits::Limits;
use crate::settings::{self, Settings};
use crate::stream::{Ended, Gone};
use crate::streams::Streams;
use std::collections::VecDeque;

/// Streams of which it is remembered how they ended, for frames that come late: some round trips of a busy client.
const REMEMBERED: usize = 256;
/// Payload of the ping that finds out which requests are on their way when the end is announced.
const LAST_CALL: [u8; 8] = *b"lastcall";

/// What a step found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// More bytes are needed.
    Partial,
    /// A frame that needs nobody else.
    Nothing,
    /// A request came on this stream: see [`Connection::take_head`].
    Request(u32),
    /// On this stream something came, its end perhaps, or it may send more.
    Changed(u32),
    /// Every stream may send more, or less.
    AllChanged,
    /// The client knows that the connection ends: no more requests are taken.
    LastCallHeard,
    /// The client broke the protocol or a limit: it is told why, and the connection must end.
    Broken(ErrorCode),
}

/// What came of the bytes given to [`Connection::step`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// So many of them are dealt with.
    pub consumed: usize,
    /// What they said.
    pub event: Event,
}

/// How much of a body could be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Bytes that were appended to the output.
    pub count: usize,
    /// Whether nothing more can be sent, ever.
    pub gone: bool,
}

/// Why a frame is an error.
enum Fault {
    Connection(ErrorCode, &'static str),
    Stream(u32, ErrorCode),
}

type Outcome = Result<Event, Fault>;

/// Fields that are not whole yet.
#[derive(Debug)]
struct Pending {
    stream: u32,
    end_stream: bool,
    /// Whether the stream was said to depend on itself.
    circular: bool,
    block: Vec<u8>,
    continuations: u32,
}

/// How far the client is with saying what it speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opening {
    Preface,
    Settings,
    Done,
}

/// The server's half of a connection.
#[derive(Debug)]
pub struct Connection {
    limits: Limits,
    opening: Opening,
    decoder: Decoder,
    encoder: Encoder,
    settings: Settings,
    streams: Streams,
    ended: VecDeque<(u32, Ended)>,
    /// The last stream that the client opened.
    last: u32,
    /// Streams after this one are not looked at.
    refuse_after: u32,
    pending: Option<Pending>,
    may_receive: i64,
    unreturned: u32,
    may_send: i64,
    /// Bytes for which the client may still send WINDOW_UPDATE: those it was sent, and some for each request.
    leave_due: u64,
    resets: Budget,
    controls: Budget,
    broken: bool,
    /// Whether the client sends no more, so that no window grows again.
    hung_up: bool,
    /// Where fields are gathered, and where they are compressed.
    fields: Fields,
    block: Vec<u8>,
    /// Memory for the next head.
    spare_head: Vec<u8>,
}

impl Connection {
    /// Begins a connection at `now_ns`: appends what the server says first to `out`.
    pub fn new(limits: Limits, now_ns: u64, out: &mut Vec<u8>) -> Self {
        let mut payload = Vec::new();
        settings::push(&mut payload, settings::HEADER_TABLE_SIZE, limits.table_bytes);
        settings::push(&mut payload, settings::MAX_CONCURRENT_STREAMS, limits.streams);
        settings::push(&mut payload, settings::INITIAL_WINDOW_SIZE, limits.stream_window_bytes);
        settings::push(&mut payload, settings::MAX_HEADER_LIST_SIZE, limits.header_list_bytes);
        frame::whole(out, frame::SETTINGS, 0, 0, &payload);
        let more = i64::from(limits.connection_window_bytes) - WINDOW_BEGINS;
        if more > 0 {
            frame::window_update(out, 0, more as u32);
        }
        Self {
            opening: Opening::Preface,
            decoder: Decoder::new(limits.table_bytes as usize),
            encoder: Encoder::new(),
            settings: Settings::BEGIN,
            streams: Streams::default(),
            ended: VecDeque::new(),
            last: 0,
            refuse_after: STREAM_MASK,
            pending: None,
            may_receive: WINDOW_BEGINS + more.max(0),
            unreturned: 0,
            may_send: WINDOW_BEGINS,
            leave_due: 0,
            resets: Budget::new(limits.resets_per_s, now_ns),
            controls: Budget::new(limits.controls_per_s, now_ns),
            broken: false,
            hung_up: false,
            fields: Fields::default(),
            block: Vec::new(),
            spare_head: Vec::new(),
            limits,
        }
    }

    /// Deals with the first frame of `bytes`, and appends what is to be sent because of it to `out`.
    pub fn step(&mut self, bytes: &[u8], now_ns: u64, out: &mut Vec<u8>) -> Step {
        if self.broken {
            return Step { consumed: bytes.len(), event: Event::Partial };
        }
        let (consumed, outcome) = match self.opening {
            Opening::Preface => self.preface(bytes),
            _ => self.frame(bytes, now_ns, out),
        };
        let event = match outcome {
            Ok(event) => event,
            Err(Fault::Connection(code, why)) => self.give_up(code, why, out),
            Err(Fault::Stream(stream, code)) => self.break_off(stream, code, now_ns, out),
        };
        Step { consumed, event }
    }

    fn preface(&mut self, bytes: &[u8]) -> (usize, Outcome) {
        if PREFACE.starts_with(bytes) && bytes.len() < PREFACE.len() {
            return (0, Ok(Event::Partial));
        }
        if !bytes.starts_with(PREFACE) {
            let why = "the connection does not begin as HTTP/2 does";
            return (bytes.len(), Err(Fault::Connection(ErrorCode::ProtocolError, why)));
        }
        self.opening = Opening::Settings;
        (PREFACE.len(), Ok(Event::Nothing))
    }

    fn frame(&mut self, bytes: &[u8], now_ns: u64, out: &mut Vec<u8>) -> (usize, Outcome) {
        let Some(head) = FrameHead::read(bytes) else { return (0, Ok(Event::Partial)) };
        if let Err(fault) = self.check_order(&head) {
            return (bytes.len(), Err(fault));
        }
        let Some(payload) = bytes.get(HEAD_BYTES..HEAD_BYTES + head.length) else {
            return (0, Ok(Event::Partial));
        };
        self.opening = Opening::Done;
        (HEAD_BYTES + head.length, self.take_frame(&head, payload, now_ns, out))
    }

    /// What is wrong with a frame before its payload is there.
    fn check_order(&self, head: &FrameHead) -> Result<(), Fault> {
        if head.length > PAYLOAD_BYTES {
            return Err(Fault::Connection(ErrorCode::FrameSizeError, "a frame is longer than it may be"));
        }
        if self.opening == Opening::Settings && (head.kind != frame::SETTINGS || head.has(frame::ACK)) {
            return Err(Fault::Connection(ErrorCode::ProtocolError, "the first frame is not SETTINGS"));
        }
        let wanted = self.pending.as_ref().map(|pending| pending.stream);
        let given = (head.kind == frame::CONTINUATION).then_some(head.stream);
        if wanted != given {
            let why = "fields are to be continued, or are continued though they are whole";
            return Err(Fault::Connection(ErrorCode::ProtocolError, why));
        }
        Ok(())
    }

    /// Ends the connection for an error of the client.
    fn give_up(&mut self, code: ErrorCode, why: &str, out: &mut Vec<u8>) -> Event {
        self.broken = true;
        frame::goaway(out, self.last.min(self.refuse_after), code, why);
        self.abandon();
        Event::Broken(code)
    }

    /// Ends a stream for an error of the client, which it may not make too often.
    fn break_off(&mut self, id: u32, code: ErrorCode, now_ns: u64, out: &mut Vec<u8>) -> Event {
        frame::reset(out, id, code);
        match self.streams.get_mut(id) {
            Some(stream) if stream.ebb.is_none() => stream.gone = Some(Gone::ByError),
            _ => self.forget(id, Ended::ByServer),
        }
        match self.resets.take(now_ns) {
            true => Event::Changed(id),
            false => self.give_up(ErrorCode::EnhanceYourCalm, "too many streams were broken off", out),
        }
    }

    /// A stream is over.
    fn forget(&mut self, id: u32, how: Ended) {
        self.streams.remove(id);
        self.remember(id, how);
    }

    fn remember(&mut self, id: u32, how: Ended) {
        if self.ended.len() == REMEMBERED {
            self.ended.pop_front();
        }
        self.ended.push_back((id, how));
    }

    fn how_ended(&self, id: u32) -> Option<Ended> {
        self.ended.iter().rev().find(|(other, _)| *other == id).map(|(_, how)| *how)
    }

    /// Whether nothing was said of a stream yet.
    fn is_idle(&self, id: u32) -> bool {
        id > self.last || id.is_multiple_of(2)
    }

    /// The client sends no more: requests that are not whole never will be, and answers end where a window is used up.
    pub fn hang_up(&mut self) {
        self.hung_up = true;
        self.streams.forget_ebbing();
        for stream in self.streams.iter_mut().filter(|stream| !stream.client_ended) {
            stream.gone.get_or_insert(Gone::ByClient);
        }
    }

    /// The connection is gone, and with it every stream.
    pub fn abandon(&mut self) {
        self.broken = true;
        self.streams.forget_ebbing();
        for stream in self.streams.iter_mut() {
            stream.gone.get_or_insert(Gone::ByError);
        }
    }

    /// Announces that the connection ends, so that no request is lost that is on its way. [`Event::LastCallHeard`] follows.
    pub fn call_last(&mut self, out: &mut Vec<u8>) {
        frame::goaway(out, STREAM_MASK, ErrorCode::NoError, "");
        frame::whole(out, frame::PING, 0, 0, &LAST_CALL);
    }

    /// Takes no more requests, and says which one was the last.
    pub fn close(&mut self, out: &mut Vec<u8>) {
        if !self.broken && self.refuse_after == STREAM_MASK {
            self.refuse_after = self.last;
            frame::goaway(out, self.last, ErrorCode::NoError, "");
        }
    }

    /// Whether the client was told of an error, or is gone: nothing that it sends is looked at.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// Streams that the server has not let go.
    pub fn streams(&self) -> usize {
        self.streams.at_work()
    }

    /// Whether fields have begun to come, and not ended.
    pub fn is_amid_fields(&self) -> bool {
        self.pending.is_some()
    }
}
