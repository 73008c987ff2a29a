//! How much of a head is read before it is refused.

/// Longest head read by default, in bytes: room for a browser's cookies, little enough that ten thousand slow
/// senders hold at most 320 MB.
pub const HEAD_BYTES: u16 = 32 * 1024;

/// Most header lines read by default: browsers send about 20, proxies add about 10.
pub const HEADERS: u16 = 100;

/// Longest request target read by default, in bytes: what common servers and proxies pass on.
pub const TARGET_BYTES: u16 = 8 * 1024;

/// Limits on one message head; the types cap each at 65 535, so that positions fit 16 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadLimits {
    /// Longest head in bytes, from the first byte of the start line to the blank line, both included.
    pub head_bytes: u16,
    /// Most header lines.
    pub headers: u16,
    /// Longest request target in bytes; without meaning for responses.
    pub target_bytes: u16,
}

impl HeadLimits {
    /// [`HEAD_BYTES`], [`HEADERS`] and [`TARGET_BYTES`].
    pub const DEFAULT: Self = Self { head_bytes: HEAD_BYTES, headers: HEADERS, target_bytes: TARGET_BYTES };

    /// The part of `buf` in which a head must end.
    pub(crate) fn window<'b>(&self, buf: &'b [u8]) -> &'b [u8] {
        buf.get(..usize::from(self.head_bytes)).unwrap_or(buf)
    }
}

impl Default for HeadLimits {
    fn default() -> Self {
        Self::DEFAULT
    }
}
