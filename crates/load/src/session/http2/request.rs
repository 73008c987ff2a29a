use std::sync::Arc;

use http2::hpack::Encoder;

use crate::session::Translated;

/// A request as its stream carries it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Names and values, first those that say what is asked.
    fields: Vec<(String, String)>,
    pub(super) body: Arc<[u8]>,
    /// Whether it is HEAD, whose answer has no body.
    pub(super) head: bool,
}

impl Request {
    /// A request of HTTP/1.1, as it would go over the wire; `None` if it is none.
    pub(super) fn read(bytes: &[u8], secure: bool) -> Option<Self> {
        let Translated { method, path, authority, fields, body } = Translated::read(bytes)?;
        let pseudo = [
            (":method", method),
            (":scheme", if secure { "https" } else { "http" }),
            (":authority", authority),
            (":path", path),
        ];
        let pseudo = pseudo.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let fields = fields.into_iter().map(|(name, value)| (name, value.to_owned()));
        Some(Self {
            fields: pseudo.into_iter().chain(fields).collect(),
            body: body.into(),
            head: method == "HEAD",
        })
    }
}

/// Compresses the fields of requests, and knows those that are always the same.
#[derive(Debug, Default)]
pub(super) struct Writer {
    encoder: Encoder,
    block: Vec<u8>,
    /// The block is that of the request that all are alike, and changes nothing.
    known: bool,
}

impl Writer {
    /// The fields of a request in their compressed form.
    #[inline]
    pub(super) fn block(&mut self, request: &Request, alike: bool) -> &[u8] {
        if !(alike && self.known) {
            self.write(request);
        }
        &self.block
    }

    fn write(&mut self, request: &Request) {
        let (changes, resized) = (self.encoder.changes(), self.encoder.is_resized());
        self.block.clear();
        self.encoder.begin(&mut self.block);
        for (name, value) in &request.fields {
            self.encoder.field(&mut self.block, name.as_bytes(), value.as_bytes());
        }
        self.known = !resized && self.encoder.changes() == changes;
    }

    /// The server grants a table of so many bytes.
    pub(super) fn grant(&mut self, bytes: usize) {
        self.encoder.grant(bytes);
        self.known = false;
    }
}

#[cfg(test)]
mod tests {
    use http2::hpack::Decoder;

    use super::*;

    fn decoded(decoder: &mut Decoder, block: &[u8]) -> Vec<(String, String)> {
        let mut fields = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        decoder.decode(block, |name, value| fields.push((text(name), text(value)))).unwrap();
        fields
    }

    #[test]
    fn a_request_that_is_always_the_same_is_compressed_until_nothing_changes() {
        let request =
            Request::read(b"GET /a?b HTTP/1.1\r\nHost: x:1\r\nX-Own: y\r\nConnection: close\r\n\r\n", true);
        let request = request.unwrap();
        let (mut writer, mut decoder) = (Writer::default(), Decoder::new(4096));
        let wanted = [
            (":method", "GET"),
            (":scheme", "https"),
            (":authority", "x:1"),
            (":path", "/a?b"),
            ("x-own", "y"),
        ];
        for time in 0..4 {
            let block = writer.block(&request, true).to_vec();
            let fields = decoded(&mut decoder, &block);
            assert!(fields.iter().map(|(n, v)| (&**n, &**v)).eq(wanted), "{fields:?}");
            assert_eq!(writer.known, time > 0);
            assert_eq!(block.len() == 5, time > 0, "five fields that both ends know");
        }
        writer.grant(0);
        for _ in 0..2 {
            let fields = decoded(&mut decoder, writer.block(&request, true));
            assert!(fields.iter().map(|(n, v)| (&**n, &**v)).eq(wanted), "{fields:?}");
        }
    }
}
