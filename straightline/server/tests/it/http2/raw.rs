//! A client that sends frames as they are, good and bad.

use crate::support::{Client, PATIENCE, TestServer};
use http2::frame::{self, FrameHead, HEAD_BYTES};
use http2::hpack::Decoder;
use http2::{ErrorCode, PREFACE};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use straightline::{Done, Request, Response};

/// A frame as it came.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) head: FrameHead,
    pub(crate) payload: Vec<u8>,
}

impl Frame {
    /// The 32-bit number at a place of the payload.
    pub(crate) fn number(&self, at: usize) -> u32 {
        u32::from_be_bytes(self.payload[at..at + 4].try_into().unwrap())
    }
}

/// A connection of HTTP/2 whose other end is tested.
pub(crate) struct Raw {
    pub(crate) stream: TcpStream,
    pending: Vec<u8>,
    decoder: Decoder,
}

/// A frame's bytes.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    frame::whole(&mut out, kind, flags, stream, payload);
    out
}

/// Fields, each a literal that nobody keeps.
pub(crate) fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in fields {
        out.push(0);
        for text in [name, value] {
            assert!(text.len() < 127 + 128, "one byte after the prefix");
            match text.len() {
                length @ ..127 => out.push(length as u8),
                length => out.extend_from_slice(&[127, (length - 127) as u8]),
            }
            out.extend_from_slice(text.as_bytes());
        }
    }
    out
}

/// What every request says.
pub(crate) const fn asking<'a>(method: &'a str, path: &'a str) -> [(&'a str, &'a str); 4] {
    [(":method", method), (":scheme", "http"), (":path", path), (":authority", "x")]
}

/// A whole request without a body.
pub(crate) fn get(stream: u32, path: &str) -> Vec<u8> {
    let flags = frame::END_STREAM | frame::END_HEADERS;
    frame(frame::HEADERS, flags, stream, &block(&asking("GET", path)))
}

/// A request whose body follows, with more fields.
pub(crate) fn post(stream: u32, path: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let fields = [&asking("POST", path)[..], more].concat();
    frame(frame::HEADERS, frame::END_HEADERS, stream, &block(&fields))
}

/// A part of a body, or all of it.
pub(crate) fn data(stream: u32, bytes: &[u8], end: bool) -> Vec<u8> {
    frame(frame::DATA, if end { frame::END_STREAM } else { 0 }, stream, bytes)
}

/// One setting.
pub(crate) fn setting(number: u16, value: u32) -> Vec<u8> {
    frame(frame::SETTINGS, 0, 0, &[&number.to_be_bytes()[..], &value.to_be_bytes()].concat())
}

impl Raw {
    /// A connection on which nothing was sent.
    pub(crate) fn silent(server: &TestServer) -> Self {
        Self::at(server.address)
    }

    /// The same, by the address alone.
    pub(crate) fn at(address: SocketAddr) -> Self {
        let stream = Client::new(address).stream;
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { stream, pending: Vec::new(), decoder: Decoder::new(4096) }
    }

    /// A connection on which both ends said what they take.
    pub(crate) fn open(server: &TestServer) -> Self {
        let mut raw = Self::silent(server);
        raw.send(PREFACE);
        raw.send(&frame(frame::SETTINGS, 0, 0, &[]));
        let first = raw.next().unwrap();
        assert_eq!(
            (first.head.kind, first.head.flags),
            (frame::SETTINGS, 0),
            "the server's settings come first"
        );
        raw.until(|frame| frame.head.kind == frame::SETTINGS && frame.head.has(frame::ACK));
        raw.send(&frame(frame::SETTINGS, frame::ACK, 0, &[]));
        raw
    }

