//! HPACK: fields in their compressed form.
//!
//! Source: RFC 7541.

mod decode;
mod encode;
pub mod huffman;
pub mod integer;
mod table;

pub use decode::{Decoder, HpackError};
pub use encode::Encoder;
