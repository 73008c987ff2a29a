use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::dispatch::NEVER;
use super::feed::{Batch, Feed, FeedError, Heard, Outgoing};
use super::users::{Next, User};

/// Most bytes that one write offers: more than a socket's default send buffer takes is only copied in vain.
const BATCH_BYTES: usize = 64 * 1024;
/// Room for the body of an answer that a connection keeps when the answer has been heard.
const KEPT_BODY_BYTES: usize = 64 * 1024;

/// The bytes of the requests.
#[derive(Debug)]
pub(crate) enum Source {
    /// All alike.
    Same(Same),
    /// Each from a feed.
    Each(Box<Each>),
}

/// One request, rendered once, and as many copies of it as one write may carry.
#[derive(Debug)]
pub(crate) struct Same {
    copies: Box<[u8]>,
    request_bytes: usize,
}

impl Same {
    pub(crate) fn new(request: &[u8], depth: u32) -> Self {
        let copies = (BATCH_BYTES / request.len().max(1)).clamp(1, depth as usize);
        Self { copies: request.repeat(copies).into(), request_bytes: request.len() }
    }

    /// The next bytes of `unwritten` requests, of the first of which `offset` bytes were written.
    #[inline]
    fn bytes(&self, unwritten: u32, offset: usize) -> &[u8] {
        let end = (unwritten as usize * self.request_bytes).min(self.copies.len());
        &self.copies[offset.min(end)..end]
    }
}

impl Source {
    /// What is to be written of a lane's `unwritten` requests, of the first of which `offset` bytes were written.
    #[inline]
    pub(crate) fn bytes(&self, lane: u32, unwritten: u32, offset: usize) -> &[u8] {
        match self {
            Self::Same(same) => same.bytes(unwritten, offset),
            Self::Each(each) => each.outboxes[lane as usize].bytes(),
        }
    }

    /// Passes over `written` bytes, those of the first unwritten request that were written before included. Says how
    /// many requests that completes, and how much of the next it is.
    #[inline]
    pub(crate) fn advance(&mut self, lane: u32, unwritten: u32, written: usize) -> (u32, usize) {
        match self {
            Self::Same(same) => ((written / same.request_bytes) as u32, written % same.request_bytes),
            Self::Each(each) => each.outboxes[lane as usize].advance(unwritten, written),
        }
    }

    /// The oldest request of `lane` is given up: its label.
    pub(crate) fn give_up(&mut self, lane: u32) -> Option<u16> {
        self.each().and_then(|each| each.pop(lane)?.0.label)
    }

    pub(crate) fn each(&mut self) -> Option<&mut Each> {
        match self {
            Self::Same(_) => None,
            Self::Each(each) => Some(each),
        }
    }
}

/// Requests from a feed, with what each connection has to send and to hear.
#[derive(Debug)]
pub(crate) struct Each {
    feed: Box<dyn Feed>,
    outboxes: Box<[Outbox]>,
    batch: Batch,
    /// Connections that are to rest and were not told how long.
    tired: Vec<u32>,
    /// Until when connections rest.
    resting: BinaryHeap<Reverse<(u64, u32)>>,
    /// When the next requests of users are due.
    steps: BinaryHeap<Reverse<(u64, User)>>,
    failure: Option<FeedError>,
}

/// What one connection has to send, and what its answers belong to.
#[derive(Debug, Default)]
struct Outbox {
    bytes: Vec<u8>,
    written: usize,
    /// Requests held, sent or not, in order; with whether each is the last of its batch.
    held: VecDeque<(Outgoing, bool)>,
    rest: Rest,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Rest {
    #[default]
    Due,
    Resting,
    Rested,
}

impl Outbox {
    #[inline]
    fn bytes(&self) -> &[u8] {
        let end = self.bytes.len().min(self.written + BATCH_BYTES);
        &self.bytes[self.written..end]
    }

