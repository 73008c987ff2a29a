//! Drive a server along a schedule and record one sample for each request.
//!
//! | module | what | pure |
//! |---|---|---|
//! | [`schedule`] | when requests are due | yes |
//! | [`session`] | what to send, what came, what to record | yes |
//! | `driver` | threads, epoll, sockets, clocks | no |
//! | `tls` | whom to trust, and why a handshake failed | no |
//! | `list` | weighted lists and access logs | yes |
//! | `scenario` | users and their steps | yes |
//! | `merge` | shards into one | yes |
//! | `repeat` | windows one after another into one | yes |
//! | `window` | one window as data, whole or in parts | yes |
//! | `summary` | tallies into a [`model::record::LoadReport`] | yes |
//! | [`export`] | histograms into `.hlog` and `.hgrm` text | yes |
//! | [`wrk`] | a run in the words of wrk and wrk2 | yes |
//!
//! [`run`] puts them together.
#![forbid(unsafe_code)]

mod config;
mod driver;
mod error;
pub mod export;
mod histogram;
mod list;
mod merge;
mod repeat;
mod request;
mod scenario;
pub mod schedule;
pub mod session;
mod summary;
mod supply;
mod target;
mod tls;
mod websocket;
mod window;
pub mod wrk;

pub use config::{Config, Idle, MAX_CONNECTIONS, MAX_PIPELINE, MAX_SLACK, MAX_THREADS, Shard, Warmup};
pub use driver::{Event, Outcome, Phases, Turns, ask, check_job, run, run_fed, serve};
pub use error::LoadError;
pub use histogram::{Latencies, SecondLatencies, add_latencies, latencies};
pub use list::{JobRequests, List, MAX_ENTRIES, logged};
pub use merge::{MergeError, Merged, hlog, merge, second_line, shard_log};
pub use repeat::in_turn;
pub use request::Request;
pub use scenario::Scenario;
pub use supply::{Requests, Supply};
pub use target::{Address, Scheme, Target};
pub use tls::{Identity, Roots, Tls};
pub use window::WindowJob;
