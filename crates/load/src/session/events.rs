//! Server-sent events: an answer that is a stream, each event of which is timed. Source: WHATWG HTML, section 9.2.

use memchr::memchr2;

use super::answer::{Answer, Body, Malformed};
use super::protocol::{End, Protocol, Sending};
use super::{Fate, Heard, Session};
use crate::histogram::{Latencies, Record as _, add_latencies, latencies, resident};

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
    /// How many events end in the next bytes of a stream, up to `most` of them, and how many bytes that took.
    pub(super) fn take(&mut self, all: &[u8], most: u64) -> (u64, usize) {
        let (mut bytes, mut events) = (all, 0);
        while let Some((wanted, (first, rest))) = MARK.get(self.mark).zip(bytes.split_first()) {
            if first != wanted {
                self.mark = MARK.len();
                break;
            }
            (self.mark, bytes) = (self.mark + 1, rest);
        }
        while let Some(&first) = bytes.first().filter(|_| events < most) {
            if std::mem::take(&mut self.after_cr) && first == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let end = memchr2(b'\r', b'\n', bytes);
            self.note(&bytes[..end.unwrap_or(bytes.len())]);
            let Some(end) = end else {
                bytes = &[];
                break;
            };
            self.after_cr = bytes[end] == b'\r';
            events += u64::from(self.end_line());
            bytes = &bytes[end + 1..];
        }
        (events, all.len() - bytes.len())
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

    /// Whether an event has begun that has not ended.
    fn is_within(&self) -> bool {
        let in_data = self.line > 0 && self.matches && (self.line <= DATA.len() || self.is_data);
        self.has_data || in_data
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
#[derive(Debug)]
pub(super) struct Stream {
    cutter: Cutter,
    status: u16,
    is_stream: bool,
    /// Whether it is compressed, so that no event can be seen in it.
    is_compressed: bool,
    /// Events that are wanted: nobody sees what comes after them.
    most: u64,
    /// Events that came, and those of them that are not recorded yet.
    came: u64,
    fresh: u64,
    last_ns: u64,
}

impl Stream {
    fn new(most: u64) -> Self {
        Self {
            cutter: Cutter::default(),
            status: 0,
            is_stream: false,
            is_compressed: false,
            most,
            came: 0,
            fresh: 0,
            last_ns: 0,
        }
    }

    /// Whether all events came that are wanted.
    fn is_full(&self) -> bool {
        self.came >= self.most
    }

    /// What is wrong with a stream that is over; the rest of one that has all that is wanted is not looked at.
    fn flaw(&self) -> Option<Malformed> {
        match () {
            () if self.status >= FIRST_ERROR || self.is_full() => None,
            () if self.most != u64::MAX => Some(Malformed::FewEvents),
            () if self.status != STREAM => None,
            () if self.cutter.is_within() => Some(Malformed::CutEvent),
            () if self.came == 0 => Some(Malformed::NoEvent),
            () => None,
        }
    }
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
        *self = Self { status, is_stream, is_compressed, ..Self::new(self.most) };
    }

    fn more(&mut self, body: &[u8]) {
        self.wanted(body);
    }
}

impl Stream {
    /// The part of a body up to the last event that is wanted.
    fn wanted<'b>(&mut self, body: &'b [u8]) -> &'b [u8] {
        if self.status != STREAM {
            return body;
        }
        let (events, bytes) = self.cutter.take(body, self.most - self.came);
        self.came += events;
        self.fresh += events;
        &body[..bytes]
    }
}

/// A stream, and whoever wants to hear it as well.
struct Hearing<'a>(&'a mut Stream, Option<&'a mut Heard>);

impl Body for Hearing<'_> {
    fn begin(&mut self, status: u16, head: &[u8]) {
        self.0.begin(status, head);
        self.1.iter_mut().for_each(|heard| heard.begin(status, head));
    }

    fn more(&mut self, body: &[u8]) {
        let wanted = self.0.wanted(body);
        self.1.iter_mut().for_each(|heard| heard.more(wanted));
    }
}

/// HTTP/1.1 whose answers are streams of events.
#[derive(Debug)]
pub struct EventStreams {
    streams: Box<[Stream]>,
}

impl EventStreams {
    /// For so many connections, with as many events as an answer has at most; `None` for as many as come.
    #[must_use]
    pub fn new(connections: u32, most: Option<u64>) -> Self {
        Self { streams: (0..connections).map(|_| Stream::new(most.unwrap_or(u64::MAX))).collect() }
    }
}

