//! Frames of the client, one by one.

use super::{Connection, Event, Fault, LAST_CALL, Outcome, Pending};
use crate::frame::{self, ErrorCode, FrameHead, STREAM_MASK, WINDOW_MAX};
use crate::head::Malformed;
use crate::settings::SETTING_BYTES;
use crate::stream::{Ended, Gone, Stream};

/// A client may send one WINDOW_UPDATE for each so many bytes it was sent. No known client returns less than 1 KiB at a time, on a
/// stream and on the connection.
const LEAVE_BYTES: u64 = 256;
/// And two for each request: some clients enlarge the window of each stream.
const LEAVE_OF_REQUEST: u64 = 2 * LEAVE_BYTES;
/// Length of the priority in a frame of fields, in bytes.
const PRIORITY_BYTES: usize = 5;

const fn protocol(why: &'static str) -> Fault {
    Fault::Connection(ErrorCode::ProtocolError, why)
}

const fn size(why: &'static str) -> Fault {
    Fault::Connection(ErrorCode::FrameSizeError, why)
}

/// The stream that a priority says another is to wait for.
fn depends_on(priority: &[u8]) -> Option<u32> {
    priority.first_chunk().map(|bytes| u32::from_be_bytes(*bytes) & STREAM_MASK)
}

/// What a frame is on a stream that was broken off while its handler is at work.
fn after_the_end(id: u32, who: Gone) -> Outcome {
    match who {
        Gone::ByClient => Err(Fault::Stream(id, ErrorCode::StreamClosed)),
        // The client may not have heard of it.
        Gone::ByError => Ok(Event::Nothing),
    }
}

impl Connection {
    pub(super) fn take_frame(
        &mut self,
        head: &FrameHead,
        payload: &[u8],
        now_ns: u64,
        out: &mut Vec<u8>,
    ) -> Outcome {
        match head.kind {
            frame::DATA => self.data(head, payload, now_ns, out),
            frame::HEADERS => self.headers(head, payload, out),
            frame::CONTINUATION => self.continuation(head, payload, out),
            frame::PRIORITY => self.priority(head, payload, now_ns),
            frame::RST_STREAM => self.rst_stream(head, payload, now_ns),
            frame::SETTINGS => self.settings(head, payload, now_ns, out),
            frame::PUSH_PROMISE => Err(protocol("a client cannot push")),
            frame::PING => self.ping(head, payload, now_ns, out),
            frame::GOAWAY => self.goaway(head, now_ns),
            frame::WINDOW_UPDATE => self.window_update(head, payload, now_ns),
            _ => self.control(now_ns),
        }
    }

    /// Counts a frame that carries nothing.
    fn control(&mut self, now_ns: u64) -> Outcome {
        match self.controls.take(now_ns) {
            true => Ok(Event::Nothing),
            false => Err(Fault::Connection(ErrorCode::EnhanceYourCalm, "too many frames that carry nothing")),
        }
    }

    fn data(&mut self, head: &FrameHead, payload: &[u8], now_ns: u64, out: &mut Vec<u8>) -> Outcome {
        let id = head.stream;
        if self.is_idle(id) {
            return Err(protocol("data came on a stream without a request"));
        }
        self.may_receive -= payload.len() as i64;
        if self.may_receive < 0 {
            let why = "more data came than the window of the connection allowed";
            return Err(Fault::Connection(ErrorCode::FlowControlError, why));
        }
        let data = head.unpadded(payload).map_err(|(code, why)| Fault::Connection(code, why))?;
        let ended = head.has(frame::END_STREAM);
        if data.is_empty() && !ended {
            self.control(now_ns)?;
        }
        let Some(stream) = self.streams.get_mut(id) else {
            self.give_back(payload.len(), out);
            return self.late(id, self.how_ended(id));
        };
        if let Some(who) = stream.gone {
            self.give_back(payload.len(), out);
            return after_the_end(id, who);
        }
        let verdict = match stream.client_ended {
            true => Err(ErrorCode::StreamClosed),
            false if (payload.len() as i64) > stream.may_receive => Err(ErrorCode::FlowControlError),
            false => stream.count(data.len(), ended),
        };
        if let Err(code) = verdict {
            self.give_back(payload.len(), out);
            return Err(Fault::Stream(id, code));
        }
        stream.may_receive -= payload.len() as i64;
        stream.client_ended = ended;
        if stream.ebb.is_some() {
            let may_go_on = stream.ebb_on(payload.len());
            self.give_back(payload.len(), out);
            self.ebb(id, ended, may_go_on, out);
            return Ok(Event::Nothing);
        }
        stream.put(data);
        // Nobody will take the padding.
        let padding = payload.len() - data.len();
        stream.unreturned += padding as u32;
        self.give_back(padding, out);
        Ok(Event::Changed(id))
    }

