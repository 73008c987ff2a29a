//! khttp as its documentation shows it.

#[path = "../../common/target.rs"]
mod target;

use std::io;

use khttp::{Headers, Method, Server};

fn main() -> io::Result<()> {
    let workers: usize = target::option("--workers", 1);
    let mut server = Server::builder(target::address())?;
    server.route(Method::Get, "/plaintext", |_, response| {
        let mut headers = Headers::new();
        headers.add("Server", target::SERVER.as_bytes());
        headers.add(Headers::CONTENT_TYPE, b"text/plain".as_slice());
        response.ok(&headers, target::BODY)
    });
    server.thread_count(workers);
    let server = server.build();
    if target::option("--epoll", false) { server.serve_epoll() } else { server.serve_threaded() }
}
