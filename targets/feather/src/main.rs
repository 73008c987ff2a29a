//! feather as its documentation shows it.

#[path = "../../common/target.rs"]
mod target;

use feather::prelude::*;

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
    app.listen(target::address());
}
