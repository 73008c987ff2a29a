//! The built-in servers: the same handler under different models of concurrency, so that a comparison of them compares
//! the models and not the answers.

mod coroutines;
mod futures;
mod threads;

use std::net::{SocketAddr, TcpListener};

use anyhow::Context;

use crate::cli::{Model, ServeArgs};

/// What the handler answers: status, content type, body. Borrowed for ever, so that no model pays for copying it.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) content_type: &'static str,
    pub(crate) body: &'static [u8],
}

/// The handler that all models share: one path that exists, as in the benchmarks people run. `path` has no query.
pub(crate) fn handle(path: &str) -> Reply {
    match path {
        "/" | "/plaintext" => Reply { status: 200, content_type: "text/plain", body: b"Hello, World!" },
        _ => Reply { status: 404, content_type: "text/plain", body: b"not found\n" },
    }
}

/// Serves until it is ended by a signal.
pub(crate) fn run(args: &ServeArgs) -> anyhow::Result<()> {
    let place = SocketAddr::new(args.address, args.port);
    let listener = TcpListener::bind(place).with_context(|| format!("cannot listen on {place}"))?;
    let address = listener.local_addr().context("the listener has no address")?;
    crate::print(&format!("listening on {address}\n"))?;
    match args.model {
        Model::Threads => threads::serve(&listener, args.workers),
        Model::Futures => futures::serve(&listener, args.workers),
        Model::Coroutines => coroutines::serve(listener, args.workers),
    }
}
