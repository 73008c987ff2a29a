//! Reading compressed fields.

use super::table::Table;
use super::{huffman, integer};

/// A block that stands for no fields. The tables of both ends differ from then on, so that the connection must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HpackError;

impl std::fmt::Display for HpackError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("the compressed fields stand for nothing")
    }
}

impl std::error::Error for HpackError {}

/// Most changes of the table's size at the start of a block: to the smallest size that was granted meanwhile, and to the last.
///
/// Source: RFC 7541, section 4.2.
const UPDATES_MAX: u32 = 2;

/// Reads the blocks of one connection, in their order.
#[derive(Clone, Debug)]
pub struct Decoder {
    table: Table,
    /// The size of the table that was granted, in bytes.
    granted_bytes: usize,
    /// Where strings that were compressed are put.
    scratch: Vec<u8>,
}

impl Decoder {
    /// One whose table has at most `table_bytes` bytes.
    pub fn new(table_bytes: usize) -> Self {
        Self { table: Table::new(table_bytes), granted_bytes: table_bytes, scratch: Vec::new() }
    }

    /// Gives each field of a whole block to `field`.
    ///
    /// # Errors
    ///
    /// [`HpackError`] if the block is none.
    pub fn decode(&mut self, block: &[u8], mut field: impl FnMut(&[u8], &[u8])) -> Result<(), HpackError> {
        let mut rest = block;
        let (mut begun, mut updates) = (false, 0);
        while let Some(first) = rest.first() {
            rest = match first {
                0x80.. => {
                    let (index, after) = integer::read(rest, 7).ok_or(HpackError)?;
                    let (name, value) = self.table.field(index).ok_or(HpackError)?;
                    field(name, value);
                    after
                }
                0x20..0x40 if begun || updates == UPDATES_MAX => return Err(HpackError),
                0x20..0x40 => {
                    updates += 1;
                    rest = self.resize(rest)?;
                    continue;
                }
                0x40.. => self.literal(rest, 6, true, &mut field)?,
                _ => self.literal(rest, 4, false, &mut field)?,
            };
            begun = true;
        }
        Ok(())
    }

    /// How often the blocks so far have changed the table. A block that changes nothing stands for the same fields until
    /// another does.
    pub fn changes(&self) -> u64 {
        self.table.changes()
    }

    fn resize<'b>(&mut self, bytes: &'b [u8]) -> Result<&'b [u8], HpackError> {
        let (size, after) = integer::read(bytes, 5).ok_or(HpackError)?;
        if size > self.granted_bytes {
            return Err(HpackError);
        }
        self.table.resize(size);
        Ok(after)
    }

    fn literal<'b>(
        &mut self,
        bytes: &'b [u8],
        bits: u32,
        keep: bool,
        field: &mut impl FnMut(&[u8], &[u8]),
    ) -> Result<&'b [u8], HpackError> {
        let (index, mut rest) = integer::read(bytes, bits).ok_or(HpackError)?;
        self.scratch.clear();
        if index == 0 {
            rest = string(&mut self.scratch, rest)?;
        } else {
            let (name, _) = self.table.field(index).ok_or(HpackError)?;
            self.scratch.extend_from_slice(name);
        }
        let name_bytes = self.scratch.len();
        rest = string(&mut self.scratch, rest)?;
        let (name, value) = self.scratch.split_at(name_bytes);
        field(name, value);
        if keep {
            self.table.add(name, value);
        }
        Ok(rest)
    }
}

/// Appends the string at the start of `bytes`; what follows it.
///
/// Source: RFC 7541, section 5.2.
fn string<'b>(out: &mut Vec<u8>, bytes: &'b [u8]) -> Result<&'b [u8], HpackError> {
    let compressed = bytes.first().is_some_and(|first| first & 0x80 != 0);
    let (length, rest) = integer::read(bytes, 7).ok_or(HpackError)?;
    let (text, after) = rest.split_at_checked(length).ok_or(HpackError)?;
    match compressed {
        true => huffman::decode(out, text).ok_or(HpackError)?,
        false => out.extend_from_slice(text),
    }
    Ok(after)
}
