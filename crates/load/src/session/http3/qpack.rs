//! Fields in the compressed form of HTTP/3, with the static table alone: we announce no room for another, so that no server
//! may use one, and need none for requests that are compressed once.
//!
//! Source: RFC 9204.

use http2::hpack::{huffman, integer};

use super::code;
use super::table::TABLE;

/// First bits of what a field can be. Source: RFC 9204, sections 4.5.2 to 4.5.6.
const INDEXED: u8 = 0b1000_0000;
const NAME_INDEXED: u8 = 0b0100_0000;
const LITERAL: u8 = 0b0010_0000;
/// Says of an index that it is of the static table, for a field and for a name.
const STATIC_FIELD: u8 = 0b0100_0000;
const STATIC_NAME: u8 = 0b0001_0000;

/// Reads a block of fields; `field` is given each name and value.
///
/// # Errors
/// The code with which the connection is over, where they cannot be decoded.
pub(super) fn decode(block: &[u8], mut field: impl FnMut(&[u8], &[u8])) -> Result<(), u64> {
    let (mut names, mut values) = (Vec::new(), Vec::new());
    let mut rest = after_prefix(block).ok_or(code::DECOMPRESSION_FAILED)?;
    while !rest.is_empty() {
        names.clear();
        values.clear();
        let (name, value) = next(&mut rest, &mut names, &mut values).ok_or(code::DECOMPRESSION_FAILED)?;
        field(name, value);
    }
    Ok(())
}

/// What is before the fields says that none is of a table that we do not have.
fn after_prefix(block: &[u8]) -> Option<&[u8]> {
    let (inserts, rest) = integer::read(block, 8)?;
    let (_base, rest) = integer::read(rest, 7)?;
    (inserts == 0).then_some(rest)
}

/// Takes a name and a value from the front of `bytes`.
fn next<'o, 'b: 'o>(
    bytes: &mut &'b [u8],
    names: &'o mut Vec<u8>,
    values: &'o mut Vec<u8>,
) -> Option<(&'o [u8], &'o [u8])> {
    let first = *bytes.first()?;
    if first & INDEXED != 0 {
        let index = number(bytes, 6)?;
        let (name, value) = TABLE.get(index).filter(|_| first & STATIC_FIELD != 0)?;
        return Some((name.as_bytes(), value.as_bytes()));
    }
    let name = if first & NAME_INDEXED != 0 {
        let index = number(bytes, 4)?;
        let (name, _) = TABLE.get(index).filter(|_| first & STATIC_NAME != 0)?;
        name.as_bytes()
    } else if first & LITERAL != 0 {
        string(bytes, 3, names)?
    } else {
        return None;
    };
    Some((name, string(bytes, 7, values)?))
}

fn number(bytes: &mut &[u8], bits: u32) -> Option<usize> {
    let (value, rest) = integer::read(bytes, bits)?;
    *bytes = rest;
    Some(value)
}

