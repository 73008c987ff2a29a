//! Server-sent events: an answer that is a stream, each event of which is timed. Source: WHATWG HTML, section 9.2.

use memchr::memchr2;

use super::answer::{Answer, Body, Malformed};
use super::protocol::{End, Protocol, Sending};
use super::{Fate, Session};
use crate::histogram::{Latencies, add_latencies, latencies, resident};

/// A byte order mark in UTF-8. Source: HTML, section 9.2.5 ("leading U+FEFF must be ignored").
const MARK: [u8; 3] = [0xef, 0xbb, 0xbf];
/// Field whose presence makes an event of what stands between two blank lines.
const DATA: &[u8] = b"data";
/// Status of an answer that is a stream.
const STREAM: u16 = 200;
/// From which status on an answer is an error, and need have no events.
const FIRST_ERROR: u16 = 400;

/// Events in a window.
#[derive(Debug, Clone)]
pub struct Events {
    /// How many came.
    pub count: u64,
    /// The first event of each stream − intended.
    pub first: Latencies,
    /// Each later event − the one before it.
    pub gap: Latencies,
}

impl Default for Events {
    fn default() -> Self {
        Self { count: 0, first: latencies(), gap: latencies() }
    }
}

impl Events {
    /// None yet, ready to be recorded to.
    pub(crate) fn ready() -> Self {
        Self { count: 0, first: resident(), gap: resident() }
    }

    /// Adds what others counted.
    pub(crate) fn add(&mut self, more: &Self) {
        self.count += more.count;
        for (sum, more) in [(&mut self.first, &more.first), (&mut self.gap, &more.gap)] {
            add_latencies(sum, more);
        }
    }
}

/// Cuts a stream into events, whose content is passed over.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cutter {
    /// Bytes of the line so far, as many as tell its field.
    line: usize,
    /// Whether they begin with the field's name, and whether a colon followed.
    matches: bool,
    is_data: bool,
    /// Whether the event has a line of data.
    has_data: bool,
    /// Whether the last byte was a CR, after which an LF ends the same line.
    after_cr: bool,
    /// How much of the mark that a stream may begin with has come; all of it where there is none.
    mark: usize,
}

impl Cutter {
    /// How many events end in the next bytes of a stream.
    pub(super) fn take(&mut self, mut bytes: &[u8]) -> u64 {
        let mut events = 0;
        while let Some((wanted, (first, rest))) = MARK.get(self.mark).zip(bytes.split_first()) {
            if first != wanted {
                self.mark = MARK.len();
                break;
            }
            (self.mark, bytes) = (self.mark + 1, rest);
        }
        while let Some(&first) = bytes.first() {
            if std::mem::take(&mut self.after_cr) && first == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let end = memchr2(b'\r', b'\n', bytes);
            self.note(&bytes[..end.unwrap_or(bytes.len())]);
            let Some(end) = end else { break };
            self.after_cr = bytes[end] == b'\r';
            events += u64::from(self.end_line());
            bytes = &bytes[end + 1..];
        }
        events
    }

    /// More of a line.
    fn note(&mut self, part: &[u8]) {
        for &byte in part.iter().take((DATA.len() + 1).saturating_sub(self.line)) {
            match DATA.get(self.line) {
                Some(wanted) => self.matches = (self.line == 0 || self.matches) && byte == *wanted,
                None => self.is_data = self.matches && byte == b':',
            }
            self.line += 1;
        }
    }

    /// A line is complete: whether it ends an event.
    fn end_line(&mut self) -> bool {
        let bare = self.line == DATA.len() && self.matches;
        let blank = self.line == 0;
        let has_data = self.has_data || self.is_data || bare;
        let (after_cr, mark) = (self.after_cr, self.mark);
        *self = Self { has_data: has_data && !blank, after_cr, mark, ..Self::default() };
        blank && has_data
    }
}

/// The stream of one connection.
#[derive(Debug, Default)]
pub(super) struct Stream {
    cutter: Cutter,
    status: u16,
    is_stream: bool,
    /// Whether it is compressed, so that no event can be seen in it.
    is_compressed: bool,
    /// Events that came, and those of them that are not recorded yet.
    came: u64,
    fresh: u64,
    last_ns: u64,
}

impl Body for Stream {
    fn begin(&mut self, status: u16, head: &[u8]) {
        let is = |name: &[u8], value: &[u8]| {
            const TYPE: &[u8] = b"text/event-stream";
            let begins = value.len() >= TYPE.len() && value[..TYPE.len()].eq_ignore_ascii_case(TYPE);
            name.eq_ignore_ascii_case(b"content-type") && begins
        };
        let compresses = |name: &[u8], value: &[u8]| {
            name.eq_ignore_ascii_case(b"content-encoding") && !value.eq_ignore_ascii_case(b"identity")
        };
        let is_stream = http1::response::headers(head).any(|(name, value)| is(name, value));
        let is_compressed = http1::response::headers(head).any(|(name, value)| compresses(name, value));
        *self = Self { status, is_stream, is_compressed, ..Self::default() };
    }

    fn more(&mut self, body: &[u8]) {
        if self.status == STREAM {
            let events = self.cutter.take(body);
            self.came += events;
            self.fresh += events;
        }
    }
}

