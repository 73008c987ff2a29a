//! Frames of the server, one by one.

use http2::frame::{self, ErrorCode, FrameHead, PAYLOAD_BYTES, STREAM_MASK, WINDOW_MAX};
use http2::settings::SETTING_BYTES;

use super::connection::{Connection, Fault, Part, Pending, WINDOW_BYTES};
use crate::session::carrier::Came;
use crate::session::fields::FIELDS_BYTES;
use crate::session::{Reason, Sign};

/// Length of the priority in a frame of fields, in bytes.
const PRIORITY_BYTES: usize = 5;
/// Longest block of compressed fields, in bytes. They are shorter than what they stand for, but for a few that are small.
const BLOCK_BYTES: usize = 2 * FIELDS_BYTES;

/// What `HTTP/1.1` is, read as the length and kind of a frame.
const HTTP1: (usize, u8) = (0x48_54_54, b'P');

const fn protocol(why: &'static str) -> Fault {
    Fault(ErrorCode::ProtocolError, why)
}

const fn size(why: &'static str) -> Fault {
    Fault(ErrorCode::FrameSizeError, why)
}

const UNDECODABLE: Fault = Fault(ErrorCode::CompressionError, "the compressed fields stand for nothing");

/// Answers to pings and settings that may wait for a server that does not read them.
const MOST_ACKNOWLEDGED_BYTES: usize = 1024 * 1024;

/// Leave that is to be given, where half of the window is used up.
#[inline]
fn leave(came: &mut u32) -> Option<u32> {
    (*came >= WINDOW_BYTES / 2).then(|| std::mem::take(came))
}

impl Connection {
    /// What is wrong with a frame before its payload is there.
    #[inline]
    pub(super) fn check_order(&self, head: &FrameHead) -> Result<(), Fault> {
        if (head.length, head.kind) == HTTP1 {
            return Err(protocol("it answers in HTTP/1.x where a frame should be"));
        }
        if head.length > PAYLOAD_BYTES {
            return Err(size("a frame is longer than it may be"));
        }
        if !self.told && (head.kind != frame::SETTINGS || head.has(frame::ACK)) {
            return Err(protocol("the first frame is not SETTINGS"));
        }
        let wanted = self.pending.as_ref().map(|pending| pending.stream);
        let given = (head.kind == frame::CONTINUATION).then_some(head.stream);
        match wanted == given {
            true => Ok(()),
            false => Err(protocol("fields are to be continued, or are continued though they are whole")),
        }
    }

    /// Every frame but those of bodies, which come in parts unless they are padded.
    pub(super) fn take_frame(
        &mut self,
        head: &FrameHead,
        payload: &[u8],
        report: &mut impl FnMut(u32, Came),
    ) -> Result<(), Fault> {
        match head.kind {
            frame::DATA => {
                let data = head.unpadded(payload).map_err(|(code, why)| Fault(code, why))?;
                let part = self.begin_data(head, data.len())?;
                self.body(part, data, report);
                Ok(())
            }
            frame::HEADERS => self.headers(head, payload, report),
            frame::CONTINUATION => self.continuation(head, payload, report),
            frame::RST_STREAM => self.rst_stream(head, payload, report),
            frame::SETTINGS => self.settings(head, payload),
            frame::PUSH_PROMISE => Err(protocol("what was not asked for was not allowed either")),
            frame::PING => self.ping(head, payload),
            frame::GOAWAY => self.goaway(head, payload, report),
            frame::WINDOW_UPDATE => self.window_update(head, payload, report),
            // Priorities, and what nobody knows.
            _ => Ok(()),
        }
    }

    /// A frame of a body begins, of which `content` bytes are no padding.
    #[inline]
    pub(super) fn begin_data(&mut self, head: &FrameHead, content: usize) -> Result<Part, Fault> {
        if self.is_idle(head.stream) {
            return Err(protocol("data came on a stream without a request"));
        }
        let length = head.length as u32;
        let lane = self.lane_of(head.stream);
        let of_lane = lane.map_or(0, |lane| self.lanes[lane as usize].came);
        if self.came + length > WINDOW_BYTES || of_lane + length > WINDOW_BYTES {
            return Err(Fault(ErrorCode::FlowControlError, "more data came than the windows allowed"));
        }
        let ends = head.has(frame::END_STREAM);
        self.came += length;
        if let Some(more) = leave(&mut self.came) {
            frame::window_update(&mut self.out, 0, more);
        }
        if let Some(lane) = lane {
            let place = &mut self.lanes[lane as usize];
            place.came += length;
            if let Some(more) = leave(&mut place.came).filter(|_| !ends) {
                frame::window_update(&mut self.out, head.stream, more);
            }
        }
        Ok(Part { lane, left: content, ends })
    }

