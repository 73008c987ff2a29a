//! Writing compressed fields.

use super::table::{ENTRY_BYTES, STATIC, Table};
use super::{huffman, integer};
use crate::head::OF_CONNECTIONS;

/// Largest table used, in bytes, whatever the client allows: it is searched entry by entry.
const TABLE_BYTES: usize = 2048;
/// Fields that differ from answer to answer, and would only push others out of the table.
const PASSING: [&[u8]; 6] =
    [b"content-length", b"etag", b"last-modified", b"location", b"content-range", b"age"];
/// Fields whose value nobody on the way may keep, so that it cannot be guessed from sizes.
///
/// Source: RFC 7541, section 7.1.3.
const SECRET: [&[u8]; 3] = [b"set-cookie", b"authorization", b"www-authenticate"];

/// Longest name of a field in a line, in bytes; longer ones are no names that anyone knows.
const NAME_BYTES: usize = 256;
/// Lines of an answer that are expected where they stood in the one before.
const GUESSES: usize = 16;
/// What the line begins with that nearly every answer has and few have alike, and the index of its name.
const LENGTH_LINE: (&[u8], usize) = (b"Content-Length: ", 28);
/// Index of the first status in the static table, and how many there are.
const STATUSES: (usize, usize) = (8, 7);

/// Writes the blocks of one connection, in their order.
#[derive(Clone, Debug)]
pub struct Encoder {
    table: Table,
    /// The smallest and the last size that the table was given and the peer does not know of.
    resized: Option<(usize, usize)>,
    /// By their place in an answer, numbers of fields in the table; 0 where it has none. Answers of one server have the same
    /// lines at the same places, so that these need not be read again.
    guesses: [u64; GUESSES],
    place: usize,
}

impl Default for Encoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Encoder {
    /// One whose table has at most 2048 bytes, of the 4096 that every peer grants at first.
    pub fn new() -> Self {
        Self {
            table: Table::new(TABLE_BYTES),
            resized: Some((TABLE_BYTES, TABLE_BYTES)),
            guesses: [0; GUESSES],
            place: 0,
        }
    }

    /// The peer grants a table of so many bytes.
    pub fn grant(&mut self, bytes: usize) {
        let bytes = bytes.min(TABLE_BYTES);
        if bytes == self.table.most_bytes() {
            return;
        }
        self.table.resize(bytes);
        let least = self.resized.map_or(bytes, |(least, _)| least.min(bytes));
        self.resized = Some((least, bytes));
    }

    /// How often the blocks so far, or leave of the peer, have changed the table. A block that changes nothing, and says of no
    /// change, stands for the same fields until another does.
    pub fn changes(&self) -> u64 {
        self.table.changes()
    }

    /// Whether the next block has to say that the table's size changed.
    pub fn is_resized(&self) -> bool {
        self.resized.is_some()
    }

    /// Begins a block: says how the table's size changed.
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        self.place = 0;
        if let Some((least, last)) = self.resized.take() {
            if least < last {
                integer::write(out, 0x20, 5, least);
            }
            integer::write(out, 0x20, 5, last);
        }
    }

    /// Appends a status.
    pub fn status(&mut self, out: &mut Vec<u8>, status: [u8; 3]) {
        let known = &STATIC[STATUSES.0 - 1..][..STATUSES.1];
        match known.iter().position(|(_, text)| text.as_bytes() == status) {
            Some(place) => integer::write(out, 0x80, 7, STATUSES.0 + place),
            None => self.field(out, b":status", &status),
        }
    }

    /// Appends the fields in lines of text, `Name: value` each with CRLF behind it. Fields that speak of a connection of HTTP/1.1 are
    /// left out.
    pub fn lines(&mut self, out: &mut Vec<u8>, lines: &[u8]) {
        let mut rest = lines;
        while !rest.is_empty() {
            let place = self.place;
            self.place += 1;
            if let Some((index, length)) = self.guess(place, rest) {
                integer::write(out, 0x80, 7, index);
                rest = &rest[length..];
                continue;
            }
            let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
            let (line, after) = rest.split_at(end);
            rest = after.get(1..).unwrap_or_default();
            let number = self.line(out, line.trim_ascii_end());
            if let Some(guess) = self.guesses.get_mut(place) {
                *guess = number.unwrap_or(0);
            }
        }
    }

    /// The index of the line at the start of `lines`, and how long that is, if it is the one that stood at this place before.
    #[inline]
    fn guess(&self, place: usize, lines: &[u8]) -> Option<(usize, usize)> {
        let (index, line) = self.table.numbered(*self.guesses.get(place)?)?;
        let after = lines.strip_prefix(line)?;
        // A field that was made of no line has an empty one, and is at no place.
        (!line.is_empty() && after.starts_with(b"\r\n")).then_some((index, line.len() + 2))
    }

    /// Appends the field in a line; its number, if it is in the table now.
    fn line(&mut self, out: &mut Vec<u8>, line: &[u8]) -> Option<u64> {
        let (name, index) = LENGTH_LINE;
        if let Some(value) = line.strip_prefix(name) {
            integer::write(out, 0, 4, index);
            integer::write(out, 0, 7, value.len());
            out.extend_from_slice(value);
            return None;
        }
        if let Some(number) = self.table.number_of(line).filter(|_| !line.is_empty()) {
            let (index, _) = self.table.numbered(number)?;
            integer::write(out, 0x80, 7, index);
            return Some(number);
        }
        let colon = line.iter().position(|byte| *byte == b':')?;
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        let mut lower = [0; NAME_BYTES];
        let lower = lower.get_mut(..name.len())?;
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        if name.is_empty() || OF_CONNECTIONS.contains(&&*lower) {
            return None;
        }
        self.field_of_line(out, lower, value, line)
    }

    /// Appends a field to a block. The name is in lower case.
    pub fn field(&mut self, out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
        self.field_of_line(out, name, value, b"");
    }

    fn field_of_line(&mut self, out: &mut Vec<u8>, name: &[u8], value: &[u8], line: &[u8]) -> Option<u64> {
        let (whole, named) = self.table.find(name, value);
        if let Some(index) = whole {
            integer::write(out, 0x80, 7, index);
            return None;
        }
        let bytes = name.len() + value.len() + ENTRY_BYTES;
        let (flags, bits) = match () {
            () if SECRET.contains(&name) => (0x10, 4),
            () if PASSING.contains(&name) || bytes > self.table.most_bytes() / 2 => (0, 4),
            () => (0x40, 6),
        };
        integer::write(out, flags, bits, named.unwrap_or(0));
        if named.is_none() {
            string(out, name);
        }
        string(out, value);
        if flags == 0x40 { self.table.add_of_line(name, value, line) } else { None }
    }
}

/// Appends a string, compressed where that makes it shorter.
fn string(out: &mut Vec<u8>, text: &[u8]) {
    let compressed = huffman::encoded_bytes(text);
    if compressed < text.len() {
        integer::write(out, 0x80, 7, compressed);
        huffman::encode(out, text);
    } else {
        integer::write(out, 0, 7, text.len());
        out.extend_from_slice(text);
    }
}
