//! What a server tells the one who runs it. The library itself prints nothing.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

/// Something that whoever runs a server may want to know. It prints as one line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The server listens.
    Listening {
        /// Where.
        address: SocketAddr,
        /// On so many shards; 0 with a thread for each connection.
        shards: usize,
        /// How stacks are guarded and readiness is reported.
        runtime: String,
    },
    /// A coroutine did not give its thread back in time: every other connection of the shard waited meanwhile.
    ShardHeld {
        /// Which shard.
        shard: usize,
        /// The handler, or the function that was spawned.
        handler: &'static str,
        /// For how long so far.
        held: Duration,
    },
    /// A handler panicked; its connection got 500, or was closed.
    HandlerPanicked {
        /// Which handler.
        handler: &'static str,
    },
    /// A handler returned an error that is not its client's: one with a status below 500 is an answer. Of what it says the client
    /// is told no more than a [`StatusError`](crate::StatusError) says.
    HandlerFailed {
        /// Which handler; with [`kit::Router`](crate::kit) the route, such as `GET /users/{id}`.
        handler: &'static str,
        /// The status that the client got; where the answer had begun, that of the answer, which was cut short.
        status: u16,
        /// What the error says.
        error: String,
    },
    /// A request was refused by the server itself, and reached no handler: it was malformed, too large or too slow. There is
    /// nothing of it in an access log.
    RequestRefused {
        /// The client; `None` if it was gone already.
        peer: Option<SocketAddr>,
        /// The status that it got.
        status: u16,
        /// Why, as the client was told.
        reason: String,
    },
    /// No connections are accepted for the time being.
    AcceptPaused {
        /// Which shard; 0 with a thread for each connection.
        shard: usize,
        /// Why: no descriptors, or as many connections as allowed.
        reason: &'static str,
    },
    /// Connections are accepted again.
    AcceptResumed {
        /// Which shard.
        shard: usize,
    },
    /// The server stopped accepting, and finishes what it has begun.
    Draining,
    /// A shard did not end by the deadline of the drain, as its handler did not give the thread back: it is left behind, with its
    /// connections, until the handler or the process ends.
    ShardLeft {
        /// Which shard.
        shard: usize,
        /// The handler, or the function that was spawned.
        handler: &'static str,
    },
    /// The stacks of all suspended coroutines, as asked for by a signal.
    Stacks(String),
}

impl fmt::Display for Event {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listening { address, shards, runtime } => {
                write!(out, "listening on {address}, {shards} shards, {runtime}")
            }
            Self::ShardHeld { shard, handler, held } => {
                let ms = held.as_millis();
                write!(out, "shard {shard} is held by `{handler}` for {ms} ms; use rt::blocking")
            }
            Self::HandlerPanicked { handler } => write!(out, "handler `{handler}` panicked"),
            Self::HandlerFailed { handler, status, error } => {
                write!(out, "handler `{handler}` failed, answered with {status}: {error}")
            }
            Self::RequestRefused { peer: Some(peer), status, reason } => {
                write!(out, "a request of {peer} was refused with {status}: {reason}")
            }
            Self::RequestRefused { peer: None, status, reason } => {
                write!(out, "a request was refused with {status}: {reason}")
            }
            Self::ShardLeft { shard, handler } => {
                write!(out, "shard {shard} is left behind: `{handler}` held it past the deadline")
            }
            Self::AcceptPaused { shard, reason } => write!(out, "shard {shard} stops accepting: {reason}"),
            Self::AcceptResumed { shard } => write!(out, "shard {shard} accepts again"),
            Self::Draining => out.write_str("draining: no new connections"),
            Self::Stacks(stacks) => out.write_str(stacks),
        }
    }
}
