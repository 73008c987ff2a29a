//! Names of other servers, looked up without holding the shard.

use crate::rt;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

/// The addresses of a host.
///
/// # Errors
///
/// Outside: the coroutine was cancelled. Inside: those of looking it up.
pub(super) fn addresses(host: &str, port: u16) -> io::Result<io::Result<Vec<SocketAddr>>> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(Ok(vec![SocketAddr::new(address, port)]));
    }
    let host = host.to_owned();
    rt::blocking(move || (host.as_str(), port).to_socket_addrs().map(Iterator::collect))
}
