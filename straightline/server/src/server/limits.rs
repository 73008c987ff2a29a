//! What a server puts up with, all of it bounded by default.

use super::Error;
use std::time::Duration;

pub use http1::HeadLimits;

/// Longest wait for a whole head, from its first byte or the accepting of its connection.
pub const HEAD_TIME: Duration = Duration::from_secs(15);
/// Longest wait between two requests of a connection, or between two bytes of a body.
pub const IDLE_TIME: Duration = Duration::from_secs(60);
/// Longest wait for a client to take any of what is sent to it.
pub const WRITE_STALL: Duration = Duration::from_secs(30);
/// How long a body may come as slowly as it likes.
pub const BODY_GRACE: Duration = Duration::from_secs(5);
/// Slowest body after that, in bytes per second. Source: the default of Kestrel (`MinRequestBodyDataRate`).
pub const BODY_BYTES_PER_S: u32 = 240;
/// Requests answered from one connection before the others of its shard have their turn.
pub const PIPELINED: u16 = 64;
/// Connections of one shard: half of the descriptors that common systems allow, in two shards.
pub const CONNECTIONS: u32 = 16 * 1024;
/// Streams of one connection of HTTP/2 that are open at a time; more are refused, to be asked again.
pub const STREAMS: u32 = http2::limits::STREAMS;
/// Bytes of an unread body that are read and dropped to keep the connection: cheaper than a new connection.
pub const DRAIN_BYTES: u64 = 256 * 1024;
/// How long a refused client may take to read why, in which what it still sends is dropped.
pub const LINGER_TIME: Duration = Duration::from_secs(2);
/// Answers gathered before they are sent, in bytes: what one system call moves without much waiting in the cache.
pub(crate) const OUTPUT_BYTES: usize = 64 * 1024;
/// Longest body copied behind its head instead of sent from where it is, in bytes: about where a copy costs more
/// than a system call's vector.
pub(crate) const COPIED_BODY_BYTES: usize = 16 * 1024;
/// Room for received bytes, in bytes: the longest head, and as much again for what follows it.
pub(crate) const INPUT_BYTES: usize = 64 * 1024;

/// Limits of a server. [`Limits::default`] is what server and client should both live with; each can be changed:
/// `Limits { connections: 1_000, ..Limits::default() }`. Write the `..`: a new limit is no breaking change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest head, most fields, longest target: 431, 431 and 414 beyond.
    pub head: HeadLimits,
    /// Longest wait for a whole head; 408 beyond.
    pub head_time: Duration,
    /// Longest wait between two requests, and between two bytes of a body; the connection is closed then.
    pub idle_time: Duration,
    /// Longest wait for a client to take any of what is sent to it; the connection is closed then.
    pub write_stall: Duration,
    /// Longest body in bytes; 413 beyond. By default as long as the handler says with
    /// [`Request::limit_body`](crate::Request::limit_body).
    pub body_bytes: u64,
    /// How long a body may come as slowly as it likes. Only the time in which the handler waits for it counts.
    pub body_grace: Duration,
    /// Slowest body after that in bytes per second, on average since its beginning; 408 below.
    pub body_bytes_per_s: u32,
    /// Requests answered from one connection, or begun of HTTP/2, before others have their turn.
    pub pipelined: u16,
    /// Connections of one shard, or of all threads; more wait to be accepted, and once there has been no room for 5 s they are
    /// answered with 503.
    pub connections: u32,
    /// Streams of one connection of HTTP/2 that are open at a time. Each has a handler.
    pub streams: u32,
    /// Bytes of a body the handler left unread that are read and dropped; the connection is closed beyond.
    pub drain_bytes: u64,
    /// How long a refused client may take to read why.
    pub linger_time: Duration,
    /// Longest that a handler may take, from its beginning to its end; as long as it takes by default (`None`).
    /// [`Request::limit_time`](crate::Request::limit_time) gives one request another limit. What is upgraded to another protocol
    /// has none from there on.
    ///
    /// When it is over, the call of the runtime in which the handler waits, and each later one, fails with an
    /// [`io::Error`](std::io::Error) of kind `TimedOut` that [`rt::is_cancelled`](crate::rt::is_cancelled) knows. A handler that
    /// returns it is answered with 503; where the answer had begun, the connection is closed (of HTTP/2, the stream is reset). A
    /// handler that computes and never waits is not stopped, and one that goes on after a thousand such errors is suspended for
    /// good.
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use straightline::{Limits, Server, rt};
    ///
    /// let limits = Limits { handler_time: Some(Duration::from_secs(10)), ..Limits::default() };
    /// Server::bind("127.0.0.1:8080")?.limits(limits).serve(|_, response| {
    ///     rt::sleep(Duration::from_secs(60))?; // fails after 10 s, and the client is told 503
    ///     response.send(b"never")
    /// })?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    pub handler_time: Option<Duration>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head: HeadLimits::DEFAULT,
            head_time: HEAD_TIME,
            idle_time: IDLE_TIME,
            write_stall: WRITE_STALL,
            body_bytes: u64::MAX,
            body_grace: BODY_GRACE,
            body_bytes_per_s: BODY_BYTES_PER_S,
            pipelined: PIPELINED,
            connections: CONNECTIONS,
            streams: STREAMS,
            drain_bytes: DRAIN_BYTES,
            linger_time: LINGER_TIME,
            handler_time: None,
        }
    }
}

