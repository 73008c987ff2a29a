//! feather as its documentation shows it.

#[path = "../../common/target.rs"]
mod target;

use feather::prelude::*;
use serde::Serialize;

#[derive(Serialize)]
struct Greeting {
    message: &'static str,
}

fn main() {
    let mut app = App::without_logger();
    app.workers(target::option("--workers", 1));
    app.get(
        "/plaintext",
        middleware!(|_request, response, _context| {
            response.headers.insert("server", target::SERVER.parse()?);
            response.finish_text(target::BODY)
        }),
    );
    app.get(
        "/json",
        middleware!(|_request, response, _context| {
            response.headers.insert("server", target::SERVER.parse()?);
            response.finish_json(&Greeting { message: target::BODY })
        }),
    );
    app.listen(target::address());
}