    /// More came on a stream that was answered, and whose rest nobody reads.
    fn ebb(&mut self, id: u32, ended: bool, may_go_on: bool, out: &mut Vec<u8>) {
        if ended {
            self.forget(id, Ended::InOrder);
        } else if !may_go_on {
            frame::reset(out, id, ErrorCode::NoError);
            self.forget(id, Ended::ByServer);
        }
    }

    /// A frame on a stream that is not kept any more.
    fn late(&self, id: u32, how: Option<Ended>) -> Outcome {
        match how {
            Some(Ended::ByServer) => Ok(Event::Nothing),
            Some(Ended::ByClient) => Err(Fault::Stream(id, ErrorCode::StreamClosed)),
            Some(Ended::InOrder) | None => {
                Err(Fault::Connection(ErrorCode::StreamClosed, "a frame came on a stream that was ended"))
            }
        }
    }

    fn headers(&mut self, head: &FrameHead, payload: &[u8], out: &mut Vec<u8>) -> Outcome {
        let id = head.stream;
        if id.is_multiple_of(2) {
            return Err(protocol("a request came on a stream that a client cannot open"));
        }
        let mut block = head.unpadded(payload).map_err(|(code, why)| Fault::Connection(code, why))?;
        let mut circular = false;
        if head.has(frame::PRIORITIZED) {
            circular = depends_on(block) == Some(id);
            block = block.get(PRIORITY_BYTES..).ok_or(size("a priority is cut off"))?;
        }
        let end_stream = head.has(frame::END_STREAM);
        let mut pending = Pending { stream: id, end_stream, circular, block: Vec::new(), continuations: 0 };
        if head.has(frame::END_HEADERS) {
            return self.fields(&pending, block, out);
        }
        pending.block = block.to_vec();
        self.pending = Some(pending);
        Ok(Event::Nothing)
    }

    fn continuation(&mut self, head: &FrameHead, payload: &[u8], out: &mut Vec<u8>) -> Outcome {
        let Some(mut pending) = self.pending.take() else { return Err(protocol("nothing is continued")) };
        pending.continuations += 1;
        pending.block.extend_from_slice(payload);
        // Compressed fields are shorter than what they stand for, but for a few that are small.
        let most = 2 * self.limits.header_list_bytes as usize;
        if pending.continuations > self.limits.continuations || pending.block.len() > most {
            let why = "the fields of one request go on for too long";
            return Err(Fault::Connection(ErrorCode::EnhanceYourCalm, why));
        }
        if head.has(frame::END_HEADERS) {
            return self.fields(&pending, &pending.block, out);
        }
        self.pending = Some(pending);
        Ok(Event::Nothing)
    }

