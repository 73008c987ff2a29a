//! Figures of a running load as Prometheus' remote write takes them: a message of Protocol Buffers, framed as snappy.
//!
//! Source: Prometheus Remote-Write specification 1.0. The message has four shapes, and snappy has one of blocks that are not
//! compressed: nothing here needs a library.

use crate::metrics::{LiveFigures, series};

/// A field of this wire type is a number of varying length, one of eight bytes, or bytes behind their length.
/// Source: Protocol Buffers documentation, "Encoding".
const VARINT: u64 = 0;
const EIGHT_BYTES: u64 = 1;
const BYTES: u64 = 2;

/// Longest literal of snappy with a length of two bytes, and the tag of one. Source: google/snappy, `format_description.txt`.
const LITERAL_BYTES: usize = 1 << 16;
const LITERAL_TAG: u8 = 61 << 2;

/// The figures at `unix_ms`, ready to be sent.
#[must_use]
pub fn load_remote_write(figures: &LiveFigures, unix_ms: u64) -> Vec<u8> {
    let mut message = Vec::new();
    for series in series(figures) {
        let mut one = Vec::new();
        // Labels are sorted by name.
        label("__name__", series.name, &mut one);
        series.le.iter().for_each(|le| label("le", le, &mut one));
        label("url", &figures.url, &mut one);
        let mut sample = Vec::new();
        key(1, EIGHT_BYTES, &mut sample);
        sample.extend_from_slice(&series.value.to_le_bytes());
        key(2, VARINT, &mut sample);
        varint(unix_ms, &mut sample);
        bytes(2, &sample, &mut one);
        bytes(1, &one, &mut message);
    }
    snappy(&message)
}

fn label(name: &str, value: &str, out: &mut Vec<u8>) {
    let mut label = Vec::new();
    bytes(1, name.as_bytes(), &mut label);
    bytes(2, value.as_bytes(), &mut label);
    bytes(1, &label, out);
}

fn bytes(field: u64, bytes: &[u8], out: &mut Vec<u8>) {
    key(field, BYTES, out);
    varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

fn key(field: u64, wire_type: u64, out: &mut Vec<u8>) {
    varint(field << 3 | wire_type, out);
}

fn varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// A block of literals alone.
fn snappy(message: &[u8]) -> Vec<u8> {
    let mut block = Vec::with_capacity(message.len() + 16);
    varint(message.len() as u64, &mut block);
    for literal in message.chunks(LITERAL_BYTES) {
        block.push(LITERAL_TAG);
        block.extend_from_slice(&((literal.len() - 1) as u16).to_le_bytes());
        block.extend_from_slice(literal);
    }
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_blocks_are_those_of_the_specifications() {
        let mut out = Vec::new();
        varint(300, &mut out);
        assert_eq!(out, [0xac, 0x02], "the example of the documentation");
        assert_eq!(snappy(b"abc"), [3, 0xf4, 2, 0, b'a', b'b', b'c']);
        let long = vec![7; LITERAL_BYTES + 1];
        let block = snappy(&long);
        assert_eq!(block.len(), 3 + 3 + LITERAL_BYTES + 3 + 1);
        assert_eq!(block[..6], [0x81, 0x80, 0x04, 0xf4, 0xff, 0xff]);
    }

    #[test]
    fn each_series_has_its_name_and_the_url() {
        let mut figures = LiveFigures::new("http://127.0.0.1:1/");
        figures.answered(0.003, 5);
        let block = load_remote_write(&figures, 1_700_000_000_000);
        let has = |text: &str| block.windows(text.len()).any(|window| window == text.as_bytes());
        for text in [
            "whyslow_load_live_requests_total",
            "whyslow_load_live_response_seconds_bucket",
            "+Inf",
            "http://127.0.0.1:1/",
        ] {
            assert!(has(text), "{text}");
        }
    }
}
