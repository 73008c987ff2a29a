//! TechEmpower's tests on axum and tokio-postgres.

#[path = "../../common/techempower/database.rs"]
mod database;
#[path = "../../common/target.rs"]
mod target;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, HeaderName, SERVER};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::serve::ListenerExt;
use axum::{Json, Router};
use database::{Database, Greeting, rows};
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::runtime::Builder;

type Failure = Box<dyn std::error::Error>;

/// A connection to the database for each worker, taken in turn.
struct Databases {
    all: Vec<Database>,
    turn: AtomicUsize,
}

impl Databases {
    fn next(&self) -> &Database {
        &self.all[self.turn.fetch_add(1, Ordering::Relaxed) % self.all.len()]
    }
}

type Shared = State<Arc<Databases>>;

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
    let routes = Router::new()
        .route("/plaintext", get(plaintext))
        .route("/json", get(json))
        .route("/db", get(world))
        .route("/queries", get(worlds))
        .route("/updates", get(updates))
        .route("/cached-queries", get(cached))
        .route("/fortunes", get(fortunes))
        .with_state(Arc::new(Databases { all, turn: AtomicUsize::new(0) }));
    let listener = TcpListener::bind(target::address()).await?.tap_io(|socket| {
        let _ = socket.set_nodelay(true); // a socket that is gone shows when it is read
    });
    Ok(axum::serve(listener, routes).await?)
}

async fn plaintext() -> ([(HeaderName, &'static str); 2], &'static str) {
    ([(SERVER, target::SERVER), (CONTENT_TYPE, "text/plain")], target::BODY)
}

/// A value as JSON, or what went wrong.
fn sent<T: Serialize>(value: Result<T, tokio_postgres::Error>) -> Response {
    match value {
        Ok(value) => ([(SERVER, target::SERVER)], Json(value)).into_response(),
        Err(error) => failed(&error),
    }
}

fn failed(error: &tokio_postgres::Error) -> Response {
    (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response()
}

async fn json() -> Response {
    sent(Ok(Greeting { message: target::BODY }))
}

async fn world(State(databases): Shared) -> Response {
    sent(databases.next().world().await)
}

async fn worlds(State(databases): Shared, RawQuery(query): RawQuery) -> Response {
    sent(databases.next().worlds(rows(query.as_deref(), "queries")).await)
}

async fn updates(State(databases): Shared, RawQuery(query): RawQuery) -> Response {
    sent(databases.next().update(rows(query.as_deref(), "queries")).await)
}

async fn cached(State(databases): Shared, RawQuery(query): RawQuery) -> Response {
    sent(Ok(databases.next().cached(rows(query.as_deref(), "count"))))
}

async fn fortunes(State(databases): Shared) -> Response {
    match databases.next().fortunes().await {
        Ok(page) => {
            ([(SERVER, target::SERVER), (CONTENT_TYPE, "text/html; charset=utf-8")], page).into_response()
        }
        Err(error) => failed(&error),
    }
}
