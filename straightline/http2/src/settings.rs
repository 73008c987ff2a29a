//! What the peer takes.
//!
//! Source: RFC 9113, section 6.5.2.

use crate::frame::{ErrorCode, PAYLOAD_BYTES, WINDOW_BEGINS, WINDOW_MAX};

/// Size of the table for compressed fields, in bytes.
pub const HEADER_TABLE_SIZE: u16 = 1;
/// Whether answers may come that nobody asked for.
pub const ENABLE_PUSH: u16 = 2;
/// Streams that may be open at a time.
pub const MAX_CONCURRENT_STREAMS: u16 = 3;
/// Window that each stream begins with, in bytes.
pub const INITIAL_WINDOW_SIZE: u16 = 4;
/// Longest payload of a frame, in bytes.
const MAX_FRAME_SIZE: u16 = 5;
/// Longest list of fields, in bytes.
pub const MAX_HEADER_LIST_SIZE: u16 = 6;

/// Length of one setting in bytes.
pub const SETTING_BYTES: usize = 6;

/// The peer's settings. Frames longer than those that every peer takes are never sent, and nothing is pushed.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Size of the table for compressed fields, in bytes.
    pub table_bytes: u32,
    /// Window that each stream begins with, in bytes.
    pub window_bytes: i64,
    /// Streams that may be open at a time; a server, whose answers nobody gets unasked, opens none.
    pub streams: u32,
}

impl Settings {
    /// Those that hold before any came.
    pub const BEGIN: Self = Self { table_bytes: 4096, window_bytes: WINDOW_BEGINS, streams: u32::MAX };

    /// Takes note of those in a payload.
    ///
    /// # Errors
    ///
    /// The code and the reason with which the connection is to end, if one has a value that it cannot have.
    pub fn note(&mut self, payload: &[u8]) -> Result<(), (ErrorCode, &'static str)> {
        for [a, b, value @ ..] in payload.as_chunks::<SETTING_BYTES>().0 {
            let value = u32::from_be_bytes(*value);
            match u16::from_be_bytes([*a, *b]) {
                HEADER_TABLE_SIZE => self.table_bytes = value,
                MAX_CONCURRENT_STREAMS => self.streams = value,
                ENABLE_PUSH if value > 1 => {
                    return Err((ErrorCode::ProtocolError, "ENABLE_PUSH is neither 0 nor 1"));
                }
                INITIAL_WINDOW_SIZE if i64::from(value) > WINDOW_MAX => {
                    return Err((ErrorCode::FlowControlError, "INITIAL_WINDOW_SIZE is too large"));
                }
                INITIAL_WINDOW_SIZE => self.window_bytes = i64::from(value),
                MAX_FRAME_SIZE if !(PAYLOAD_BYTES..1 << 24).contains(&(value as usize)) => {
                    return Err((ErrorCode::ProtocolError, "MAX_FRAME_SIZE is out of range"));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Appends one setting to a payload.
pub fn push(payload: &mut Vec<u8>, setting: u16, value: u32) {
    payload.extend_from_slice(&setting.to_be_bytes());
    payload.extend_from_slice(&value.to_be_bytes());
}
