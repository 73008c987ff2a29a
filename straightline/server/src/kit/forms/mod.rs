//! Forms: `application/x-www-form-urlencoded` by the crate `form_urlencoded`, and `multipart/form-data`, part by part.

mod multipart;

pub use multipart::{Multipart, PARTS_MAX, Part};

use super::media;
use crate::{Request, StatusError};
use std::io::{self, Read};

/// Most fields of a form: more than any has, and too few to make a search among them slow.
pub const FIELDS_MAX: usize = 1000;

/// The fields of a form, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Form {
    fields: Vec<(String, String)>,
}

impl Form {
    /// Reads the body of a request, of at most `most` bytes and [`FIELDS_MAX`] fields.
    ///
    /// # Errors
    ///
    /// Some that are answered with 415 (another type), 413 (too large) and 400 (too many fields); those of the connection.
    pub fn read(request: &mut Request<'_>, most: u64) -> io::Result<Self> {
        media::expect(request, "application/x-www-form-urlencoded")?;
        request.limit_body(most)?;
        let mut body = Vec::new();
        request.read_to_end(&mut body)?;
        Ok(Self::parse(&body)?)
    }

    /// Reads the query of a request.
    ///
    /// # Errors
    ///
    /// One that is answered with 400 if there are more than [`FIELDS_MAX`] fields.
    pub fn of_query(request: &Request<'_>) -> Result<Self, StatusError> {
        Self::parse(request.query().unwrap_or_default().as_bytes())
    }

    fn parse(bytes: &[u8]) -> Result<Self, StatusError> {
        let fields = form_urlencoded::parse(bytes).take(FIELDS_MAX + 1);
        let fields: Vec<_> = fields.map(|(name, value)| (name.into_owned(), value.into_owned())).collect();
        if fields.len() > FIELDS_MAX {
            return Err(StatusError::new(400, "the form has too many fields"));
        }
        Ok(Self { fields })
    }

    /// The value of the first field of this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(other, _)| *other == name).map(|(_, value)| value)
    }

    /// The value of a field that must be there.
    ///
    /// # Errors
    ///
    /// One that is answered with 400 if it is not.
    pub fn require(&self, name: &str) -> Result<&str, StatusError> {
        self.get(name).ok_or_else(|| StatusError::new(400, format!("the form has no field {name}")))
    }

    /// All fields, name and value.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.fields.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}
