use model::job::fill::{Piece, pieces};
use model::job::{self, Data};

use crate::{LoadError, Target};

/// Bytes of one chunk of a chunked body: what one record of TLS holds.
const CHUNK_BYTES: usize = 16 * 1024;

/// A request as a user describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Method, in capitals.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Fields in order. `Host` and `Content-Length` are added unless they are here.
    pub headers: Vec<(String, String)>,
    /// Body. With a field `Transfer-Encoding: chunked` it is sent in chunks.
    pub body: Vec<u8>,
}

impl Request {
    /// A GET of the target's path.
    #[must_use]
    pub fn get(target: &Target) -> Self {
        Self {
            method: "GET".to_owned(),
            path: target.path.clone(),
            headers: vec![("Host".to_owned(), target.authority.clone())],
            body: Vec::new(),
        }
    }

    /// Whether the connection is to be closed after its answer.
    ///
    /// Source: RFC 9112, section 9.6.
    #[must_use]
    pub fn closes(&self) -> bool {
        self.field("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }

    /// What `request` is to `target`, which says the path and the host where the request does not.
    #[must_use]
    pub fn for_target(request: &job::Request, target: &Target) -> Self {
        let mut headers = request.fields.clone();
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            headers.insert(0, ("Host".to_owned(), target.authority.clone()));
        }
        Self {
            method: request.method.clone(),
            path: request.target.clone().unwrap_or_else(|| target.path.clone()),
            headers,
            body: request.body.clone(),
        }
    }

    /// The bytes on the wire.
    ///
    /// # Errors
    /// [`LoadError::Request`] where method, path or a field would break the message.
    pub fn render(&self) -> Result<Vec<u8>, LoadError> {
        self.check()?;
        let mut text = format!("{} {} HTTP/1.1\r\n", self.method, self.path);
        for (name, value) in &self.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        if self.wants_length() {
            text.push_str(&format!("Content-Length: {}\r\n", self.body.len()));
        }
        text.push_str("\r\n");
        let mut bytes = text.into_bytes();
        match self.is_chunked() {
            true => bytes.extend(chunked(&self.body)),
            false => bytes.extend_from_slice(&self.body),
        }
        Ok(bytes)
    }

    fn field(&self, wanted: &str) -> Option<&str> {
        let field = self.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
        field.map(|(_, value)| value.as_str())
    }

    /// Whether no part of it is filled, and no doubled brace stands for one.
    #[must_use]
    pub fn is_literal(&self, data: Option<&Data>) -> bool {
        let literal = |text: &[u8]| match pieces(text, data).as_deref() {
            Ok([]) => true,
            Ok([Piece::Text(whole)]) => whole == text,
            _ => false,
        };
        literal(self.path.as_bytes())
            && self.headers.iter().all(|(_, value)| literal(value.as_bytes()))
            && literal(&self.body)
    }

    /// Whether a field with the length of the body is added.
    pub(crate) fn wants_length(&self) -> bool {
        let encoded = self.field("content-length").is_some() || self.is_chunked();
        let expected = matches!(self.method.as_str(), "POST" | "PUT" | "PATCH");
        !encoded && (expected || !self.body.is_empty())
    }

    pub(crate) fn is_chunked(&self) -> bool {
        self.field("transfer-encoding").is_some()
    }

    /// Whether the body waits until the server asks for it.
    ///
    /// Source: RFC 9110, section 10.1.1.
    #[must_use]
    pub fn expects_continue(&self) -> bool {
        !self.body.is_empty()
            && self.field("expect").is_some_and(|value| value.eq_ignore_ascii_case("100-continue"))
    }

    fn check(&self) -> Result<(), LoadError> {
        let token = |text: &str| {
            !text.is_empty()
                && text.bytes().all(|b| b.is_ascii_graphic() && !b"()<>@,;:\\\"/[]?={}".contains(&b))
        };
        let line = |text: &str| !text.bytes().any(|b| matches!(b, b'\r' | b'\n' | 0));
        if !token(&self.method) {
            return Err(LoadError::Request("its method is not a word such as GET"));
        }
        self.check_framing()?;
        let length = self.field("content-length");
        if length.is_some_and(|length| length.trim().parse() != Ok(self.body.len())) {
            return Err(LoadError::Request(
                "its Content-Length is not the length of its body: leave the field out, it is added",
            ));
        }
        if self.path.is_empty() || !self.path.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(LoadError::Request(
                "its path is empty or has a character that must be percent-encoded",
            ));
        }
        match self.headers.iter().find(|(name, value)| !token(name) || !line(value)) {
            Some((name, _)) => {
                // What follows its first word may be a secret whose name was forgotten.
                let other = |c: char| !c.is_ascii_alphanumeric() && c != '-';
                Err(LoadError::Field { name: name.split(other).next().unwrap_or_default().to_owned() })
            }
            None => Ok(()),
        }
    }

    /// Whether its fields say one thing of where its body ends.
    pub(crate) fn check_framing(&self) -> Result<(), LoadError> {
        if self.field("transfer-encoding").is_some_and(|coding| !coding.eq_ignore_ascii_case("chunked")) {
            return Err(LoadError::Request("the only transfer encoding that can be sent is 'chunked'"));
        }
        if self.is_chunked() && self.field("content-length").is_some() {
            return Err(LoadError::Request("it has both a length and a transfer encoding: leave one out"));
        }
        Ok(())
    }
}

/// A body in chunks. Source: RFC 9112, section 7.1.
pub(crate) fn chunked(body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(body.len() + 32);
    for chunk in body.chunks(CHUNK_BYTES) {
        bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        bytes.extend_from_slice(chunk);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"0\r\n\r\n");
    bytes
}
