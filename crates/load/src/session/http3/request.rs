use super::control::{DATA, HEADERS};
use super::{qpack, varint};
use crate::session::Translated;

/// A request as its stream carries it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Framed {
    /// All frames.
    pub(super) bytes: Vec<u8>,
    /// Whether it is HEAD, whose answer has no body.
    pub(super) head: bool,
}

/// A request of HTTP/1.1, as it would go over the wire, as one of HTTP/3; `None` if it is no request.
pub(super) fn framed(bytes: &[u8]) -> Option<Framed> {
    let said = Translated::read(bytes)?;
    let mut block = Vec::new();
    qpack::begin(&mut block);
    let pseudo = [
        (":method", said.method),
        (":scheme", "https"),
        (":authority", said.authority),
        (":path", said.path),
    ];
    pseudo.iter().for_each(|(name, value)| qpack::encode(&mut block, name, value));
    said.fields.iter().for_each(|(name, value)| qpack::encode(&mut block, name, value));
    let mut out = Vec::with_capacity(block.len() + said.body.len() + 4 * varint::MOST_BYTES);
    frame(&mut out, HEADERS, &block);
    if !said.body.is_empty() {
        frame(&mut out, DATA, said.body);
    }
    Some(Framed { bytes: out, head: said.method == "HEAD" })
}

fn frame(out: &mut Vec<u8>, kind: u64, content: &[u8]) {
    varint::write(out, kind);
    varint::write(out, content.len() as u64);
    out.extend_from_slice(content);
}
