//! A client of Redis that suspends the handler and not the thread.
//!
//! ```no_run
//! use straightline::Server;
//! use straightline::kit::redis::{Config, Pool};
//!
//! let config: Config = "redis://localhost".parse()?;
//! let pool = Pool::new(config).connections(4);
//! Server::bind("127.0.0.1:8080")?.serve(move |request, response| {
//!     let visits = pool.get()?.increment(request.path())?;
//!     response.send(visits.to_string().as_bytes())
//! })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - [`Pool`] keeps a few connections for each shard; [`Client::connect`] opens one alone.
//! - [`Client::get`], [`Client::set`] and a few others are the common commands; [`Client::command`] sends any that is answered
//!   once, [`Client::pipeline`] many in one round trip, [`Client::transaction`] many that are done together or not at all.
//! - Each has a deadline ([`Config::command_time`]). At its end the connection is closed, and the pool replaces it.
//! - What changes a connection for whoever uses it next, or is answered more than once (`SELECT`, `WATCH`, `SUBSCRIBE` and
//!   their like), is refused.
//!
//! Source: the Redis serialization protocol, versions 2 and 3.

mod client;
mod config;
mod error;
mod pool;
mod wire;

pub use crate::kit::shelf::PoolCounts;
pub use client::{Client, Words};
pub use config::Config;
pub use error::Error;
pub use pool::Pool;
pub use wire::Value;
