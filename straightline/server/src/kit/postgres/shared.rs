//! One connection for many handlers at once: what they ask while others are answered goes out together.
//!
//! There is no task for it. Whoever finds nobody at work sends what is waiting, reads the answers to it and tells each
//! what it asked for, until its own answer is among them; then the next in line goes on with what has come meanwhile.

use super::client::{AHEAD_BYTES, Answer, Query, of_statement};
use super::config::Config;
use super::connect::connect;
use super::connection::{Connection, Parameters, is_stale, write_bind};
use super::error::Error;
use super::patience::Patience;
use super::pool::Pool;
use super::row::Row;
use super::statement::{STATEMENTS_MAX, Statement};
use crate::rt::waker::{Promise, unpoisoned};
use bytes::BytesMut;
use std::collections::{HashMap, VecDeque};
use std::mem;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// What a statement with few short values takes as it is sent, in bytes.
const STATEMENT_BYTES: usize = 64;

/// One connection of each shard that its handlers use at the same time ([`Pool::shared`]).
///
/// Statements are sent in the order in which they are asked for, all that wait in one write, and with fewer system calls
/// than on a connection for each handler. Each stands for itself: there are no transactions. A slow statement holds up those
/// behind it, and one that passes its deadline fails those that were sent with it.
///
/// From asking to the answer each has the `query_time` of the [`Config`], with the wait in line, connecting and preparing in it. Where a
/// connection is lost before a statement was sent on it, the statement is tried once more on another.
#[derive(Clone, Copy, Debug)]
pub struct Shared<'p> {
    pool: &'p Pool,
}

/// Who waits for the shared connection of a shard.
#[derive(Debug, Default)]
pub(super) struct Line {
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    /// The connection while nobody uses it.
    kept: Option<Box<Connection>>,
    /// Whether somebody leads: uses the connection, or was told to.
    led: bool,
    /// Connections so far: another one knows statements by other names.
    connections: u64,
    known: HashMap<Box<str>, Arc<Statement>>,
    asked: VecDeque<Asked>,
}

/// Something that is asked of the database.
#[derive(Debug)]
struct Asked {
    what: What,
    deadline: Option<Instant>,
    /// `None` once it was told.
    promise: Option<Arc<Promise<Outcome>>>,
}

#[derive(Debug)]
enum What {
    Prepare(Box<str>),
    /// Statements, or why one cannot be run, written down for a connection.
    Run {
        connection: u64,
        bytes: BytesMut,
        statements: Vec<Result<Arc<Statement>, Error>>,
    },
}

type Answers = Vec<Result<Answer, Error>>;

/// What is left to one who asks, over all attempts.
#[derive(Debug)]
struct Attempts {
    deadline: Option<Instant>,
    /// Whether another may follow one of which nothing was run.
    again: bool,
}

#[derive(Debug)]
enum Outcome {
    Prepared(Result<(), Error>),
    Answers(Result<Answers, Error>),
    /// To ask again: nothing of it was sent.
    Again,
    /// To go on with what all have asked.
    Lead,
}

impl<'p> Shared<'p> {
    pub(super) fn new(pool: &'p Pool) -> Self {
        Self { pool }
    }

    /// Runs a statement and collects its rows. It is prepared at its first use on a connection, and known from then on.
    ///
    /// # Errors
    ///
    /// [`Error`] says what went wrong.
    pub fn query(&self, sql: &str, parameters: Parameters<'_>) -> Result<Vec<Row>, Error> {
        self.run(sql, parameters).map(|answer| answer.rows)
    }

    /// Runs a statement that gives one row.
    ///
    /// # Errors
    ///
    /// [`Error::RowCount`] if it gives none or several; otherwise as [`Shared::query`].
    pub fn query_one(&self, sql: &str, parameters: Parameters<'_>) -> Result<Row, Error> {
        let mut rows = self.query(sql, parameters)?;
        match rows.len() {
            1 => Ok(rows.swap_remove(0)),
            count => Err(Error::RowCount(count)),
        }
    }

