use super::control::{DATA, HEADERS};
use super::{qpack, varint};
use crate::session::Translated;

/// A request as its stream carries it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Framed {
    /// All frames.
    pub(super) bytes: Vec<u8>,
    /// Whether it is HEAD, whose answer has no body.
    pub(super) head: bool,
}

/// A request of HTTP/1.1, as it would go over the wire, as one of HTTP/3; `None` if it is no request.
pub(super) fn framed(bytes: &[u8]) -> Option<Framed> {
    let translated = Translated::read(bytes)?;
    let mut block = Vec::new();
    qpack::begin(&mut block);
    let pseudo = [
        (":method", translated.method),
        (":scheme", "https"),
        (":authority", translated.authority),
        (":path", translated.path),
    ];
    pseudo.iter().for_each(|(name, value)| qpack::encode(&mut block, name, value));
    translated.fields.iter().for_each(|(name, value)| qpack::encode(&mut block, name, value));
    let mut out = Vec::with_capacity(block.len() + translated.body.len() + 4 * varint::MOST_BYTES);
    frame(&mut out, HEADERS, &block);
    if !translated.body.is_empty() {
        frame(&mut out, DATA, translated.body);
    }
    Some(Framed { bytes: out, head: translated.method == "HEAD" })
}

fn frame(out: &mut Vec<u8>, kind: u64, content: &[u8]) {
    varint::write(out, kind);
    varint::write(out, content.len() as u64);
    out.extend_from_slice(content);
}