    fn advance(&mut self, unwritten: u32, written: usize) -> (u32, usize) {
        let first = self.held.len() - unwritten as usize;
        let (mut whole, mut left) = (0, written);
        for (request, _) in self.held.range(first..) {
            if left < request.bytes {
                break;
            }
            left -= request.bytes;
            whole += 1;
        }
        let rest: usize = self.held.range(first + whole..).map(|(request, _)| request.bytes).sum();
        self.written = self.bytes.len() - (rest - left);
        if self.written == self.bytes.len() {
            self.bytes.clear();
            self.written = 0;
        }
        (whole as u32, left)
    }
}

impl Each {
    pub(crate) fn new(feed: Box<dyn Feed>, lanes: u32) -> Self {
        Self {
            feed,
            outboxes: (0..lanes).map(|_| Outbox::default()).collect(),
            batch: Batch::default(),
            tired: Vec::new(),
            resting: BinaryHeap::new(),
            steps: BinaryHeap::new(),
            failure: None,
        }
    }

    /// Puts the next batch into the outbox of `lane` and says how many requests it is; 0 if there is none.
    pub(crate) fn fetch(&mut self, lane: u32) -> u32 {
        self.batch.clear();
        if let Err(failure) = self.feed.next(&mut self.batch) {
            self.failure.get_or_insert(failure);
            return 0;
        }
        let count = self.batch.requests.len();
        if count == 0 || count > self.feed.most() as usize {
            let most = self.feed.most();
            let text = format!("{count} requests at once where from 1 to {most} were announced");
            self.failure.get_or_insert(FeedError(text));
            return 0;
        }
        self.put(lane);
        count as u32
    }

    /// Puts the batch into the outbox of `lane`.
    fn put(&mut self, lane: u32) {
        let outbox = &mut self.outboxes[lane as usize];
        outbox.rest = Rest::Due;
        match outbox.bytes.is_empty() {
            // Nothing waits before it, so that no byte need be copied once more.
            true => std::mem::swap(&mut outbox.bytes, &mut self.batch.bytes),
            false => outbox.bytes.extend_from_slice(&self.batch.bytes),
        }
        let count = self.batch.requests.len();
        let requests = self.batch.requests.iter().enumerate();
        outbox.held.extend(requests.map(|(index, request)| (*request, index + 1 == count)));
    }

    /// Puts the request of a user that is due first into the outbox of `lane`, and says when it was due.
    pub(crate) fn fetch_step(&mut self, lane: u32) -> Option<u64> {
        let Reverse((due_ns, user)) = self.steps.pop()?;
        self.batch.clear();
        self.feed.resume(user, &mut self.batch);
        self.put(lane);
        Some(due_ns)
    }

    /// When the next request of a user is due.
    pub(crate) fn step_ns(&self) -> u64 {
        self.steps.peek().map_or(NEVER, |Reverse((due_ns, _))| *due_ns)
    }

    /// The requests of users that are due at any time, and forgets them.
    pub(crate) fn take_steps(&mut self) -> BinaryHeap<Reverse<(u64, User)>> {
        std::mem::take(&mut self.steps)
    }

    /// The request of `lane` that was due at `due_ns` is to be sent again; false where it is no user's.
    pub(crate) fn again(&mut self, lane: u32, due_ns: u64) -> bool {
        let user = self.pop(lane).and_then(|(request, _)| request.user);
        user.map(|user| self.steps.push(Reverse((due_ns, user)))).is_some()
    }

    /// `user` is answered well: what comes next is noted.
    pub(crate) fn user_answered(
        &mut self,
        user: User,
        heard: Option<&mut Heard>,
        due_ns: u64,
        at: u64,
    ) -> Next {
        let next = self.feed.answered(user, heard.as_deref(), due_ns, at);
        if let Some(heard) = heard.filter(|heard| heard.body.capacity() > KEPT_BODY_BYTES) {
            heard.body = Vec::new();
        }
        if let Next::After { wait_ns } = next {
            self.steps.push(Reverse((at.saturating_add(wait_ns), user)));
        }
        next
    }

    pub(crate) fn lose(&mut self, user: User) {
        self.feed.lost(user);
    }

    pub(crate) fn has_users(&self) -> bool {
        self.feed.has_users()
    }

    pub(crate) fn limit_users(&mut self, most: u32) {
        self.feed.limit_users(most);
    }

    pub(crate) fn has_room(&self) -> bool {
        self.feed.has_room()
    }

    pub(crate) fn under_way(&self) -> usize {
        self.feed.under_way()
    }