    /// Runs a statement; how many rows it changed.
    ///
    /// # Errors
    ///
    /// As [`Shared::query`].
    pub fn execute(&self, sql: &str, parameters: Parameters<'_>) -> Result<u64, Error> {
        self.run(sql, parameters).map(|answer| answer.changed)
    }

    /// Runs many statements, at most 256, and of less than 32 KiB with their values. Each stands for itself.
    ///
    /// # Errors
    ///
    /// Those of the connection, after which nobody knows how many were run, and that of one that cannot be prepared, after
    /// which none was. What else is wrong with one statement is in its place of the result.
    pub fn pipeline(&self, queries: &[Query<'_>]) -> Result<Vec<Result<Answer, Error>>, Error> {
        if queries.len() > STATEMENTS_MAX {
            return Err(Error::Unsupported("a pipeline of at most 256 statements"));
        }
        if queries.is_empty() { Ok(Vec::new()) } else { self.ask(queries, &mut self.attempts()) }
    }

    fn run(&self, sql: &str, parameters: Parameters<'_>) -> Result<Answer, Error> {
        let queries = [Query { sql, parameters }];
        let mut attempts = self.attempts();
        let mut answer = self.ask(&queries, &mut attempts)?.pop();
        // The table was changed since the plan was made, or somebody dropped it: nothing was done yet.
        if matches!(&answer, Some(Err(Error::Server(said))) if is_stale(said)) && attempts.take_again() {
            answer = self.ask(&queries, &mut attempts)?.pop();
        }
        answer.unwrap_or(Err(Error::Closed(None)))
    }

    fn attempts(&self) -> Attempts {
        let time = self.pool.config().query_time;
        Attempts { deadline: time.and_then(|time| Instant::now().checked_add(time)), again: true }
    }

    fn ask(&self, queries: &[Query<'_>], attempts: &mut Attempts) -> Result<Answers, Error> {
        let shelf = self.pool.shelf();
        loop {
            let promise = Promise::new();
            let leads = shelf.beside.join(queries, attempts.deadline, &promise)?;
            match shelf.beside.wait(self.pool.config(), attempts.deadline, &promise, leads)? {
                Outcome::Answers(outcome) => return outcome,
                Outcome::Prepared(outcome) => outcome?,
                Outcome::Again if !attempts.take_again() => return Err(Error::Closed(None)),
                Outcome::Again | Outcome::Lead => {}
            }
        }
    }
}

impl Attempts {
    fn take_again(&mut self) -> bool {
        mem::take(&mut self.again)
    }
}

impl Line {
    /// Gets in line; whether the line is to be led from here.
    fn join(
        &self,
        queries: &[Query<'_>],
        deadline: Option<Instant>,
        promise: &Arc<Promise<Outcome>>,
    ) -> Result<bool, Error> {
        loop {
            let (connection, known) = unpoisoned(&self.queue).known(queries);
            // Values are written down outside the lock: that is code of others.
            let what = match known {
                Ok(statements) => written(connection, statements, queries)?,
                Err(sql) => What::Prepare(sql),
            };
            let mut queue = unpoisoned(&self.queue);
            if queue.connections == connection {
                queue.asked.push_back(Asked { what, deadline, promise: Some(Arc::clone(promise)) });
                return Ok(!mem::replace(&mut queue.led, true));
            }
        }
    }

    /// Waits to be told, and leads where it is told so.
    fn wait(
        &self,
        config: &Config,
        deadline: Option<Instant>,
        promise: &Arc<Promise<Outcome>>,
        mut leads: bool,
    ) -> Result<Outcome, Error> {
        loop {
            if leads {
                self.lead(config, promise);
            }
            match promise.take_until(deadline) {
                Ok(Some(Outcome::Lead)) => leads = true,
                Ok(Some(told)) => return Ok(told),
                late => {
                    self.leave(promise);
                    return Err(late.map_or_else(Error::of_stream, |_| Error::Deadline));
                }
            }
        }
    }

    /// Waits no longer. Who was told to lead in the same moment leaves it to the next.
    fn leave(&self, promise: &Arc<Promise<Outcome>>) {
        let is_it = |asked: &Asked| asked.promise.as_ref().is_some_and(|other| Arc::ptr_eq(other, promise));
        let told = {
            let mut queue = unpoisoned(&self.queue);
            if let Some(place) = queue.asked.iter().position(is_it)
                && let Some(mut asked) = queue.asked.remove(place)
            {
                asked.promise = None;
            }
            promise.take_now()
        };
        if let Some(Outcome::Lead) = told {
            drop(Leader(self));
        }
    }

    /// Sends what is asked and reads the answers, until one's own is there.
    fn lead(&self, config: &Config, own: &Promise<Outcome>) {
        let leader = Leader(self);
        while !own.is_kept() {
            let (kept, batch) = unpoisoned(&self.queue).batch();
            let connection = leader.serve(config, kept, batch);
            let kept = connection.and_then(|mut one| one.is_clean().then_some(one));
            unpoisoned(&self.queue).kept = kept;
        }
    }
}

impl Queue {
    /// The statements as the present connection knows them, or the text of one that is to be prepared.
    fn known(&self, queries: &[Query<'_>]) -> (u64, Result<Vec<Arc<Statement>>, Box<str>>) {
        let mut statements: Vec<Arc<Statement>> = Vec::with_capacity(queries.len());
        for query in queries {
            // Often it is the one before with other values.
            let before = statements.last().filter(|statement| *statement.sql == *query.sql);
            match before.or_else(|| self.known.get(query.sql)).cloned() {
                Some(statement) => statements.push(statement),
                None => return (self.connections, Err(query.sql.into())),
            }
        }
        (self.connections, Ok(statements))
    }

    /// The connection, and what is to be sent next: no more at once than the kernel holds for a server that takes nothing
    /// while nobody takes its answers.
    fn batch(&mut self) -> (Option<Box<Connection>>, Vec<Asked>) {
        let mut bytes = 0;
        let mut fits = |asked: &Asked| {
            bytes += asked.bytes();
            bytes <= AHEAD_BYTES
        };
        let count = self.asked.iter().take_while(|asked| fits(asked)).count().max(1);
        let batch = self.asked.drain(..count.min(self.asked.len())).collect();
        (self.kept.take(), batch)
    }
}

impl Asked {
    fn bytes(&self) -> usize {
        match &self.what {
            What::Prepare(sql) => sql.len(),
            What::Run { bytes, .. } => bytes.len(),
        }
    }

    fn patience(&self) -> Patience<'static> {
        Patience { deadline: self.deadline, client: None }
    }

    fn tell(&mut self, told: Outcome) {
        if let Some(promise) = self.promise.take() {
            promise.keep(told);
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        // Nobody waits for ever.
        self.tell(Outcome::Answers(Err(Error::Closed(None))));
    }
}

/// Who uses the connection. It is handed on when this is dropped.
struct Leader<'l>(&'l Line);

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        let mut queue = unpoisoned(&self.0.queue);
        let next = queue.asked.front().and_then(|asked| asked.promise.clone());
        queue.led = next.is_some();
        // Under the lock, so that whoever leaves finds itself called or not in line.
        if let Some(next) = next {
            next.keep(Outcome::Lead);
        }
    }
}

impl Leader<'_> {
    /// Does what a batch asks for; the connection after it.
    fn serve(
        &self,
        config: &Config,
        kept: Option<Box<Connection>>,
        mut batch: Vec<Asked>,
    ) -> Option<Box<Connection>> {
        let mut connection = match kept.and_then(|mut one| one.wire.is_quiet().then_some(one)) {
            Some(connection) => connection,
            None => self.open(config, &mut batch)?,
        };
        for asked in &mut batch {
            if let What::Prepare(sql) = &asked.what {
                let told = self.prepare(config, &mut connection, &asked.patience(), sql);
                asked.tell(Outcome::Prepared(told));
            }
        }
        self.run(config, &mut connection, &mut batch);
        Some(connection)
    }

