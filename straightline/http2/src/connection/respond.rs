//! What a server does on a stream.

use super::{Connection, Sent};
use crate::frame::{self, ErrorCode, PAYLOAD_BYTES};
use crate::limits::EBB_BYTES;
use crate::stream::{Ended, Gone};

/// Memory for a head that a connection keeps, in bytes: that of nearly every request.
const HEAD_KEPT_BYTES: usize = 1024;

impl Connection {
    /// The head of the request on a stream, as text of HTTP/1.1, without `Transfer-Encoding`; empty if it is longer than it
    /// may be.
    pub fn take_head(&mut self, id: u32) -> Vec<u8> {
        self.streams.get_mut(id).map(|stream| std::mem::take(&mut stream.head)).unwrap_or_default()
    }

    /// Takes back the memory of a head that nobody needs any more, for the next one.
    pub fn give_head(&mut self, head: Vec<u8>) {
        if head.capacity() <= HEAD_KEPT_BYTES {
            self.spare_head = head;
        }
    }

    /// Who ended a stream before its time, if anyone did.
    pub fn gone(&self, id: u32) -> Option<Gone> {
        self.streams.get(id).map_or(Some(Gone::ByClient), |stream| stream.gone)
    }

    /// Whether no more of the request comes than waits to be read.
    pub fn is_ended(&self, id: u32) -> bool {
        self.streams.get(id).is_none_or(|stream| stream.client_ended)
    }

    /// Whether the request has neither a body nor trailers, and had none when it came.
    pub fn is_bare(&self, id: u32) -> bool {
        self.streams.get(id).is_none_or(|stream| {
            stream.client_ended && stream.waiting().is_empty() && stream.trailers.is_empty()
        })
    }

    /// Takes bytes of the request's body, as many as are there and `into` has room for; the client may then send more.
    pub fn read(&mut self, id: u32, into: &mut [u8], out: &mut Vec<u8>) -> usize {
        let Some(stream) = self.streams.get_mut(id) else { return 0 };
        let waiting = stream.waiting();
        let count = waiting.len().min(into.len());
        into[..count].copy_from_slice(&waiting[..count]);
        stream.take(count);
        stream.unreturned += count as u32;
        let due = stream.unreturned >= self.limits.stream_window_bytes / 2;
        if due && !stream.client_ended && stream.gone.is_none() {
            stream.may_receive += i64::from(stream.unreturned);
            frame::window_update(out, id, std::mem::take(&mut stream.unreturned));
        }
        self.give_back(count, out);
        count
    }

    /// Lets the client send so many bytes again, once they are worth a frame.
    pub(super) fn give_back(&mut self, bytes: usize, out: &mut Vec<u8>) {
        self.unreturned += bytes as u32;
        if self.unreturned >= self.limits.connection_window_bytes / 2 {
            self.may_receive += i64::from(self.unreturned);
            frame::window_update(out, 0, std::mem::take(&mut self.unreturned));
        }
    }

    /// The fields after a body, as lines of text, once [`Connection::is_ended`] and all was read.
    pub fn take_trailers(&mut self, id: u32) -> Vec<u8> {
        self.streams.get_mut(id).map(|stream| std::mem::take(&mut stream.trailers)).unwrap_or_default()
    }

    /// Appends the head of an answer: its status, and the fields in `lines` of text, `Name: value` each. Fields that
    /// speak of a connection of HTTP/1.1 are left out.
    pub fn answer(&mut self, id: u32, status: u16, lines: &[u8], end: bool, out: &mut Vec<u8>) {
        let digit = |unit: u16| b'0' + (status / unit % 10) as u8;
        let status = [digit(100), digit(10), digit(1)];
        self.fields_out(id, Some(status), lines, end, out);
    }

    /// Appends the fields after a body, and so the end of the stream.
    pub fn end_with_trailers(&mut self, id: u32, lines: &[u8], out: &mut Vec<u8>) {
        self.fields_out(id, None, lines, true, out);
    }

    fn fields_out(&mut self, id: u32, status: Option<[u8; 3]>, lines: &[u8], end: bool, out: &mut Vec<u8>) {
        let Some(stream) = self.streams.get_mut(id) else { return };
        if stream.gone.is_some() || stream.server_ended {
            return;
        }
        stream.server_ended = end;
        let block = &mut self.block;
        block.clear();
        self.encoder.begin(block);
        if let Some(status) = status {
            self.encoder.status(block, status);
        }
        self.encoder.lines(block, lines);
        frame::fields(out, id, end, block);
    }

    /// Bytes that may be sent on a stream now.
    pub fn room(&self, id: u32) -> usize {
        let window = self.streams.get(id).map_or(0, |stream| stream.may_send.min(self.may_send));
        usize::try_from(window).unwrap_or(0)
    }

    /// Appends as much of a body as the windows allow, at most `most` bytes, and its end if it is the end and all went.
    pub fn send(&mut self, id: u32, data: &[u8], end: bool, most: usize, out: &mut Vec<u8>) -> Sent {
        let window = self.room(id);
        let count = data.len().min(window).min(most);
        let Some(stream) = self.streams.get_mut(id) else { return Sent { count: 0, gone: true } };
        if self.hung_up && window == 0 && !data.is_empty() {
            stream.gone.get_or_insert(Gone::ByClient);
        }
        if stream.gone.is_some() || stream.server_ended {
            return Sent { count: 0, gone: true };
        }
        let ends = end && count == data.len();
        let mut rest = &data[..count];
        while !rest.is_empty() || ends {
            let (piece, after) = rest.split_at(rest.len().min(PAYLOAD_BYTES));
            let last = ends && after.is_empty();
            frame::whole(out, frame::DATA, if last { frame::END_STREAM } else { 0 }, id, piece);
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
        stream.server_ended = ends;
        stream.may_send -= count as i64;
        self.may_send -= count as i64;
        self.leave_due += count as u64;
        Sent { count, gone: false }
    }

    /// Lets go of a stream. One that the server did not end is broken off with `code`. One that the client did not end is followed to
    /// its end, unless that is far: then the client is told that the rest is not needed.
    pub fn release(&mut self, id: u32, code: ErrorCode, out: &mut Vec<u8>) {
        let Some(stream) = self.streams.get_mut(id) else { return };
        let unread = stream.drop_waiting();
        let is_short = stream.content_left.is_none_or(|left| left <= u64::from(EBB_BYTES));
        let how = match stream.gone {
            Some(Gone::ByClient) => Ended::ByClient,
            Some(Gone::ByError) => Ended::ByServer,
            None if !stream.server_ended => {
                frame::reset(out, id, code);
                Ended::ByServer
            }
            None if stream.client_ended => Ended::InOrder,
            None if is_short => {
                self.streams.let_ebb(id, EBB_BYTES);
                return self.give_back(unread, out);
            }
            None => {
                frame::reset(out, id, ErrorCode::NoError);
                Ended::ByServer
            }
        };
        self.forget(id, how);
        self.give_back(unread, out);
    }
}