impl Limits {
    /// Checks that every limit lets some request through.
    pub(crate) fn validate(&self) -> Result<(), Error> {
        /// The shortest request: `GET / HTTP/1.0` and two line ends.
        const SHORTEST_HEAD: u16 = 18;
        /// Half of the room for received bytes, so that a read always has some left.
        const LONGEST_HEAD: u16 = (INPUT_BYTES / 2) as u16;
        /// A year: timers are reckoned in nanoseconds of 64 bits.
        const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);
        let within = |name, ok: bool, range| if ok { Ok(()) } else { Err(Error::Limit { name, range }) };
        within(
            "head.head_bytes",
            (SHORTEST_HEAD..=LONGEST_HEAD).contains(&self.head.head_bytes),
            "18 to 32768 bytes",
        )?;
        within("head.headers", (1..=http1::limits::HEADERS).contains(&self.head.headers), "1 to 100 fields")?;
        within("head.target_bytes", self.head.target_bytes >= 1, "1 byte or more")?;
        for (name, time) in [
            ("head_time", self.head_time),
            ("idle_time", self.idle_time),
            ("write_stall", self.write_stall),
            ("linger_time", self.linger_time),
        ] {
            within(name, time > Duration::ZERO && time <= LONGEST, "above zero, up to a year")?;
        }
        let of_handlers = Duration::from_millis(1)..=LONGEST;
        within(
            "handler_time",
            self.handler_time.is_none_or(|time| of_handlers.contains(&time)),
            "1 ms to a year, or none",
        )?;
        within("body_grace", self.body_grace <= LONGEST, "up to a year")?;
        within("body_bytes_per_s", self.body_bytes_per_s >= 1, "1 byte per second or more")?;
        within("pipelined", self.pipelined >= 1, "1 request or more")?;
        within("streams", (1..=1 << 16).contains(&self.streams), "1 to 65536 streams")?;
        within("connections", (1..=1 << 20).contains(&self.connections), "1 to 1048576 connections")
    }

    /// How long a handler may wait, in all, for a body of which `received` bytes came, before its next byte.
    pub(crate) fn body_time(&self, received: u64) -> Duration {
        let paid_ns = u128::from(received) * 1_000_000_000 / u128::from(self.body_bytes_per_s);
        self.body_grace + Duration::from_nanos(u64::try_from(paid_ns).unwrap_or(u64::MAX / 4))
    }
}
