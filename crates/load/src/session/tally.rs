use std::collections::BTreeMap;

use model::record::{Errors, Pieces};

use super::drift::Drift;
use super::events::Events;
use super::in_pieces::InPieces;
use super::pairs::Pairs;
use super::ring::Stamp;
use super::silence::Silences;
use super::users::{Missing, Users};
use crate::histogram::{Latencies, Record as _, SecondLatencies, latencies, resident};

/// Length of a tick in nanoseconds: wrk samples the rate of its threads as often.
const TICK_NS: u64 = SECOND_NS / TICKS;
/// Ticks of a second.
const TICKS: u64 = 10;
/// Nanoseconds of a second.
const SECOND_NS: u64 = 1_000_000_000;

/// The window on the monotonic clock, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Its begin.
    pub start_ns: u64,
    /// Its end.
    pub end_ns: u64,
}

/// What went wrong with one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    Read,
    Write,
    Parse,
    /// Bytes that answer no request; no request fails by them.
    Surplus,
}

/// One second of one session's window.
#[derive(Debug)]
pub struct SecondTally {
    /// Which second of the window, from 0.
    pub index: u32,
    /// Requests completed.
    pub requests: u64,
    /// Errors.
    pub errors: u64,
    /// done − intended.
    pub response: SecondLatencies,
}

impl SecondTally {
    fn new(index: u32, response: SecondLatencies) -> Self {
        Self { index, requests: 0, errors: 0, response }
    }
}

/// What an open loop records beside the response.
#[derive(Debug)]
pub struct Split {
    /// done − sent.
    pub service: Latencies,
    /// sent − intended.
    pub send_lag: Latencies,
}

/// What one session counted of the requests of one label.
#[derive(Debug)]
pub struct LabelTally {
    /// Answers to them.
    pub requests: u64,
    /// Of them, those that went wrong, and requests without an answer.
    pub errors: u64,
    /// done − intended; those given up and unfinished as "at least this long".
    pub response: Latencies,
}

/// What one session counted in its window.
#[derive(Debug)]
pub struct Tally {
    span: Option<Span>,
    /// Whether only requests that were due in the window belong to it.
    due_inside: bool,
    /// The only status that is no error, where there is one.
    expected_status: Option<u16>,
    /// By label, where a label has one of its own.
    expected_by_label: Box<[Option<u16>]>,
    /// Whether answers that come after the window belong to it, too.
    waits: bool,
    /// When each request was answered that was answered after the window: nanoseconds from its end.
    pub late_ns: Vec<u64>,
    second: SecondTally,
    /// For the responses of the next second.
    spare: Option<SecondLatencies>,
    second_end_ns: u64,
    tick_end_ns: u64,
    /// Answers at the end of the last tick.
    ticked: u64,
    /// Answers in each tick that is over: 40 bytes for a second.
    ticks: Vec<u32>,
    /// Seconds that are over, for the caller to take.
    pub full: Vec<SecondTally>,
    /// Service and send lag; `None` in a closed loop, where the response says it all.
    pub split: Option<Split>,
    /// By label; empty where requests have none.
    pub labels: Vec<LabelTally>,
    /// How responses moved over the window.
    pub drift: Drift,
    /// How each response went with the next.
    pub pairs: Pairs,
    /// When no answer came.
    pub silences: Silences,
    /// Requests that were unanswered or unsent when the window ended, each with its age then.
    pub censored: Latencies,
    /// Answers to requests of the window, in the window.
    pub requests: u64,
    /// Answers in the window, whenever their requests were due.
    pub answers: u64,
    /// Bytes read in the window.
    pub bytes_read: u64,
    /// Answers in the window that came in pieces.
    pub pieces: Pieces,
    /// First and last bytes of those, and of requests that were not answered to the end; nothing where there are none.
    pub in_pieces: Option<Box<InPieces>>,
    /// Errors in the window.
    pub errors: Errors,
    /// Of them those of status, by it; there are at most as many as there are statuses.
    pub by_status: BTreeMap<u16, u64>,
    /// Events, where answers are streams of them.
    pub events: Option<Box<Events>>,
    /// Requests sent once more, in the window: they met a server's closing of their connection.
    pub resent: u64,
    /// Of them those that the server had not looked at when it ended their connection in good order.
    pub dismissed: u64,
    /// What became of users, where requests have any.
    pub users: Option<Box<Users>>,
    /// Of those that are unfinished, how many waited for a stream of their connection.
    pub without_stream: u64,
    /// Sent and not answered when the window ended.
    pub unfinished: u64,
    /// Due and not sent when the window ended.
    pub unsent: u64,
}

