//! hyper 0.11 on tokio-core: futures without async, on one thread.

#[path = "../../../common/target.rs"]
mod target;

use std::io;

use futures01::{Future, Stream, future};
use hyper011::header::ContentLength;
use hyper011::server::{Http, Request, Response, Service};
use hyper011::{Chunk, Method, StatusCode};
use tokio_core::net::TcpListener;
use tokio_core::reactor::Core;

struct Plaintext;

impl Service for Plaintext {
    type Request = Request;
    type Response = Response;
    type Error = hyper011::Error;
    type Future = future::FutureResult<Response, hyper011::Error>;

    fn call(&self, request: Request) -> Self::Future {
        let (status, body) = match request.path() {
            "/plaintext" => (StatusCode::Ok, target::BODY),
            _ => (StatusCode::NotFound, "Not Found"),
        };
        let mut response = Response::new().with_status(status);
        let headers = response.headers_mut();
        headers.set_raw("Server", target::SERVER);
        headers.set_raw("Content-Type", "text/plain");
        headers.set(ContentLength(body.len() as u64)); // without it the body is sent in chunks
        if *request.method() != Method::Head {
            response.set_body(body);
        }
        future::ok(response)
    }
}

fn main() -> io::Result<()> {
    let mut core = Core::new()?;
    let handle = core.handle();
    let listener = TcpListener::bind(&target::address(), &handle)?;
    let mut http = Http::<Chunk>::new();
    http.pipeline(target::option("--pipeline-flush", true));
    core.run(listener.incoming().for_each(move |(socket, _)| {
        socket.set_nodelay(true)?;
        handle.spawn(http.serve_connection(socket, Plaintext).then(|_| Ok(())));
        Ok(())
    }))
}
