//! A blocking client for a handful of requests: readiness, parity and verification, never load.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use http1::HeadLimits;
use http1::chunked::{ChunkedDecoder, Event};
use http1::response::{Framing, ResponseHead, headers, parse_head};
use model::record::Answer;
use sha2::{Digest, Sha256};

use crate::ProbeError;
use crate::program::hexadecimal;

/// Bytes of a body that are kept to show what came.
const BODY_START_BYTES: usize = 200;
/// One read, in bytes: larger than common answers.
const READ_BYTES: usize = 16 * 1024;
/// Shortest wait that a socket takes; zero would mean for ever.
const SHORTEST_WAIT: Duration = Duration::from_micros(1);

/// How long after its answer a server may take to end a connection.
const CLOSING_LIMIT: Duration = Duration::from_secs(2);

/// Asks `addr` for `path` once, on a connection of its own, and reads the whole answer.
///
/// # Errors
/// [`ProbeError`]
pub fn probe(addr: SocketAddr, path: &str, timeout: Duration) -> Result<Answer, ProbeError> {
    probe_with_body(addr, path, timeout).map(|(answer, _)| answer)
}

/// Asks as [`probe`] does, and gives the first bytes of the body, too: 200 at most.
///
/// # Errors
/// [`ProbeError`]
pub fn probe_with_body(
    addr: SocketAddr,
    path: &str,
    timeout: Duration,
) -> Result<(Answer, Vec<u8>), ProbeError> {
    let mut connection = Connection::open(addr, timeout)?;
    connection.send(request("GET", path, addr, "").as_bytes())?;
    let reply = connection.read_answer(false)?;
    Ok((reply.answer, reply.body_start))
}

/// Whether the server closes the connection after it answers `request`: one with `Connection: close`, and not HEAD.
///
/// # Errors
/// [`ProbeError`] where it does not answer within `timeout`.
pub fn closes_after(addr: SocketAddr, request: &[u8], timeout: Duration) -> Result<bool, ProbeError> {
    let mut connection = Connection::open(addr, timeout)?;
    connection.send(request)?;
    connection.read_answer(false)?;
    connection.deadline = Instant::now() + CLOSING_LIMIT;
    Ok(connection.is_closed_by_server())
}

/// The bytes of a request without a body; `more` is further header lines, each with its CRLF.
pub(crate) fn request(method: &str, path: &str, addr: SocketAddr, more: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nHost: {addr}\r\n{more}\r\n")
}

/// An answer, and what is seen of it only while it is read.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) answer: Answer,
    /// The first bytes of the body.
    pub(crate) body_start: Vec<u8>,
    /// Whether the connection may be used again.
    pub(crate) keep_alive: bool,
}

/// One connection with one deadline for all that happens on it.
pub(crate) struct Connection {
    stream: TcpStream,
    deadline: Instant,
    /// Bytes read and not yet used.
    buffer: Vec<u8>,
}