impl Tally {
    /// In an open loop, and where requests are counted out, only those that were due in the window belong to it. Else
    /// all that is answered within it does, or every connection of a closed loop would lose its first answer.
    pub(crate) fn new(open_loop: bool, counted_out: bool, expected_status: Option<u16>) -> Self {
        Self {
            due_inside: open_loop || counted_out,
            expected_status,
            expected_by_label: Box::default(),
            second: SecondTally::new(0, resident()),
            split: open_loop.then(|| Split { service: resident(), send_lag: resident() }),
            censored: latencies(),
            ..Self::silent()
        }
    }

    /// One that nothing is counted in, for the time between two windows.
    pub(crate) fn silent() -> Self {
        const FIT: &str = "the bounds are constants that fit";
        let second = SecondTally::new(0, SecondLatencies::new_with_bounds(1, 2, 0).expect(FIT));
        let censored = Latencies::new_with_bounds(1, 2, 0).expect(FIT);
        Self {
            span: None,
            due_inside: false,
            expected_status: None,
            expected_by_label: Box::default(),
            waits: false,
            late_ns: Vec::new(),
            second,
            spare: None,
            second_end_ns: u64::MAX,
            tick_end_ns: u64::MAX,
            ticked: 0,
            ticks: Vec::new(),
            full: Vec::new(),
            split: None,
            labels: Vec::new(),
            drift: Drift::new(0, 0),
            pairs: Pairs::default(),
            silences: Silences::default(),
            censored,
            requests: 0,
            answers: 0,
            bytes_read: 0,
            pieces: Pieces::default(),
            in_pieces: None,
            errors: Errors::default(),
            by_status: BTreeMap::new(),
            events: None,
            users: None,
            resent: 0,
            dismissed: 0,
            without_stream: 0,
            unfinished: 0,
            unsent: 0,
        }
    }

    /// The same where answers are waited for after the window.
    pub(crate) fn waiting(self) -> Self {
        Self { waits: true, ..self }
    }

    /// Requests answered before the window ended.
    #[must_use]
    pub fn in_time(&self) -> u64 {
        self.requests - self.late_ns.len() as u64
    }

    /// When the window ends; `u64::MAX` without one.
    pub(crate) fn end_ns(&self) -> u64 {
        self.span.map_or(u64::MAX, |span| span.end_ns)
    }

    /// Counts labels apart, each with the only status that is right for it, where it has one of its own.
    pub(crate) fn label(&mut self, labels: &[Option<u16>]) {
        let empty = |_| LabelTally { requests: 0, errors: 0, response: resident() };
        self.labels = labels.iter().map(empty).collect();
        self.expected_by_label = labels.into();
    }

    #[inline]
    fn labelled(&mut self, label: Option<u16>) -> Option<&mut LabelTally> {
        self.labels.get_mut(usize::from(label?))
    }

    pub(crate) fn open(&mut self, span: Span) {
        self.span = Some(span);
        self.drift = Drift::new(span.start_ns, span.end_ns);
        self.silences.begin(span.start_ns);
        self.second_end_ns = span.start_ns.saturating_add(SECOND_NS);
        self.tick_end_ns = span.start_ns.saturating_add(TICK_NS);
    }

    /// Lends an empty histogram for the second after this one: to make one then would take time from it.
    pub(crate) fn lend(&mut self, spare: SecondLatencies) {
        self.spare = Some(spare);
    }

    /// Whether `at` lies in the window.
    #[inline]
    pub(crate) fn covers(&self, at: u64) -> bool {
        self.span.is_some_and(|span| at >= span.start_ns && (at <= span.end_ns || self.waits))
    }

    /// Whether the schedule has ended by `due_ns`. Who polls meets the end of the window itself, and what is due then is no
    /// part of it.
    #[inline]
    pub(crate) fn is_over_by(&self, due_ns: u64) -> bool {
        self.span.is_some_and(|span| due_ns >= span.end_ns)
    }

