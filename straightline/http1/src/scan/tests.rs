//! Each scan against its table, byte by byte.

use super::*;

/// Lengths that end before, in and after words and blocks.
const LENGTHS: [usize; 9] = [0, 1, 7, 8, 9, 15, 16, 17, 40];

/// Under Miri, which takes a thousand times as long, every so manieth input stands for all.
const STEP: usize = if cfg!(miri) { 97 } else { 1 };

type Scan = fn(&[u8], usize) -> usize;

const SCANS: [(Scan, &Class); 4] =
    [(token_end, &TOKEN), (text_end, &TEXT), (target_end, &TARGET), (name_end, &NAME)];

fn by_table(buf: &[u8], from: usize, class: &Class) -> usize {
    (from..buf.len()).find(|&at| !class[usize::from(buf[at])]).unwrap_or(buf.len())
}

/// Every byte at every place.
#[test]
fn scans_stop_where_their_tables_say() {
    let mut checked = 0;
    for (scan, class) in SCANS {
        for length in LENGTHS {
            for at in 0..length {
                let mut buf = vec![b'a'; length];
                for byte in (0..=255).step_by(STEP) {
                    buf[at] = byte;
                    let from = byte as usize % (at + 1);
                    assert_eq!(scan(&buf, from), by_table(&buf, from, class), "{}", buf.escape_ascii());
                    checked += 1;
                }
            }
        }
    }
    assert_eq!(checked, SCANS.len() * 256_usize.div_ceil(STEP) * LENGTHS.iter().sum::<usize>());
}

/// A mark that spills over into the next byte must not count, nor hide one.
#[test]
fn a_byte_does_not_hide_or_mark_the_next() {
    for (scan, class) in SCANS {
        for pair in (0..=u16::MAX).step_by(STEP) {
            let mut buf = *b"aaa..aaaaaaaaaaaaaaaaaaa";
            buf[3..5].copy_from_slice(&pair.to_be_bytes());
            assert_eq!(scan(&buf, 0), by_table(&buf, 0, class), "{}", buf.escape_ascii());
        }
    }
}

#[test]
fn a_scan_from_beyond_the_end_finds_nothing() {
    for (scan, _) in SCANS {
        assert_eq!(scan(b"abc", 3), 3);
        assert!(scan(b"abc", 9) >= 3);
    }
}

#[test]
fn classes_are_those_of_the_standard() {
    let count = |class: &Class| class.iter().filter(|member| **member).count();
    assert_eq!(
        (count(&TOKEN), count(&TEXT), count(&TARGET), count(&NAME)),
        (26 + 26 + 10 + 15, 256 - 32, 94 - 1, 26 + 26 + 10 + 4 + 11)
    );
}