    /// Whole fields: of a request, of its trailers, or of nothing that is of interest.
    fn fields(&mut self, pending: &Pending, block: &[u8], out: &mut Vec<u8>) -> Outcome {
        let (id, end_stream) = (pending.stream, pending.end_stream);
        let most = self.limits.header_list_bytes as usize;
        let begun = self.streams.has(id);
        self.fields.begin(most, begun);
        let fields = &mut self.fields;
        let decoded = self.decoder.decode(block, |name, value| fields.push(name, value));
        decoded.map_err(|_| {
            Fault::Connection(ErrorCode::CompressionError, "the compressed fields stand for nothing")
        })?;
        if pending.circular {
            self.fields.spoil();
        }
        if begun {
            return self.trailers(id, end_stream);
        }
        if !self.is_idle(id) {
            return match self.how_ended(id) {
                None => Err(protocol("a request came on a stream before the last one")),
                how => self.late(id, how),
            };
        }
        self.last = id;
        self.request(id, end_stream, out)
    }

    fn request(&mut self, id: u32, end_stream: bool, out: &mut Vec<u8>) -> Outcome {
        if id > self.refuse_after {
            self.remember(id, Ended::ByServer);
            return Ok(Event::Nothing);
        }
        if self.streams.len() >= self.limits.streams as usize {
            let Some(answered) = self.streams.first_ebbing() else {
                return Err(Fault::Stream(id, ErrorCode::RefusedStream));
            };
            frame::reset(out, answered, ErrorCode::NoError);
            self.forget(answered, Ended::ByServer);
        }
        let malformed = Fault::Stream(id, ErrorCode::ProtocolError);
        let Ok(head) = self.fields.head(std::mem::take(&mut self.spare_head)) else { return Err(malformed) };
        if end_stream && head.content_length.is_some_and(|length| length > 0) {
            return Err(malformed);
        }
        let window = i64::from(self.limits.stream_window_bytes);
        let mut stream = Stream::new(head.text, head.content_length, window, self.settings.window_bytes);
        stream.client_ended = end_stream;
        self.streams.insert(id, stream);
        self.leave_due += LEAVE_OF_REQUEST;
        Ok(Event::Request(id))
    }

    fn trailers(&mut self, id: u32, end_stream: bool) -> Outcome {
        let Some(stream) = self.streams.get_mut(id) else { return Ok(Event::Nothing) };
        if let Some(who) = stream.gone {
            return after_the_end(id, who);
        }
        if stream.client_ended {
            return Err(Fault::Stream(id, ErrorCode::StreamClosed));
        }
        match self.fields.lines() {
            Ok(lines) if end_stream => stream.trailers = lines,
            Ok(_) | Err(Malformed) => return Err(Fault::Stream(id, ErrorCode::ProtocolError)),
        }
        stream.count(0, true).map_err(|code| Fault::Stream(id, code))?;
        stream.client_ended = true;
        if stream.ebb.is_some() {
            self.forget(id, Ended::InOrder);
            return Ok(Event::Nothing);
        }
        Ok(Event::Changed(id))
    }

    fn priority(&mut self, head: &FrameHead, payload: &[u8], now_ns: u64) -> Outcome {
        if head.stream == 0 {
            return Err(protocol("the connection has no priority"));
        }
        if head.length == PRIORITY_BYTES {
            return match depends_on(payload) == Some(head.stream) {
                // What is idle cannot be reset.
                true if self.is_idle(head.stream) => Err(protocol("a stream depends on itself")),
                true => Err(Fault::Stream(head.stream, ErrorCode::ProtocolError)),
                false => self.control(now_ns),
            };
        }
        match self.streams.has(head.stream) {
            true => Err(Fault::Stream(head.stream, ErrorCode::FrameSizeError)),
            false => Err(size("a priority has another length")),
        }
    }

    fn rst_stream(&mut self, head: &FrameHead, payload: &[u8], now_ns: u64) -> Outcome {
        if self.is_idle(head.stream) {
            return Err(protocol("a stream was broken off that was never opened"));
        }
        if payload.len() != 4 {
            return Err(size("a reset has another length"));
        }
        if !self.resets.take(now_ns) {
            let why = "too many streams were broken off";
            return Err(Fault::Connection(ErrorCode::EnhanceYourCalm, why));
        }
        match self.streams.get_mut(head.stream) {
            Some(stream) if stream.ebb.is_some() => self.forget(head.stream, Ended::ByClient),
            Some(stream) => stream.gone = Some(Gone::ByClient),
            None => {}
        }
        Ok(Event::Changed(head.stream))
    }

