//! Bodies in JSON: text where they are text, so that a record can be read, else bytes.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Text(String),
    Bytes(Vec<u8>),
}

pub(crate) fn serialize<S: Serializer>(body: &[u8], out: S) -> Result<S::Ok, S::Error> {
    match std::str::from_utf8(body) {
        Ok(text) => out.serialize_str(text),
        Err(_) => body.serialize(out),
    }
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
    Ok(match Written::deserialize(from)? {
        Written::Text(text) => text.into_bytes(),
        Written::Bytes(bytes) => bytes,
    })
}
