//! What CPython keeps in its memory of the code that it runs. Source: CPython, Objects/locations.md;
//! Include/cpython/unicodeobject.h, PyASCIIObject.

/// The line of an instruction, by the table that says how many lines each stretch of code is further than the one before;
/// nothing where it belongs to no line. `unit` counts instructions of two bytes from the function's begin.
pub(crate) fn line_at(table: &[u8], first_line: u32, unit: u64) -> Option<u32> {
    let (mut bytes, mut line, mut end) = (table.iter().copied().peekable(), i64::from(first_line), 0);
    while let Some(head) = bytes.next() {
        end += u64::from(head & 7) + 1;
        let kind = (head >> 3) & 15;
        let (delta, known) = match kind {
            13 | 14 => (signed(varint(&mut bytes)?), true),
            10..=12 => (i64::from(kind) - 10, true),
            15 => (0, false),
            _ => (0, true),
        };
        line += delta;
        // The columns, and after them the head of the next entry, which alone has the highest bit.
        while bytes.peek().is_some_and(|byte| byte & 0x80 == 0) {
            bytes.next();
        }
        if unit < end {
            return u32::try_from(line).ok().filter(|_| known);
        }
    }
    None
}

/// The same of 3.10: pairs of how many bytes a stretch of code has, and how many lines it is further; −128 where it belongs to
/// no line. `place` counts bytes.
pub(crate) fn line_by_ranges(table: &[u8], first_line: u32, place: u64) -> Option<u32> {
    let (mut line, mut end) = (i64::from(first_line), 0);
    for [bytes, lines] in table.as_chunks::<2>().0 {
        let further = i64::from(lines.cast_signed());
        let known = further != i64::from(i8::MIN);
        line += if known { further } else { 0 };
        end += u64::from(*bytes);
        if place < end {
            return u32::try_from(line).ok().filter(|_| known);
        }
    }
    None
}

/// The same of 3.9: pairs of how many bytes further a stretch begins, and how many lines.
pub(crate) fn line_by_steps(table: &[u8], first_line: u32, place: u64) -> Option<u32> {
    let (mut line, mut begin) = (i64::from(first_line), 0);
    for [bytes, lines] in table.as_chunks::<2>().0 {
        begin += u64::from(*bytes);
        if begin > place {
            break;
        }
        line += i64::from(lines.cast_signed());
    }
    u32::try_from(line).ok()
}

/// Six bits in each byte, the lowest first; the seventh says that there are more.
fn varint(bytes: &mut impl Iterator<Item = u8>) -> Option<u64> {
    let (mut value, mut shift) = (0, 0);
    loop {
        let byte = bytes.next()?;
        value |= u64::from(byte & 63).checked_shl(shift)?;
        if byte & 64 == 0 {
            return Some(value);
        }
        shift += 6;
    }
}

/// The sign is the lowest bit.
fn signed(value: u64) -> i64 {
    let magnitude = i64::try_from(value >> 1).unwrap_or(0);
    if value & 1 == 1 { -magnitude } else { magnitude }
}

/// How a string is kept, by the flags in it: bytes of each character, and whether all are ASCII; nothing where its
/// characters lie elsewhere.
pub(crate) fn string_kind(state: u32) -> Option<(usize, bool)> {
    let (width, compact, ascii) = ((state >> 2) & 7, state & 32 != 0, state & 64 != 0);
    (compact && [1, 2, 4].contains(&width)).then_some((width as usize, ascii))
}

/// The characters of a string, `width` bytes each.
pub(crate) fn string_of(bytes: &[u8], width: usize) -> String {
    let number = |chunk: &[u8]| chunk.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte));
    let character = |chunk| char::from_u32(number(chunk)).unwrap_or(char::REPLACEMENT_CHARACTER);
    bytes.chunks_exact(width).map(character).collect()
}

/// Major and minor version of the interpreter that a file holds, by its name: `python3.11`, `libpython3.12.so.1.0`.
pub(crate) fn version_of(path: &str) -> Option<u32> {
    let name = path.rsplit('/').next()?;
    let rest = name.strip_prefix("lib").unwrap_or(name).strip_prefix("python3.")?;
    let digits = rest.find(|next: char| !next.is_ascii_digit()).unwrap_or(rest.len());
    rest[..digits].parse().ok()
}
