use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, UdpSocket};
use std::ops::RangeInclusive;

use model::plan::SplitMix64;
use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};

use crate::LaunchError;

/// Ports below this belong to well-known services.
const FIRST_PORT: u16 = 10_000;
/// Ports drawn before the choice is left to the kernel: with a quarter of them taken, all fail once in 10^38 times.
const DRAWS: u32 = 64;
/// Ports above a server's own that scripts take for what it asks ("the port and ten thousand").
const NEXT: u16 = 10_000;
/// Fewer ports to draw from than this are no room.
const ROOM: u16 = 1000;

/// A port on 127.0.0.1 that nobody had when it was drawn, and that no other process draws by [`free_port`] while this is held: until
/// the server that it is for listens.
#[derive(Debug)]
pub struct Port {
    number: u16,
    /// A socket whose name is the port's; absent where nobody here chose the port.
    _claim: Option<OwnedFd>,
}

impl Port {
    /// The port of a server that takes no other.
    #[must_use]
    pub fn fixed(number: u16) -> Self {
        Self { number, _claim: None }
    }

    /// Returns its number.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.number
    }
}

/// A port on 127.0.0.1 that nothing listens on, nor takes datagrams on, drawn by `seed`.
///
/// It lies outside the range from which the kernel takes the local ports of connections: there, a connection to a port
/// that nobody listens on yet can meet itself, and a generator's connection can take the port before the server does. The ports
/// that scripts derive from it lie outside too, where there is room.
///
/// # Errors
/// [`LaunchError::NoPort`] where the kernel refuses to bind any.
pub fn free_port(seed: u64) -> Result<Port, LaunchError> {
    let ephemeral =
        ephemeral_range(&fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default());
    let mut random = SplitMix64::fork(seed, "port", 0);
    let from = drawn_from(&ephemeral);
    let span = u64::from(from.end() - from.start()) + 1;
    let drawn = (0..DRAWS)
        .map(|_| FIRST_PORT + u16::try_from(random.below(span)).expect("the span of ports fits 16 bits"))
        .filter(|number| !ephemeral.contains(number))
        .find_map(|number| claim(number).filter(|_| port_free(number)).map(|claim| (number, Some(claim))));
    let (number, claim) = match drawn {
        Some(drawn) => drawn,
        None => TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .and_then(|socket| socket.local_addr())
            .map(|address| (address.port(), None))
            .map_err(LaunchError::NoPort)?,
    };
    Ok(Port { number, _claim: claim })
}

/// From where ports are drawn: so far below the range of the kernel that those derived from them are below it too, where there is room.
fn drawn_from(ephemeral: &RangeInclusive<u16>) -> RangeInclusive<u16> {
    match ephemeral.start().saturating_sub(NEXT + 1) {
        last if last >= FIRST_PORT + ROOM => FIRST_PORT..=last,
        _ => FIRST_PORT..=u16::MAX,
    }
}

/// Keeps other processes from drawing a port; nothing where one has. Two that drew the same, as with one seed they do, would find it free until
/// one of their servers listens. The name is an abstract one: of this network namespace, as ports are, and gone with the process.
fn claim(number: u16) -> Option<OwnedFd> {
    let name = SocketAddrUnix::new_abstract_name(format!("whyslow-port-{number}").as_bytes()).ok()?;
    let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None).ok()?;
    bind(&socket, &name).ok()?;
    Some(socket)
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
    fn ports_derived_from_one_that_is_drawn_are_none_of_the_kernels_either() {
        assert_eq!(drawn_from(&(32_768..=60_999)), 10_000..=22_767);
        // No room for that.
        assert_eq!(drawn_from(&(15_000..=60_999)), 10_000..=65_535);
        assert_eq!(drawn_from(&(1024..=65_535)), 10_000..=65_535);
    }

    #[test]
    fn ports_are_spread_free_and_the_same_for_the_same_seed() {
        let number = |seed| free_port(seed).unwrap().number();
        let ports: std::collections::BTreeSet<u16> = (0..100).map(number).collect();
        assert!(ports.len() > 90, "{} of 100 ports differ", ports.len());
        assert!(ports.iter().all(|port| *port >= FIRST_PORT));
        assert_eq!(number(7), number(7));
    }

    #[test]
    fn a_port_that_is_held_is_not_drawn_again() {
        // No other test draws by this seed.
        const SEED: u64 = 1011;
        let held = free_port(SEED).unwrap();
        assert_ne!(free_port(SEED).unwrap().number(), held.number());
        let number = held.number();
        drop(held);
        assert_eq!(free_port(SEED).unwrap().number(), number);
    }

    #[test]
    fn a_port_in_use_is_not_free() {
        let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        assert!(!port_free(socket.local_addr().unwrap().port()));
    }
}