    fn settings(&mut self, head: &FrameHead, payload: &[u8], now_ns: u64, out: &mut Vec<u8>) -> Outcome {
        if head.stream != 0 {
            return Err(protocol("settings are those of the connection"));
        }
        self.control(now_ns)?;
        if head.has(frame::ACK) {
            return if payload.is_empty() { Ok(Event::Nothing) } else { Err(size("an answer has settings")) };
        }
        if !payload.len().is_multiple_of(SETTING_BYTES) {
            return Err(size("a setting is cut off"));
        }
        let before = self.settings.window_bytes;
        self.settings.note(payload).map_err(|(code, why)| Fault::Connection(code, why))?;
        self.encoder.grant(self.settings.table_bytes as usize);
        let more = self.settings.window_bytes - before;
        for stream in self.streams.iter_mut() {
            stream.may_send += more;
            if stream.may_send > WINDOW_MAX {
                let why = "the window of a stream is too large";
                return Err(Fault::Connection(ErrorCode::FlowControlError, why));
            }
        }
        frame::whole(out, frame::SETTINGS, frame::ACK, 0, &[]);
        Ok(if more > 0 { Event::AllChanged } else { Event::Nothing })
    }

    fn ping(&mut self, head: &FrameHead, payload: &[u8], now_ns: u64, out: &mut Vec<u8>) -> Outcome {
        if head.stream != 0 {
            return Err(protocol("a ping is for the connection"));
        }
        if payload.len() != 8 {
            return Err(size("a ping has another length"));
        }
        self.control(now_ns)?;
        if !head.has(frame::ACK) {
            frame::whole(out, frame::PING, frame::ACK, 0, payload);
            return Ok(Event::Nothing);
        }
        Ok(if payload == LAST_CALL { Event::LastCallHeard } else { Event::Nothing })
    }

    fn goaway(&mut self, head: &FrameHead, now_ns: u64) -> Outcome {
        match head.length {
            _ if head.stream != 0 => Err(protocol("the end is that of the connection")),
            ..8 => Err(size("an end is cut off")),
            // It speaks of streams that the server opens, and there are none.
            _ => self.control(now_ns),
        }
    }

    fn window_update(&mut self, head: &FrameHead, payload: &[u8], now_ns: u64) -> Outcome {
        let Ok(bytes) = <[u8; 4]>::try_from(payload) else { return Err(size("leave has another length")) };
        match self.leave_due.checked_sub(LEAVE_BYTES) {
            Some(left) => self.leave_due = left,
            None => drop(self.control(now_ns)?),
        }
        let id = head.stream;
        let more = i64::from(u32::from_be_bytes(bytes) & STREAM_MASK);
        if id == 0 {
            let was_shut = self.may_send <= 0;
            self.may_send += more;
            return match self.may_send {
                _ if more == 0 => Err(protocol("leave to send nothing")),
                ..=WINDOW_MAX if was_shut => Ok(Event::AllChanged),
                // Nobody waits for a window that is open.
                ..=WINDOW_MAX => Ok(Event::Nothing),
                _ => Err(Fault::Connection(
                    ErrorCode::FlowControlError,
                    "the window of the connection is too large",
                )),
            };
        }
        if self.is_idle(id) {
            return Err(protocol("leave came for a stream without a request"));
        }
        let Some(stream) = self.streams.get_mut(id) else { return Ok(Event::Nothing) };
        stream.may_send += more;
        match stream.may_send {
            _ if stream.gone.is_some() => Ok(Event::Nothing),
            _ if more == 0 => Err(Fault::Stream(id, ErrorCode::ProtocolError)),
            ..=WINDOW_MAX => Ok(Event::Changed(id)),
            _ => Err(Fault::Stream(id, ErrorCode::FlowControlError)),
        }
    }
}
