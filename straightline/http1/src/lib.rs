//! HTTP/1.1 bytes to messages and back, for both roles.
//!
//! The crate is sans-IO: it is given bytes and hands back what they mean. It keeps no buffer, allocates nothing, and
//! reads no clock. It is strict, and there is no lenient switch: where two readers could disagree on where a message
//! ends, the message is refused.
//!
//! | module | what |
//! |---|---|
//! | [`request`] | the head of a request, read by a server |
//! | [`response`] | the head of a response, read by a client |
//! | [`chunked`] | a chunked body, read by either |
//! | [`mod@write`] | heads, chunks and dates, written by either |
//!
//! "Needs more bytes" is never an error: it is `Ok(None)`, or [`chunked::Event::Partial`].
#![forbid(unsafe_code)]

pub mod chunked;
mod field;
pub mod limits;
pub mod request;
pub mod response;
mod scan;
pub mod write;

pub use field::FieldError;
pub use limits::HeadLimits;
