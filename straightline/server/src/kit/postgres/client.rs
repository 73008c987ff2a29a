//! What a handler asks the database by.

use super::config::Config;
use super::connect::connect;
use super::connection::{Connection, Parameters, Status};
use super::copy::CopyIn;
use super::error::Error;
use super::patience::Patience;
use super::pool::Place;
use super::row::Row;
use super::statement::STATEMENTS_MAX;
use super::transaction::Transaction;
use crate::ClientWatch;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes of statements that are sent before an answer is read. The kernel holds as much for a server that takes nothing
/// because nobody takes its answers, so that both never wait for each other.
pub(super) const AHEAD_BYTES: usize = 32 * 1024;

/// A connection to the database, for one user at a time. One of a pool goes back there when it is dropped.
#[derive(Debug)]
pub struct Client<'r> {
    pub(super) config: Arc<Config>,
    /// `None` only while it is dropped.
    connection: Option<Box<Connection>>,
    query_time: Option<Duration>,
    watch: Option<ClientWatch<'r>>,
    /// Where it goes back to.
    place: Option<Place>,
}

/// One statement of a [pipeline](Client::pipeline).
#[derive(Clone, Copy, Debug)]
pub struct Query<'q> {
    /// Its text, with `$1`, `$2` for parameters.
    pub sql: &'q str,
    /// Their values.
    pub parameters: Parameters<'q>,
}

/// The answer to one statement of a [pipeline](Client::pipeline).
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Answer {
    /// The rows that it gave.
    pub rows: Vec<Row>,
    /// How many rows it changed or gave.
    pub changed: u64,
}

impl Client<'static> {
    /// Opens a connection that belongs to no pool.
    ///
    /// # Errors
    ///
    /// [`Error`] says why there is none.
    pub fn connect(config: Config) -> Result<Self, Error> {
        let connection = connect(&config, &Patience::default())?;
        Ok(Self::over(Arc::new(config), Box::new(connection), None, None))
    }
}

impl<'r> Client<'r> {
    pub(super) fn over(
        config: Arc<Config>,
        connection: Box<Connection>,
        watch: Option<ClientWatch<'r>>,
        place: Option<Place>,
    ) -> Self {
        let query_time = config.query_time;
        Self { config, connection: Some(connection), query_time, watch, place }
    }

    pub(super) fn connection(&mut self) -> &mut Connection {
        self.connection.as_mut().expect("it is there until the client is dropped")
    }

