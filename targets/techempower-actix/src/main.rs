//! TechEmpower's tests on actix-web and tokio-postgres.

#[path = "../../common/techempower/database.rs"]
mod database;
#[path = "../../common/target.rs"]
mod target;

use actix_web::http::header::SERVER;
use actix_web::{App, HttpRequest, HttpResponse, HttpServer, web};
use database::{Database, Greeting, rows};
use serde::Serialize;

/// The worker's own connection to the database.
type Own = web::Data<Database>;

#[actix_web::main]
async fn main() -> std::io::Result<()> {
    HttpServer::new(|| {
        App::new()
            .data_factory(|| async {
                let url = target::option("--database", String::new());
                Database::open(&url).await
            })
            .route("/plaintext", web::to(plaintext))
            .route("/json", web::to(json))
            .route("/db", web::to(world))
            .route("/queries", web::to(worlds))
            .route("/updates", web::to(updates))
            .route("/cached-queries", web::to(cached))
            .route("/fortunes", web::to(fortunes))
    })
    .workers(target::option("--workers", 1))
    .disable_signals() // SIGTERM is to end it at once, not after the connections
    .bind(target::address())?
    .run()
    .await
}

async fn plaintext() -> HttpResponse {
    HttpResponse::Ok().insert_header((SERVER, target::SERVER)).content_type("text/plain").body(target::BODY)
}

/// A value as JSON, or what went wrong.
fn sent<T: Serialize>(value: Result<T, tokio_postgres::Error>) -> HttpResponse {
    match value {
        Ok(value) => HttpResponse::Ok().insert_header((SERVER, target::SERVER)).json(value),
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
            .insert_header((SERVER, target::SERVER))
            .content_type("text/html; charset=utf-8")
            .body(page),
        Err(error) => failed(&error),
    }
}
