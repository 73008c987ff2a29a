use bytes::Bytes;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderName, HeaderValue, Method, Request, Uri};

use crate::session::Translated;

/// A request of HTTP/1.1, as it would go over the wire, as one of HTTP/2 with its body; `None` if it is no request.
pub(super) fn parse(bytes: &[u8], secure: bool) -> Option<(Request<()>, Bytes)> {
    let translated = Translated::read(bytes)?;
    let uri = Uri::builder()
        .scheme(if secure { Scheme::HTTPS } else { Scheme::HTTP })
        .authority(Authority::try_from(translated.authority).ok()?)
        .path_and_query(PathAndQuery::try_from(translated.path).ok()?)
        .build()
        .ok()?;
    let mut request = Request::new(());
    *request.method_mut() = Method::from_bytes(translated.method.as_bytes()).ok()?;
    *request.uri_mut() = uri;
    *request.version_mut() = http::Version::HTTP_2;
    for (name, value) in translated.fields {
        request.headers_mut().append(HeaderName::try_from(name).ok()?, HeaderValue::from_str(value).ok()?);
    }
    Some((request, Bytes::copy_from_slice(translated.body)))
}
