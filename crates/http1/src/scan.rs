//! Character classes and the scans over them: the only loops that touch every byte of a head.
//!
//! A scan looks at a block of bytes at once. The table of each class is its definition. The block form may stop
//! early at a member of the class, where the table decides; it never runs past a byte outside it.

/// Bytes looked at once: a vector register of every x86-64 and AArch64.
const BLOCK: usize = 16;

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
    class_end(buf, from, &TOKEN, unusual_in_token)
}

/// Where the run of [`TEXT`] bytes that starts at `from` ends; the length of `buf` if nothing ends it.
#[inline(always)]
pub(crate) fn text_end(buf: &[u8], from: usize) -> usize {
    class_end(buf, from, &TEXT, outside_text)
}

/// The end of a run: by blocks as long as a whole block is left, then by bytes.
///
/// `suspect` says of a byte that it may be outside the class: a comparison or two, which the compiler turns into
/// vector instructions over a block.
#[inline(always)]
fn class_end(buf: &[u8], from: usize, class: &Class, suspect: impl Fn(u8) -> bool) -> usize {
    let mut at = from;
    while let Some(block) = buf.get(at..).and_then(|rest| rest.first_chunk::<BLOCK>()) {
        let lanes = block.map(|byte| if suspect(byte) { 0xff } else { 0 });
        let suspects = u128::from_le_bytes(lanes);
        if suspects == 0 {
            at += BLOCK;
            continue;
        }
        at += suspects.trailing_zeros() as usize / 8;
        if !class[usize::from(buf[at])] {
            return at;
        }
        at += 1;
    }
    while at < buf.len() && class[usize::from(buf[at])] {
        at += 1;
    }
    at
}

/// Not a letter, a digit or `-`: almost no name has any other character.
#[inline(always)]
fn unusual_in_token(byte: u8) -> bool {
    let letter = (byte | 0x20).wrapping_sub(b'a') < 26;
    let digit = byte.wrapping_sub(b'0') < 10;
    !(letter | digit | (byte == b'-'))
}

/// A control character other than the tab.
#[inline(always)]
fn outside_text(byte: u8) -> bool {
    ((byte < b' ') & (byte != b'\t')) | (byte == 0x7f)
}
