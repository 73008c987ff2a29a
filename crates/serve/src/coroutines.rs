//! Coroutines: straightline, one shard for each worker.

use std::net::TcpListener;

use anyhow::Context;
use straightline::Server;

pub(super) fn serve(listener: TcpListener, workers: u32) -> anyhow::Result<()> {
    let server =
        Server::from_listener(listener).context("cannot serve on the listener")?.workers(workers as usize);
    let served = server.serve(|request, response| {
        let reply = super::handle(request.path());
        response.status(reply.status).header("Content-Type", reply.content_type)?.send(reply.body)
    });
    served.map(drop).context("the server ended")
}
