//! The built-in servers, started.

use std::net::{SocketAddr, TcpListener};

use anyhow::Context;

use crate::cli::{Model, ServeArgs};

/// Serves until it is ended by a signal.
pub(crate) fn run(args: &ServeArgs) -> anyhow::Result<()> {
    let place = SocketAddr::new(args.address, args.port);
    let listener = TcpListener::bind(place).with_context(|| format!("cannot listen on {place}"))?;
    let address = listener.local_addr().context("the listener has no address")?;
    crate::print(&format!("listening on {address}\n"))?;
    let model = match args.model {
        Model::Threads => serve::Model::Threads,
        Model::Futures => serve::Model::Futures,
        Model::Coroutines => serve::Model::Coroutines,
    };
    serve::run(listener, model, args.workers)
}
