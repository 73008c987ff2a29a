//! One binary for all integration tests.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
mod ask;
mod believed;
mod events;
mod export;
mod feed;
mod framing;
mod grpc;
mod hostile;
mod http2;
mod http3;
mod list;
mod merge;
mod phases;
mod quic;
mod reach;
mod repeat;
mod scenario;
mod schedule;
mod serving;
mod session;
mod simulation;
mod target;
mod tls;
mod truth;
mod turns;
mod websocket;