    /// What a statement that begins now may take.
    pub(super) fn patience(&self) -> Patience<'r> {
        let deadline = self.query_time.and_then(|time| Instant::now().checked_add(time));
        Patience { deadline, client: self.watch }
    }

    /// Does something with the connection, and leaves it in good order or marked as broken.
    pub(super) fn with<T>(
        &mut self,
        act: impl FnOnce(&mut Connection, &Patience<'r>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let patience = self.patience();
        let connection = self.connection.as_mut().expect("it is there until the client is dropped");
        if connection.broken {
            return Err(Error::Closed(None));
        }
        // A panic of somebody else's code, that of a value, say, leaves it so.
        connection.broken = true;
        let outcome = act(connection, &patience);
        connection.broken = false;
        connection.settle(&self.config, outcome)
    }

    /// Longest time for each statement from now on; `None` for ever. One that takes longer is cancelled.
    pub fn set_query_time(&mut self, time: Option<Duration>) {
        self.query_time = time;
    }

    /// Whether the connection is of no use any more. The pool replaces it.
    pub fn is_broken(&self) -> bool {
        self.connection.as_ref().is_none_or(|connection| connection.broken)
    }

    /// Runs a statement and collects its rows. It is prepared at its first use on a connection, and known from then on.
    ///
    /// # Errors
    ///
    /// [`Error`] says what went wrong.
    pub fn query(&mut self, sql: &str, parameters: Parameters<'_>) -> Result<Vec<Row>, Error> {
        let mut rows = Vec::new();
        self.query_each(sql, parameters, |row| {
            rows.push(row);
            Ok(())
        })?;
        Ok(rows)
    }

    /// Runs a statement and gives each of its rows to `each` as it comes; how many there were. After an error of `each`
    /// the rest is passed over.
    ///
    /// # Errors
    ///
    /// [`Error`] says what went wrong.
    pub fn query_each(
        &mut self,
        sql: &str,
        parameters: Parameters<'_>,
        mut each: impl FnMut(Row) -> Result<(), Error>,
    ) -> Result<u64, Error> {
        self.with(|connection, patience| connection.run(patience, sql, parameters, &mut each))
    }

    /// Runs a statement that gives one row.
    ///
    /// # Errors
    ///
    /// [`Error::RowCount`] if it gives none or several; otherwise as [`Client::query`].
    pub fn query_one(&mut self, sql: &str, parameters: Parameters<'_>) -> Result<Row, Error> {
        self.query_opt(sql, parameters)?.ok_or(Error::RowCount(0))
    }

    /// Runs a statement that gives one row or none.
    ///
    /// # Errors
    ///
    /// [`Error::RowCount`] if it gives several; otherwise as [`Client::query`].
    pub fn query_opt(&mut self, sql: &str, parameters: Parameters<'_>) -> Result<Option<Row>, Error> {
        let (mut first, mut count) = (None, 0);
        self.query_each(sql, parameters, |row| {
            count += 1;
            first.get_or_insert(row);
            Ok(())
        })?;
        if count > 1 { Err(Error::RowCount(count)) } else { Ok(first) }
    }

    /// Runs a statement; how many rows it changed.
    ///
    /// # Errors
    ///
    /// As [`Client::query`].
    pub fn execute(&mut self, sql: &str, parameters: Parameters<'_>) -> Result<u64, Error> {
        self.query_each(sql, parameters, |_| Ok(()))
    }

    /// Runs several statements without parameters, separated by semicolons, as one transaction.
    ///
    /// # Errors
    ///
    /// As [`Client::query`].
    pub fn batch(&mut self, sql: &str) -> Result<(), Error> {
        self.with(|connection, patience| connection.batch(patience, sql)).map(drop)
    }

    /// Runs many statements, at most 256, in few round trips: they are sent one behind the other, and then their answers are
    /// read. All are prepared before the first runs. Outside a transaction each stands for itself.
    ///
    /// # Errors
    ///
    /// Those of the connection, after which nobody knows how many were run. What is wrong with one statement is in its
    /// place of the result.
    pub fn pipeline(&mut self, queries: &[Query<'_>]) -> Result<Vec<Result<Answer, Error>>, Error> {
        if queries.len() > STATEMENTS_MAX {
            return Err(Error::Unsupported("a pipeline of at most 256 statements"));
        }
        self.with(|connection, patience| {
            let mut known = Vec::with_capacity(queries.len());
            for query in queries {
                known.push(of_statement(connection.statement(patience, query.sql))?);
            }
            let (mut sent, mut answers) = (Vec::new(), Vec::with_capacity(queries.len()));
            for (query, statement) in queries.iter().zip(known) {
                let bound = statement.and_then(|statement| {
                    connection.bind(&statement, query.parameters)?;
                    Ok(statement)
                });
                sent.push(bound);
                if connection.wire.output.len() >= AHEAD_BYTES {
                    collect(connection, patience, &mut sent, &mut answers)?;
                }
            }
            collect(connection, patience, &mut sent, &mut answers)?;
            Ok(answers)
        })
    }

    /// Begins a transaction, or one within it. It is rolled back if it is dropped.
    ///
    /// # Errors
    ///
    /// As [`Client::query`].
    pub fn transaction(&mut self) -> Result<Transaction<'_, 'r>, Error> {
        Transaction::begin(self)
    }

    /// Begins a copy to the server, by a statement such as `copy books from stdin`.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] if the statement is none; otherwise as [`Client::query`].
    pub fn copy_in(&mut self, sql: &str) -> Result<CopyIn<'_, 'r>, Error> {
        CopyIn::begin(self, sql)
    }

    /// Whether the connection is in a transaction.
    pub fn in_transaction(&self) -> bool {
        self.connection.as_ref().is_some_and(|connection| connection.status != Status::Idle)
    }
}

/// A statement that was sent, or why it could not be.
type Sent = Result<Arc<super::statement::Statement>, Error>;

/// Sends what was written down, and reads the answers to it.
fn collect(
    connection: &mut Connection,
    patience: &Patience<'_>,
    sent: &mut Vec<Sent>,
    answers: &mut Vec<Result<Answer, Error>>,
) -> Result<(), Error> {
    if !connection.wire.output.is_empty() {
        connection.send(patience)?;
    }
    for bound in sent.drain(..) {
        let answer = bound.and_then(|statement| connection.answer(patience, &statement));
        answers.push(of_statement(answer)?);
    }
    Ok(())
}

/// Tells errors of one statement from those of the connection.
pub(super) fn of_statement<T>(outcome: Result<T, Error>) -> Result<Result<T, Error>, Error> {
    match outcome {
        Err(error) if !error.is_of_statement() => Err(error),
        outcome => Ok(outcome),
    }
}

impl Drop for Client<'_> {
    fn drop(&mut self) {
        if let (Some(mut connection), Some(place)) = (self.connection.take(), self.place.take()) {
            let is_clean = connection.is_clean();
            place.give_back(connection, is_clean);
        }
    }
}
