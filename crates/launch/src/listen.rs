use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::tree;

/// State of a listening socket in `/proc/net/tcp`. Source: Linux, include/net/tcp_states.h, TCP_LISTEN.
const LISTEN: &str = "0A";
/// State of a socket in `/proc/net/udp` that takes datagrams from anyone. Source: the same, TCP_CLOSE.
const UNCONNECTED: &str = "07";

/// The TCP addresses on which `root` and its descendants listen; empty also where `/proc` does not let us see.
#[must_use]
pub fn listeners(root: u32) -> BTreeSet<SocketAddr> {
    sockets_of(root, ["tcp", "tcp6"], LISTEN)
}

/// Whether `root` or one of its descendants takes datagrams on `port`.
pub(crate) fn takes_datagrams(root: u32, port: u16) -> bool {
    sockets_of(root, ["udp", "udp6"], UNCONNECTED).iter().any(|own| own.port() == port)
}

/// The addresses of sockets in such a state.
fn sockets_of(root: u32, tables: [&str; 2], state: &str) -> BTreeSet<SocketAddr> {
    let inodes: BTreeSet<u64> = std::iter::once(root)
        .chain(tree::descendants(root).iter().map(|member| member.pid))
        .flat_map(sockets)
        .collect();
    tables
        .iter()
        .flat_map(|table| {
            let text = fs::read_to_string(format!("/proc/{root}/net/{table}")).unwrap_or_default();
            in_state(&text, state)
        })
        .filter(|(_, inode)| inodes.contains(inode))
        .map(|(address, _)| address)
        .collect()
}

/// Inodes of the sockets that a process has open.
fn sockets(pid: u32) -> Vec<u64> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return Vec::new() };
    entries
        .filter_map(Result::ok)
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .filter_map(|link| link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok())
        .collect()
}

/// Addresses and inodes of the sockets of one state in a table such as `/proc/net/tcp`. Source: proc_pid_net(5).
fn in_state(table: &str, state: &str) -> Vec<(SocketAddr, u64)> {
    table.lines().skip(1).filter_map(|line| line_in_state(line, state)).collect()
}

fn line_in_state(line: &str, wanted: &str) -> Option<(SocketAddr, u64)> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let (local, state, inode) = (fields.get(1)?, fields.get(3)?, fields.get(9)?);
    let (ip, port) = local.split_once(':')?;
    (*state == wanted).then_some(())?;
    Some((SocketAddr::new(address(ip)?, u16::from_str_radix(port, 16).ok()?), inode.parse().ok()?))
}

/// Words of 32 bits in the host's byte order, in hexadecimal.
fn address(text: &str) -> Option<IpAddr> {
    let word = |at: usize| u32::from_str_radix(text.get(at..at + 8)?, 16).ok().map(u32::to_ne_bytes);
    match text.len() {
        8 => word(0).map(|bytes| Ipv4Addr::from(bytes).into()),
        32 => {
            let mut bytes = [0; 16];
            for (index, chunk) in bytes.chunks_exact_mut(4).enumerate() {
                chunk.copy_from_slice(&word(index * 8)?);
            }
            Some(Ipv6Addr::from(bytes).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4242 1 0000 100 0 0 10 0
   1: 0100007F:1F91 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 4243 1 0000 20 4 30 10 -1
   2: damaged
   3: 00000000000000000000000001000000:0050 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 4244 1
";

    #[test]
    #[cfg(target_endian = "little")]
    fn only_listening_sockets_are_read() {
        let expected = vec![("127.0.0.1:8080".parse().unwrap(), 4242), ("[::1]:80".parse().unwrap(), 4244)];
        assert_eq!(in_state(TABLE, LISTEN), expected);
    }

    #[test]
    fn our_own_datagrams_are_seen() {
        let socket = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = socket.local_addr().unwrap().port();
        assert!(takes_datagrams(std::process::id(), port));
        drop(socket);
        assert!(!takes_datagrams(std::process::id(), port));
    }

    #[test]
    fn our_own_listener_is_seen() {
        let socket = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        assert!(listeners(std::process::id()).contains(&socket.local_addr().unwrap()));
    }
}
