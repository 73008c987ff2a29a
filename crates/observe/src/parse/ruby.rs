//! What CRuby keeps in its memory of the code that it runs. Source: CRuby, iseq.c, `succ_index_lookup`; vm_core.h, `VM_FRAME_MAGIC`.

/// Words at the begin of an index that hold the ranks of its first instructions, nine in each, seven bits wide.
const FIRST: u64 = 54;
const FIRST_BYTES: u64 = 8 * FIRST / 9;
/// Instructions of a block of it, and bytes: its rank, those of its words, and a bit for each instruction.
const BLOCK: u64 = 512;
const BLOCK_BYTES: u64 = 80;

/// Bytes of the index of code that has so many words.
pub(crate) fn index_bytes(words: u64) -> u64 {
    FIRST_BYTES + words.div_ceil(BLOCK) * BLOCK_BYTES
}

/// Which entry of the table of lines is that of an instruction, which begins `place` words into its code.
pub(crate) fn entry_at(index: &[u8], place: u64) -> Option<usize> {
    let word = |at: u64| {
        let at = usize::try_from(at).ok()?;
        Some(u64::from_le_bytes(index.get(at..at + 8)?.try_into().ok()?))
    };
    let rank = if place < FIRST {
        word(8 * (place / 9))? >> (7 * (place % 9)) & 0x7f
    } else {
        let (block, bit) = (FIRST_BYTES + place / BLOCK * BLOCK_BYTES, place % BLOCK);
        let before = if bit < 64 { 0 } else { word(block + 8)? >> (9 * (bit / 64 - 1)) & 0x1ff };
        let bits = word(block + 16 + 8 * (bit / 64))? << (63 - bit % 64);
        (word(block)? & 0xffff_ffff) + before + u64::from(bits.count_ones())
    };
    usize::try_from(rank.checked_sub(1)?).ok()
}

/// Whether a file may hold Ruby, by its name: `ruby`, `ruby3.1`, `libruby-3.1.so.3.1.2`.
pub(crate) fn is_ruby(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let rest = name.strip_prefix("lib").unwrap_or(name).strip_prefix("ruby");
    rest.is_some_and(|rest| {
        rest.trim_start_matches('-').bytes().next().is_none_or(|next| next.is_ascii_digit() || next == b'.')
    })
}

/// Major and minor version of `3.1.2`.
pub(crate) fn ruby_version(text: &[u8]) -> Option<(u32, u32)> {
    let text = text.split(|byte| *byte == 0).next().and_then(|text| str::from_utf8(text).ok())?;
    let mut parts = text.split('.').map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??))
}

/// The function that code is of: a method with its blocks, or a body of a file or class with its own (`<main>`, `<class:Shop>`). `name` is that
/// of the whole, `label` of the part.
pub(crate) fn function_of(name: &str, label: &str) -> String {
    let body = name.strip_prefix('<').and_then(|name| name.strip_suffix('>'));
    // `<=>` is a method.
    let Some(body) = body.filter(|body| body.starts_with(|first: char| first.is_alphabetic())) else {
        return name.to_owned();
    };
    let body = match body.split_once(':') {
        Some((kind, of)) => format!("{kind} {of}"),
        None => body.replace(" (required)", " of file"),
    };
    if label == name { body } else { format!("block in {body}") }
}

/// Whether flags of a frame say that it is of a method that is written in C.
pub(crate) fn is_of_c(flags: u64) -> bool {
    flags & 0x7fff_0001 == 0x5555_0001
}

#[cfg(test)]
mod tests {
    use super::{entry_at, function_of, index_bytes, is_ruby, ruby_version};

    #[test]
    fn files_that_may_hold_ruby_are_known_by_their_names() {
        for (path, expected) in [
            ("/usr/bin/ruby3.1", true),
            ("/usr/local/bin/ruby", true),
            ("/usr/lib/x86_64-linux-gnu/libruby-3.1.so.3.1.2", true),
            ("/opt/lib/libruby.so.3.4", true),
            ("/usr/lib/ruby/rubygems.so", false),
            ("/usr/lib/libpython3.12.so", false),
        ] {
            assert_eq!(is_ruby(path), expected, "{path}");
        }
        assert_eq!(ruby_version(b"3.1.2\0\0more"), Some((3, 1)));
        assert_eq!(ruby_version(b"\0"), None);
    }

    #[test]
    fn a_block_is_of_its_method() {
        for (name, label, expected) in [
            ("find_by", "block (2 levels) in find_by", "find_by"),
            ("find_by", "find_by", "find_by"),
            ("<main>", "block (2 levels) in <main>", "block in main"),
            ("<main>", "<main>", "main"),
            ("<top (required)>", "<top (required)>", "top of file"),
            ("<class:Shop>", "<class:Shop>", "class Shop"),
            ("<=>", "<=>", "<=>"),
        ] {
            assert_eq!(function_of(name, label), expected, "{label}");
        }
    }

    #[test]
    fn an_index_says_the_entry_of_an_instruction() {
        // Entries begin at the words 0, 3 and 7, at 60 and at 600.
        let begins = [0_u64, 3, 7, 60, 600];
        let words = 700;
        let rank = |place: u64| begins.iter().filter(|begin| **begin <= place).count() as u64;
        let mut index = vec![0_u8; usize::try_from(index_bytes(words)).unwrap()];
        let mut put = |at: u64, value: u64| {
            index[at as usize..at as usize + 8].copy_from_slice(&value.to_le_bytes());
        };
        for at in 0..6 {
            put(8 * at, (0..9).map(|place| rank(9 * at + place) << (7 * place)).sum());
        }
        for block in 0..2 {
            let (at, begin) = (48 + 80 * block, 512 * block);
            let before = |place: u64| begins.iter().filter(|begin| **begin < place).count() as u64;
            put(at, before(begin));
            put(
                at + 8,
                (1..8).map(|part| (before(begin + 64 * part) - before(begin)) << (9 * (part - 1))).sum(),
            );
            for part in 0..8 {
                let first = begin + 64 * part;
                let own = begins.iter().filter(|begin| (first..first + 64).contains(*begin));
                put(at + 16 + 8 * part, own.map(|begin| 1 << (begin - first)).sum());
            }
        }
        for place in 0..words {
            assert_eq!(entry_at(&index, place), Some(rank(place) as usize - 1), "{place}");
        }
        assert_eq!(entry_at(&[], 0), None);
    }
}
