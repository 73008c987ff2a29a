//! Many rows at once.

use super::client::Client;
use super::error::Error;
use super::patience::Patience;
use postgres_protocol::message::frontend::{self, CopyData};
use std::io::{self, Write};
use std::time::Duration;

/// Bytes that are sent at a time: few system calls, and little memory.
const PIECE_BYTES: usize = 32 * 1024;
/// Longest time for giving up a copy that was dropped.
const GIVE_UP_TIME: Duration = Duration::from_secs(5);

/// A copy to the server. What is written to it is in the format that its statement says: lines of text with tabs unless
/// it says another. Nothing of it is kept if it is dropped.
#[derive(Debug)]
pub struct CopyIn<'c, 'r> {
    client: &'c mut Client<'r>,
    ended: bool,
}

impl<'c, 'r> CopyIn<'c, 'r> {
    pub(super) fn begin(client: &'c mut Client<'r>, sql: &str) -> Result<Self, Error> {
        client.with(|connection, patience| connection.begin_copy(patience, sql))?;
        Ok(Self { client, ended: false })
    }

    /// Ends the copy; how many rows it brought.
    ///
    /// # Errors
    ///
    /// [`Error::Server`] if the server does not take what was written; otherwise as [`Client::query`].
    pub fn finish(mut self) -> Result<u64, Error> {
        self.ended = true;
        self.client.with(|connection, patience| {
            frontend::copy_done(&mut connection.wire.output);
            connection.end_copy(patience)
        })
    }
}

impl Write for CopyIn<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = &bytes[..bytes.len().min(PIECE_BYTES)];
        CopyData::new(piece)?.write(&mut self.client.connection().wire.output);
        if self.client.connection().wire.output.len() >= PIECE_BYTES {
            self.flush()?;
        }
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let patience = self.client.patience();
        let connection = self.client.connection();
        let sent = connection.wire.send(&patience);
        connection.broken |= sent.is_err();
        Ok(sent?)
    }
}

impl Drop for CopyIn<'_, '_> {
    fn drop(&mut self) {
        let connection = self.client.connection();
        if self.ended || connection.broken {
            return;
        }
        let patience = Patience::lasting(GIVE_UP_TIME);
        let given_up = !std::thread::panicking()
            && connection
                .write(|out| frontend::copy_fail("the copy was dropped", out))
                .and_then(|()| connection.wire.send(&patience))
                .and_then(|()| connection.skip(&patience))
                .is_ok();
        connection.broken |= !given_up;
    }
}
