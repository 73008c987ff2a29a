//! One connection of HTTP/2.
//!
//! The `h2` crate is written for an executor. Here its futures are polled by hand, after every step that may move them:
//! its connection reads and writes a pair of buffers, and a flag for each stream says which of them is to be polled.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use bytes::Bytes;
use h2::RecvStream;
use h2::client::{self, Builder, ResponseFuture, SendRequest};

use super::pipe::{End, Pipe, pipe};

use crate::session::grpc::{Messages, is_grpc, status};
use crate::session::places::{Came, Carrier};
use crate::session::{Body, GrpcError, Heard, Malformed};

/// Flow-control window of one stream and of the connection: a server must not wait for us to read, which we do at once.
const WINDOW_BYTES: u32 = 16 * 1024 * 1024;
/// Longest list of fields of an answer, as for HTTP/1.1 the longest head.
const FIELDS_BYTES: u32 = 64 * 1024;

/// Field that says how a call went.
const GRPC_STATUS: &str = "grpc-status";

/// The connection cannot be used any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lost {
    /// Whether the server broke the protocol.
    pub(super) malformed: bool,
}

impl Lost {
    /// It ended, or was ended.
    pub(super) const BROKEN: Self = Self { malformed: false };

    fn by(error: &h2::Error) -> Self {
        // An error that h2 found itself, and told the server of.
        Self { malformed: !error.is_io() && !error.is_remote() && (error.is_go_away() || error.is_library()) }
    }
}

/// One connection of HTTP/2.
pub(super) struct Connection {
    connection: client::Connection<Pipe, Bytes>,
    sender: SendRequest<Bytes>,
    /// The other end of what the connection reads and writes.
    end: End,
    flag: Arc<Flag>,
    streams: Vec<Stream>,
    active: usize,
    /// Streams that have a request and no room for it.
    waiting: VecDeque<u32>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("active", &self.active).finish_non_exhaustive()
    }
}

/// Says that something is to be polled.
#[derive(Debug, Default)]
struct Flag(AtomicBool);

impl Flag {
    fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[derive(Default)]
struct Stream {
    flag: Arc<Flag>,
    state: State,
    /// The answer as it comes, where somebody wants to hear it.
    heard: Option<Box<Heard>>,
    /// How its body is read, where gRPC is spoken.
    messages: Option<Messages>,
}

#[derive(Default)]
enum State {
    #[default]
    Idle,
    Sent(ResponseFuture),
    /// The body comes; with the status, where it does not follow the body.
    Reading(Option<u16>, RecvStream),
}

impl Connection {
    /// Begins with room for `streams` requests at a time; what it has to say first is in [`Carrier::outgoing`].
    /// With `hears` answers are kept for [`Carrier::take_heard`], with `grpc` they are those of gRPC.
    pub(super) fn new(streams: u32, hears: bool, grpc: bool) -> Result<Self, Lost> {
        let (pipe, end) = pipe();
        let mut handshake = Box::pin(
            Builder::new()
                .enable_push(false)
                .initial_window_size(WINDOW_BYTES)
                .initial_connection_window_size(WINDOW_BYTES)
                .max_header_list_size(FIELDS_BYTES)
                .handshake(pipe),
        );
        let mut cx = Context::from_waker(Waker::noop());
        // It only writes, and what it writes to takes everything.
        let Poll::Ready(Ok((sender, connection))) = handshake.as_mut().poll(&mut cx) else {
            return Err(Lost::BROKEN);
        };
        let mut new = Self {
            connection,
            sender,
            end,
            flag: Arc::default(),
            streams: (0..streams)
                .map(|_| Stream {
                    heard: hears.then(Box::default),
                    messages: grpc.then(Messages::default),
                    ..Stream::default()
                })
                .collect(),
            active: 0,
            waiting: VecDeque::new(),
        };
        new.turn().map(|()| new)
    }

    /// Whether the server takes requests at all.
    pub(super) fn is_open(&mut self) -> Result<(), Lost> {
        match self.sender.poll_ready(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Err(error)) => Err(Lost::by(&error)),
            Poll::Ready(Ok(())) | Poll::Pending => Ok(()),
        }
    }

    /// Whether the server takes another stream now.
    pub(super) fn has_room(&self) -> bool {
        self.active < self.sender.current_max_send_streams()
    }

    /// The request of `slot` waits until there is room.
    pub(super) fn wait(&mut self, slot: u32) {
        self.waiting.push_back(slot);
    }

    /// Begins a stream.
    pub(super) fn ask(&mut self, slot: u32, request: http::Request<()>, body: Bytes) -> Result<(), Lost> {
        let (response, mut stream) =
            self.sender.send_request(request, body.is_empty()).map_err(|error| Lost::by(&error))?;
        if !body.is_empty() {
            stream.send_data(body, true).map_err(|error| Lost::by(&error))?;
        }
        let place = &mut self.streams[slot as usize];
        place.state = State::Sent(response);
        place.flag.0.store(true, Ordering::Relaxed);
        self.active += 1;
        Ok(())
    }

    /// Takes in bytes from the server.
    pub(super) fn receive(&mut self, bytes: &[u8]) {
        self.end.feed(bytes);
    }

    /// Goes as far as it can; `report` is called with what came of each stream.
    pub(super) fn advance(&mut self, mut report: impl FnMut(u32, Came)) -> Result<(), Lost> {
        loop {
            let turned = self.turn();
            let malformed = turned.is_err_and(|lost| lost.malformed);
            // What the server broke was not reset: whoever loses the connection counts it.
            let moved = self.poll_streams(&mut |slot, how| {
                if how != Came::Reset || !malformed {
                    report(slot, how);
                }
            });
            turned?;
            if !moved && !self.flag.take() {
                return Ok(());
            }
        }
    }