    /// Whether a request of this stamp belongs to the window.
    #[inline]
    fn owns(&self, stamp: Stamp) -> bool {
        !self.due_inside || self.span.is_some_and(|span| stamp.intended_ns >= span.start_ns)
    }

    /// When the second being filled is over: the first instant that is not part of it; `u64::MAX` without a window.
    #[inline]
    pub(crate) fn wake_ns(&self) -> u64 {
        self.second_end_ns.saturating_add(1)
    }

    /// Ends every tick and second that is over at `now`.
    #[inline]
    pub(crate) fn roll(&mut self, now: u64) {
        while now > self.tick_end_ns {
            self.end_tick();
        }
    }

    #[cold]
    fn end_tick(&mut self) {
        self.push_tick();
        if self.tick_end_ns == self.second_end_ns {
            self.end_second();
        }
        self.tick_end_ns = self.tick_end_ns.saturating_add(TICK_NS);
    }

    fn push_tick(&mut self) {
        self.ticks.push(u32::try_from(self.answers - self.ticked).unwrap_or(u32::MAX));
        self.ticked = self.answers;
    }

    /// Answers per second in each whole tick of the window.
    pub fn rates_per_s(&self) -> impl Iterator<Item = f64> {
        self.ticks.iter().map(|answers| f64::from(*answers) * TICKS as f64)
    }

    #[cold]
    fn end_second(&mut self) {
        let response = self.spare.take().unwrap_or_else(resident);
        let next = SecondTally::new(self.second.index + 1, response);
        self.full.push(std::mem::replace(&mut self.second, next));
        self.second_end_ns = self.second_end_ns.saturating_add(SECOND_NS);
    }

    /// An answer came; where it is not `timed`, it is only counted.
    #[inline]
    pub(crate) fn answer(&mut self, stamp: Stamp, done: u64, status: u16, label: Option<u16>, timed: bool) {
        if !self.covers(done) {
            return;
        }
        self.roll(done);
        self.silences.end(done);
        self.answers += 1;
        if !self.owns(stamp) {
            return;
        }
        self.requests += 1;
        if done > self.end_ns() {
            self.note_late(done);
        }
        self.second.requests += 1;
        if timed {
            self.record(stamp, done);
        }
        let wrong = self.is_error(status, label);
        if let Some(label) = self.labelled(label) {
            label.requests += 1;
            label.errors += u64::from(wrong);
            label.response.note(done.saturating_sub(stamp.intended_ns));
        }
        if wrong {
            self.note_status(status);
        }
    }

    #[cold]
    fn note_late(&mut self, done: u64) {
        self.late_ns.push(done - self.end_ns());
    }

    #[cold]
    fn note_status(&mut self, status: u16) {
        self.errors.status += 1;
        self.second.errors += 1;
        *self.by_status.entry(status).or_default() += 1;
    }

    #[inline]
    pub(super) fn is_error(&self, status: u16, label: Option<u16>) -> bool {
        const FIRST_ERROR_STATUS: u16 = 400;
        let own = label.and_then(|label| self.expected_by_label.get(usize::from(label)).copied().flatten());
        own.or(self.expected_status).map_or(status >= FIRST_ERROR_STATUS, |expected| status != expected)
    }

    #[inline]
    fn record(&mut self, stamp: Stamp, done: u64) {
        let response_ns = done.saturating_sub(stamp.intended_ns);
        self.second.response.note(response_ns);
        self.drift.note(done, response_ns);
        self.pairs.note(response_ns);
        if let Some(split) = &mut self.split {
            split.service.note(done.saturating_sub(stamp.sent_ns));
            split.send_lag.note(stamp.sent_ns.saturating_sub(stamp.intended_ns));
        }
    }

    pub(crate) fn fault(&mut self, fault: Fault, label: Option<u16>, at: u64) {
        if self.covers(at) {
            self.roll(at);
            self.labelled(label).into_iter().for_each(|label| label.errors += 1);
            self.second.errors += 1;
            *match fault {
                Fault::Read => &mut self.errors.read,
                Fault::Write => &mut self.errors.write,
                Fault::Parse => &mut self.errors.parse,
                Fault::Surplus => &mut self.errors.surplus,
            } += 1;
        }
    }

