//! may_minihttp: a coroutine per connection, httparse, and a list of headers that are copied.

#[path = "../../common/target.rs"]
mod target;

use std::io;

use may_minihttp::{HttpServer, HttpService, Request, Response};

/// The library sends `Server: M`, six bytes less than what the other targets send; white space
/// before a value means nothing in HTTP, and makes the answers equally long.
const CONTENT_TYPE: &str = "Content-Type:       text/plain";

#[derive(Clone)]
struct Plaintext;

impl HttpService for Plaintext {
    fn call(&mut self, request: Request, response: &mut Response) -> io::Result<()> {
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
