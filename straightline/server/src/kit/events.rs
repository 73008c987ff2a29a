//! Server-sent events: an answer that goes on as things happen.

use crate::{Done, Request, Response, Streaming};
use std::io::{self, Write};

/// One event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerEvent<'e> {
    /// What the client calls it; `message` if nothing is said.
    pub name: Option<&'e str>,
    /// What the client says it has seen last when it comes again; see [`Events::last_seen`].
    pub id: Option<&'e str>,
    /// What it says, in any number of lines.
    pub data: &'e str,
}

/// A stream of events to one client, each sent at once.
///
/// A client that is gone shows as an error of the next [`send`](Events::send); where events are rare, a
/// [`comment`](Events::comment) from time to time finds it, and keeps proxies from closing the connection.
///
/// Source: HTML, section 9.2, "Server-sent events".
#[derive(Debug)]
pub struct Events<'a> {
    response: Response<'a, Streaming>,
    text: String,
}

impl<'a> Events<'a> {
    /// Begins the stream.
    ///
    /// # Errors
    ///
    /// Those of sending.
    pub fn start(response: Response<'a>) -> io::Result<Self> {
        let response =
            response.header("content-type", "text/event-stream")?.header("cache-control", "no-store")?;
        let mut response = response.start()?;
        response.flush()?;
        Ok(Self { response, text: String::new() })
    }

    /// The id of the last event that the client saw on an earlier connection.
    pub fn last_seen<'r>(request: &Request<'r>) -> Option<&'r str> {
        request.header("last-event-id")
    }

    /// Sends an event, and waits until it has gone.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if a name or id has a line end; those of the connection.
    pub fn send(&mut self, event: &ServerEvent<'_>) -> io::Result<()> {
        self.text.clear();
        for (field, value) in [("event", event.name), ("id", event.id)] {
            let Some(value) = value else { continue };
            if value.contains(['\n', '\r', '\0']) {
                let why = format!("the {field} of an event cannot have a line end");
                return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
            }
            self.line(field, value);
        }
        // A carriage return ends a line too, and so would begin a field of the sender's choice; with a line feed it is one end.
        for line in event.data.replace("\r\n", "\n").split(['\n', '\r']) {
            self.line("data", line);
        }
        self.text.push('\n');
        self.response.write_all(self.text.as_bytes())?;
        self.response.flush()
    }

    fn line(&mut self, field: &str, value: &str) {
        for part in [field, ": ", value, "\n"] {
            self.text.push_str(part);
        }
    }

    /// Sends a line that clients ignore.
    ///
    /// # Errors
    ///
    /// Those of the connection: the client is gone.
    pub fn comment(&mut self) -> io::Result<()> {
        self.response.write_all(b":\n\n")?;
        self.response.flush()
    }

    /// Ends the stream; most clients will connect again.
    ///
    /// # Errors
    ///
    /// Those of the connection.
    pub fn end(self) -> io::Result<Done> {
        self.response.end()
    }
}
