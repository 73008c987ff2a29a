//! The fields of an answer where they are not lines of text: over HTTP/2 and HTTP/3.
//!
//! Source: RFC 9113, sections 8.1 to 8.3; RFC 9114, sections 4.1 to 4.3.

use super::{Body, Heard};

/// Most bytes of all fields of one head, each counted with [`FIELD_BYTES`] more: as for HTTP/1.1 the longest head.
pub(super) const FIELDS_BYTES: usize = 64 * 1024;
/// What a field costs beside its name and value. Source: RFC 9113, section 6.5.2; RFC 9114, section 4.2.2.
const FIELD_BYTES: usize = 32;

/// Why what came on a stream is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FieldsError {
    /// A field that must not be there, or not at that place.
    #[error("the answer has a field that is not allowed, or one where it is not")]
    Field,
    /// No status, or none of three digits, or one that only HTTP/1.1 has.
    #[error("the answer has no status, or one that only HTTP/1.1 knows")]
    Status,
    /// Too many or too long fields.
    #[error("the fields of the answer come to more than 64 KiB")]
    TooLong,
    /// More or less of a body than was said.
    #[error("the body of the answer is not as long as its content-length says")]
    Length,
    /// The stream ended before the answer was complete.
    #[error("the answer ends before its status has come")]
    Incomplete,
    /// Parts of an answer in a wrong order.
    #[error("the body of the answer comes before its status, or something after its end")]
    Order,
}

/// What the head of an answer says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Head {
    /// 0 until the head has come.
    pub(super) status: u16,
    /// Bytes of the body, if it says so.
    pub(super) length: Option<u64>,
}

impl Head {
    /// Whether another head follows.
    ///
    /// # Errors
    /// [`FieldsError::Status`] for the status that only HTTP/1.1 has.
    pub(super) fn is_interim(&self) -> Result<bool, FieldsError> {
        const SWITCHING_PROTOCOLS: u16 = 101;
        match self.status {
            SWITCHING_PROTOCOLS => Err(FieldsError::Status),
            status => Ok(status < 200),
        }
    }

    /// The status of an answer that has ended after `came` bytes of body; `bodiless` says that it answers HEAD.
    #[inline]
    pub(super) fn end(&self, came: u64, bodiless: bool) -> Result<u16, FieldsError> {
        const WITHOUT_BODY: [u16; 2] = [204, 304];
        let right = match self.length {
            _ if self.status == 0 => return Err(FieldsError::Incomplete),
            _ if bodiless || WITHOUT_BODY.contains(&self.status) => came == 0,
            Some(length) => came == length,
            None => true,
        };
        if right { Ok(self.status) } else { Err(FieldsError::Length) }
    }
}

/// Reads the fields of one head, or those after a body.
#[derive(Debug)]
pub(super) struct Fields {
    trailers: bool,
    head: Head,
    /// Whether one has come that is not the status.
    regular: bool,
    wrong: Option<FieldsError>,
    room: usize,
    /// What has come as HTTP/1.1 writes it, where somebody wants to hear it.
    text: Option<Vec<u8>>,
}

impl Fields {
    /// Of a head, which is kept as text where somebody `hears` it.
    pub(super) fn of_head(hears: bool) -> Self {
        Self {
            trailers: false,
            head: Head::default(),
            regular: false,
            wrong: None,
            room: FIELDS_BYTES,
            text: hears.then(Vec::new),
        }
    }

    /// Of what comes after a body.
    pub(super) fn of_trailers() -> Self {
        Self { trailers: true, regular: true, ..Self::of_head(false) }
    }

    /// Takes the next one.
    pub(super) fn push(&mut self, name: &[u8], value: &[u8]) {
        let Some(room) = self.room.checked_sub(name.len() + value.len() + FIELD_BYTES) else {
            self.wrong.get_or_insert(FieldsError::TooLong);
            return;
        };
        self.room = room;
        let read = match name.first() {
            Some(b':') => self.pseudo(name, value),
            _ => self.field(name, value),
        };
        self.wrong = self.wrong.or(read.err());
        if let Some(text) = self.text.as_mut().filter(|_| self.regular) {
            [name, b": ", value, b"\r\n"].iter().for_each(|part| text.extend_from_slice(part));
        }
    }

