use bytes::Bytes;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderName, HeaderValue, Method, Request, Uri};

/// Fields that speak of one connection of HTTP/1.1 and must not be sent. Source: RFC 9113, section 8.2.2.
const OF_HTTP1: [&str; 7] =
    ["connection", "host", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade", "expect"];

/// A request of HTTP/1.1, as it would go over the wire, as one of HTTP/2 with its body; `None` if it is no request.
///
/// So lists and scripts, which speak HTTP/1.1, need not know what is spoken.
pub(super) fn parse(bytes: &[u8], secure: bool) -> Option<(Request<()>, Bytes)> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let mut lines = std::str::from_utf8(&bytes[..end]).ok()?.split("\r\n");
    let mut words = lines.next()?.split(' ');
    let (method, path) = (words.next()?, words.next()?);
    let (mut authority, mut fields) = (None, Vec::new());
    for line in lines {
        let (name, value) = line.split_once(':')?;
        let (name, value) = (name.to_ascii_lowercase(), value.trim());
        if name == "host" {
            authority = Some(Authority::try_from(value).ok()?);
        } else if !OF_HTTP1.contains(&name.as_str()) {
            fields.push((HeaderName::try_from(name).ok()?, HeaderValue::from_str(value).ok()?));
        }
    }
    let uri = Uri::builder()
        .scheme(if secure { Scheme::HTTPS } else { Scheme::HTTP })
        .authority(authority?)
        .path_and_query(PathAndQuery::try_from(path).ok()?)
        .build()
        .ok()?;
    let mut request = Request::new(());
    *request.method_mut() = Method::from_bytes(method.as_bytes()).ok()?;
    *request.uri_mut() = uri;
    *request.version_mut() = http::Version::HTTP_2;
    for (name, value) in fields {
        request.headers_mut().append(name, value);
    }
    Some((request, Bytes::copy_from_slice(&bytes[end + 4..])))
}
