//! may_minihttp: a coroutine per connection, httparse, and a list of headers that are copied.

#[path = "../../common/target.rs"]
mod target;

use std::io;

use bytes::BufMut;
use may_minihttp::{HttpServer, HttpService, Request, Response};
use serde::Serialize;

/// The library sends `Server: M`, six bytes less than what the other targets send; white space
/// before a value means nothing in HTTP, and makes the answers equally long.
const CONTENT_TYPE: &str = "Content-Type:       text/plain";
const JSON: &str = "Content-Type:       application/json";

#[derive(Serialize)]
struct Greeting {
    message: &'static str,
}

#[derive(Clone)]
struct Plaintext;

impl HttpService for Plaintext {
    fn call(&mut self, request: Request, response: &mut Response) -> io::Result<()> {
        if request.path() == "/json" {
            response.header(JSON);
            if request.method() != "HEAD" {
                serde_json::to_writer(response.body_mut().writer(), &Greeting { message: target::BODY })?;
            }
            return Ok(());
        }
        response.header(CONTENT_TYPE);
        let body = match request.path() {
            "/plaintext" => target::BODY,
            _ => {
                response.status_code(404, "Not Found");
                "Not Found"
            }
        };
        if request.method() != "HEAD" {
            response.body(body);
        }
        Ok(())
    }
}

fn main() -> io::Result<()> {
    may::config().set_workers(target::option("--workers", 1));
    let server = HttpServer(Plaintext).start(target::address())?;
    server.join().expect("the accepting coroutine does not end");
    Ok(())
}
