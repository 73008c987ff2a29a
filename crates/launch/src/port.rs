use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, UdpSocket};
use std::ops::RangeInclusive;

use model::plan::SplitMix64;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with};

use crate::LaunchError;

/// Ports below this belong to well-known services.
const FIRST_PORT: u16 = 10_000;
/// Ports drawn before the choice is left to the kernel: with a quarter of them taken, all fail once in 10^38 times.
const DRAWS: u32 = 64;

/// A port on 127.0.0.1 that nothing listens on, nor takes datagrams on, drawn by `seed`.
///
/// It lies outside the range from which the kernel takes the local ports of connections: there, a connection to a port
/// that nobody listens on yet can meet itself, and a generator's connection can take the port before the server does.
///
/// # Errors
/// [`LaunchError::NoPort`] where the kernel refuses to bind any.
pub fn free_port(seed: u64) -> Result<u16, LaunchError> {
    let ephemeral =
        ephemeral_range(&fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default());
    let mut random = SplitMix64::fork(seed, "port", 0);
    let span = u64::from(u16::MAX - FIRST_PORT) + 1;
    let drawn = (0..DRAWS)
        .map(|_| FIRST_PORT + u16::try_from(random.below(span)).expect("the span of ports fits 16 bits"))
        .find(|port| !ephemeral.contains(port) && port_free(*port));
    match drawn {
        Some(port) => Ok(port),
        None => TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .and_then(|socket| socket.local_addr())
            .map(|address| address.port())
            .map_err(LaunchError::NoPort),
    }
}

/// Whether a server could listen on this port of 127.0.0.1 now.
#[must_use]
pub fn port_free(port: u16) -> bool {
    // Not by the standard library, whose listeners may have a port on which closed connections linger: not every server
    // asks for that.
    let socket = || {
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))?;
        listen(&socket, 1)
    };
    socket().is_ok() && UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// Reads `ip_local_port_range`; Linux's default where it does not read. Source: ip(7).
fn ephemeral_range(text: &str) -> RangeInclusive<u16> {
    let mut bounds = text.split_ascii_whitespace().map(str::parse::<u16>);
    match (bounds.next(), bounds.next()) {
        (Some(Ok(low)), Some(Ok(high))) => low..=high,
        _ => 32_768..=60_999,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_of_the_kernel_reads() {
        assert_eq!(ephemeral_range("1024\t65000\n"), 1024..=65000);
        for damaged in ["", "1", "a b", "1 99999"] {
            assert_eq!(ephemeral_range(damaged), 32_768..=60_999, "{damaged}");
        }
    }

    #[test]
    fn ports_are_spread_free_and_the_same_for_the_same_seed() {
        let ports: std::collections::BTreeSet<u16> = (0..100).map(|seed| free_port(seed).unwrap()).collect();
        assert!(ports.len() > 90, "{} of 100 ports differ", ports.len());
        assert!(ports.iter().all(|port| *port >= FIRST_PORT));
        assert_eq!(free_port(7).unwrap(), free_port(7).unwrap());
    }

    #[test]
    fn a_port_in_use_is_not_free() {
        let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        assert!(!port_free(socket.local_addr().unwrap().port()));
    }
}
