//! `cargo +nightly fuzz run connection`: whole connections to a server in this process, by the check of straightline's
//! tests. The first byte of an input says where the rest is cut in two.
#![no_main]

#[path = "../../straightline/server/tests/it/connection.rs"]
mod connection;

use std::net::SocketAddr;
use std::sync::LazyLock;

static SERVER: LazyLock<SocketAddr> = LazyLock::new(|| {
    let server = straightline::Server::bind("127.0.0.1:0").expect("there is a free port").workers(1);
    // Dropping what runs lets it run on.
    server.spawn(connection::handle).expect("the server starts").local_addr()
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    connection::check(*SERVER, bytes);
    if bytes.len() % 64 == 0 {
        connection::check_service(*SERVER);
    }
});
