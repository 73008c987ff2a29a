//! What servers of the test kit speak beside HTTP/1.1: as much of it as their answers need, which are always the same.

use testkit::{Reply, Wire};
use tungstenite::handshake::derive_accept_key;

/// Whole frames or messages in what came so far.
#[derive(Debug, Default)]
struct Stash(Vec<u8>);

impl Stash {
    /// The next part of a length that the begin of it tells.
    fn next(&mut self, length: impl Fn(&[u8]) -> Option<usize>) -> Option<Vec<u8>> {
        let length = length(&self.0).filter(|length| *length <= self.0.len())?;
        Some(self.0.drain(..length).collect())
    }
}

/// WebSocket: each message of a client is a request, and short.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    upgraded: bool,
    stash: Stash,
}

impl Messages {
    /// The message with which it answers.
    pub(crate) fn reply() -> Reply {
        Reply { bytes: b"\x81\x02hi".to_vec(), close: false }
    }
}

impl Wire for Messages {
    fn read(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Vec<u32> {
        self.stash.0.extend_from_slice(bytes);
        if !self.upgraded {
            let head = self
                .stash
                .next(|bytes| bytes.windows(4).position(|four| four == b"\r\n\r\n").map(|end| end + 4));
            let Some(head) = head else { return Vec::new() };
            let head = String::from_utf8(head).unwrap();
            let key = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("sec-websocket-key").then(|| value.trim().to_owned())
            });
            let accept = derive_accept_key(key.unwrap().as_bytes());
            out.extend_from_slice(
                format!("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n\r\n").as_bytes(),
            );
            self.upgraded = true;
        }
        // Two bytes, a mask of four, and up to 125 of content.
        let frame = |bytes: &[u8]| Some(6 + usize::from(bytes.get(1)? & 0x7f));
        std::iter::from_fn(|| self.stash.next(frame)).map(|_| 0).collect()
    }
}

/// HTTP/2, with or without gRPC: each stream that a client ends is a request.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    greeted: bool,
    stash: Stash,
}

impl Streams {
    /// Frames of an answer, of which the stream is filled in: `:status: 200`.
    pub(crate) fn reply() -> Reply {
        Reply { bytes: b"\x00\x00\x01\x01\x05\x00\x00\x00\x00\x88".to_vec(), close: false }
    }

    /// The same of a call: `:status: 200` and `content-type: application/grpc`, so many empty messages, `grpc-status: 0`.
    pub(crate) fn reply_to_call(messages: usize) -> Reply {
        let head = b"\x00\x00\x14\x01\x04\x00\x00\x00\x00\x88\x0f\x10\x10application/grpc";
        let message = b"\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00";
        let trailers = b"\x00\x00\x0f\x01\x05\x00\x00\x00\x00\x00\x0bgrpc-status\x010";
        Reply { bytes: [&head[..], &message.repeat(messages), trailers].concat(), close: false }
    }
}

/// Length of a frame of HTTP/2, with its head of nine bytes.
fn frame(bytes: &[u8]) -> Option<usize> {
    let [a, b, c, ..] = bytes else { return None };
    Some(9 + (usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c)))
}

impl Wire for Streams {
    fn read(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Vec<u32> {
        const PREFACE_BYTES: usize = 24;
        const SETTINGS: &[u8] = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00";
        const ACKNOWLEDGED: &[u8] = b"\x00\x00\x00\x04\x01\x00\x00\x00\x00";
        self.stash.0.extend_from_slice(bytes);
        if !self.greeted {
            if self.stash.next(|_| Some(PREFACE_BYTES)).is_none() {
                return Vec::new();
            }
            out.extend_from_slice(SETTINGS);
            self.greeted = true;
        }
        let mut requests = Vec::new();
        while let Some(frame) = self.stash.next(frame) {
            let stream = u32::from_be_bytes(frame[5..9].try_into().unwrap());
            match (frame[3], frame[4]) {
                // DATA and HEADERS with END_STREAM.
                (0 | 1, flags) if flags & 1 != 0 => requests.push(stream),
                (4, flags) if flags & 1 == 0 => out.extend_from_slice(ACKNOWLEDGED),
                _ => {}
            }
        }
        requests
    }

    fn answer(&mut self, stream: u32, reply: &[u8], out: &mut Vec<u8>) {
        let mut frames = Stash(reply.to_vec());
        while let Some(mut frame) = frames.next(frame) {
            // The farewell is that of the connection.
            if frame[3] != 7 {
                frame[5..9].copy_from_slice(&stream.to_be_bytes());
            }
            out.extend(frame);
        }
    }

    fn is_ordered(&self) -> bool {
        false
    }
}
