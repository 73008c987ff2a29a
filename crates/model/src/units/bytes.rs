use std::fmt;
use std::str::FromStr;

use crate::units::{ParseError, serde_as_text};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// A number of bytes. Text: `4096`, `64KiB`, `20MiB`, `1GiB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

impl FromStr for Bytes {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let scaled = [("KiB", KIB), ("MiB", MIB), ("GiB", GIB)];
        let (digits, scale) = scaled
            .iter()
            .find_map(|(suffix, scale)| text.strip_suffix(suffix).map(|digits| (digits, *scale)))
            .unwrap_or((text, 1));
        digits.parse::<u64>().ok().and_then(|value| value.checked_mul(scale)).map(Self).ok_or_else(|| {
            ParseError::new("a size", text, "whole bytes, or with KiB, MiB or GiB, such as 64KiB")
        })
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (suffix, scale) in [("GiB", GIB), ("MiB", MIB), ("KiB", KIB)] {
            if self.0 >= scale && self.0.is_multiple_of(scale) {
                return write!(f, "{}{suffix}", self.0 / scale);
            }
        }
        write!(f, "{}", self.0)
    }
}

serde_as_text!(Bytes);