    /// The only field of its kind is the status, once, before all others.
    fn pseudo(&mut self, name: &[u8], value: &[u8]) -> Result<(), FieldsError> {
        if name != b":status" || self.regular || self.head.status != 0 {
            return Err(FieldsError::Field);
        }
        match value {
            [b'1'..=b'9', b'0'..=b'9', b'0'..=b'9'] => {
                let digits = value.iter().map(|digit| u16::from(digit - b'0'));
                self.head.status = digits.fold(0, |status, digit| status * 10 + digit);
                Ok(())
            }
            _ => Err(FieldsError::Status),
        }
    }

    fn field(&mut self, name: &[u8], value: &[u8]) -> Result<(), FieldsError> {
        // Fields that speak of one connection of HTTP/1.1. Source: RFC 9113, section 8.2.2; RFC 9114, section 4.2.
        const OF_HTTP1: [&[u8]; 5] =
            [b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"];
        self.regular = true;
        let token = |byte: &u8| {
            byte.is_ascii_graphic() && !byte.is_ascii_uppercase() && !b"()<>@,;:\\\"/[]?={}".contains(byte)
        };
        let fine = |byte: &u8| !matches!(byte, 0 | b'\r' | b'\n');
        if name.is_empty() || !name.iter().all(token) || !value.iter().all(fine) || OF_HTTP1.contains(&name) {
            return Err(FieldsError::Field);
        }
        if name == b"content-length" && !self.trailers {
            let digits =
                std::str::from_utf8(value).ok().filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
            let length = digits.and_then(|text| text.parse().ok()).ok_or(FieldsError::Field)?;
            if self.head.length.is_some_and(|before| before != length) {
                return Err(FieldsError::Length);
            }
            self.head.length = Some(length);
        }
        Ok(())
    }

    /// What they say. `heard` gets a head as HTTP/1.1 writes it, which is how answers are heard.
    pub(super) fn end(self, heard: Option<&mut Heard>) -> Result<Head, FieldsError> {
        match self.wrong {
            Some(error) => return Err(error),
            None if self.head.status == 0 && !self.trailers => return Err(FieldsError::Status),
            None => {}
        }
        if let (Some(heard), Some(text)) = (heard, self.text) {
            let line = format!("HTTP/1.1 {} \r\n", self.head.status).into_bytes();
            heard.begin(self.head.status, &[&line[..], &text, b"\r\n"].concat());
        }
        Ok(self.head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(mut fields: Fields, of: &[(&str, &str)]) -> Result<Head, FieldsError> {
        of.iter().for_each(|(name, value)| fields.push(name.as_bytes(), value.as_bytes()));
        fields.end(None)
    }

    #[test]
    fn fields_are_bounded_by_what_they_come_to() {
        let long = "x".repeat(1000);
        let fields = |count| [&[(":status", "200")][..], &vec![("a", &*long); count]].concat();
        assert_eq!(read(Fields::of_head(false), &fields(63)).map(|head| head.status), Ok(200));
        assert_eq!(read(Fields::of_head(false), &fields(64)), Err(FieldsError::TooLong));
    }

    #[test]
    fn trailers_have_no_status_and_promise_no_length() {
        assert_eq!(read(Fields::of_trailers(), &[("content-length", "9")]), Ok(Head::default()));
        assert_eq!(read(Fields::of_trailers(), &[(":status", "200")]), Err(FieldsError::Field));
    }

    #[test]
    fn a_body_is_as_long_as_was_said_where_there_is_one() {
        let head = |status, length| Head { status, length };
        for (head, came, bodiless, wanted) in [
            (head(200, Some(5)), 5, false, Ok(200)),
            (head(200, Some(5)), 4, false, Err(FieldsError::Length)),
            (head(200, None), 7, false, Ok(200)),
            (head(200, Some(5)), 0, true, Ok(200)),
            (head(200, Some(5)), 5, true, Err(FieldsError::Length)),
            (head(304, Some(5)), 0, false, Ok(304)),
            (head(0, None), 0, false, Err(FieldsError::Incomplete)),
        ] {
            assert_eq!(head.end(came, bodiless), wanted, "{head:?}, {came} bytes");
        }
    }
}