impl Session {
    fn received_events(&mut self, lane: u32, buf: &[u8], stream: &mut Stream, at: u64) -> Fate {
        let mut from = 0;
        loop {
            let hears = self.hears(lane);
            let heard = self.heard.get_mut(lane as usize).filter(|_| hears);
            let mut hearing = Hearing(stream, heard);
            let next =
                self.lanes[lane as usize].reader.next(buf, &mut from, &mut self.heads, Some(&mut hearing));
            let ended = match next {
                Ok(ended) => ended,
                // What follows the last event that is wanted is not.
                Err(_) if stream.is_full() => None,
                Err(malformed) => return self.malformed(lane, malformed, at),
            };
            self.note_events(lane, stream, at);
            if stream.status == STREAM && !stream.is_stream {
                return self.malformed(lane, Malformed::NoEvents, at);
            }
            if stream.status == STREAM && stream.is_compressed {
                return self.malformed(lane, Malformed::CompressedEvents, at);
            }
            let answer = match ended {
                // The rest of the stream is not wanted, nor is the connection, whether or not its end is there already.
                _ if stream.is_full() => Answer { status: STREAM, keep_alive: false },
                Some(answer) => match stream.flaw() {
                    Some(flaw) => return self.malformed(lane, flaw, at),
                    None => answer,
                },
                None => break,
            };
            let fate = self.answered(lane, answer, at);
            *stream = Stream::new(stream.most);
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
    fn note_events(&mut self, lane: u32, stream: &mut Stream, at: u64) {
        let before = stream.came - stream.fresh;
        let fresh = std::mem::take(&mut stream.fresh);
        let state = &self.lanes[lane as usize];
        let covered = self.tally.covers(at);
        let Some(events) = self.tally.events.as_mut().filter(|_| fresh > 0 && state.cursor.held > 0) else {
            return;
        };
        if covered {
            let first = before == 0;
            if first {
                let intended_ns = self.rings.at(lane, state.cursor, 0).intended_ns;
                events.first.note(at.saturating_sub(intended_ns));
            } else {
                events.gap.note(at.saturating_sub(stream.last_ns));
            }
            events.gap.note_n(0, fresh - 1);
            events.count += fresh;
        }
        stream.last_ns = at;
    }
}

impl Protocol for EventStreams {
    const STAMPED: bool = false;

    fn opened(&mut self, session: &mut Session, connection: u32, _at: u64) -> Fate {
        let stream = &mut self.streams[connection as usize];
        *stream = Stream::new(stream.most);
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
        session.received_events(connection, buf, stream, at)
    }

    fn ended(&mut self, session: &mut Session, connection: u32, how: End, at: u64) -> Fate {
        let place = &mut self.streams[connection as usize];
        let most = place.most;
        let stream = std::mem::replace(place, Stream::new(most));
        // A body that was to have an end and has none is a fault of the connection, unless it lacks events besides.
        let whole = session.lanes[connection as usize].reader.ends_with_connection();
        let told = matches!(how, End::Closed | End::Cut) && stream.is_stream;
        match stream.flaw().filter(|_| told && (whole || most != u64::MAX)) {
            Some(flaw) => session.malformed(connection, flaw, at),
            None => session.ended(connection, how, at),
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
                let came: u64 = text.as_bytes().chunks(step).map(|part| cutter.take(part, u64::MAX).0).sum();
                assert_eq!(came, events, "{text:?} in pieces of {step}");
            }
        }
    }

    #[test]
    fn of_the_events_that_are_wanted_it_is_told_where_they_end() {
        let text = b"data: a\n\ndata: b\r\n\r\ndata: c\n\n";
        for (most, wanted) in [(0, (0, 0)), (1, (1, 9)), (2, (2, 19)), (3, (3, 29)), (9, (3, 29))] {
            assert_eq!(Cutter::default().take(text, most), wanted, "{most}");
        }
    }

    #[test]
    fn an_event_that_has_not_ended_is_seen() {
        for (text, within) in [
            ("", false),
            ("data: a\n\n", false),
            ("data: a\n", true),
            ("data: a\n\ndat", true),
            ("data: a\n\ndata: b", true),
            ("data\r", true),
            ("data: a\n\n: a comment", false),
            ("data: a\n\nid: 7\n", false),
            ("data: a\n\nid: 7\ndata: b\nid", true),
            ("database", false),
        ] {
            let mut cutter = Cutter::default();
            cutter.take(text.as_bytes(), u64::MAX);
            assert_eq!(cutter.is_within(), within, "{text:?}");
        }
    }
}
