//! Field lines that are known when a program is compiled.

use crate::scan::{TEXT, TOKEN};

/// A field line that was checked once, so that to write it is to copy it.
///
/// In a constant the check is done when the program is compiled:
///
/// ```
/// use http1::write::FieldLine;
///
/// const SERVER: FieldLine = FieldLine::new("Server: example");
/// let mut out = Vec::new();
/// SERVER.write(&mut out);
/// assert_eq!(out, b"Server: example\r\n");
/// ```
///
/// ```compile_fail
/// # use http1::write::FieldLine;
/// const SPLIT: FieldLine = FieldLine::new("Server: example\r\nSet-Cookie: ours");
/// # SPLIT.write(&mut Vec::new());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldLine(&'static str);

impl FieldLine {
    /// A line of a name, `": "` and a value, without a line end.
    ///
    /// # Panics
    ///
    /// If the name is not a token, it is one by which messages are framed (`Connection`, `Content-Length`, `Host`,
    /// `Transfer-Encoding`) or dated (`Date`), `": "` does not follow it, or the value has a control character or begins
    /// or ends with blank space.
    pub const fn new(line: &'static str) -> Self {
        let bytes = line.as_bytes();
        let colon = class_end(bytes, 0, &TOKEN);
        assert!(colon > 0, "a field line begins with a name");
        assert!(
            starts_with(bytes, colon, b": "),
            "the name of a field line is followed by a colon and a space"
        );
        assert!(!is_framing(bytes, colon), "framing and date are written from arguments of their own");
        let value = colon + 2;
        assert!(class_end(bytes, value, &TEXT) == bytes.len(), "a field value has a control character");
        let bare = value == bytes.len() || !(is_blank(bytes[value]) || is_blank(bytes[bytes.len() - 1]));
        assert!(bare, "a field value has blank space around it");
        Self(line)
    }

    /// Appends the line, and its end.
    #[inline]
    pub fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.0.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
}

/// As the scans of the same classes, for constants.
const fn class_end(bytes: &[u8], from: usize, class: &[bool; 256]) -> usize {
    let mut at = from;
    while at < bytes.len() && class[bytes[at] as usize] {
        at += 1;
    }
    at
}

const fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

/// Whether the name up to `colon` frames messages or dates them.
const fn is_framing(bytes: &[u8], colon: usize) -> bool {
    let (name, _) = bytes.split_at(colon);
    name.eq_ignore_ascii_case(b"connection")
        || name.eq_ignore_ascii_case(b"content-length")
        || name.eq_ignore_ascii_case(b"host")
        || name.eq_ignore_ascii_case(b"transfer-encoding")
        || name.eq_ignore_ascii_case(b"date")
}

const fn starts_with(bytes: &[u8], from: usize, with: &[u8]) -> bool {
    let mut index = 0;
    while index < with.len() {
        if from + index >= bytes.len() || bytes[from + index] != with[index] {
            return false;
        }
        index += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::FieldLine;
    use crate::write::header;

    #[test]
    fn a_line_is_written_as_its_name_and_value_are() {
        for (line, name, value) in
            [("Server: example", "Server", "example"), ("x: a b", "x", "a b"), ("e: ", "e", "")]
        {
            let (mut whole, mut parts) = (Vec::new(), Vec::new());
            FieldLine::new(line).write(&mut whole);
            header(&mut parts, name, value.as_bytes()).unwrap();
            assert_eq!(whole, parts);
        }
    }

    #[test]
    fn what_header_refuses_is_no_line() {
        let wrong = [
            "",
            ": value",
            "name",
            "name:",
            "name:value",
            "name : value",
            "na me: value",
            "name: one\r\ntwo: 2",
            "name: one\ntwo",
            "name: \0",
            "name: one\r",
            "name:  value",
            "name: value ",
            "name: \tvalue",
            "Connection: close",
            "content-length: 1",
            "HOST: a",
            "Transfer-Encoding: chunked",
            "date: today",
        ];
        for line in wrong {
            assert!(std::panic::catch_unwind(|| FieldLine::new(line)).is_err(), "{line:?}");
        }
    }
}
