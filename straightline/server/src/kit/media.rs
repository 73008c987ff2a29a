//! What a body says it is.

use crate::{Request, StatusError};

/// The value of `Content-Type` if its type is `wanted`; what follows the type is not looked at.
///
/// # Errors
///
/// One that is answered with 415 if it is another type, or none is said.
pub(crate) fn expect<'a>(request: &Request<'a>, wanted: &'static str) -> Result<&'a str, StatusError> {
    let said = request.header("content-type").unwrap_or_default();
    let kind = said.split(';').next().unwrap_or_default().trim();
    if kind.eq_ignore_ascii_case(wanted) {
        return Ok(said);
    }
    Err(StatusError::new(415, format!("the body must be {wanted}")))
}
