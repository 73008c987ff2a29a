//! How a connection is upgraded to WebSocket, and what is sent on it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tungstenite::handshake::derive_accept_key;

use crate::session::{Upgrade, message};
use crate::{Config, LoadError, Request};

/// What is said where there is no body.
const HELLO: &[u8] = b"hello";
/// Bytes of a key. Source: RFC 6455, section 4.1.
const KEY_BYTES: usize = 16;

impl Config {
    /// One message as it goes over the wire.
    pub(crate) fn message(&self) -> Vec<u8> {
        let body = &self.request.body;
        // A mask is against proxies that read what passes through; the same for all messages, each costs nothing to make.
        let [mask @ .., _, _, _, _] = self.seed.to_be_bytes();
        message(if body.is_empty() { HELLO } else { body }, mask)
    }

    /// The request that asks for WebSocket, with the request's own fields.
    pub(crate) fn upgrade(&self) -> Result<Upgrade, LoadError> {
        let mut nonce = [0; KEY_BYTES];
        nonce[..8].copy_from_slice(&self.seed.to_be_bytes());
        let key = STANDARD.encode(nonce);
        let accept = derive_accept_key(key.as_bytes());
        let mut request = Request { body: Vec::new(), ..self.request.clone() };
        for (name, value) in [
            ("Upgrade", "websocket"),
            ("Connection", "Upgrade"),
            ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Key", &key),
        ] {
            request.headers.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
            request.headers.push((name.to_owned(), value.to_owned()));
        }
        Ok(Upgrade { request: request.render()?, accept })
    }
}
