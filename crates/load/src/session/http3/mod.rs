//! HTTP/3 above QUIC: pieces of streams in, pieces of streams out.
//!
//! Source: RFC 9114.

mod answer;
pub(crate) mod code;
mod connection;
mod control;
pub mod piece;
mod qpack;
mod request;
mod table;
mod varint;

use super::multiplexed::Multiplexed;
use answer::Heads;
use connection::Connection;
pub(crate) use connection::MOST_INBOUND;

/// HTTP/3 on all connections of one session.
pub type Http3 = Multiplexed<Connection>;

impl Http3 {
    /// For `lanes` lanes of which `streams` share a connection; `alike` is the request of all of them, if there is one.
    #[must_use]
    pub fn new(lanes: u32, streams: u32, alike: Option<&[u8]>) -> Self {
        Self::of(Heads::default(), lanes, streams, alike)
    }
}
