//! What QUIC and HTTP/3 say to each other: pieces of streams, one after the other in a buffer.
//!
//! So HTTP/3 is bytes in, bytes out as every other protocol is, and knows neither datagrams nor timers.

/// Bytes before the content of a piece: its kind, its stream, and how long the content is.
pub const HEAD_BYTES: usize = 1 + 8 + 4;

const ROOM: u8 = 0;
const DATA: u8 = 1;
const LAST: u8 = 2;
const RESET: u8 = 3;
const CLOSE: u8 = 4;

/// One piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// To HTTP/3: the server lets this stream be begun.
    Room {
        /// The stream.
        stream: u64,
    },
    /// Either way: bytes of a stream, the last of it or not.
    Data {
        /// The stream.
        stream: u64,
        /// Its next bytes.
        bytes: &'a [u8],
        /// Whether they are its last.
        last: bool,
    },
    /// To HTTP/3: the server gives a stream up. From HTTP/3: a stream is given up, both ways.
    Reset {
        /// The stream.
        stream: u64,
        /// Why, as a code of HTTP/3.
        code: u64,
    },
    /// From HTTP/3: the connection is to be closed.
    Close {
        /// Why, as a code of HTTP/3.
        code: u64,
    },
}

/// A whole [`Piece::Room`].
#[must_use]
pub fn room(stream: u64) -> [u8; HEAD_BYTES] {
    head(ROOM, stream, 0)
}

/// The head of a piece with so many bytes of content.
#[must_use]
pub fn head_of_data(stream: u64, length: usize, last: bool) -> [u8; HEAD_BYTES] {
    head(if last { LAST } else { DATA }, stream, length as u32)
}

fn head(kind: u8, stream: u64, length: u32) -> [u8; HEAD_BYTES] {
    let mut head = [kind; HEAD_BYTES];
    head[1..9].copy_from_slice(&stream.to_le_bytes());
    head[9..].copy_from_slice(&length.to_le_bytes());
    head
}

impl<'a> Piece<'a> {
    /// Appends it.
    pub fn write(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Room { stream } => out.extend_from_slice(&room(stream)),
            Self::Data { stream, bytes, last } => {
                out.extend_from_slice(&head_of_data(stream, bytes.len(), last));
                out.extend_from_slice(bytes);
            }
            Self::Reset { stream, code } => {
                out.extend_from_slice(&head(RESET, stream, 8));
                out.extend_from_slice(&code.to_le_bytes());
            }
            Self::Close { code } => out.extend_from_slice(&head(CLOSE, code, 0)),
        }
    }

    /// Takes the next one from the front of `bytes`; `None` at their end, or where they are none.
    #[inline]
    pub fn next(bytes: &mut &'a [u8]) -> Option<Self> {
        let (head, rest) = bytes.split_first_chunk::<HEAD_BYTES>()?;
        let (stream, length) = head[1..].split_first_chunk::<8>()?;
        let (stream, length) = (u64::from_le_bytes(*stream), u32::from_le_bytes(*length.first_chunk()?));
        let (content, rest) = rest.split_at_checked(length as usize)?;
        *bytes = rest;
        match head[0] {
            ROOM => Some(Self::Room { stream }),
            DATA | LAST => Some(Self::Data { stream, bytes: content, last: head[0] == LAST }),
            RESET => Some(Self::Reset { stream, code: u64::from_le_bytes(*content.first_chunk()?) }),
            CLOSE => Some(Self::Close { code: stream }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_read_as_they_were_written() {
        let pieces = [
            Piece::Room { stream: 4 },
            Piece::Data { stream: 4, bytes: b"abc", last: false },
            Piece::Data { stream: u64::MAX >> 2, bytes: b"", last: true },
            Piece::Reset { stream: 8, code: 0x10c },
            Piece::Close { code: 0x101 },
        ];
        let mut bytes = Vec::new();
        pieces.iter().for_each(|piece| piece.write(&mut bytes));
        let mut rest = bytes.as_slice();
        assert_eq!(std::iter::from_fn(|| Piece::next(&mut rest)).collect::<Vec<_>>(), pieces);
        assert!(rest.is_empty());
    }
}
