//! One session with the server: statements sent, answers read, and what is still owed.

use super::client::Answer;
use super::config::Config;
use super::connect::cancel;
use super::error::Error;
use super::patience::Patience;
use super::row::{Column, Row};
use super::statement::{Statement, Statements};
use super::wire::{Said, Wire, server_error};
use crate::rt;
use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use postgres_protocol::IsNull;
use postgres_protocol::message::backend::{CommandCompleteBody, ErrorResponseBody, Message};
use postgres_protocol::message::frontend::{self, BindError};
use postgres_types::{Format, Oid, ToSql, Type};
use std::cell::Cell;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Longest wait for the server to come to an end with what was cancelled: it looks between two rows.
const GRACE: Duration = Duration::from_secs(2);
/// A value in the format of its type rather than as text.
const BINARY: i16 = 1;

/// What is to be done with each row.
pub(super) type Each<'e> = &'e mut dyn FnMut(Row) -> Result<(), Error>;

/// The types that a statement takes, and the names and types of what it gives.
type Description = (Vec<Oid>, Vec<(String, Oid)>);

/// The values of a statement's parameters.
pub type Parameters<'p> = &'p [&'p (dyn ToSql + Sync)];

/// Whether the session is in a transaction.
///
/// Source: PostgreSQL 15, section 55.7, `ReadyForQuery`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Idle,
    InTransaction,
    Failed,
}

/// One session.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) wire: Wire,
    /// Process id and secret that a request to cancel must name.
    key: Option<(i32, i32)>,
    statements: Statements,
    /// Types that this client does not know by itself.
    pub(super) kinds: HashMap<Oid, Type>,
    /// How often the server has still to say that it is ready.
    owed: u32,
    /// Whether the last statement was sent as it is, and not prepared.
    simple: bool,
    pub(super) status: Status,
    /// Transactions begun within each other.
    pub(super) depth: u32,
    pub(super) broken: bool,
    /// Whether settings were changed for longer than a transaction: whoever comes next would have them.
    altered: bool,
}

impl Connection {
    pub(super) fn new(wire: Wire, key: Option<(i32, i32)>) -> Self {
        Self {
            wire,
            key,
            statements: Statements::default(),
            kinds: HashMap::new(),
            owed: 0,
            simple: false,
            status: Status::Idle,
            depth: 0,
            broken: false,
            altered: false,
        }
    }

    /// Whether somebody else can use it.
    pub(super) fn is_clean(&mut self) -> bool {
        let is_settled = self.owed == 0 && self.status == Status::Idle && self.depth == 0;
        is_settled && !self.broken && !self.altered && self.wire.is_empty()
    }

    /// Sends statements that were written down, if nothing is left of the answers before.
    pub(super) fn send(&mut self, patience: &Patience<'_>) -> Result<(), Error> {
        self.wire.end_of_answers()?;
        self.wire.send(patience)
    }

    /// Runs a statement; how many rows it changed or gave.
    pub(super) fn run(
        &mut self,
        patience: &Patience<'_>,
        sql: &str,
        parameters: Parameters<'_>,
        each: Each<'_>,
    ) -> Result<u64, Error> {
        let outcome = self.run_once(patience, sql, parameters, each);
        match outcome {
            // The table was changed since the plan was made, or somebody dropped it: nothing was done yet.
            Err(Error::Server(said)) if is_stale(&said) && self.status == Status::Idle => {
                self.run_once(patience, sql, parameters, each)
            }
            outcome => outcome,
        }
    }

    fn run_once(
        &mut self,
        patience: &Patience<'_>,
        sql: &str,
        parameters: Parameters<'_>,
        each: Each<'_>,
    ) -> Result<u64, Error> {
        let statement = self.statement(patience, sql)?;
        self.bind(&statement, parameters)?;
        self.send(patience)?;
        self.result(patience, &statement, each)
    }

    /// The answer to one statement that was sent.
    fn result(
        &mut self,
        patience: &Patience<'_>,
        statement: &Statement,
        each: Each<'_>,
    ) -> Result<u64, Error> {
        let outcome = self.read_result(patience, &statement.sql, &statement.columns, each);
        if matches!(&outcome, Err(Error::Server(said)) if is_stale(said)) {
            self.statements.forget(&statement.sql, &mut self.wire.output);
        }
        outcome
    }

    /// The same, with its rows collected.
    pub(super) fn answer(&mut self, patience: &Patience<'_>, statement: &Statement) -> Result<Answer, Error> {
        let mut rows = Vec::new();
        let changed = self.result(patience, statement, &mut |row| {
            rows.push(row);
            Ok(())
        })?;
        Ok(Answer { rows, changed })
    }