    /// A request is sent once more; `farewell` is whether its connection was ended in good order.
    pub(crate) fn resent(&mut self, at: u64, farewell: bool) {
        self.resent += u64::from(self.covers(at));
        self.dismissed += u64::from(self.covers(at) && farewell);
    }

    /// A request is given up: it took at least this long.
    pub(crate) fn timeout(&mut self, stamp: Stamp, label: Option<u16>, at: u64) {
        if self.covers(at) && self.owns(stamp) {
            self.roll(at);
            self.errors.timeout += 1;
            self.second.errors += 1;
            if let Some(label) = self.labelled(label) {
                label.errors += 1;
                label.response.note(at.saturating_sub(stamp.intended_ns));
            }
            self.record(stamp, at);
        }
    }

    /// An answer whose first byte was read at `begun_ns`, and whose last, or the end of waiting for it, came at `end`.
    #[cold]
    pub(super) fn in_pieces(&mut self, stamp: Stamp, begun_ns: u64, end: u64) {
        if self.owns(stamp) {
            let from_ns = if self.split.is_some() { stamp.sent_ns } else { stamp.intended_ns };
            self.in_pieces.get_or_insert_default().note(from_ns, begun_ns, end);
        }
    }

    /// What is counted of users, where there is a window.
    pub(super) fn open_users(&mut self) -> Option<&mut Users> {
        self.span?;
        Some(self.users.get_or_insert_default())
    }

    /// A user ended at a request that went wrong.
    pub(super) fn user_failed(&mut self, at: u64) {
        if self.covers(at) {
            self.users.get_or_insert_default().failed += 1;
        }
    }

    /// A user has had every step.
    pub(super) fn user_finished(&mut self, took_ns: u64, at: u64) {
        if self.covers(at) {
            let users = self.users.get_or_insert_default();
            users.finished += 1;
            users.took.note(took_ns);
        }
    }

    /// An answer that was right by its status had not the value that was to be taken from it.
    pub(super) fn value_missing(&mut self, value: Missing, label: Option<u16>, at: u64) {
        if self.covers(at) {
            self.errors.value += 1;
            self.second.errors += 1;
            self.labelled(label).into_iter().for_each(|label| label.errors += 1);
            let users = self.users.get_or_insert_default();
            users.failed += 1;
            *users.missing.entry(value).or_default() += 1;
        }
    }

    pub(crate) fn connect_failed(&mut self, at: u64) {
        if self.covers(at) {
            self.roll(at);
            self.errors.connect += 1;
            self.second.errors += 1;
        }
    }

    /// Whether requests have times at which they are due.
    pub(super) fn is_open(&self) -> bool {
        self.split.is_some()
    }

    /// A request was sent and not answered when the window ended; `tells` says whether how long it has waited is a latency.
    pub(crate) fn unfinished(&mut self, stamp: Stamp, label: Option<u16>, end: u64, tells: bool) {
        let owned = self.owns(stamp);
        self.unfinished += u64::from(owned);
        if owned && tells {
            if let Some(label) = self.labelled(label) {
                label.response.note(end.saturating_sub(stamp.intended_ns));
            }
            self.censored.note(end.saturating_sub(stamp.intended_ns));
            if let Some(split) = &mut self.split {
                split.service.note(end.saturating_sub(stamp.sent_ns));
                split.send_lag.note(stamp.sent_ns.saturating_sub(stamp.intended_ns));
            }
        }
    }

    /// An arrival was due and not sent when the window ended.
    pub(crate) fn unsent(&mut self, intended: u64, end: u64) {
        let owned = self.span.is_some_and(|span| (span.start_ns..end).contains(&intended));
        if let Some(split) = self.split.as_mut().filter(|_| owned) {
            self.unsent += 1;
            self.censored.note(end - intended);
            split.send_lag.note(end - intended);
        }
    }

    /// Ends the last second, however short it was.
    pub(crate) fn close(&mut self, end: u64) {
        self.roll(end);
        if self.span.is_some() {
            self.silences.end(end);
            if end == self.tick_end_ns {
                self.push_tick();
            }
            self.end_second();
        }
    }
}
