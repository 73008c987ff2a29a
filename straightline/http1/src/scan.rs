//! Character classes and the scans over them: the only loops that touch every byte of a head.
//!
//! A scan looks at a word of eight bytes at once. The table of each class is its definition. The word form may stop
//! early at a member of the class, where the table decides; it never runs past a byte outside it.

/// One character class, as a table over all bytes.
pub(crate) type Class = [bool; 256];

/// `tchar`, the characters of methods, field names and connection options.
///
/// ```text
/// tchar = "!" / "#" / "$" / "%" / "&" / "'" / "*" / "+" / "-" / "." /
///         "^" / "_" / "`" / "|" / "~" / DIGIT / ALPHA
/// ```
///
/// Source: RFC 9110, section 5.6.2.
pub(crate) static TOKEN: Class = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    members(table, b"!#$%&'*+-.^_`|~")
};

/// What may stand in a field value, a reason phrase or a chunk extension.
///
/// ```text
/// text = HTAB / SP / VCHAR / obs-text
/// ```
///
/// Source: RFC 9110, section 5.5; RFC 9112, section 4.
pub(crate) static TEXT: Class = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = byte == b'\t' as usize || (byte >= b' ' as usize && byte != 0x7f);
        byte += 1;
    }
    table
};

/// What may stand in a request target: printable ASCII without `#`, which begins a fragment.
///
/// Browsers leave characters in a query that the grammar wants encoded (`|`, `[`, `{`): they frame nothing, so they
/// pass.
///
/// Source: RFC 9112, section 3.2, widened as the WHATWG URL Standard is.
pub(crate) static TARGET: Class = {
    let mut table = [false; 256];
    let mut byte = 0x21;
    while byte < 0x7f {
        table[byte] = byte != b'#' as usize;
        byte += 1;
    }
    table
};

/// Characters of a registered name, which IPv4 addresses have too, without `%`.
///
/// ```text
/// reg-name   = *( unreserved / pct-encoded / sub-delims )
/// unreserved = ALPHA / DIGIT / "-" / "." / "_" / "~"
/// sub-delims = "!" / "$" / "&" / "'" / "(" / ")" / "*" / "+" / "," / ";" / "="
/// ```
///
/// Source: RFC 3986, sections 2.2, 2.3 and 3.2.
pub(crate) static NAME: Class =
    members([false; 256], b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-._~!$&'()*+,;=");

/// `table` with the bytes of `more` as members too.
pub(crate) const fn members(mut table: Class, more: &[u8]) -> Class {
    let mut index = 0;
    while index < more.len() {
        table[more[index] as usize] = true;
        index += 1;
    }
    table
}

/// Where the run of [`TOKEN`] bytes that starts at `from` ends; the length of `buf` if nothing ends it.
#[inline(always)]
pub(crate) fn token_end(buf: &[u8], from: usize) -> usize {
    usual_end(buf, from, &TOKEN, unusual_in_token)
}

/// Where the run of [`NAME`] bytes that starts at `from` ends; the length of `buf` if nothing ends it.
#[inline(always)]
pub(crate) fn name_end(buf: &[u8], from: usize) -> usize {
    usual_end(buf, from, &NAME, unusual_in_name)
}

/// The end of a run of `class`, most of whose bytes are not among those that `unusual` marks.
#[inline(always)]
fn usual_end(buf: &[u8], from: usize, class: &Class, unusual: impl Fn(u64) -> u64) -> usize {
    let mut at = from;
    while let Some(word) = buf.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let word = u64::from_le_bytes(*word);
        let unusual = unusual(word);
        if unusual == 0 {
            at += 8;
            continue;
        }
        at += first(unusual);
        if !class[usize::from(byte_of_first(word, unusual))] {
            return at;
        }
        at += 1;
    }
    class_end(buf, at, class)
}

