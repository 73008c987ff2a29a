//! What a client may ask for.

/// Streams of one connection that may be open at a time: what RFC 9113 says is enough for anyone, and some more.
pub const STREAMS: u32 = 128;
/// Longest list of fields, in bytes as SETTINGS_MAX_HEADER_LIST_SIZE counts them: as long as a head of HTTP/1.1.
pub const HEADER_LIST_BYTES: u32 = 32 * 1024;
/// Size of the table in which a client's fields are kept, in bytes: that which every client begins with.
pub const TABLE_BYTES: u32 = 4096;
/// Frames in which the fields of one request may continue: twice what the longest list takes in frames of a quarter of the
/// usual size.
pub const CONTINUATIONS: u32 = 16;
/// Bytes of a body that may wait for a handler, for each stream: the window that every client begins with.
pub const STREAM_WINDOW_BYTES: u32 = 65_535;
/// Bytes of all bodies of one connection that may wait for handlers: sixteen streams at their limit.
pub const CONNECTION_WINDOW_BYTES: u32 = 1024 * 1024;
/// Bytes that a client may send on a stream after its answer, as bodies that no handler read: one frame. Who has more to send is told
/// that it is not needed, and who ends before hears of no reset.
pub const EBB_BYTES: u32 = 16 * 1024;
/// Streams that a client may break off, or have broken off by its errors, in a second: far more than a page that is left
/// does, far fewer than it takes to keep a server busy with nothing.
pub const RESETS_PER_S: u32 = 200;
/// Frames in a second that carry nothing, most of which ask for an answer: PING, SETTINGS, PRIORITY, empty DATA, unknown ones, and
/// WINDOW_UPDATE beyond two for each request and one for each 256 bytes sent. A client that measures round trips on loopback sends
/// some hundreds.
pub const CONTROLS_PER_S: u32 = 1000;

/// Limits on one connection. Each is bounded by what the protocol can say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// See [`STREAMS`].
    pub streams: u32,
    /// See [`HEADER_LIST_BYTES`].
    pub header_list_bytes: u32,
    /// See [`TABLE_BYTES`].
    pub table_bytes: u32,
    /// See [`CONTINUATIONS`].
    pub continuations: u32,
    /// See [`STREAM_WINDOW_BYTES`].
    pub stream_window_bytes: u32,
    /// See [`CONNECTION_WINDOW_BYTES`]; no less than 65 535.
    pub connection_window_bytes: u32,
    /// See [`RESETS_PER_S`].
    pub resets_per_s: u32,
    /// See [`CONTROLS_PER_S`].
    pub controls_per_s: u32,
}

impl Limits {
    /// The constants of this module.
    pub const DEFAULT: Self = Self {
        streams: STREAMS,
        header_list_bytes: HEADER_LIST_BYTES,
        table_bytes: TABLE_BYTES,
        continuations: CONTINUATIONS,
        stream_window_bytes: STREAM_WINDOW_BYTES,
        connection_window_bytes: CONNECTION_WINDOW_BYTES,
        resets_per_s: RESETS_PER_S,
        controls_per_s: CONTROLS_PER_S,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}
