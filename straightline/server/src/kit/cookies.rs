//! Cookies, by the crate `cookie`.

use crate::{Request, Response};
use std::io;

pub use cookie::{Cookie, SameSite, time};

/// The cookies of a request, in order. What is no cookie among them is passed over.
pub fn all<'a>(request: &Request<'a>) -> impl Iterator<Item = Cookie<'a>> + use<'a> {
    let fields = request.headers().filter(|(name, _)| name.eq_ignore_ascii_case("cookie"));
    let texts = fields.filter_map(|(_, value)| std::str::from_utf8(value).ok());
    texts.flat_map(|text| text.split(';')).filter_map(|text| Cookie::parse(text.trim()).ok())
}

/// The value of the first cookie of this name, which a client may have chosen as it likes.
pub fn get<'a>(request: &Request<'a>, name: &str) -> Option<String> {
    all(request).find(|cookie| cookie.name() == name).map(|cookie| cookie.value().to_owned())
}

/// A cookie for a secret, such as the key of a session: for the whole site, never shown to scripts (`HttpOnly`), never sent
/// without TLS (`Secure`), and with requests that other sites make only for what a user follows (`SameSite=Lax`).
pub fn secret(name: impl Into<String>, value: impl Into<String>) -> Cookie<'static> {
    Cookie::build((name.into(), value.into()))
        .path("/")
        .http_only(true)
        .secure(true)
        .same_site(SameSite::Lax)
        .build()
}

/// Sets a cookie.
///
/// # Errors
///
/// `InvalidInput` if its name is no token, or its value or an attribute has a character that would end it: a `;` of a
/// stranger's choice would be an attribute of his choice.
///
/// Source: RFC 6265, section 4.1.1.
pub fn set<'a>(response: Response<'a>, cookie: &Cookie<'_>) -> io::Result<Response<'a>> {
    let refuse = |what| {
        Err(io::Error::new(io::ErrorKind::InvalidInput, format!("the {what} of a cookie cannot be so")))
    };
    if cookie.name().is_empty() || !cookie.name().bytes().all(is_token) {
        return refuse("name");
    }
    if !cookie.value().bytes().all(is_octet) {
        return refuse("value");
    }
    let attributes = [cookie.path(), cookie.domain()];
    if attributes
        .into_iter()
        .flatten()
        .any(|text| text.bytes().any(|byte| byte == b';' || !(b' '..=b'~').contains(&byte)))
    {
        return refuse("path or domain");
    }
    response.header("set-cookie", cookie.to_string())
}

/// Has the client forget the cookie of this name for the whole site.
///
/// # Errors
///
/// As [`set`].
pub fn remove<'a>(response: Response<'a>, name: &str) -> io::Result<Response<'a>> {
    let mut cookie = secret(name, "");
    cookie.set_max_age(time::Duration::ZERO);
    set(response, &cookie)
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn is_octet(byte: u8) -> bool {
    matches!(byte, 0x21 | 0x23..=0x2b | 0x2d..=0x3a | 0x3c..=0x5b | 0x5d..=0x7e)
}
