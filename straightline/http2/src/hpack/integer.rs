//! Integers with a prefix, as HPACK and QPACK have them.

/// Most bytes after the prefix: enough for every length that is allowed anywhere, so that no shift overflows.
const CONTINUATION_BYTES: u32 = 4;

/// Reads an integer whose first byte has a prefix of `bits` bits: its value and the bytes after it; `None` if it is cut
/// off or too large.
///
/// Source: RFC 7541, section 5.1.
#[inline]
pub fn read(bytes: &[u8], bits: u32) -> Option<(usize, &[u8])> {
    let mask = (1usize << bits) - 1;
    let (first, mut rest) = bytes.split_first()?;
    let mut value = usize::from(*first) & mask;
    if value < mask {
        return Some((value, rest));
    }
    for index in 0..CONTINUATION_BYTES {
        let (byte, after) = rest.split_first()?;
        rest = after;
        value += usize::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((value, rest));
        }
    }
    None
}

/// Appends an integer whose first byte begins with `flags`.
#[inline]
pub fn write(out: &mut Vec<u8>, flags: u8, bits: u32, value: usize) {
    let mask = (1usize << bits) - 1;
    if value < mask {
        return out.push(flags | value as u8);
    }
    out.push(flags | mask as u8);
    let mut left = value - mask;
    while left >= 0x80 {
        out.push(left as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
}

#[cfg(test)]
mod tests {
    use super::{read, write};

    #[test]
    fn the_examples_of_appendix_c_1() {
        let cases: [(u32, usize, &[u8]); 3] =
            [(5, 10, &[0b01010]), (5, 1337, &[0b11111, 0b1001_1010, 0b0000_1010]), (8, 42, &[42])];
        for (bits, value, bytes) in cases {
            let mut out = Vec::new();
            write(&mut out, 0, bits, value);
            assert_eq!(out, bytes);
            assert_eq!(read(bytes, bits), Some((value, &[][..])));
            assert_eq!(read(&bytes[..bytes.len() - 1], bits), None, "cut off");
        }
    }

    #[test]
    fn what_no_length_can_be_is_refused() {
        assert_eq!(read(&[0x7f, 0x80, 0x80, 0x80, 0x80, 0x01], 7), None);
        assert_eq!(read(&[0x7f, 0xff, 0xff, 0xff, 0xff, 0xff], 7), None);
    }
}
