//! HTTP/2: bytes in, bytes out.
//!
//! Source: RFC 9113.

mod answer;
mod connection;
mod frames;
mod request;

use super::Answers;
use super::multiplexed::Multiplexed;
use connection::{Connection, Manner};

/// HTTP/2 on all connections of one session.
pub type Http2 = Multiplexed<Connection>;

impl Http2 {
    /// For `lanes` lanes of which `streams` share a connection; `alike` is the request of all of them, if there is one. Below it TLS
    /// is spoken if it is `secure`, and what is asked are calls of gRPC where `grpc` says how they are answered.
    #[must_use]
    pub fn new(lanes: u32, streams: u32, alike: Option<&[u8]>, secure: bool, grpc: Option<Answers>) -> Self {
        Self::of(Manner { secure, grpc }, lanes, streams, alike)
    }
}