/// Where the run of [`TEXT`] bytes that starts at `from` ends; the length of `buf` if nothing ends it.
#[inline(always)]
pub(crate) fn text_end(buf: &[u8], from: usize) -> usize {
    let mut at = from;
    while let Some(block) = buf.get(at..).and_then(|rest| rest.first_chunk::<16>()) {
        if !block.iter().fold(false, |any, &byte| any | is_control(byte)) {
            at += 16;
            continue;
        }
        let (words, _) = block.as_chunks::<8>();
        let (low, high) = (u64::from_le_bytes(words[0]), u64::from_le_bytes(words[1]));
        let mut controls = controls(low);
        let mut word = low;
        if controls == 0 {
            controls = self::controls(high);
            word = high;
            at += 8;
        }
        at += first(controls);
        if byte_of_first(word, controls) != b'\t' {
            return at;
        }
        at += 1;
    }
    class_end(buf, at, &TEXT)
}

/// Where the run of [`TARGET`] bytes that starts at `from` ends; the length of `buf` if nothing ends it.
#[inline(always)]
pub(crate) fn target_end(buf: &[u8], from: usize) -> usize {
    let mut at = from;
    while let Some(word) = buf.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let outside = outside_target(u64::from_le_bytes(*word));
        if outside != 0 {
            return at + first(outside);
        }
        at += 8;
    }
    class_end(buf, at, &TARGET)
}

/// The end of a run, byte by byte.
#[inline(always)]
pub(crate) const fn class_end(buf: &[u8], from: usize, class: &Class) -> usize {
    let mut at = from;
    while at < buf.len() && class[buf[at] as usize] {
        at += 1;
    }
    at
}

#[inline(always)]
fn is_control(byte: u8) -> bool {
    (byte < b' ') | (byte == 0x7f)
}

/// Which byte of a word is the first to have its top bit set in `marks`.
#[inline(always)]
fn first(marks: u64) -> usize {
    marks.trailing_zeros() as usize / 8
}

/// The byte of `word` that [`first`] speaks of.
#[inline(always)]
fn byte_of_first(word: u64, marks: u64) -> u8 {
    (word >> (marks.trailing_zeros() & !7)) as u8
}

/// `byte` in all eight places.
const fn all(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; 8])
}

/// The top bit of each byte.
const TOP: u64 = all(0x80);

/// Marks the first byte that is not a letter or `-`, which few names have; marks above it mean nothing.
#[inline(always)]
fn unusual_in_token(word: u64) -> u64 {
    let lower = word | all(0x20);
    let not_letter = all(0x60 + 0x80).wrapping_sub(lower) | lower.wrapping_add(all(0x7f - b'z'));
    let not_dash = (word ^ all(b'-')).wrapping_add(all(0x7f));
    ((not_letter & not_dash) | word) & TOP
}

/// Marks the first byte that is not a letter, a digit, `-` or `.`, which few hosts have; marks above it mean nothing.
#[inline(always)]
fn unusual_in_name(word: u64) -> u64 {
    let lower = word | all(0x20);
    let not_letter = all(0x60 + 0x80).wrapping_sub(lower) | lower.wrapping_add(all(0x7f - b'z'));
    // From `-` to `9` there is `/` alone that is no part of a host.
    let slash = !(word ^ all(b'/')).wrapping_add(all(0x7f));
    let not_digit = all(b'-' - 1 + 0x80).wrapping_sub(word) | word.wrapping_add(all(0x7f - b'9')) | slash;
    ((not_letter & not_digit) | word) & TOP
}

/// Marks the first control character, the tab among them; marks above it mean nothing.
#[inline(always)]
fn controls(word: u64) -> u64 {
    let delete = (word ^ all(0x7f)).wrapping_sub(all(1));
    (word.wrapping_sub(all(b' ')) | delete) & !word & TOP
}

/// Marks the first byte that is not in [`TARGET`]; marks above it mean nothing.
#[inline(always)]
fn outside_target(word: u64) -> u64 {
    let number_sign = (word ^ all(b'#')).wrapping_sub(all(1));
    (word.wrapping_sub(all(b'!')) | word.wrapping_add(all(1)) | number_sign | word) & TOP
}

#[cfg(test)]
mod tests;
