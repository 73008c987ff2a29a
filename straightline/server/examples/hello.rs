//! The smallest server: `hello [ADDRESS [WORKERS]]`.

use std::time::Duration;
use straightline::{Error, Running, Server};

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:8080".into());
    let workers = arguments.next().and_then(|count| count.parse().ok()).unwrap_or(1);
    let server = Server::bind(address.as_str())?.workers(workers).on_signals(Duration::from_secs(5));
    start(server)?.join();
    Ok(())
}

/// Begins to say hello.
pub(crate) fn start(server: Server) -> Result<Running, Error> {
    server.spawn(|_, response| response.header("content-type", "text/plain")?.send(b"Hello, World!"))
}