    /// Another connection, which knows no statement yet, for those of a batch who want one prepared. Who wrote down statements for the
    /// connection before does so again first, so that none is opened for nothing.
    fn open(&self, config: &Config, batch: &mut [Asked]) -> Option<Box<Connection>> {
        {
            let mut queue = unpoisoned(&self.0.queue);
            queue.connections += 1;
            queue.known.clear();
        }
        for asked in &mut *batch {
            if matches!(asked.what, What::Run { .. }) {
                asked.tell(Outcome::Again);
            }
        }
        let first = batch.iter().find(|asked| asked.promise.is_some())?;
        match connect(config, &first.patience()) {
            Ok(connection) => Some(Box::new(connection)),
            Err(error) => {
                batch.iter_mut().for_each(|asked| asked.tell(Outcome::Answers(Err(error.alike()))));
                None
            }
        }
    }

    fn prepare(
        &self,
        config: &Config,
        connection: &mut Connection,
        patience: &Patience<'_>,
        sql: &str,
    ) -> Result<(), Error> {
        if connection.broken {
            return Err(Error::Closed(None));
        }
        let outcome = connection.statement(patience, sql);
        let statement = connection.settle(config, outcome)?;
        let mut queue = unpoisoned(&self.0.queue);
        if queue.known.len() >= STATEMENTS_MAX {
            // Those that are still used are found again on the connection, which forgets the oldest.
            queue.known.clear();
        }
        queue.known.insert(sql.into(), statement);
        Ok(())
    }

