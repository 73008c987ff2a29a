//! khttp as its documentation shows it.

#[path = "../../common/target.rs"]
mod target;

use std::io;

use khttp::{Headers, Method, Server};
use serde::Serialize;

#[derive(Serialize)]
struct Greeting {
    message: &'static str,
}

fn main() -> io::Result<()> {
    let workers: usize = target::option("--workers", 1);
    let mut server = Server::builder(target::address())?;
    server.route(Method::Get, "/plaintext", |_, response| {
        let mut headers = Headers::new();
        headers.add("Server", target::SERVER.as_bytes());
        headers.add(Headers::CONTENT_TYPE, b"text/plain".as_slice());
        response.ok(&headers, target::BODY)
    });
    server.route(Method::Get, "/json", |_, response| {
        let mut headers = Headers::new();
        headers.add("Server", target::SERVER.as_bytes());
        headers.add(Headers::CONTENT_TYPE, b"application/json".as_slice());
        response.ok(&headers, serde_json::to_vec(&Greeting { message: target::BODY })?)
    });
    server.thread_count(workers);
    let server = server.build();
    if target::option("--epoll", false) { server.serve_epoll() } else { server.serve_threaded() }
}