/// Takes a string whose length has a prefix of `bits` bits, with the bit before them for Huffman's code.
fn string<'o, 'b: 'o>(bytes: &mut &'b [u8], bits: u32, out: &'o mut Vec<u8>) -> Option<&'o [u8]> {
    let coded = bytes.first()? & 1 << bits != 0;
    let length = number(bytes, bits)?;
    let (text, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    if !coded {
        return Some(text);
    }
    huffman::decode(out, text)?;
    Some(out)
}

/// Begins a block of fields.
pub(super) fn begin(out: &mut Vec<u8>) {
    out.extend_from_slice(&[0, 0]);
}

/// Appends one field.
pub(super) fn encode(out: &mut Vec<u8>, name: &str, value: &str) {
    if let Some(index) = TABLE.iter().position(|field| *field == (name, value)) {
        return integer::write(out, INDEXED | STATIC_FIELD, 6, index);
    }
    match TABLE.iter().position(|(known, _)| *known == name) {
        Some(index) => integer::write(out, NAME_INDEXED | STATIC_NAME, 4, index),
        None => {
            integer::write(out, LITERAL, 3, name.len());
            out.extend_from_slice(name.as_bytes());
        }
    }
    integer::write(out, 0, 7, value.len());
    out.extend_from_slice(value.as_bytes());
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use model::plan::SplitMix64;

    use super::*;

    fn decoded(block: &[u8]) -> Result<Vec<(String, String)>, u64> {
        let mut fields = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        decode(block, |name, value| fields.push((text(name), text(value)))).map(|()| fields)
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        let long = "x".repeat(3000);
        let fields = [(":method", "GET"), (":path", "/a?b"), ("x-own", long.as_str()), ("accept", "*/*")];
        let mut block = Vec::new();
        begin(&mut block);
        fields.iter().for_each(|(name, value)| encode(&mut block, name, value));
        let wanted = fields.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(decoded(&block).unwrap(), wanted);
        for cut in 2..block.len() {
            let fields = decoded(&block[..cut]);
            assert!(fields.is_err() || wanted.starts_with(&fields.unwrap()), "cut at {cut}");
        }
    }

    /// Fields that are generated, and what becomes of their bytes when some are changed, for as long as `FUZZ_SECONDS` says (2 by
    /// default), from `FUZZ_SEED` (0 by default) on, and at least so many.
    #[test]
    fn fuzz_fields_are_decoded_within_bounds_or_refused() {
        const INPUTS: u64 = 1_000;
        let number = |name, default| {
            std::env::var(name).map_or(default, |value| value.parse().expect("it is a number"))
        };
        let (time, first) = (Duration::from_secs(number("FUZZ_SECONDS", 2)), number("FUZZ_SEED", 0));
        let (start, mut inputs, mut read, mut refused) = (Instant::now(), 0, 0, 0);
        while inputs < INPUTS || start.elapsed() < time {
            let mut random = SplitMix64::fork(first + inputs, "qpack", 0);
            let fields = generated(&mut random);
            let mut block = Vec::new();
            begin(&mut block);
            fields.iter().for_each(|(name, value)| encode(&mut block, name, value));
            assert_eq!(decoded(&block).as_ref(), Ok(&fields), "input {}", first + inputs);
            for _ in 0..=random.below(4) {
                let place = random.below(block.len() as u64) as usize;
                block[place] = random.below(256) as u8;
            }
            let mut bytes = 0;
            match decode(&block, |name, value| bytes += name.len() + value.len()) {
                Ok(()) => read += 1,
                Err(_) => refused += 1,
            }
            // The longest field of the table for each byte.
            assert!(bytes <= 100 * block.len(), "input {}: {bytes} bytes of fields", first + inputs);
            inputs += 1;
        }
        assert!(read > inputs / 20 && refused > inputs / 20, "{read} and {refused} of {inputs} say nothing");
    }

    /// Fields of the static table, of which names alone or nothing may be there.
    fn generated(random: &mut SplitMix64) -> Vec<(String, String)> {
        let word = |random: &mut SplitMix64, most: u64| {
            let length = random.below(most);
            (0..length).map(|_| char::from(b'a' + random.below(26) as u8)).collect::<String>()
        };
        let field = |random: &mut SplitMix64| {
            let (name, value) = TABLE[random.below(TABLE.len() as u64) as usize];
            match random.below(3) {
                0 => (name.to_owned(), value.to_owned()),
                1 => (name.to_owned(), word(random, 200)),
                _ => (format!("x-{}", word(random, 20)), word(random, 20)),
            }
        };
        (0..random.below(12)).map(|_| field(random)).collect()
    }

    #[test]
    fn the_first_example_of_the_rfc_is_read() {
        // RFC 9204, appendix B.1.
        let block = [&[0x00, 0x00, 0x51, 0x0b][..], b"/index.html"].concat();
        assert_eq!(decoded(&block).unwrap(), [(":path".to_owned(), "/index.html".to_owned())]);
        // RFC 7541, appendix C.4.1: the value in Huffman's code.
        let coded = [0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff];
        let block = [&[0x00, 0x00, 0x50, 0x80 | 12][..], &coded].concat();
        assert_eq!(decoded(&block).unwrap(), [(":authority".to_owned(), "www.example.com".to_owned())]);
    }

    #[test]
    fn a_table_that_we_do_not_have_is_not_used() {
        let blocks: [&[u8]; 7] = [
            &[],
            &[1, 0, 0xc0 | 25],
            // Of the dynamic table: a field, a name, both after the base.
            &[0, 0, 0x80],
            &[0, 0, 0x40, 0],
            &[0, 0, 0x10],
            &[0, 0, 0x00, 0],
            // No such index.
            &[0, 0, 0xff, 36],
        ];
        for block in blocks {
            assert_eq!(decoded(block), Err(code::DECOMPRESSION_FAILED), "{block:?}");
        }
    }
}
