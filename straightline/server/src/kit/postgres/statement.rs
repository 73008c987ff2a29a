//! Prepared statements, kept for the next time.

use super::row::Column;
use bytes::BytesMut;
use postgres_protocol::message::frontend;
use postgres_types::Type;
use std::collections::HashMap;
use std::sync::Arc;

/// Most statements kept for one connection: more than a service has that does not write values into its statements, and
/// some megabytes of the server's memory.
pub(super) const STATEMENTS_MAX: usize = 256;

/// A statement that the server knows by name.
#[derive(Debug)]
pub(super) struct Statement {
    pub(super) name: String,
    pub(super) sql: Box<str>,
    pub(super) parameters: Vec<Type>,
    pub(super) columns: Arc<[Column]>,
}

/// The statements of a connection, by their text.
#[derive(Debug, Default)]
pub(super) struct Statements {
    known: HashMap<Box<str>, (Arc<Statement>, u64)>,
    uses: u64,
    made: u64,
}

impl Statements {
    pub(super) fn find(&mut self, sql: &str) -> Option<Arc<Statement>> {
        let (statement, used) = self.known.get_mut(sql)?;
        self.uses += 1;
        *used = self.uses;
        Some(Arc::clone(statement))
    }

    /// A name that no statement has.
    pub(super) fn name(&mut self) -> String {
        self.made += 1;
        format!("s{}", self.made)
    }

    /// Keeps a statement; one too many goes, and `output` tells the server so.
    pub(super) fn keep(&mut self, sql: &str, statement: &Arc<Statement>, output: &mut BytesMut) {
        if self.known.len() >= STATEMENTS_MAX {
            let oldest = self.known.iter().min_by_key(|(_, (_, used))| *used).map(|(sql, _)| sql.clone());
            oldest.into_iter().for_each(|sql| self.forget(&sql, output));
        }
        self.uses += 1;
        self.known.insert(sql.into(), (Arc::clone(statement), self.uses));
    }

    /// Forgets a statement, here and on the server.
    pub(super) fn forget(&mut self, sql: &str, output: &mut BytesMut) {
        if let Some((statement, _)) = self.known.remove(sql) {
            frontend::close(b'S', &statement.name, output).expect("our names have no NUL");
        }
    }
}
