//! A line for each answer.

use crate::{Done, Request, Response, StatusError};
use http1::write::date;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A request that was answered. It prints as a line of the combined log format, and after it the time it took in
/// microseconds.
///
/// Source: the combined log format of Apache httpd, `mod_log_config`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Entry<'e> {
    /// The client; `None` if it was gone already.
    pub peer: Option<SocketAddr>,
    /// When the request had come.
    pub time: SystemTime,
    /// Its method.
    pub method: &'e str,
    /// Its target.
    pub target: &'e str,
    /// What the client speaks, such as `HTTP/1.1`.
    pub version: &'e str,
    /// The status of the answer, also where the client did not take all of it; where the handler began none, that which the
    /// server makes of its error.
    pub status: u16,
    /// Length of the answer's body in bytes, as far as the handler wrote it; 0 where it began none.
    pub body_bytes: u64,
    /// From the head of the request to the end of the handler.
    pub took: Duration,
    /// The page that the client came from.
    pub referer: Option<&'e str>,
    /// What the client calls itself.
    pub user_agent: Option<&'e str>,
    /// What the handler returned instead of an answer. It is the last of the line, in quotes, where there is one.
    pub error: Option<&'e io::Error>,
}

/// `handler`, with `tell` called after each of its answers, on the same coroutine. A panic is told by
/// [`Event::HandlerPanicked`](crate::Event::HandlerPanicked) alone, and a request that reaches no handler, being malformed, say, by
/// [`Event::RequestRefused`](crate::Event::RequestRefused).
pub fn logged<F, T>(
    handler: F,
    tell: T,
) -> impl for<'a> Fn(&mut Request<'a>, Response<'a>) -> io::Result<Done> + Send + Sync
where
    F: for<'a> Fn(&mut Request<'a>, Response<'a>) -> io::Result<Done> + Send + Sync,
    T: Fn(&Entry<'_>) + Send + Sync,
{
    coerce(move |request, response| {
        let (time, begun, peer) = (SystemTime::now(), Instant::now(), request.peer_addr().ok());
        let outcome = handler(request, response);
        let (status, body_bytes) = match &outcome {
            Ok(done) => (done.status(), done.body_bytes()),
            Err(error) => {
                request.answered().unwrap_or_else(|| (StatusError::status_of(error).unwrap_or(500), 0))
            }
        };
        tell(&Entry {
            peer,
            time,
            method: request.method(),
            target: request.target(),
            version: request.version(),
            status,
            body_bytes,
            took: begun.elapsed(),
            referer: request.header("referer"),
            user_agent: request.header("user-agent"),
            error: outcome.as_ref().err(),
        });
        outcome
    })
}

/// Tells the compiler that a closure takes requests of every lifetime.
fn coerce<F>(handler: F) -> F
where
    F: for<'a> Fn(&mut Request<'a>, Response<'a>) -> io::Result<Done> + Send + Sync,
{
    handler
}

impl fmt::Display for Entry<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.peer {
            Some(peer) => write!(out, "{}", peer.ip())?,
            None => out.write_str("-")?,
        }
        write!(out, " - - [{}] \"", Clf(self.time))?;
        Quoted(self.method).fmt(out)?;
        out.write_str(" ")?;
        Quoted(self.target).fmt(out)?;
        write!(out, " {}\" {} {}", self.version, self.status, self.body_bytes)?;
        for field in [self.referer, self.user_agent] {
            write!(out, " \"{}\"", Quoted(field.unwrap_or("-")))?;
        }
        write!(out, " {}", self.took.as_micros())?;
        match self.error {
            Some(error) => write!(out, " \"{}\"", Quoted(&error.to_string())),
            None => Ok(()),
        }
    }
}

/// Text that can neither end its quotation nor its line.
struct Quoted<'t>(&'t str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for char in self.0.chars() {
            match char {
                '"' | '\\' => write!(out, "\\{char}")?,
                char if char.is_control() => write!(out, "\\x{:02x}", u32::from(char))?,
                char => write!(out, "{char}")?,
            }
        }
        Ok(())
    }
}

/// A time as `06/Nov/1994:08:49:37 +0000`.
struct Clf(SystemTime);

impl fmt::Display for Clf {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let since_1970 = self.0.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        // `Sun, 06 Nov 1994 08:49:37 GMT`, taken apart.
        let text = date(since_1970.as_secs());
        let part = |from: usize, to: usize| std::str::from_utf8(&text[from..to]).unwrap_or("?");
        let (day, month, year, time) = (part(5, 7), part(8, 11), part(12, 16), part(17, 25));
        write!(out, "{day}/{month}/{year}:{time} +0000")
    }
}

#[cfg(test)]
mod tests {
    use super::Entry;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn a_line_is_one_line_whatever_the_client_says() {
        let entry = Entry {
            peer: Some(([127, 0, 0, 1], 80).into()),
            time: UNIX_EPOCH + Duration::from_secs(784_111_777),
            method: "GET",
            target: "/a\"b",
            version: "HTTP/1.1",
            status: 200,
            body_bytes: 13,
            took: Duration::from_micros(250),
            referer: None,
            user_agent: Some("x\ty\\\u{85}"),
            error: None,
        };
        assert_eq!(
            entry.to_string(),
            "127.0.0.1 - - [06/Nov/1994:08:49:37 +0000] \"GET /a\\\"b HTTP/1.1\" 200 13 \"-\" \"x\\x09y\\\\\\x85\" 250"
        );
        let error = std::io::Error::other("no\n\"luck\"");
        let failed = Entry { error: Some(&error), ..entry }.to_string();
        assert!(failed.ends_with(" 250 \"no\\x0a\\\"luck\\\"\""), "{failed}");
    }
}
