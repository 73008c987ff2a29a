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
            Self::AcceptPaused { shard, reason } => write!(out, "shard {shard} stops accepting: {reason}"),
            Self::AcceptResumed { shard } => write!(out, "shard {shard} accepts again"),
            Self::Draining => out.write_str("draining: no new connections"),
            Self::Stacks(stacks) => out.write_str(stacks),
        }
    }
}
