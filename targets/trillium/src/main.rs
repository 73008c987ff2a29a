//! trillium as its documentation shows it.

#[path = "../../common/target.rs"]
mod target;

use serde::Serialize;
use trillium::{Conn, KnownHeaderName};
use trillium_router::Router;

#[derive(Serialize)]
struct Greeting {
    message: &'static str,
}

async fn plaintext(conn: Conn) -> Conn {
    named(conn, "text/plain").ok(target::BODY)
}

async fn json(conn: Conn) -> Conn {
    let body = serde_json::to_vec(&Greeting { message: target::BODY }).expect("an object of one text");
    named(conn, "application/json").ok(body)
}

fn named(conn: Conn, kind: &'static str) -> Conn {
    conn.with_response_header(KnownHeaderName::Server, target::SERVER)
        .with_response_header(KnownHeaderName::ContentType, kind)
}

fn main() {
    let workers = target::option("--workers", 1);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(workers).enable_all().build();
    let (address, router) = (target::address(), Router::new().get("/plaintext", plaintext).get("/json", json));
    let server = trillium_tokio::config()
        .with_host(&address.ip().to_string())
        .with_port(address.port())
        .with_nodelay()
        .without_signals() // SIGTERM is to end it at once, not after the connections
        .run_async(router);
    runtime.expect("a runtime").block_on(server);
}
