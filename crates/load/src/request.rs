use crate::{LoadError, Target};

/// A request as a user describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Method, in capitals.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Fields in order. `Host` and `Content-Length` are added unless they are here.
    pub headers: Vec<(String, String)>,
    /// Body.
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
        let said = |wanted: &str| self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(wanted));
        let encoded = said("content-length") || said("transfer-encoding");
        let expected = matches!(self.method.as_str(), "POST" | "PUT" | "PATCH");
        if !encoded && (expected || !self.body.is_empty()) {
            text.push_str(&format!("Content-Length: {}\r\n", self.body.len()));
        }
        text.push_str("\r\n");
        let mut bytes = text.into_bytes();
        bytes.extend_from_slice(&self.body);
        Ok(bytes)
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
        if self.path.is_empty() || !self.path.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(LoadError::Request(
                "its path is empty or has a character that must be percent-encoded",
            ));
        }
        if !self.headers.iter().all(|(name, value)| token(name) && line(value)) {
            return Err(LoadError::Request("a header is not 'Name: value' on one line"));
        }
        Ok(())
    }
}
