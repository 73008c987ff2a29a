//! What the Rust servers of this folder share: how options are read, and the answer.

use std::fmt::Debug;
use std::str::FromStr;

/// What all targets say in `Server`, where the library lets them.
#[allow(dead_code, reason = "may_minihttp says its own")]
pub const SERVER: &str = "whyslow";
pub const BODY: &str = "Hello, World!";

/// The value after `--name` on the command line, or `default`.
///
/// # Panics
/// When the value is missing or cannot be read: a server under test has nobody else to tell.
pub fn option<T>(name: &str, default: T) -> T
where
    T: FromStr,
    T::Err: Debug,
{
    let mut args = std::env::args().skip_while(|arg| arg != name);
    match args.next() {
        None => default,
        Some(_) => args.next().expect(name).parse().expect(name),
    }
}

/// Where `--host` and `--port` say to listen.
pub fn address() -> std::net::SocketAddr {
    let host = option("--host", String::from("127.0.0.1"));
    let port = option("--port", 8080_u16);
    format!("{host}:{port}").parse().expect("--host is an IP address")
}
