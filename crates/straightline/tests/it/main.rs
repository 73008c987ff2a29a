//! Tests over real sockets. Each starts a server of its own on a free port.

mod hazards;
mod lifecycle;
mod limits;
mod protocol;
mod responses;
mod runtime;
mod soak;
mod support;
