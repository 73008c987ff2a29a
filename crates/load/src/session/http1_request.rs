//! Requests as HTTP/1.1 writes them, for protocols that write them otherwise: so lists and scripts, which speak HTTP/1.1, need
//! not know what is spoken.

/// Fields that speak of one connection of HTTP/1.1 and must not be sent, and the host, which is said otherwise.
/// Source: RFC 9113, section 8.2.2; RFC 9114, section 4.2.
const OF_HTTP1: [&str; 7] =
    ["connection", "host", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade", "expect"];

/// Whether it may be the name of a field or a method. Source: RFC 9110, section 5.6.2.
fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_graphic() && !b"()<>@,;:\\\"/[]?={}".contains(&byte))
}

/// What a request says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Translated<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) authority: &'a str,
    /// Names in small letters.
    pub(crate) fields: Vec<(String, &'a str)>,
    pub(crate) body: &'a [u8],
}

impl<'a> Translated<'a> {
    /// Reads a whole request; `None` if it is none.
    pub(crate) fn read(bytes: &'a [u8]) -> Option<Self> {
        const BLANK_LINE: &[u8] = b"\r\n\r\n";
        let end = memchr::memmem::find(bytes, BLANK_LINE)?;
        let mut lines = std::str::from_utf8(&bytes[..end]).ok()?.split("\r\n");
        let mut words = lines.next()?.split(' ');
        let (method, path) = (words.next()?, words.next()?);
        if !is_token(method) || !path.bytes().all(|byte| byte > b' ' && byte != 0x7f) {
            return None;
        }
        let (mut authority, mut fields) = (None, Vec::new());
        for line in lines {
            let (name, value) = line.split_once(':')?;
            if !is_token(name) || value.contains(['\0', '\r', '\n']) {
                return None;
            }
            let (name, value) = (name.to_ascii_lowercase(), value.trim());
            if name == "host" {
                authority = Some(value);
            } else if !OF_HTTP1.contains(&name.as_str()) {
                fields.push((name, value));
            }
        }
        let body = &bytes[end + BLANK_LINE.len()..];
        Some(Self { method, path, authority: authority?, fields, body })
    }
}