impl Connection {
    pub(crate) fn open(addr: SocketAddr, timeout: Duration) -> Result<Self, ProbeError> {
        let deadline = Instant::now() + timeout;
        let stream =
            TcpStream::connect_timeout(&addr, timeout.max(SHORTEST_WAIT)).map_err(ProbeError::Connect)?;
        if stream.local_addr().is_ok_and(|own| own == addr) {
            // Both ends chose the same port: nobody listens, and the socket met itself.
            return Err(ProbeError::Connect(io::ErrorKind::ConnectionRefused.into()));
        }
        stream.set_nodelay(true).map_err(ProbeError::Broken)?;
        Ok(Self { stream, deadline, buffer: Vec::new() })
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<(), ProbeError> {
        self.stream.set_write_timeout(Some(self.left())).map_err(ProbeError::Broken)?;
        self.stream.write_all(bytes).map_err(broken)
    }

    /// Reads one answer; interim ones (1xx) are skipped.
    pub(crate) fn read_answer(&mut self, to_head: bool) -> Result<Reply, ProbeError> {
        let mut interim_bytes = 0;
        loop {
            let head = self.read_head(to_head)?;
            let head_bytes: Vec<u8> = self.buffer.drain(..head.head_bytes).collect();
            if (100..200).contains(&head.status) && head.status != 101 {
                interim_bytes += head_bytes.len();
                continue;
            }
            let mut body = Body::default();
            self.read_body(head.framing, &mut body)?;
            let wire_bytes = (interim_bytes + head_bytes.len()) as u64 + body.wire_bytes;
            return Ok(body.reply(&head, &head_bytes, wire_bytes));
        }
    }

    /// Whether the server closes the connection before the deadline without sending more.
    pub(crate) fn is_closed_by_server(&mut self) -> bool {
        self.buffer.is_empty() && matches!(self.fill(), Err(ProbeError::Closed | ProbeError::Broken(_)))
    }

    fn read_head(&mut self, to_head: bool) -> Result<ResponseHead, ProbeError> {
        loop {
            let parsed = parse_head(&self.buffer, to_head, &HeadLimits::DEFAULT);
            match parsed.map_err(|error| ProbeError::NotHttp(error.to_string()))? {
                Some(head) => return Ok(head),
                None => self.fill()?,
            }
        }
    }

    fn read_body(&mut self, framing: Framing, body: &mut Body) -> Result<(), ProbeError> {
        match framing {
            Framing::None => Ok(()),
            Framing::Length(length) => self.read_length(length, body),
            Framing::Chunked => self.read_chunked(body),
            Framing::UntilClose => self.read_until_close(body),
        }
    }

    fn read_length(&mut self, mut left: u64, body: &mut Body) -> Result<(), ProbeError> {
        while left > 0 {
            if self.buffer.is_empty() {
                self.fill()?;
            }
            let taken = usize::try_from(left).map_or(self.buffer.len(), |left| left.min(self.buffer.len()));
            body.data(&self.buffer[..taken]);
            body.wire_bytes += taken as u64;
            self.buffer.drain(..taken);
            left -= taken as u64;
        }
        Ok(())
    }

    fn read_chunked(&mut self, body: &mut Body) -> Result<(), ProbeError> {
        let mut decoder = ChunkedDecoder::new();
        loop {
            let step =
                decoder.decode(&self.buffer).map_err(|error| ProbeError::NotHttp(error.to_string()))?;
            if let Event::Data(range) = &step.event {
                body.data(&self.buffer[range.clone()]);
            }
            body.wire_bytes += step.consumed as u64;
            self.buffer.drain(..step.consumed);
            match step.event {
                Event::Done => return Ok(()),
                Event::Partial => self.fill()?,
                Event::Data(_) | Event::Trailer(_) => {}
            }
        }
    }

    fn read_until_close(&mut self, body: &mut Body) -> Result<(), ProbeError> {
        loop {
            body.data(&self.buffer);
            body.wire_bytes += self.buffer.len() as u64;
            self.buffer.clear();
            match self.fill() {
                Ok(()) => {}
                Err(ProbeError::Closed) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads more into the buffer.
    fn fill(&mut self) -> Result<(), ProbeError> {
        if Instant::now() >= self.deadline {
            return Err(ProbeError::Timeout);
        }
        self.stream.set_read_timeout(Some(self.left())).map_err(ProbeError::Broken)?;
        let mut chunk = [0; READ_BYTES];
        match self.stream.read(&mut chunk).map_err(broken)? {
            0 => Err(ProbeError::Closed),
            count => {
                self.buffer.extend_from_slice(&chunk[..count]);
                Ok(())
            }
        }
    }

    fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now()).max(SHORTEST_WAIT)
    }
}

/// A body as it is read.
#[derive(Default)]
struct Body {
    sha: Sha256,
    bytes: u64,
    wire_bytes: u64,
    start: Vec<u8>,
}

impl Body {
    fn data(&mut self, data: &[u8]) {
        self.sha.update(data);
        self.bytes += data.len() as u64;
        let room = BODY_START_BYTES - self.start.len();
        self.start.extend_from_slice(&data[..room.min(data.len())]);
    }

    fn reply(self, head: &ResponseHead, head_bytes: &[u8], wire_bytes: u64) -> Reply {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let answer = Answer {
            status: head.status,
            headers: headers(head_bytes).map(|(name, value)| (text(name), text(value))).collect(),
            body_bytes: self.bytes,
            body_sha256: hexadecimal(&self.sha.finalize()),
            wire_bytes,
        };
        Reply { answer, body_start: self.start, keep_alive: head.keep_alive }
    }
}

fn broken(error: io::Error) -> ProbeError {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => ProbeError::Timeout,
        _ => ProbeError::Broken(error),
    }
}
