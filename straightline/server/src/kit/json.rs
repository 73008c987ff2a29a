//! Bodies in JSON, by `serde_json`.
//!
//! ```no_run
//! use straightline::kit::json;
//!
//! straightline::Server::bind("127.0.0.1:8080")?.serve(|request, response| {
//!     let numbers: Vec<f64> = json::read(request, 64 * 1024)?;
//!     json::send(response, &numbers.iter().sum::<f64>())
//! })?;
//! # Ok::<(), straightline::Error>(())
//! ```

use super::media;
use crate::{Done, FieldLine, Request, Response, StatusError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::cell::Cell;
use std::io::{self, Read};

const JSON: FieldLine = FieldLine::new("Content-Type: application/json");
/// Most lists and objects within each other: what is read of each lies on the stack of the handler.
pub const DEPTH_MAX: usize = 32;

/// Memory for an answer that is kept for the next one, in bytes; what a larger one took is given back.
const KEPT_BYTES: usize = 16 * 1024;

thread_local! {
    /// Memory for the next answer. Who has it takes it away: a handler that waits leaves none to the others of its thread.
    static KEPT: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The body of a request as a value. It must say that it is `application/json`, have at most `most` bytes, and lists and
/// objects at most [`DEPTH_MAX`] deep.
///
/// # Errors
///
/// Some that are answered with 415 (another type), 413 (too large) and 400 (malformed, or not such a value, with the
/// reason); those of the connection.
pub fn read<T: DeserializeOwned>(request: &mut Request<'_>, most: u64) -> io::Result<T> {
    media::expect(request, "application/json")?;
    request.limit_body(most)?;
    let mut body = Vec::new();
    request.read_to_end(&mut body)?;
    if depth(&body) > DEPTH_MAX {
        return Err(StatusError::new(400, "the JSON is too deep").into());
    }
    let malformed = |error| StatusError::new(400, format!("the JSON does not fit: {error}")).into();
    serde_json::from_slice(&body).map_err(malformed)
}

/// Answers with a value.
///
/// # Errors
///
/// `InvalidData` if the value cannot be JSON, a map with lists as keys, say; those of sending.
pub fn send<T: Serialize + ?Sized>(response: Response<'_>, value: &T) -> io::Result<Done> {
    let mut body = KEPT.take();
    body.clear();
    serde_json::to_writer(&mut body, value).map_err(io::Error::from)?;
    let done = response.field(JSON)?.send(&body);
    if body.capacity() <= KEPT_BYTES {
        KEPT.set(body);
    }
    done
}

/// How many lists and objects are within each other at most, if it is JSON at all.
fn depth(text: &[u8]) -> usize {
    let (mut now, mut most, mut quoted, mut escaped) = (0_usize, 0, false, false);
    for byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'[' | b'{' if !quoted => {
                now += 1;
                most = most.max(now);
            }
            b']' | b'}' if !quoted => now = now.saturating_sub(1),
            _ => {}
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use super::depth;

    #[test]
    fn brackets_count_outside_of_text() {
        for (text, wanted) in [
            ("1", 0),
            ("[]", 1),
            ("[{}, [[]]]", 3),
            (r#"["[[\"[[", "\\", [1]]"#, 2),
            ("]]]][", 1),
            ("\"[", 0),
        ] {
            assert_eq!(depth(text.as_bytes()), wanted, "{text}");
        }
    }
}
