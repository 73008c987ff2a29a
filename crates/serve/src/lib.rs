//! The built-in servers: the same handler under different models of concurrency, so that a comparison of them compares
//! the models and not the answers.
//!
//! A crate of their own: in a release they are made fast and keep their line tables, and most of the rest is made small.

#![forbid(unsafe_code)]

mod coroutines;
mod futures;
mod threads;

use std::net::TcpListener;

/// How requests are served at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Model {
    /// A thread for each connection.
    Threads,
    /// hyper on tokio.
    Futures,
    /// straightline.
    Coroutines,
}

/// What the handler answers: status, content type, body. Borrowed for ever, so that no model pays for copying it.
struct Reply {
    status: u16,
    content_type: &'static str,
    body: &'static [u8],
}

/// The handler that all models share: one path that exists, as in the benchmarks people run. `path` has no query.
fn handle(path: &str) -> Reply {
    match path {
        "/" | "/plaintext" => Reply { status: 200, content_type: "text/plain", body: b"Hello, World!" },
        _ => Reply { status: 404, content_type: "text/plain", body: b"not found\n" },
    }
}

/// Serves on `workers` threads, or for threads accepts on so many, until a signal ends the process.
///
/// # Errors
/// What kept it from serving.
pub fn run(listener: TcpListener, model: Model, workers: u32) -> anyhow::Result<()> {
    match model {
        Model::Threads => threads::serve(&listener, workers),
        Model::Futures => futures::serve(&listener, workers),
        Model::Coroutines => coroutines::serve(listener, workers),
    }
}
