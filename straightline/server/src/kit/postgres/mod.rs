//! A client of PostgreSQL that suspends the handler and not the thread, by `postgres-protocol`.
//!
//! ```no_run
//! use straightline::Server;
//! use straightline::kit::postgres::{Config, Pool};
//!
//! let config: Config = "postgres://me:secret@localhost/books".parse()?;
//! let pool = Pool::new(config).connections(4);
//! Server::bind("127.0.0.1:8080")?.serve(move |request, response| {
//!     let mut database = pool.get_for(request)?;
//!     let row = database.query_one("select title from books where id = $1", &[&7_i32])?;
//!     response.send(row.get::<&str>("title")?.as_bytes())
//! })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - [`Pool`] keeps a few connections for each shard; [`Client::connect`] opens one alone.
//! - [`Pool::shared`] is one connection for all handlers of a shard at once, for statements that are short and stand for
//!   themselves: what they ask meanwhile goes out together.
//!   `get()?` waits for a connection, and so may fail; `shared()` only names the common one, and its statements may fail:
//!
//!   ```no_run
//!   # use straightline::kit::postgres::{Error, Pool};
//!   # fn count(pool: &Pool) -> Result<(), Error> {
//!   let mine = pool.get()?.query_one("select count(*) from books", &[])?;
//!   let common = pool.shared().query_one("select count(*) from books", &[])?;
//!   # Ok(())
//!   # }
//!   ```
//! - Values go in and out by the traits of `postgres-types`, which is [`types`] here.
//! - A statement is prepared at its first use and known to its connection from then on.
//! - Each statement has a deadline ([`Config::query_time`]). At its end, or when the client of [`Pool::get_for`] has
//!   gone, the statement is cancelled on the server; the connection goes on.
//! - What a handler sets for the session by `SET` is not there for the next one: the connection is replaced. `SET LOCAL`,
//!   within a transaction, costs nothing. Temporary tables, advisory locks and what functions such as `set_config` set
//!   do stay.
//! - Whatever goes wrong is an [`Error`] that says what, and never a wrong answer to somebody else: a connection of which
//!   it is not known what comes next is closed, and replaced.
//!
//! Source: PostgreSQL 15, chapter 55, "Frontend/Backend Protocol".

mod client;
mod config;
mod connect;
mod connection;
mod copy;
mod error;
mod kinds;
mod patience;
mod pool;
mod row;
mod shared;
mod statement;
mod tls;
mod transaction;
mod wire;

pub use client::{Answer, Client, Query};
pub use config::{Config, SslMode};
pub use connection::Parameters;
pub use copy::CopyIn;
pub use error::{Error, ServerError};
pub use pool::{Pool, PoolCounts};
pub use postgres_types as types;
pub use row::{Column, ColumnIndex, Row};
pub use shared::Shared;
pub use transaction::Transaction;