    /// Sends bytes; a server that closed already is for the reader to notice. Whether it took them.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> bool {
        match self.stream.write_all(bytes) {
            Ok(()) => true,
            Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => false,
            Err(error) => panic!("cannot send: {error}"),
        }
    }

    /// The next frame; `None` at the end of the connection.
    pub(crate) fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some(head) = FrameHead::read(&self.pending)
                && self.pending.len() >= HEAD_BYTES + head.length
            {
                let payload = self.pending[HEAD_BYTES..HEAD_BYTES + head.length].to_vec();
                self.pending.drain(..HEAD_BYTES + head.length);
                return Some(Frame { head, payload });
            }
            let mut buffer = [0; 16 * 1024];
            match self.stream.read(&mut buffer) {
                Ok(0) => return None,
                Ok(count) => self.pending.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("nothing comes: {error}"),
            }
        }
    }

    /// The next frame of which `wanted` holds.
    pub(crate) fn until(&mut self, wanted: impl Fn(&Frame) -> bool) -> Frame {
        loop {
            let frame = self.next().expect("the connection ended before what was waited for");
            if wanted(&frame) {
                return frame;
            }
            let fatal = frame.head.kind == frame::GOAWAY && frame.number(4) != 0;
            assert!(!fatal, "the connection ends: {:?}", String::from_utf8_lossy(&frame.payload[8..]));
        }
    }

    /// The fields in a frame.
    pub(crate) fn fields(&mut self, frame: &Frame) -> Vec<(String, String)> {
        let mut fields = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        self.decoder.decode(&frame.payload, |name, value| fields.push((text(name), text(value)))).unwrap();
        fields
    }

    /// The answer on a stream: status, fields, body, trailers.
    pub(crate) fn answer(&mut self, stream: u32) -> RawAnswer {
        let mut answer = RawAnswer::default();
        loop {
            let frame = self
                .until(|frame| matches!(frame.head.kind, frame::HEADERS | frame::DATA | frame::RST_STREAM));
            let fields = if frame.head.kind == frame::HEADERS { self.fields(&frame) } else { Vec::new() };
            if frame.head.stream != stream {
                continue;
            }
            match frame.head.kind {
                frame::RST_STREAM => panic!("the stream was broken off: {frame:?}"),
                frame::DATA => answer.body.extend_from_slice(&frame.payload),
                _ if answer.fields.is_empty() => answer.fields = fields,
                _ => answer.trailers = fields,
            }
            if frame.head.has(frame::END_STREAM) {
                return answer;
            }
        }
    }

    /// The connection ends with `code`.
    pub(crate) fn assert_broken(&mut self, code: ErrorCode, what: &str) {
        loop {
            let frame = self.next().unwrap_or_else(|| panic!("{what}: ended without a word"));
            if frame.head.kind == frame::GOAWAY {
                let why = String::from_utf8_lossy(&frame.payload[8..]).into_owned();
                assert_eq!(frame.number(4), code as u32, "{what}: {why}");
                break;
            }
        }
        while self.next().is_some() {}
    }

    /// A stream ends with `code`, and the connection goes on.
    pub(crate) fn assert_reset(&mut self, stream: u32, code: ErrorCode, what: &str) {
        loop {
            let frame = self.next().unwrap_or_else(|| panic!("{what}: the connection ended"));
            let why = String::from_utf8_lossy(&frame.payload);
            assert!(frame.head.kind != frame::GOAWAY, "{what}: the whole connection ends: {why}");
            if frame.head.kind == frame::RST_STREAM && frame.head.stream == stream {
                assert_eq!(frame.number(0), code as u32, "{what}");
                return;
            }
        }
    }

    /// The connection is alive.
    pub(crate) fn assert_alive(&mut self, what: &str) {
        let payload = b"alive ?!";
        self.send(&frame(frame::PING, 0, 0, payload));
        loop {
            let frame = self.next().unwrap_or_else(|| panic!("{what}: the connection ended"));
            let why = String::from_utf8_lossy(&frame.payload);
            assert!(frame.head.kind != frame::GOAWAY, "{what}: the whole connection ends: {why}");
            if frame.head.kind == frame::PING && frame.payload == payload {
                return;
            }
        }
    }
}

/// An answer, whole.
#[derive(Debug, Default)]
pub(crate) struct RawAnswer {
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Vec<(String, String)>,
}

impl RawAnswer {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn status(&self) -> &str {
        self.field(":status").unwrap_or_default()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Answers with what it was asked; waits at `/wait`; a body of so many bytes at `/bytes/N`.
pub(crate) fn handle(request: &mut Request<'_>, response: Response<'_>) -> io::Result<Done> {
    if let Some(length) = request.path().strip_prefix("/bytes/") {
        return response.send(&vec![b'x'; length.parse().unwrap()]);
    }
    if request.path() == "/wait" {
        straightline::rt::sleep(Duration::from_millis(300))?;
    }
    crate::support::echo(request, response)
}

/// A server of one shard.
pub(crate) fn server() -> TestServer {
    TestServer::new(handle)
}
