//! Tests over real sockets. Each starts a server of its own on a free port.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends by panicking")]

mod bodies;
mod connection;
mod drains;
mod errors;
mod examples;
mod fuzz;
mod hazards;
mod http2;
mod kit;
mod lifecycle;
mod limits;
mod memory;
mod parts;
mod postgres;
mod protocol;
mod redis;
mod responses;
mod runtime;
mod service;
mod shards;
mod shortage;
mod soak;
mod support;
mod techempower;
mod time_limit;
mod tls;
mod websocket;
