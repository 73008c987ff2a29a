//! `%41` for `A`.

use crate::StatusError;
use std::borrow::Cow;

/// `text` with `%` and two hexadecimal digits replaced by the byte they mean.
///
/// Source: RFC 3986, section 2.1.
///
/// # Errors
///
/// One that is answered with 400: a `%` without two digits, bytes that are no UTF-8, or NUL.
pub(crate) fn decode(text: &str) -> Result<Cow<'_, str>, StatusError> {
    if !text.contains('%') {
        return Ok(Cow::Borrowed(text));
    }
    let malformed = || StatusError::new(400, "the path is not encoded well");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        let (high, low) = (digit().ok_or_else(malformed)?, digit().ok_or_else(malformed)?);
        bytes.push((high * 16 + low) as u8);
    }
    match String::from_utf8(bytes) {
        Ok(decoded) if !decoded.contains('\0') => Ok(Cow::Owned(decoded)),
        _ => Err(malformed()),
    }
}

#[cfg(test)]
mod tests {
    use super::decode;

    #[test]
    fn only_what_is_encoded_well_is_decoded() {
        for (text, wanted) in [
            ("plain/+~", Some("plain/+~")),
            ("%41%62%2f", Some("Ab/")),
            ("%C3%a9", Some("é")),
            ("%", None),
            ("%4", None),
            ("%4g", None),
            ("%+1", None),
            ("%ff", None),
            ("a%00b", None),
        ] {
            assert_eq!(decode(text).ok().as_deref(), wanted, "{text}");
        }
    }
}
