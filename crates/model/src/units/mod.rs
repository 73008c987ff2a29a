//! Newtypes for the quantities that whyslow speaks of: parse, print, serialise.
//!
//! A value that leaves this crate is valid: parsing is the only way in from text, and every refusal is one
//! sentence that says what was wrong and what would be right.

mod bytes;
mod cpu_set;
mod date;
mod duration;
mod quantile;
mod rate;
mod share;

pub use bytes::Bytes;
pub use cpu_set::CpuSet;
pub use date::{civil, format_utc};
pub use duration::{Span, format_ns};
pub use quantile::Quantile;
pub use rate::Rate;
pub use share::percent;

/// Why a text is not the quantity it should be; its display is one full sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError(String);

impl ParseError {
    fn new(what: &str, text: &str, want: &str) -> Self {
        Self(format!("'{text}' is not {what}: write {want}"))
    }
}

impl std::fmt::Display for ParseError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ParseError {}

/// Serialises a type as the text it parses from, so that files and flags share one notation.
macro_rules! serde_as_text {
    ($type:ty) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}
pub(crate) use serde_as_text;
