//! Integers of QUIC: two bits say how many bytes there are.
//!
//! Source: RFC 9000, section 16.

/// Most bytes of one.
pub(super) const MOST_BYTES: usize = 8;

/// Reads one: its value and how many bytes it took; `None` if it is cut off.
#[inline]
pub(super) fn read(bytes: &[u8]) -> Option<(u64, usize)> {
    let length = 1 << (bytes.first()? >> 6);
    let mut value = u64::from(bytes[0] & 0x3f);
    for byte in bytes.get(1..length)? {
        value = value << 8 | u64::from(*byte);
    }
    Some((value, length))
}

/// Appends `value`, which is below 2^62.
#[inline]
pub(super) fn write(out: &mut Vec<u8>, value: u64) {
    match value {
        0..0x40 => out.push(value as u8),
        0x40..0x4000 => out.extend_from_slice(&(value as u16 | 0x4000).to_be_bytes()),
        0x4000..0x4000_0000 => out.extend_from_slice(&(value as u32 | 0x8000_0000).to_be_bytes()),
        _ => out.extend_from_slice(&(value | 0xc000_0000_0000_0000).to_be_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_wherever_it_is_cut() {
        for value in [0, 1, 0x3f, 0x40, 0x3fff, 0x4000, 0x3fff_ffff, 0x4000_0000, (1 << 62) - 1] {
            let mut bytes = Vec::new();
            write(&mut bytes, value);
            assert_eq!(read(&bytes), Some((value, bytes.len())));
            (0..bytes.len()).for_each(|cut| assert_eq!(read(&bytes[..cut]), None));
        }
        // The examples of RFC 9000, appendix A.1; a longer form than needed is one, too.
        assert_eq!(
            read(&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c]),
            Some((151_288_809_941_952_652, 8))
        );
        assert_eq!(read(&[0x9d, 0x7f, 0x3e, 0x7d]), Some((494_878_333, 4)));
        assert_eq!(read(&[0x40, 0x25]), Some((37, 2)));
    }
}
