use std::fmt::Debug;

use super::answer::Body;
use super::faults::is_repeatable;
use super::users::{Next, User};

/// Longest body of an answer that [`Feed::heard`] is given; the rest is read and left out, so that no answer costs
/// memory without bound.
pub const HEARD_BODY_BYTES: usize = 16 * 1024 * 1024;

/// Where the requests of one worker come from when they are not all the same: a script, a list.
///
/// A feed is asked on its worker's thread, in the order in which requests are sent. What takes long in there is send lag
/// of what is due meanwhile.
pub trait Feed: Debug + Send {
    /// Requests that one call of [`Feed::next`] brings at most, from 1 on.
    fn most(&self) -> u32 {
        1
    }

    /// Fills the empty `batch` with the next requests: at least one, all for one connection.
    ///
    /// # Errors
    /// [`FeedError`] ends the run.
    fn next(&mut self, batch: &mut Batch) -> Result<(), FeedError>;

    /// The window begins: what was asked for so far was warm-up.
    fn window_begins(&mut self) {}

    /// Whether connections rest before they ask: then [`Feed::rest_ns`] is called before each [`Feed::next`].
    fn rests(&self) -> bool {
        false
    }

    /// How long a connection rests before it may ask, in nanoseconds.
    ///
    /// # Errors
    /// [`FeedError`] ends the run.
    fn rest_ns(&mut self) -> Result<u64, FeedError> {
        Ok(0)
    }

    /// Whether it wants to hear answers; only then are they kept.
    fn listens(&self) -> bool {
        false
    }

    /// An answer is complete.
    ///
    /// # Errors
    /// [`FeedError`] ends the run.
    fn heard(&mut self, _answer: &Heard) -> Result<(), FeedError> {
        Ok(())
    }

    /// Whether it wants its worker to end now.
    fn stopped(&self) -> bool {
        false
    }

    /// The labels of its requests, each with the only status that is right for it, where that is not the server's: what is
    /// answered to each label is counted apart.
    fn labels(&self) -> Vec<Option<u16>> {
        Vec::new()
    }

    /// Whether only the last answer of a batch is timed, not each.
    fn times_batches(&self) -> bool {
        false
    }

    /// Whether each request is of a user, whom the batch names: then [`Feed::next`] brings the first request of a new
    /// one, and what follows is told of answers.
    fn has_users(&self) -> bool {
        false
    }

    /// There are to be no more users at a time than that.
    fn limit_users(&mut self, _most: u32) {}

    /// Whether another user may come now.
    fn has_room(&self) -> bool {
        true
    }

    /// Users who have come and not ended.
    fn under_way(&self) -> usize {
        0
    }

    /// The request that `user` is at, again or for the first time.
    fn resume(&mut self, _user: User, _batch: &mut Batch) {}

    /// The request of `user`, due at `due_ns`, was answered well at `at`. What of an answer is to be heard is there.
    fn answered(&mut self, _user: User, _heard: Option<&Heard>, _due_ns: u64, _at: u64) -> Next {
        Next::Finished { took_ns: 0 }
    }

    /// A request of `user` went wrong, and the user is gone.
    fn lost(&mut self, _user: User) {}
}

/// Why a feed cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FeedError(pub String);

/// One request of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Outgoing {
    pub(super) bytes: usize,
    /// Whether it is HEAD, whose answer has no body.
    pub(super) head: bool,
    /// Whether a second request has the effect of one.
    pub(super) repeatable: bool,
    /// Which label it has, if any.
    pub(super) label: Option<u16>,
    /// Whose it is, if anyone's.
    pub(super) user: Option<User>,
    /// Whether its answer is to be heard, where any is.
    pub(super) hears: bool,
}

/// Requests that go out together on one connection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    pub(super) bytes: Vec<u8>,
    pub(super) requests: Vec<Outgoing>,
}

impl Batch {
    /// Adds one request as it goes over the wire; an empty one is none.
    pub fn push(&mut self, request: &[u8]) {
        self.write(None, |bytes| bytes.extend_from_slice(request));
    }

    /// Adds the request that `write` appends, with the label that it is counted by; an empty one is none.
    pub(crate) fn write(&mut self, label: Option<u16>, write: impl FnOnce(&mut Vec<u8>)) {
        let begin = self.bytes.len();
        write(&mut self.bytes);
        let request = &self.bytes[begin..];
        if !request.is_empty() {
            let (bytes, head) = (request.len(), request.starts_with(b"HEAD "));
            let repeatable = is_repeatable(request);
            self.requests.push(Outgoing { bytes, head, repeatable, label, user: None, hears: true });
        }
    }

    /// The request that was added last is of `user`; without `hears` its answer is not kept.
    pub(crate) fn of_user(&mut self, user: User, hears: bool) {
        if let Some(request) = self.requests.last_mut() {
            (request.user, request.hears) = (Some(user), hears);
        }
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.requests.clear();
    }
}

/// An answer as a feed hears it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Heard {
    /// Status code.
    pub status: u16,
    /// Status line and fields, as HTTP/1.1 writes them.
    pub head: Vec<u8>,
    /// Body without its chunks' framing, at most [`HEARD_BODY_BYTES`] of it.
    pub body: Vec<u8>,
}

impl Body for Heard {
    fn begin(&mut self, status: u16, head: &[u8]) {
        self.status = status;
        self.head.clear();
        self.head.extend_from_slice(head);
        http1::response::unfold(&mut self.head);
        self.body.clear();
    }

    fn more(&mut self, body: &[u8]) {
        let room = HEARD_BODY_BYTES - self.body.len();
        self.body.extend_from_slice(&body[..body.len().min(room)]);
    }
}