    /// Has statements sent that were written down elsewhere, as many as that.
    pub(super) fn append(&mut self, bytes: &[u8], statements: usize) {
        self.wire.output.extend_from_slice(bytes);
        self.owed += u32::try_from(statements).unwrap_or(u32::MAX);
        self.simple = false;
    }

    /// Sends what was written down, if anything was.
    pub(super) fn flush(&mut self, patience: &Patience<'_>) -> Result<(), Error> {
        if self.wire.output.is_empty() { Ok(()) } else { self.send(patience) }
    }

    /// The statement of this text, prepared now if it is new.
    pub(super) fn statement(&mut self, patience: &Patience<'_>, sql: &str) -> Result<Arc<Statement>, Error> {
        if let Some(known) = self.statements.find(sql) {
            return Ok(known);
        }
        let name = self.statements.name();
        self.write(|out| {
            frontend::parse(&name, sql, [], out)?;
            frontend::describe(b'S', &name, out)
        })?;
        self.sync();
        self.send(patience)?;
        let (parameters, columns) = self.read_description(patience)?;
        let kinds = parameters.into_iter().map(|oid| self.kind(patience, oid));
        let parameters = kinds.collect::<Result<_, _>>()?;
        let columns = columns.into_iter().map(|(name, oid)| {
            let kind = self.kind(patience, oid)?;
            Ok(Column { name, kind })
        });
        let columns = columns.collect::<Result<_, Error>>()?;
        let statement = Arc::new(Statement { name, sql: sql.into(), parameters, columns });
        self.statements.keep(sql, &statement, &mut self.wire.output);
        Ok(statement)
    }

    /// What a statement takes and gives, as numbers of types.
    fn read_description(&mut self, patience: &Patience<'_>) -> Result<Description, Error> {
        let not_ours = |error: io::Error| Error::Protocol(error.to_string());
        let (mut parameters, mut columns, mut failure) = (None, Vec::new(), None);
        loop {
            match self.next(patience, &mut failure)? {
                Message::ParameterDescription(body) => {
                    let oids = body.parameters().collect().map_err(not_ours)?;
                    parameters = Some(oids);
                }
                Message::RowDescription(body) => {
                    let fields = body.fields().map(|field| Ok((field.name().to_owned(), field.type_oid())));
                    columns = fields.collect().map_err(not_ours)?;
                }
                Message::ParseComplete | Message::CloseComplete | Message::NoData => {}
                Message::ErrorResponse(body) => note(&mut failure, &body)?,
                Message::ReadyForQuery(body) => {
                    self.ready(body.status())?;
                    let parameters = parameters.ok_or_else(|| unexpected("a description"));
                    return failure.map_or_else(|| Ok((parameters?, columns)), Err);
                }
                _ => return Err(unexpected("a description")),
            }
        }
    }

    /// Writes down that a statement is to be run with these parameters.
    pub(super) fn bind(&mut self, statement: &Statement, parameters: Parameters<'_>) -> Result<(), Error> {
        write_bind(&mut self.wire.output, statement, parameters)?;
        self.append(&[], 1);
        Ok(())
    }

    /// Reads the answer to one statement, to its end.
    fn read_result(
        &mut self,
        patience: &Patience<'_>,
        sql: &str,
        columns: &Arc<[Column]>,
        each: Each<'_>,
    ) -> Result<u64, Error> {
        let (mut changed, mut failure) = (0, None);
        loop {
            let said = self.wire.next_of_answer(patience).map_err(|error| why(error, &mut failure))?;
            let message = match said {
                Said::Bound => continue,
                Said::Done(rows) => {
                    changed = rows;
                    continue;
                }
                Said::Ready(status) => {
                    self.ready(status)?;
                    return failure.map_or(Ok(changed), Err);
                }
                Said::Other(message) => message,
            };
            match message {
                Message::DataRow(body) if failure.is_none() => {
                    let row = Row { columns: Arc::clone(columns), values: body.buffer_bytes().clone() };
                    failure = each(row).err();
                }
                Message::CommandComplete(body) => changed = rows_of(self.note_tag(&body, sql)?),
                Message::ErrorResponse(body) => note(&mut failure, &body)?,
                Message::CopyInResponse(_) => {
                    self.refuse_copy(patience)?;
                    failure = Some(Error::Unsupported("a copy: see `Client::copy_in`"));
                }
                Message::CopyOutResponse(_) => failure = Some(Error::Unsupported("a copy to the client")),
                Message::CloseComplete
                | Message::EmptyQueryResponse
                | Message::DataRow(_)
                | Message::CopyData(_)
                | Message::CopyDone => {}
                _ => return Err(unexpected("a result")),
            }
        }
    }

