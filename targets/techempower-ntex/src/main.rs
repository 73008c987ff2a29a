//! TechEmpower's tests on ntex and tokio-postgres.

#[path = "../../common/techempower/database.rs"]
mod database;
#[path = "../../common/target.rs"]
mod target;

use database::{Database, Greeting, rows};
use ntex::http::header::SERVER;
use ntex::web::types::State;
use ntex::web::{App, HttpRequest, HttpResponse, HttpServer, to};
use serde::Serialize;

/// The worker's own connection to the database.
type Own = State<Database>;

#[ntex::main]
async fn main() -> std::io::Result<()> {
    HttpServer::new(async || {
        App::new()
            .state_factory(|| async {
                let url = target::option("--database", String::new());
                Database::open(&url).await
            })
            .route("/plaintext", to(plaintext))
            .route("/json", to(json))
            .route("/db", to(world))
            .route("/queries", to(worlds))
            .route("/updates", to(updates))
            .route("/cached-queries", to(cached))
            .route("/fortunes", to(fortunes))
    })
    .workers(target::option("--workers", 1))
    .disable_signals() // SIGTERM is to end it at once, not after the connections
    .bind(target::address())?
    .run()
    .await
}

async fn plaintext() -> HttpResponse {
    HttpResponse::Ok().header(SERVER, target::SERVER).content_type("text/plain").body(target::BODY)
}

/// A value as JSON, or what went wrong.
fn sent<T: Serialize>(value: Result<T, tokio_postgres::Error>) -> HttpResponse {
    match value {
        Ok(value) => HttpResponse::Ok().header(SERVER, target::SERVER).json(&value),
        Err(error) => failed(&error),
    }
}

fn failed(error: &tokio_postgres::Error) -> HttpResponse {
    HttpResponse::InternalServerError().body(error.to_string())
}

async fn json() -> HttpResponse {
    sent(Ok(Greeting { message: target::BODY }))
}

async fn world(database: Own) -> HttpResponse {
    sent(database.world().await)
}

async fn worlds(database: Own, request: HttpRequest) -> HttpResponse {
    sent(database.worlds(rows(Some(request.query_string()), "queries")).await)
}

async fn updates(database: Own, request: HttpRequest) -> HttpResponse {
    sent(database.update(rows(Some(request.query_string()), "queries")).await)
}

async fn cached(database: Own, request: HttpRequest) -> HttpResponse {
    sent(Ok(database.cached(rows(Some(request.query_string()), "count"))))
}

async fn fortunes(database: Own) -> HttpResponse {
    match database.fortunes().await {
        Ok(page) => HttpResponse::Ok()
            .header(SERVER, target::SERVER)
            .content_type("text/html; charset=utf-8")
            .body(page),
        Err(error) => failed(&error),
    }
}
