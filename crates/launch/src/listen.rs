use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::tree;

/// State of a listening socket in `/proc/net/tcp`. Source: Linux, include/net/tcp_states.h, TCP_LISTEN.
const LISTEN: &str = "0A";

/// The TCP addresses on which `root` and its descendants listen; empty also where `/proc` does not let us see.
#[must_use]
pub fn listeners(root: u32) -> BTreeSet<SocketAddr> {
    let inodes: BTreeSet<u64> = std::iter::once(root)
        .chain(tree::descendants(root).iter().map(|member| member.pid))
        .flat_map(sockets)
        .collect();
    ["tcp", "tcp6"]
        .iter()
        .flat_map(|table| {
            listening(&fs::read_to_string(format!("/proc/{root}/net/{table}")).unwrap_or_default())
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

/// Addresses and inodes of the listening sockets in a `/proc/net/tcp` or `tcp6` table. Source: proc_pid_net(5).
fn listening(table: &str) -> Vec<(SocketAddr, u64)> {
    table.lines().skip(1).filter_map(listening_line).collect()
}

fn listening_line(line: &str) -> Option<(SocketAddr, u64)> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let (local, state, inode) = (fields.get(1)?, fields.get(3)?, fields.get(9)?);
    let (ip, port) = local.split_once(':')?;
    (*state == LISTEN).then_some(())?;
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
        assert_eq!(listening(TABLE), expected);
    }

    #[test]
    fn our_own_listener_is_seen() {
        let socket = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        assert!(listeners(std::process::id()).contains(&socket.local_addr().unwrap()));
    }
}
