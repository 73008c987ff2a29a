//! The bodies of the answers that the server makes of errors.

use super::service::Service;
use http1::write::FieldLine;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Longest body that a service may give an error, in bytes: it says what went wrong, and is no page.
pub const ERROR_BODY_BYTES: usize = 8 * 1024;

/// An error that is about to be answered. See [`Server::error_bodies`](crate::Server::error_bodies).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ErrorAnswer<'e> {
    /// The status of the answer.
    pub status: u16,
    /// What the server would say by itself, without a line end: the text of a [`StatusError`](crate::StatusError), say. It may
    /// hold characters that the format of the body wants escaped.
    pub message: &'e str,
}

/// Writes the body of an error's answer.
pub(crate) type WriteBody = dyn Fn(&ErrorAnswer<'_>, &mut dyn Write) -> io::Result<()> + Send + Sync;

/// How a service says errors.
pub(crate) struct ErrorBodies {
    pub(crate) kind: FieldLine,
    pub(crate) write: Box<WriteBody>,
}

/// Takes no more than an error's body may have.
struct Bounded(Vec<u8>);

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > ERROR_BODY_BYTES - self.0.len() {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the body of an error is too long"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Service {
    /// The body of the answer to an error, and the line of the head that says its type.
    pub(crate) fn error_body(&self, status: u16, message: &str) -> (FieldLine, Vec<u8>) {
        const TEXT: FieldLine = FieldLine::new("Content-Type: text/plain; charset=utf-8");
        self.own_error_body(status, message).unwrap_or_else(|| (TEXT, format!("{message}\n").into_bytes()))
    }

    /// That which the service makes; `None` if it makes none, or fails at it.
    pub(crate) fn own_error_body(&self, status: u16, message: &str) -> Option<(FieldLine, Vec<u8>)> {
        let own = self.error_bodies.as_ref()?;
        let mut body = Bounded(Vec::new());
        let error = ErrorAnswer { status, message };
        match catch_unwind(AssertUnwindSafe(|| (own.write)(&error, &mut body))) {
            Ok(written) => written.ok().map(|()| (own.kind, body.0)),
            Err(panic) => {
                crate::rt::waker::discard(panic);
                None
            }
        }
    }
}