    /// Bytes of a body, and perhaps its end.
    #[inline]
    pub(super) fn body(&mut self, part: Part, bytes: &[u8], report: &mut impl FnMut(u32, Came)) {
        let left = part.left - bytes.len();
        self.part = (left > 0).then_some(Part { left, ..part });
        let Some(lane) = part.lane else { return };
        let place = &mut self.lanes[lane as usize];
        if let Err(error) = place.answer.body(bytes, self.grpc.is_some(), place.heard.as_deref_mut()) {
            return self.refuse(lane, error, report);
        }
        if left == 0 && part.ends {
            self.answered(lane, report);
        }
    }

    /// The stream of a lane has ended.
    #[inline]
    fn answered(&mut self, lane: u32, report: &mut impl FnMut(u32, Came)) {
        let place = &mut self.lanes[lane as usize];
        match place.answer.end(place.bodiless, self.grpc, place.heard.as_deref_mut()) {
            Ok(status) => {
                self.proven = true;
                self.end(lane);
                report(lane, Came::Answered(status));
            }
            Err(error) => self.refuse(lane, error, report),
        }
    }

    fn headers(
        &mut self,
        head: &FrameHead,
        payload: &[u8],
        report: &mut impl FnMut(u32, Came),
    ) -> Result<(), Fault> {
        if self.is_idle(head.stream) {
            return Err(protocol("an answer came on a stream without a request"));
        }
        let mut block = head.unpadded(payload).map_err(|(code, why)| Fault(code, why))?;
        if head.has(frame::PRIORITIZED) {
            block = block.get(PRIORITY_BYTES..).ok_or(size("a priority is cut off"))?;
        }
        let ends = head.has(frame::END_STREAM);
        if head.has(frame::END_HEADERS) {
            return self.fields(head.stream, ends, block, report);
        }
        self.pending = Some(Pending { stream: head.stream, ends, block: block.to_vec() });
        Ok(())
    }

    fn continuation(
        &mut self,
        head: &FrameHead,
        payload: &[u8],
        report: &mut impl FnMut(u32, Came),
    ) -> Result<(), Fault> {
        let Some(mut pending) = self.pending.take() else { return Err(protocol("nothing is continued")) };
        pending.block.extend_from_slice(payload);
        if pending.block.len() > BLOCK_BYTES {
            return Err(Fault(ErrorCode::EnhanceYourCalm, "the fields of one answer go on for too long"));
        }
        if head.has(frame::END_HEADERS) {
            return self.fields(pending.stream, pending.ends, &pending.block, report);
        }
        self.pending = Some(pending);
        Ok(())
    }

    /// Whole fields: of an answer, of what comes after its body, or of what was given up.
    fn fields(
        &mut self,
        stream: u32,
        ends: bool,
        block: &[u8],
        report: &mut impl FnMut(u32, Came),
    ) -> Result<(), Fault> {
        let Some(lane) = self.lane_of(stream) else {
            return self.blocks.pass(block).map_err(|_| UNDECODABLE);
        };
        let place = &mut self.lanes[lane as usize];
        let read = place.answer.fields(block, ends, &mut self.blocks, place.heard.as_deref_mut());
        match read.map_err(|_| UNDECODABLE)? {
            Err(error) => self.refuse(lane, error, report),
            Ok(_) if ends => self.answered(lane, report),
            Ok(true) => self.begun.push((lane, stream)),
            Ok(false) => {}
        }
        Ok(())
    }

    fn rst_stream(
        &mut self,
        head: &FrameHead,
        payload: &[u8],
        report: &mut impl FnMut(u32, Came),
    ) -> Result<(), Fault> {
        if self.is_idle(head.stream) {
            return Err(protocol("a stream was broken off that was never opened"));
        }
        let Ok(code) = <[u8; 4]>::try_from(payload) else { return Err(size("a reset has another length")) };
        if let Some(lane) = self.lane_of(head.stream) {
            self.forget(lane);
            let code = u32::from_be_bytes(code);
            self.reasons.push(Reason::new(Sign::Reset, u64::from(code), b""));
            let refused = code == ErrorCode::RefusedStream as u32;
            report(lane, if refused { self.refused(false, false) } else { Came::Reset });
        } else {
            self.ebbing.retain(|ebb| ebb.stream != head.stream);
        }
        Ok(())
    }

    /// What comes of a stream that the server has not looked at; `looks` is whether it goes on with another, `farewell` whether it
    /// ends the connection in good order.
    fn refused(&self, looks: bool, farewell: bool) -> Came {
        if self.proven || looks { Came::Refused { farewell } } else { Came::Reset }
    }

