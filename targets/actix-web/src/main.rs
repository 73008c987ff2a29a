//! actix-web as its documentation shows it.

#[path = "../../common/target.rs"]
mod target;

use actix_web::http::header::SERVER;
use actix_web::{App, HttpResponse, HttpServer, web};

async fn plaintext() -> HttpResponse {
    HttpResponse::Ok().insert_header((SERVER, target::SERVER)).content_type("text/plain").body(target::BODY)
}

#[actix_web::main]
async fn main() -> std::io::Result<()> {
    HttpServer::new(|| App::new().route("/plaintext", web::to(plaintext)))
        .workers(target::option("--workers", 1))
        .disable_signals() // SIGTERM is to end it at once, not after the connections
        .bind(target::address())?
        .run()
        .await
}
