//! hyper 1 on tokio: the same server as hyper011, a few years on. One worker is one thread that
//! does everything, as there; more are tokio's threads that steal from each other.

#[path = "../../../common/target.rs"]
mod target;

use std::convert::Infallible;
use std::io;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue, SERVER};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde::Serialize;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};

fn main() -> io::Result<()> {
    runtime(target::option("--workers", 1))?.block_on(accept())
}

fn runtime(workers: usize) -> io::Result<Runtime> {
    match workers {
        1 => Builder::new_current_thread().enable_io().build(),
        n => Builder::new_multi_thread().worker_threads(n).enable_io().build(),
    }
}

async fn accept() -> io::Result<()> {
    let listener = TcpListener::bind(target::address()).await?;
    let pipeline_flush = target::option("--pipeline-flush", true);
    let http2 = target::option("--http2", false);
    loop {
        let (socket, _) = listener.accept().await?;
        socket.set_nodelay(true)?;
        if http2 {
            tokio::spawn(serve_http2(socket));
        } else {
            tokio::spawn(serve(socket, pipeline_flush));
        }
    }
}

async fn serve(socket: TcpStream, pipeline_flush: bool) {
    let mut http = http1::Builder::new();
    http.pipeline_flush(pipeline_flush);
    // An error is a client that went away, and no concern of a server under test.
    let _ = http.serve_connection(TokioIo::new(socket), service_fn(answer)).await;
}

/// By prior knowledge: the client begins with HTTP/2.
async fn serve_http2(socket: TcpStream) {
    let http = http2::Builder::new(TokioExecutor::new());
    let _ = http.serve_connection(TokioIo::new(socket), service_fn(answer)).await;
}

#[derive(Serialize)]
struct Greeting {
    message: &'static str,
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (status, content_type, body) = match request.uri().path() {
        "/plaintext" => (StatusCode::OK, "text/plain", Bytes::from_static(target::BODY.as_bytes())),
        "/json" => {
            let body = serde_json::to_vec(&Greeting { message: target::BODY }).expect("a text is JSON");
            (StatusCode::OK, "application/json", body.into())
        }
        _ => (StatusCode::NOT_FOUND, "text/plain", Bytes::from_static(b"Not Found")),
    };
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(SERVER, HeaderValue::from_static(target::SERVER));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    Ok(response)
}
