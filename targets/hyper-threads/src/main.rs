//! hyper 0.10 with a thread per connection, or with hyper's own pool of threads (`--pool N`), where
//! a connection that finds no free thread waits until another one closes.

mod serve;
#[path = "../../common/target.rs"]
mod target;

use std::net::TcpListener;
use std::thread;

use hyper::net::{HttpListener, HttpStream};
use hyper::server::{Request, Response, Server};

fn main() -> std::io::Result<()> {
    let listener = TcpListener::bind(target::address())?;
    match target::option("--pool", 0) {
        0 => serve_by_thread_per_connection(listener),
        threads => serve_by_pool(listener, threads),
    }
}

fn serve_by_thread_per_connection(listener: TcpListener) -> std::io::Result<()> {
    let nodelay = target::option("--nodelay", false);
    let timeouts = target::option("--timeouts", true);
    loop {
        let (stream, _) = listener.accept()?;
        stream.set_nodelay(nodelay)?;
        thread::Builder::new().spawn(move || serve::serve(HttpStream(stream), timeouts))?;
    }
}

fn serve_by_pool(listener: TcpListener, threads: usize) -> std::io::Result<()> {
    let handler = |request: Request, response: Response| {
        let _ = serve::handle(request, response); // hyper notices a broken connection itself
    };
    let server = Server::new(HttpListener::from(listener));
    let listening = server.handle_threads(handler, threads).map_err(std::io::Error::other)?;
    drop(listening); // which waits for the pool, that is for ever
    Ok(())
}
