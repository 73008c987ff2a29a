//! TechEmpower's tests on salvo and tokio-postgres.

#[path = "../../common/techempower/database.rs"]
mod database;
#[path = "../../common/target.rs"]
mod target;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use database::{Database, Greeting, rows};
use salvo::conn::{Listener, TcpListener};
use salvo::http::StatusCode;
use salvo::http::header::{CONTENT_TYPE, SERVER};
use salvo::writing::Json;
use salvo::{Request, Response, Router, Server, handler};
use serde::Serialize;
use tokio::runtime::Builder;

type Failure = Box<dyn std::error::Error>;

/// A connection to the database for each worker, taken in turn.
struct Databases {
    all: Vec<Database>,
    turn: AtomicUsize,
}

static DATABASES: OnceLock<Databases> = OnceLock::new();

fn database() -> &'static Database {
    let databases = DATABASES.get().expect("opened before the first request");
    &databases.all[databases.turn.fetch_add(1, Ordering::Relaxed) % databases.all.len()]
}

fn main() -> Result<(), Failure> {
    let workers = target::option("--workers", 1);
    Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_io()
        .enable_time()
        .build()?
        .block_on(serve(workers))
}

async fn serve(workers: usize) -> Result<(), Failure> {
    let url = target::option("--database", String::new());
    let mut all = Vec::new();
    for _ in 0..workers {
        all.push(Database::open(&url).await?);
    }
    DATABASES.get_or_init(|| Databases { all, turn: AtomicUsize::new(0) });
    let routes = Router::new()
        .push(Router::with_path("plaintext").get(plaintext))
        .push(Router::with_path("json").get(json))
        .push(Router::with_path("db").get(world))
        .push(Router::with_path("queries").get(worlds))
        .push(Router::with_path("updates").get(updates))
        .push(Router::with_path("cached-queries").get(cached))
        .push(Router::with_path("fortunes").get(fortunes));
    let listener = TcpListener::new(target::address()).try_bind().await?;
    Ok(Server::new(listener).try_serve(routes).await?)
}

/// A body of this type, with what all answers say of the server.
fn send(response: &mut Response, content_type: &'static str, body: impl Into<salvo::http::ResBody>) {
    said(response);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, salvo::http::HeaderValue::from_static(content_type));
    response.body(body);
}

fn said(response: &mut Response) {
    response.headers_mut().insert(SERVER, salvo::http::HeaderValue::from_static(target::SERVER));
}

/// A value as JSON, or what went wrong.
fn sent<T: Serialize + Send>(response: &mut Response, value: Result<T, tokio_postgres::Error>) {
    match value {
        Ok(value) => {
            said(response);
            response.render(Json(value));
        }
        Err(error) => failed(response, &error),
    }
}

fn failed(response: &mut Response, error: &tokio_postgres::Error) {
    response.status_code(StatusCode::INTERNAL_SERVER_ERROR);
    send(response, "text/plain", error.to_string());
}

#[handler]
async fn plaintext(response: &mut Response) {
    send(response, "text/plain", target::BODY);
}

#[handler]
async fn json(response: &mut Response) {
    sent(response, Ok(Greeting { message: target::BODY }));
}

#[handler]
async fn world(response: &mut Response) {
    sent(response, database().world().await);
}

#[handler]
async fn worlds(request: &Request, response: &mut Response) {
    sent(response, database().worlds(rows(request.uri().query(), "queries")).await);
}

#[handler]
async fn updates(request: &Request, response: &mut Response) {
    sent(response, database().update(rows(request.uri().query(), "queries")).await);
}

#[handler]
async fn cached(request: &Request, response: &mut Response) {
    sent(response, Ok(database().cached(rows(request.uri().query(), "count"))));
}

#[handler]
async fn fortunes(response: &mut Response) {
    match database().fortunes().await {
        Ok(page) => send(response, "text/html; charset=utf-8", page),
        Err(error) => failed(response, &error),
    }
}
