//! Futures: hyper 1 on tokio, one single-threaded runtime for each worker.

use std::convert::Infallible;
use std::net::TcpListener;

use anyhow::Context;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;

pub(super) fn serve(listener: &TcpListener, workers: u32) -> anyhow::Result<()> {
    listener.set_nonblocking(true).context("cannot make the listener non-blocking")?;
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..workers).map(|_| scope.spawn(|| worker(listener))).collect();
        running.into_iter().try_for_each(|worker| worker.join().expect("a worker returns its error"))
    })
}

fn worker(listener: &TcpListener) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .context("cannot start a runtime")?;
    let listener = listener.try_clone().context("cannot share the listener")?;
    runtime.block_on(accept(listener))
}

async fn accept(listener: TcpListener) -> anyhow::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener).context("cannot watch the listener")?;
    let tasks = tokio::task::LocalSet::new();
    tasks
        .run_until(async {
            loop {
                // One connection that fails before it is accepted says nothing of the next.
                let Ok((stream, _)) = listener.accept().await else { continue };
                let _ = stream.set_nodelay(true);
                tokio::task::spawn_local(async move {
                    let connection = http1::Builder::new()
                        .pipeline_flush(true)
                        .title_case_headers(true)
                        .serve_connection(TokioIo::new(stream), service_fn(answer));
                    // A client that goes away is the client's affair.
                    let _ = connection.await;
                });
            }
        })
        .await
}

async fn answer(mut request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    // The other models read what no handler asked for, so that the connection goes on; hyper would close it.
    while let Some(Ok(_)) = request.body_mut().frame().await {}
    let reply = super::handle(request.uri().path());
    let mut response = Response::new(Full::new(Bytes::from_static(reply.body)));
    *response.status_mut() =
        StatusCode::from_u16(reply.status).expect("the handler answers with real statuses");
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(reply.content_type));
    Ok(response)
}