    /// Sends statements as they are, and gives what the last of them was called.
    pub(super) fn batch(&mut self, patience: &Patience<'_>, sql: &str) -> Result<String, Error> {
        self.write(|out| frontend::query(sql, out))?;
        self.owed += 1;
        self.simple = true;
        self.send(patience)?;
        let (mut called, mut failure) = (String::new(), None);
        loop {
            match self.next(patience, &mut failure)? {
                Message::CommandComplete(body) => called = self.note_tag(&body, sql)?.to_owned(),
                Message::ErrorResponse(body) => note(&mut failure, &body)?,
                Message::CopyInResponse(_) => {
                    self.refuse_copy(patience)?;
                    failure = Some(Error::Unsupported("a copy: see `Client::copy_in`"));
                }
                Message::ReadyForQuery(body) => {
                    self.ready(body.status())?;
                    return failure.map_or(Ok(called), Err);
                }
                Message::CloseComplete
                | Message::EmptyQueryResponse
                | Message::RowDescription(_)
                | Message::DataRow(_)
                | Message::CopyOutResponse(_)
                | Message::CopyData(_)
                | Message::CopyDone => {}
                _ => return Err(unexpected("the result of a batch")),
            }
        }
    }

    /// Begins a copy to the server.
    pub(super) fn begin_copy(&mut self, patience: &Patience<'_>, sql: &str) -> Result<(), Error> {
        self.write(|out| frontend::query(sql, out))?;
        self.owed += 1;
        self.simple = true;
        self.send(patience)?;
        let mut failure = None;
        loop {
            match self.next(patience, &mut failure)? {
                Message::CopyInResponse(_) => return Ok(()),
                Message::ErrorResponse(body) => note(&mut failure, &body)?,
                Message::ReadyForQuery(body) => {
                    self.ready(body.status())?;
                    return Err(failure.unwrap_or(Error::Unsupported("no copy")));
                }
                _ => failure = failure.or(Some(Error::Unsupported("no copy"))),
            }
        }
    }

    /// Reads the end of a copy: how many rows it brought.
    pub(super) fn end_copy(&mut self, patience: &Patience<'_>) -> Result<u64, Error> {
        self.wire.send(patience)?;
        self.read_result(patience, "", &Arc::from([]), &mut |_| Ok(()))
    }

    /// What a statement of the text `sql` was called that came to its end. The session is not to be given on after a `SET`.
    fn note_tag<'b>(&mut self, body: &'b CommandCompleteBody, sql: &str) -> Result<&'b str, Error> {
        let tag = body.tag().map_err(|error| Error::Protocol(error.to_string()))?;
        self.altered |= tag == "SET" && lasts(sql);
        Ok(tag)
    }

    /// Tells the server that nothing is to be copied. It passed over the end of a prepared statement, which is said again.
    fn refuse_copy(&mut self, patience: &Patience<'_>) -> Result<(), Error> {
        self.write(|out| frontend::copy_fail("no copy was meant", out))?;
        if !self.simple {
            frontend::sync(&mut self.wire.output);
        }
        self.wire.send(patience)
    }

    /// The next message.
    fn next(&mut self, patience: &Patience<'_>, failure: &mut Option<Error>) -> Result<Message, Error> {
        self.wire.next(patience).map_err(|error| why(error, failure))
    }

    /// Writes messages down, or nothing at all.
    pub(super) fn write(
        &mut self,
        message: impl FnOnce(&mut BytesMut) -> io::Result<()>,
    ) -> Result<(), Error> {
        let before = self.wire.output.len();
        message(&mut self.wire.output).map_err(|error| {
            self.wire.output.truncate(before);
            Error::Unsendable(error)
        })
    }

    fn sync(&mut self) {
        frontend::sync(&mut self.wire.output);
        self.owed += 1;
        self.simple = false;
    }

    fn ready(&mut self, status: u8) -> Result<(), Error> {
        self.status = match status {
            b'I' => Status::Idle,
            b'T' => Status::InTransaction,
            b'E' => Status::Failed,
            _ => return Err(unexpected("a state of the session")),
        };
        self.owed = self.owed.checked_sub(1).ok_or_else(|| unexpected("the next statement"))?;
        Ok(())
    }

    /// Sees to it that nothing is owed after `outcome`: what runs is cancelled, and what is said of it passed over.
    pub(super) fn settle<T>(&mut self, config: &Config, outcome: Result<T, Error>) -> Result<T, Error> {
        let Err(error) = &outcome else { return outcome };
        if error.breaks() || matches!(error, Error::Server(said) if said.is_fatal()) {
            self.broken = true;
            if let (Error::Cancelled(_), 1.., Some((process_id, secret_key))) = (error, self.owed, self.key) {
                let config = config.clone();
                // The helper does it; to wait for that is refused like every wait of a cancelled coroutine.
                let _ = rt::blocking(move || cancel(&config, process_id, secret_key));
            }
        } else if self.owed > 0 && !self.broken {
            let runs = matches!(error, Error::Deadline | Error::ClientGone);
            let told = match self.key.filter(|_| runs) {
                Some((process_id, secret_key)) => cancel(config, process_id, secret_key),
                None => Ok(()),
            };
            self.broken = told.and_then(|()| self.skip(&Patience::lasting(GRACE))).is_err();
        }
        outcome
    }

    /// Passes over all that is owed.
    pub(super) fn skip(&mut self, patience: &Patience<'_>) -> Result<(), Error> {
        while self.owed > 0 {
            match self.wire.next(patience)? {
                Message::ReadyForQuery(body) => self.ready(body.status())?,
                Message::CopyInResponse(_) => self.refuse_copy(patience)?,
                _ => {}
            }
        }
        Ok(())
    }
}