    /// Whether the oldest request of `lane` can be sent again: it is a user's, who is still at that step and asks the same once
    /// more. Of a list or a script the next request would be another.
    pub(crate) fn may_repeat(&self, lane: u32) -> bool {
        let oldest = self.outboxes[lane as usize].held.front();
        oldest.is_some_and(|(request, _)| request.user.is_some() && request.repeatable)
    }

    /// Whether the next answer on `lane` is to be heard.
    pub(crate) fn hears(&self, lane: u32) -> bool {
        self.outboxes[lane as usize].held.front().is_none_or(|(request, _)| request.hears)
    }

    /// Takes back the last `surplus` requests of the batch that was just fetched for `lane`.
    pub(crate) fn give_back(&mut self, lane: u32, surplus: u32) {
        let outbox = &mut self.outboxes[lane as usize];
        for _ in 0..surplus {
            let bytes = outbox.held.pop_back().map_or(0, |(request, _)| request.bytes);
            outbox.bytes.truncate(outbox.bytes.len() - bytes);
        }
        if let Some((_, last)) = outbox.held.back_mut() {
            *last = true;
        }
    }

    /// The oldest request of `lane` is answered or given up: it, and whether it was the last of its batch.
    pub(super) fn pop(&mut self, lane: u32) -> Option<(Outgoing, bool)> {
        self.outboxes[lane as usize].held.pop_front()
    }

    /// Forgets what `lane` holds.
    pub(crate) fn clear(&mut self, lane: u32) {
        let outbox = &mut self.outboxes[lane as usize];
        outbox.held.clear();
        outbox.bytes.clear();
        outbox.written = 0;
    }

    /// Whether the next answer on `lane` has no body whatever it says.
    pub(crate) fn bodiless(&self, lane: u32) -> bool {
        self.outboxes[lane as usize].held.front().is_some_and(|(request, _)| request.head)
    }

    pub(crate) fn window_begins(&mut self) {
        self.feed.window_begins();
    }

    pub(crate) fn listens(&self) -> bool {
        self.feed.listens()
    }

    pub(crate) fn times_batches(&self) -> bool {
        self.feed.times_batches()
    }

    pub(crate) fn labels(&self) -> Vec<Option<u16>> {
        self.feed.labels()
    }

    pub(crate) fn most(&self) -> u32 {
        self.feed.most()
    }

    pub(crate) fn heard(&mut self, answer: &Heard) {
        if let Err(failure) = self.feed.heard(answer) {
            self.failure.get_or_insert(failure);
        }
    }

    /// Whether nothing more is to be sent.
    pub(crate) fn is_over(&self) -> bool {
        self.failure.is_some() || self.feed.stopped()
    }

    pub(crate) fn take_failure(&mut self) -> Option<FeedError> {
        self.failure.take()
    }

    /// Whether `lane` may ask; if not, it begins to rest.
    pub(crate) fn is_rested(&mut self, lane: u32) -> bool {
        let outbox = &mut self.outboxes[lane as usize];
        if !self.feed.rests() || outbox.rest == Rest::Rested {
            return true;
        }
        if outbox.rest == Rest::Due {
            outbox.rest = Rest::Resting;
            self.tired.push(lane);
        }
        false
    }

    /// A connection whose rest is over at `now`.
    pub(crate) fn rested(&mut self, now: u64) -> Option<u32> {
        while let Some(lane) = self.tired.pop() {
            match self.feed.rest_ns() {
                Ok(rest_ns) => self.resting.push(Reverse((now.saturating_add(rest_ns), lane))),
                Err(failure) => {
                    self.failure.get_or_insert(failure);
                }
            }
        }
        if self.resting.peek().is_none_or(|Reverse((until, _))| *until > now) {
            return None;
        }
        let Reverse((_, lane)) = self.resting.pop()?;
        self.outboxes[lane as usize].rest = Rest::Rested;
        Some(lane)
    }

    /// When the next connection has rested.
    pub(crate) fn wake_ns(&self) -> u64 {
        match self.tired.is_empty() {
            false => 0,
            true => self.resting.peek().map_or(NEVER, |Reverse((until, _))| *until),
        }
    }
}
