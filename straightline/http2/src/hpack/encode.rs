//! Writing compressed fields.

use super::table::{ENTRY_BYTES, Table};
use super::{huffman, integer};

/// Largest table used, in bytes, whatever the client allows: it is searched entry by entry.
const TABLE_BYTES: usize = 2048;
/// Fields that differ from answer to answer, and would only push others out of the table.
const PASSING: [&[u8]; 6] =
    [b"content-length", b"etag", b"last-modified", b"location", b"content-range", b"age"];
/// Fields whose value nobody on the way may keep, so that it cannot be guessed from sizes.
///
/// Source: RFC 7541, section 7.1.3.
const SECRET: [&[u8]; 3] = [b"set-cookie", b"authorization", b"www-authenticate"];

/// Writes the blocks of one connection, in their order.
#[derive(Clone, Debug)]
pub struct Encoder {
    table: Table,
    /// The smallest and the last size that the table was given and the peer does not know of.
    resized: Option<(usize, usize)>,
}

impl Default for Encoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Encoder {
    /// One whose table has at most 2048 bytes, of the 4096 that every peer grants at first.
    pub fn new() -> Self {
        Self { table: Table::new(TABLE_BYTES), resized: Some((TABLE_BYTES, TABLE_BYTES)) }
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

    /// Begins a block: says how the table's size changed.
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        if let Some((least, last)) = self.resized.take() {
            if least < last {
                integer::write(out, 0x20, 5, least);
            }
            integer::write(out, 0x20, 5, last);
        }
    }

    /// Appends a field to a block. The name is in lower case.
    pub fn field(&mut self, out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
        let (whole, named) = self.table.find(name, value);
        if let Some(index) = whole {
            return integer::write(out, 0x80, 7, index);
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
        if flags == 0x40 {
            self.table.add(name, value);
        }
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
