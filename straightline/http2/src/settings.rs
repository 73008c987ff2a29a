//! What the client takes, as far as it matters to a server.

use crate::frame::{ErrorCode, PAYLOAD_BYTES, WINDOW_BEGINS, WINDOW_MAX};

pub(crate) const HEADER_TABLE_SIZE: u16 = 1;
const ENABLE_PUSH: u16 = 2;
pub(crate) const MAX_CONCURRENT_STREAMS: u16 = 3;
pub(crate) const INITIAL_WINDOW_SIZE: u16 = 4;
const MAX_FRAME_SIZE: u16 = 5;
pub(crate) const MAX_HEADER_LIST_SIZE: u16 = 6;

/// Length of one setting in bytes.
pub(crate) const SETTING_BYTES: usize = 6;

/// The client's settings. Frames longer than those that every client takes are never sent, and nothing is pushed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) table_bytes: u32,
    /// Window that each stream begins with, in bytes.
    pub(crate) window_bytes: i64,
}

impl Settings {
    /// Those that hold before any came.
    pub(crate) const BEGIN: Self = Self { table_bytes: 4096, window_bytes: WINDOW_BEGINS };

    /// Takes note of those in a payload.
    pub(crate) fn note(&mut self, payload: &[u8]) -> Result<(), (ErrorCode, &'static str)> {
        for [a, b, value @ ..] in payload.as_chunks::<SETTING_BYTES>().0 {
            let value = u32::from_be_bytes(*value);
            match u16::from_be_bytes([*a, *b]) {
                HEADER_TABLE_SIZE => self.table_bytes = value,
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
pub(crate) fn push(payload: &mut Vec<u8>, setting: u16, value: u32) {
    payload.extend_from_slice(&setting.to_be_bytes());
    payload.extend_from_slice(&value.to_be_bytes());
}