    /// Lets the connection read and write once.
    fn turn(&mut self) -> Result<(), Lost> {
        let waker = Waker::from(Arc::clone(&self.flag));
        match Pin::new(&mut self.connection).poll(&mut Context::from_waker(&waker)) {
            Poll::Pending => Ok(()),
            Poll::Ready(Ok(())) => Err(Lost::BROKEN),
            Poll::Ready(Err(error)) => Err(Lost::by(&error)),
        }
    }

    /// Polls the streams that were woken; true if any moved.
    fn poll_streams(&mut self, report: &mut impl FnMut(u32, Came)) -> bool {
        let mut moved = false;
        for slot in 0..self.streams.len() {
            if !self.streams[slot].flag.take() {
                continue;
            }
            moved = true;
            let sent = matches!(self.streams[slot].state, State::Sent(_));
            if let Some(how) = self.streams[slot].poll() {
                self.streams[slot].state = State::Idle;
                self.active -= 1;
                report(slot as u32, how);
            } else if sent && matches!(self.streams[slot].state, State::Reading(..)) {
                report(slot as u32, Came::Begun);
            }
        }
        moved
    }
}

impl Carrier for Connection {
    fn outgoing(&mut self) -> &mut Vec<u8> {
        self.end.outgoing()
    }

    fn take_heard(&mut self, stream: u32) -> Option<Heard> {
        self.streams[stream as usize].heard.as_deref_mut().map(std::mem::take)
    }

    fn next_waiting(&mut self) -> Option<u32> {
        if self.has_room() { self.waiting.pop_front() } else { None }
    }

    fn cancel(&mut self, stream: u32) {
        let given_up = &mut self.streams[stream as usize];
        if !matches!(std::mem::take(&mut given_up.state), State::Idle) {
            self.active -= 1;
        }
        self.waiting.retain(|other| *other != stream);
    }
}

impl Stream {
    fn poll(&mut self) -> Option<Came> {
        let waker = Waker::from(Arc::clone(&self.flag));
        let mut cx = Context::from_waker(&waker);
        if let State::Sent(response) = &mut self.state {
            match Pin::new(response).poll(&mut cx) {
                Poll::Pending => return None,
                Poll::Ready(Err(_)) => return Some(Came::Reset),
                Poll::Ready(Ok(response)) => {
                    if let Some(heard) = &mut self.heard {
                        heard.begin(response.status().as_u16(), &head(&response));
                    }
                    let early = self.messages.as_mut().map(|messages| begin_call(messages, &response));
                    self.state = match early.transpose() {
                        Err(malformed) => return Some(Came::Malformed(malformed)),
                        Ok(early) => {
                            let status = early.unwrap_or(Some(response.status().as_u16()));
                            State::Reading(status, response.into_body())
                        }
                    };
                }
            }
        }
        let State::Reading(status, body) = &mut self.state else { return None };
        loop {
            match body.poll_data(&mut cx) {
                Poll::Pending => return None,
                Poll::Ready(None) => break,
                Poll::Ready(Some(Err(_))) => return Some(Came::Reset),
                Poll::Ready(Some(Ok(bytes))) => {
                    self.heard.iter_mut().for_each(|heard| heard.more(&bytes));
                    if let Some(Err(error)) = self.messages.as_mut().map(|messages| messages.take(&bytes)) {
                        return Some(Came::Malformed(error.into()));
                    }
                    // It can only fail for more than was received.
                    let _ = body.flow_control().release_capacity(bytes.len());
                }
            }
        }
        match body.poll_trailers(&mut cx) {
            Poll::Pending => None,
            Poll::Ready(Ok(trailers)) => {
                let status = status.map_or_else(|| end_call(self.messages, trailers.as_ref()), Ok);
                if let (Some(heard), Ok(status)) = (&mut self.heard, status) {
                    heard.status = status;
                }
                Some(status.map_or_else(|error| Came::Malformed(error.into()), Came::Answered))
            }
            Poll::Ready(Err(_)) => Some(Came::Reset),
        }
    }
}

/// An answer to a call begins: its status, where that is known already; an error of HTTP is one.
fn begin_call(
    messages: &mut Messages,
    response: &http::Response<RecvStream>,
) -> Result<Option<u16>, Malformed> {
    *messages = Messages::default();
    let fields = response.headers();
    let field = |name: &str| fields.get(name).map(http::HeaderValue::as_bytes);
    match field(GRPC_STATUS) {
        Some(value) => Ok(Some(status(Some(value))?)),
        None if response.status() != http::StatusCode::OK => Ok(Some(response.status().as_u16())),
        None if is_grpc(field("content-type")) => Ok(None),
        None => Err(GrpcError::ContentType.into()),
    }
}

/// An answer to a call ends with these fields.
fn end_call(messages: Option<Messages>, trailers: Option<&http::HeaderMap>) -> Result<u16, GrpcError> {
    let field = trailers.and_then(|trailers| trailers.get(GRPC_STATUS)).map(http::HeaderValue::as_bytes);
    let status = status(field)?;
    messages.unwrap_or_default().end().map(|()| status)
}

/// Status and fields as HTTP/1.1 writes them, which is how answers are heard.
fn head(response: &http::Response<RecvStream>) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {} \r\n", response.status().as_u16()).into_bytes();
    for (name, value) in response.headers() {
        head.extend_from_slice(name.as_str().as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value.as_bytes());
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(b"\r\n");
    head
}
