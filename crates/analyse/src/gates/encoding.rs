//! What an answer says once it is decoded: two servers that compress it otherwise say the same.

use std::io::Read;

use brotli_decompressor::Decompressor;
use flate2::read::{MultiGzDecoder, ZlibDecoder};
use model::record::Reply;

/// Longest content that is decoded: few bytes can stand for very many.
const MOST_BYTES: u64 = 16 << 20;
/// What is read of a Brotli stream at a time.
const CHUNK: usize = 4096;

/// The answer with the content of its body, where all of it was kept and it is encoded in one way that is known; else as it is.
pub(super) fn decoded(reply: &Reply) -> Reply {
    let content = reply.whole_body().and_then(|body| content(body, &coding(reply)?));
    match content {
        Some(content) => Reply::new(reply.status, reply.fields.clone(), reply.closed, &content),
        None => reply.clone(),
    }
}

/// The content coding, in lower case.
fn coding(reply: &Reply) -> Option<String> {
    let (_, value) = reply.fields.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-encoding"))?;
    Some(value.trim().to_ascii_lowercase())
}

fn content(body: &[u8], coding: &str) -> Option<Vec<u8>> {
    let mut reader: Box<dyn Read> = match coding {
        "gzip" | "x-gzip" => Box::new(MultiGzDecoder::new(body)),
        "deflate" => Box::new(ZlibDecoder::new(body)),
        "br" => Box::new(Decompressor::new(body, CHUNK)),
        _ => return None,
    };
    let mut content = Vec::new();
    reader.by_ref().take(MOST_BYTES).read_to_end(&mut content).ok()?;
    Some(content).filter(|content| (content.len() as u64) < MOST_BYTES)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::{GzEncoder, ZlibEncoder};

    use super::*;

    fn reply(coding: &str, body: &[u8]) -> Reply {
        Reply::new(200, vec![("Content-Encoding".to_owned(), coding.to_owned())], false, body)
    }

    #[test]
    fn content_is_what_was_encoded_however_well() {
        let text = "the same again and again, ".repeat(50).into_bytes();
        for level in [0, 1, 9] {
            let mut gzip = GzEncoder::new(Vec::new(), Compression::new(level));
            gzip.write_all(&text).unwrap();
            assert_eq!(decoded(&reply("gzip", &gzip.finish().unwrap())).body, text);
            let mut zlib = ZlibEncoder::new(Vec::new(), Compression::new(level));
            zlib.write_all(&text).unwrap();
            assert_eq!(decoded(&reply("deflate", &zlib.finish().unwrap())).body_bytes, text.len() as u64);
        }
        // As Node's zlib encodes it.
        let brotli = b"\x0b\x08\x80{\"a\":1,\"b\":[1,2]}\x03";
        assert_eq!(decoded(&reply("br", brotli)).body, br#"{"a":1,"b":[1,2]}"#);
    }

    #[test]
    fn what_cannot_be_decoded_stays_as_it_is() {
        for (coding, body) in
            [("gzip", &b"no gzip"[..]), ("br", b"\xff\xff"), ("zstd", b"any"), ("identity", b"any")]
        {
            assert_eq!(decoded(&reply(coding, body)), reply(coding, body));
        }
        let mut bomb = GzEncoder::new(Vec::new(), Compression::fast());
        bomb.write_all(&vec![0; MOST_BYTES as usize + 1]).unwrap();
        let bomb = bomb.finish().unwrap();
        assert!(bomb.len() > Reply::KEPT_BYTES || decoded(&reply("gzip", &bomb)).body_bytes < MOST_BYTES);
    }
}
