//! The server's half of HTTP/2: bytes in, events and bytes out.
//!
//! The crate is sans-IO: it reads no clock and no socket. [`Connection`] is given what was received and the time, says what
//! happened, and appends what is to be sent. It is strict as RFC 9113 asks, and there is no lenient switch.
//!
//! | module | what |
//! |---|---|
//! | [`hpack`] | fields to and from their compressed form (RFC 7541) |
//! | [`frame`] | frames: kinds, flags, how they are written |
//! | [`limits`] | what a client may ask for |
//! | [`settings`] | what a peer says that it takes |
//!
//! "Needs more bytes" is never an error: it is [`Event::Partial`].
#![forbid(unsafe_code)]

mod budget;
mod connection;
pub mod frame;
mod head;
pub mod hpack;
pub mod limits;
pub mod settings;
mod stream;
mod streams;

pub use connection::{Connection, Event, Sent, Step};
pub use frame::ErrorCode;
pub use limits::Limits;
pub use stream::Gone;

/// What a client sends first.
///
/// Source: RFC 9113, section 3.4.
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