/// Writes down that a statement is to be run with these parameters, or nothing at all.
pub(super) fn write_bind(
    out: &mut BytesMut,
    statement: &Statement,
    parameters: Parameters<'_>,
) -> Result<(), Error> {
    let kinds = &statement.parameters;
    if kinds.len() != parameters.len() {
        return Err(Error::ParameterCount { takes: kinds.len(), given: parameters.len() });
    }
    let format = |(value, kind): (&&(dyn ToSql + Sync), &Type)| match value.encode_format(kind) {
        Format::Text => 0,
        Format::Binary => BINARY,
    };
    let formats = parameters.iter().zip(kinds).map(format);
    let (before, at) = (out.len(), Cell::new(0));
    let write_value = |(index, (value, kind)): (usize, (&&(dyn ToSql + Sync), &Type)), out: &mut BytesMut| {
        at.set(index);
        value.to_sql_checked(kind, out).map(|null| match null {
            postgres_types::IsNull::Yes => IsNull::Yes,
            postgres_types::IsNull::No => IsNull::No,
        })
    };
    let values = parameters.iter().zip(kinds).enumerate();
    if let Err(error) = frontend::bind("", &statement.name, formats, values, write_value, [BINARY], out) {
        out.truncate(before);
        let cause = match error {
            BindError::Conversion(cause) => cause,
            BindError::Serialization(error) => error.into(),
        };
        return Err(Error::Parameter { index: at.get(), cause });
    }
    frontend::execute("", 0, out).map_err(|error| {
        out.truncate(before);
        Error::Unsendable(error)
    })?;
    frontend::sync(out);
    Ok(())
}

impl Drop for Connection {
    fn drop(&mut self) {
        if !self.broken {
            self.wire.say_goodbye();
        }
    }
}

/// Whether it is said of a statement that must be prepared anew.
///
/// Source: PostgreSQL 15, appendix A: `invalid_sql_statement_name`, and `feature_not_supported` of a cached plan.
pub(super) fn is_stale(said: &super::ServerError) -> bool {
    said.code == "26000" || (said.code == "0A000" && said.stale_plan)
}

/// Remembers what the server says, unless something went wrong before.
fn note(failure: &mut Option<Error>, body: &ErrorResponseBody) -> Result<(), Error> {
    let said = server_error(body)?;
    failure.get_or_insert(Error::Server(said));
    Ok(())
}

/// Where the server closes after it said why, that is the error.
fn why(error: Error, failure: &mut Option<Error>) -> Error {
    match (error, failure.take()) {
        (Error::Closed(_) | Error::Lost(_), Some(Error::Server(said))) => Error::Closed(Some(said)),
        (error, _) => error,
    }
}

fn unexpected(instead_of: &str) -> Error {
    Error::Protocol(format!("a message that has no place instead of {instead_of}"))
}

/// How many rows: the last word of `INSERT 0 5`, `SELECT 5`.
fn rows_of(tag: &str) -> u64 {
    tag.rsplit(' ').next().and_then(|count| count.parse().ok()).unwrap_or(0)
}

/// Whether what a `SET` of this text sets may last longer than its transaction.
fn lasts(sql: &str) -> bool {
    let mut words = sql.split_whitespace();
    let mut next_is = |wanted: &[&str]| {
        words.next().is_some_and(|word| wanted.iter().any(|wanted| word.eq_ignore_ascii_case(wanted)))
    };
    let is_local = next_is(&["set"]) && next_is(&["local", "transaction"]);
    // Another statement may be behind the first.
    !is_local || sql.trim_end().trim_end_matches(';').contains(';')
}
