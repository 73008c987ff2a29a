//! Field lines that are known when a program is compiled.

use super::is_reserved;
use crate::scan::{TEXT, TOKEN, class_end};

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
/// ```compile_fail,E0080
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
        let (name, rest) = line.split_at(class_end(line.as_bytes(), 0, &TOKEN));
        assert!(!name.is_empty(), "a field line begins with a name");
        let [b':', b' ', value @ ..] = rest.as_bytes() else {
            panic!("the name of a field line is followed by a colon and a space")
        };
        let own = name.eq_ignore_ascii_case("connection") || name.eq_ignore_ascii_case("date");
        assert!(!own && !is_reserved(name), "framing and date are written from arguments of their own");
        assert!(class_end(value, 0, &TEXT) == value.len(), "a field value has a control character");
        let spaced = matches!(value, [b' ' | b'\t', ..] | [.., b' ' | b'\t']);
        assert!(!spaced, "a field value has blank space around it");
        Self(line)
    }

    /// Appends the line, and its end.
    #[inline]
    pub fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.0.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
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