    fn settings(&mut self, head: &FrameHead, payload: &[u8]) -> Result<(), Fault> {
        if head.stream != 0 {
            return Err(protocol("settings are those of the connection"));
        }
        if head.has(frame::ACK) {
            return if payload.is_empty() { Ok(()) } else { Err(size("an answer has settings")) };
        }
        if !payload.len().is_multiple_of(SETTING_BYTES) {
            return Err(size("a setting is cut off"));
        }
        if !std::mem::replace(&mut self.told, true) {
            // What it does not limit is not limited.
            self.settings.streams = u32::MAX;
        }
        let before = self.settings.window_bytes;
        self.settings.note(payload).map_err(|(code, why)| Fault(code, why))?;
        self.writer.grant(self.settings.table_bytes as usize);
        let more = self.settings.window_bytes - before;
        for lane in self.lanes.iter_mut().filter(|lane| lane.stream != 0) {
            lane.may_send += more;
            if lane.may_send > WINDOW_MAX {
                return Err(Fault(ErrorCode::FlowControlError, "the window of a stream is too large"));
            }
        }
        self.ebbing.iter_mut().for_each(|ebb| ebb.may_send += more);
        self.acknowledge(frame::SETTINGS, &[])?;
        self.send_more();
        Ok(())
    }

    /// Answers a frame; not every one of a server that reads no answers.
    fn acknowledge(&mut self, kind: u8, payload: &[u8]) -> Result<(), Fault> {
        if self.out.is_empty() {
            self.acknowledged = 0;
        }
        self.acknowledged += payload.len();
        self.acknowledged += frame::HEAD_BYTES;
        if self.acknowledged > MOST_ACKNOWLEDGED_BYTES {
            return Err(Fault(
                ErrorCode::EnhanceYourCalm,
                "it sends pings or settings faster than it reads the answers",
            ));
        }
        frame::whole(&mut self.out, kind, frame::ACK, 0, payload);
        Ok(())
    }

    fn ping(&mut self, head: &FrameHead, payload: &[u8]) -> Result<(), Fault> {
        match payload.len() {
            _ if head.stream != 0 => Err(protocol("a ping is for the connection")),
            8 => {
                if head.has(frame::ACK) {
                    Ok(())
                } else {
                    self.acknowledge(frame::PING, payload)
                }
            }
            _ => Err(size("a ping has another length")),
        }
    }

    /// The server takes no more streams, and answers none after the last that it names.
    fn goaway(
        &mut self,
        head: &FrameHead,
        payload: &[u8],
        report: &mut impl FnMut(u32, Came),
    ) -> Result<(), Fault> {
        let Some((last, (code, words))) =
            payload.split_first_chunk().and_then(|(last, rest)| Some((last, rest.split_first_chunk()?)))
        else {
            return Err(size("an end is cut off"));
        };
        if head.stream != 0 {
            return Err(protocol("the end is that of the connection"));
        }
        self.leaving = true;
        let code = u32::from_be_bytes(*code);
        let farewell = code == ErrorCode::NoError as u32;
        if !farewell {
            self.reasons.push(Reason::new(Sign::Goaway, u64::from(code), words));
        }
        let last = u32::from_be_bytes(*last) & STREAM_MASK;
        let looks = self.lanes.iter().any(|lane| (1..=last).contains(&lane.stream));
        for lane in 0..self.lanes.len() as u32 {
            if self.lanes[lane as usize].stream > last {
                self.forget(lane);
                report(lane, self.refused(looks, farewell));
            }
        }
        Ok(())
    }

    fn window_update(
        &mut self,
        head: &FrameHead,
        payload: &[u8],
        report: &mut impl FnMut(u32, Came),
    ) -> Result<(), Fault> {
        let Ok(bytes) = <[u8; 4]>::try_from(payload) else { return Err(size("leave has another length")) };
        let more = i64::from(u32::from_be_bytes(bytes) & STREAM_MASK);
        if head.stream == 0 {
            self.may_send += more;
            if more == 0 {
                return Err(protocol("leave to send nothing"));
            }
            if self.may_send > WINDOW_MAX {
                let why = "the window of the connection is too large";
                return Err(Fault(ErrorCode::FlowControlError, why));
            }
        } else if self.is_idle(head.stream) {
            return Err(protocol("leave came for a stream without a request"));
        } else if let Some(lane) = self.lane_of(head.stream) {
            let place = &mut self.lanes[lane as usize];
            place.may_send += more;
            let code = match place.may_send {
                _ if more == 0 => Some(ErrorCode::ProtocolError),
                ..=WINDOW_MAX => None,
                _ => Some(ErrorCode::FlowControlError),
            };
            if let Some(code) = code {
                self.break_off(lane, code);
                report(lane, Came::Reset);
            }
        } else if let Some(ebb) = self.ebbing.iter_mut().find(|ebb| ebb.stream == head.stream) {
            ebb.may_send = (ebb.may_send + more).min(WINDOW_MAX);
        }
        self.send_more();
        Ok(())
    }
}
