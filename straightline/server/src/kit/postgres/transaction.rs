//! Transactions, which end well or not at all.

use super::client::Client;
use super::connection::Connection;
use super::error::Error;
use super::patience::Patience;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

/// Longest time for rolling back what was dropped: the server only forgets, and has nothing to write.
const ROLLBACK_TIME: Duration = Duration::from_secs(5);

/// A transaction, through which everything can be done that a [`Client`] can. It is rolled back when it is dropped.
///
/// One begun within another is a savepoint: rolled back, it takes nothing along of what was done before.
#[derive(Debug)]
pub struct Transaction<'c, 'r> {
    client: &'c mut Client<'r>,
    /// How many it is within, itself included.
    depth: u32,
    ended: bool,
}

impl<'c, 'r> Transaction<'c, 'r> {
    pub(super) fn begin(client: &'c mut Client<'r>) -> Result<Self, Error> {
        let depth = client.connection().depth + 1;
        client.batch(&match depth {
            1 => "begin".to_owned(),
            _ => format!("savepoint straightline_{depth}"),
        })?;
        client.connection().depth = depth;
        Ok(Self { client, depth, ended: false })
    }

    /// Makes what was done last.
    ///
    /// # Errors
    ///
    /// [`Error::RolledBack`] if one of its statements had failed, so that nothing could be committed; otherwise as
    /// [`Client::query`], and then nobody knows whether it was committed.
    pub fn commit(mut self) -> Result<(), Error> {
        let depth = self.depth;
        let called = self.end(&match depth {
            1 => "commit".to_owned(),
            _ => format!("release savepoint straightline_{depth}"),
        })?;
        if called == "ROLLBACK" { Err(Error::RolledBack) } else { Ok(()) }
    }

    /// Undoes what was done.
    ///
    /// # Errors
    ///
    /// As [`Client::query`]; the connection is then replaced, and what was done is undone by the server.
    pub fn rollback(mut self) -> Result<(), Error> {
        let sql = undo(self.depth);
        self.end(&sql).map(drop)
    }

    fn end(&mut self, sql: &str) -> Result<String, Error> {
        let called = self.client.with(|connection, patience| connection.batch(patience, sql))?;
        // What failed is undone when this is dropped.
        self.ended = true;
        self.client.connection().depth = self.depth - 1;
        Ok(called)
    }
}

fn undo(depth: u32) -> String {
    match depth {
        1 => "rollback".to_owned(),
        _ => format!("rollback to savepoint straightline_{depth}; release savepoint straightline_{depth}"),
    }
}

/// Undoes a transaction that was dropped, whether the client is still there or not.
fn abandon(connection: &mut Connection, depth: u32) {
    // While it unwinds from a panic nothing can be waited for.
    let undone = !std::thread::panicking()
        && !connection.broken
        && connection.batch(&Patience::lasting(ROLLBACK_TIME), &undo(depth)).is_ok();
    connection.broken |= !undone;
    connection.depth = depth - 1;
}

impl Drop for Transaction<'_, '_> {
    fn drop(&mut self) {
        if !self.ended {
            abandon(self.client.connection(), self.depth);
        }
    }
}

impl<'r> Deref for Transaction<'_, 'r> {
    type Target = Client<'r>;

    fn deref(&self) -> &Client<'r> {
        self.client
    }
}

impl<'r> DerefMut for Transaction<'_, 'r> {
    fn deref_mut(&mut self) -> &mut Client<'r> {
        self.client
    }
}
