//! axum as its documentation shows it.

#[path = "../../common/target.rs"]
mod target;

use std::io;

use axum::Router;
use axum::http::header::{CONTENT_TYPE, HeaderName, SERVER};
use axum::routing::get;
use axum::serve::ListenerExt;
use tokio::net::TcpListener;
use tokio::runtime::Builder;

fn main() -> io::Result<()> {
    let workers = target::option("--workers", 1);
    Builder::new_multi_thread().worker_threads(workers).enable_io().build()?.block_on(serve())
}

async fn serve() -> io::Result<()> {
    let routes = Router::new().route("/plaintext", get(plaintext));
    let listener = TcpListener::bind(target::address()).await?.tap_io(|socket| {
        let _ = socket.set_nodelay(true); // a socket that is gone shows when it is read
    });
    axum::serve(listener, routes).await
}

async fn plaintext() -> ([(HeaderName, &'static str); 2], &'static str) {
    ([(SERVER, target::SERVER), (CONTENT_TYPE, "text/plain")], target::BODY)
}