    /// Sends what was written down for this connection, and reads the answers.
    fn run(&self, config: &Config, connection: &mut Connection, batch: &mut [Asked]) {
        let number = unpoisoned(&self.0.queue).connections;
        for asked in &mut *batch {
            match &asked.what {
                What::Run { connection: of, bytes, statements } if *of == number && !connection.broken => {
                    connection.append(bytes, statements.iter().filter(|one| one.is_ok()).count());
                }
                _ => asked.tell(Outcome::Again),
            }
        }
        let mut sent = batch.iter_mut().filter(|asked| asked.promise.is_some()).peekable();
        // The first has waited longest.
        let mut failure = sent.peek().and_then(|first| connection.flush(&first.patience()).err());
        for asked in sent {
            let outcome = match &failure {
                Some(error) => Err(error.alike()),
                None => self.answers(connection, &asked.patience(), &mut asked.what),
            };
            if let Err(error) = &outcome {
                failure.get_or_insert_with(|| error.alike());
            }
            asked.tell(Outcome::Answers(outcome));
        }
        if let Some(error) = failure {
            let _ = connection.settle::<()>(config, Err(error)); // it is told already
        }
    }

    /// The answers to what one has asked.
    fn answers(
        &self,
        connection: &mut Connection,
        patience: &Patience<'_>,
        what: &mut What,
    ) -> Result<Answers, Error> {
        let What::Run { statements, .. } = what else { return Ok(Vec::new()) };
        let mut answers = Vec::with_capacity(statements.len());
        for statement in statements.drain(..) {
            let answer = statement.and_then(|statement| {
                let answer = connection.answer(patience, &statement);
                if matches!(&answer, Err(Error::Server(said)) if is_stale(said)) {
                    unpoisoned(&self.0.queue).known.remove(&statement.sql);
                }
                answer
            });
            answers.push(of_statement(answer)?);
        }
        Ok(answers)
    }
}

/// Statements with their values, as they are sent.
fn written(connection: u64, statements: Vec<Arc<Statement>>, queries: &[Query<'_>]) -> Result<What, Error> {
    let mut bytes = BytesMut::with_capacity(queries.len() * STATEMENT_BYTES);
    let write = |(statement, query): (Arc<Statement>, &Query<'_>)| {
        write_bind(&mut bytes, &statement, query.parameters).map(|()| statement)
    };
    let statements: Vec<_> = statements.into_iter().zip(queries).map(write).collect();
    if statements.len() > 1 && bytes.len() > AHEAD_BYTES {
        return Err(Error::Unsupported("a pipeline of less than 32 KiB"));
    }
    Ok(What::Run { connection, bytes, statements })
}