/// HTTP/1.1 whose answers are streams of events.
#[derive(Debug)]
pub struct EventStreams {
    /// Events after which an answer is complete; `None` for when the stream ends.
    most: Option<u64>,
    streams: Box<[Stream]>,
}

impl EventStreams {
    /// For so many connections.
    #[must_use]
    pub fn new(connections: u32, most: Option<u64>) -> Self {
        Self { most, streams: (0..connections).map(|_| Stream::default()).collect() }
    }
}

impl Session {
    fn received_events(&mut self, lane: u32, buf: &[u8], stream: &mut Stream, most: u64, at: u64) -> Fate {
        let mut from = 0;
        loop {
            let next = self.lanes[lane as usize].reader.next(buf, &mut from, &mut self.heads, Some(stream));
            let ended = match next {
                Ok(ended) => ended,
                // What follows the last event that is wanted is not.
                Err(_) if stream.came >= most => None,
                Err(malformed) => return self.malformed(lane, malformed, at),
            };
            self.note_events(lane, stream, most, at);
            if stream.status == STREAM && !stream.is_stream {
                return self.malformed(lane, Malformed::NoEvents, at);
            }
            if stream.status == STREAM && stream.is_compressed {
                return self.malformed(lane, Malformed::CompressedEvents, at);
            }
            let answer = match ended {
                Some(_) if stream.status < FIRST_ERROR && most != u64::MAX && stream.came < most => {
                    return self.malformed(lane, Malformed::FewEvents, at);
                }
                // The rest of the stream is not wanted, nor is the connection, whether or not its end is there already.
                _ if stream.came >= most => Answer { status: STREAM, keep_alive: false },
                Some(answer) => answer,
                None => break,
            };
            let fate = self.answered(lane, answer, at);
            *stream = Stream::default();
            if fate == Fate::Replace {
                return fate;
            }
        }
        self.restash(lane, &buf[from..]);
        let state = &mut self.lanes[lane as usize];
        if state.begun_ns == 0 && !state.reader.is_between_answers() {
            state.begun_ns = at;
        }
        Fate::Keep
    }

    /// Records the events that one read brought: they came at once.
    fn note_events(&mut self, lane: u32, stream: &mut Stream, most: u64, at: u64) {
        let before = stream.came - stream.fresh;
        let fresh = std::mem::take(&mut stream.fresh).min(most.saturating_sub(before));
        let state = &self.lanes[lane as usize];
        let covered = self.tally.covers(at);
        let Some(events) = self.tally.events.as_mut().filter(|_| fresh > 0 && state.cursor.held > 0) else {
            return;
        };
        if covered {
            let first = before == 0;
            if first {
                let intended_ns = self.rings.at(lane, state.cursor, 0).intended_ns;
                events.first.saturating_record(at.saturating_sub(intended_ns));
            } else {
                events.gap.saturating_record(at.saturating_sub(stream.last_ns));
            }
            events.gap.saturating_record_n(0, fresh - 1);
            events.count += fresh;
        }
        stream.last_ns = at;
    }
}

impl Protocol for EventStreams {
    const STAMPED: bool = false;

    fn opened(&mut self, session: &mut Session, connection: u32, _at: u64) -> Fate {
        self.streams[connection as usize] = Stream::default();
        session.count_events();
        session.opened(connection);
        Fate::Keep
    }

    fn ask(&mut self, session: &mut Session, _lane: u32, _at: u64) -> Sending {
        session.count_events();
        Sending::Now
    }

    fn received(
        &mut self,
        session: &mut Session,
        connection: u32,
        buf: &[u8],
        fresh: usize,
        at: u64,
    ) -> Fate {
        session.count_bytes(fresh, at);
        let stream = &mut self.streams[connection as usize];
        session.received_events(connection, buf, stream, self.most.unwrap_or(u64::MAX), at)
    }

    fn ended(&mut self, session: &mut Session, connection: u32, how: End, at: u64) -> Fate {
        let stream = std::mem::take(&mut self.streams[connection as usize]);
        let few = stream.is_stream && self.most.is_some_and(|most| stream.came < most);
        match few && matches!(how, End::Closed | End::Cut) {
            true => session.malformed(connection, Malformed::FewEvents, at),
            false => session.ended(connection, how, at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_counted_wherever_the_stream_is_cut() {
        let cases: [(&str, u64); 12] = [
            ("data: a\n\ndata: b\n\n", 2),
            ("data: a\r\n\r\ndata: b\r\rdata\n\n", 3),
            (": comment\n\n: another\n\n", 0),
            ("event: x\nid: 1\nretry: 7\n\n", 0),
            ("id: 1\ndata:a\ndata:b\n\n\n\n", 1),
            ("data:\n\n", 1),
            ("dat: a\n\ndatax: b\n\n data: c\n\n", 0),
            ("data: a\n", 0),
            ("data: a\n\ndata: half", 1),
            ("database\n\n", 0),
            ("\u{feff}data: a\n\ndata: b\n\n", 2),
            // Only at the begin.
            ("data: a\n\n\u{feff}data: b\n\n", 1),
        ];
        for (text, events) in cases {
            for step in 1..=text.len() {
                let mut cutter = Cutter::default();
                let came: u64 = text.as_bytes().chunks(step).map(|part| cutter.take(part)).sum();
                assert_eq!(came, events, "{text:?} in pieces of {step}");
            }
        }
    }
}
