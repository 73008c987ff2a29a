use std::collections::{BTreeMap, BTreeSet};
use std::io;

use model::record::{Listener, SocketCounters, Sockets};
use rustix::net::netlink::SOCK_DIAG;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};

use crate::file::Reader;
use crate::parse::{DiagSocket, datagram_takers, diag_replies, diag_request};

/// Buffer for one datagram of the kernel, which fills at most 32 KiB.
const DATAGRAM_BYTES: usize = 64 * 1024;
/// Address families, by the numbers that the kernel knows them by.
const FAMILIES: [AddressFamily; 2] = [AddressFamily::INET, AddressFamily::INET6];

/// The inode of a socket that no descriptor stands for. Source: Linux, `inet_diag_msg_common_fill` in net/ipv4/inet_diag.c.
const NO_OWNER: u32 = 0;

/// The sockets of a group at one moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct SocketSnapshot {
    /// Listeners by cookie, with what they have turned away since they began.
    listeners: BTreeMap<u64, Listener>,
    /// Connections by cookie.
    server: BTreeMap<u64, SocketCounters>,
    clients: BTreeMap<u64, SocketCounters>,
    asked: BTreeMap<u64, SocketCounters>,
}

impl SocketSnapshot {
    /// Asks the kernel for all TCP sockets and keeps those of listeners that are among `inodes`.
    pub(crate) fn read(inodes: &BTreeSet<u32>) -> io::Result<Self> {
        let sockets = all()?;
        let own = |socket: &&DiagSocket| socket.listening && inodes.contains(&socket.inode);
        let listeners: BTreeMap<u64, Listener> =
            sockets.iter().filter(own).map(|socket| (socket.cookie, listener(socket))).collect();
        let ports: BTreeSet<u16> = listeners.values().map(|listener| listener.port).collect();
        // What a server asks processes of its own is asked by no client.
        let asks = |socket: &DiagSocket| {
            inodes.contains(&socket.inode) && !socket.listening && !ports.contains(&socket.local_port)
        };
        let asking: BTreeSet<(u16, u16)> = sockets
            .iter()
            .filter(|socket| asks(socket))
            .map(|socket| (socket.local_port, socket.remote_port))
            .collect();
        let is_within = |socket: &DiagSocket| asking.contains(&(socket.remote_port, socket.local_port));
        let side = |is_of: &dyn Fn(&DiagSocket) -> bool| {
            let connections = sockets.iter().filter(|socket| !socket.listening && is_of(socket));
            connections.map(|socket| (socket.cookie, socket.counters)).collect()
        };
        // Other processes may serve the same port; what is not accepted yet, or closed already, has no owner.
        let is_ours = |socket: &DiagSocket| socket.inode == NO_OWNER || inodes.contains(&socket.inode);
        let server =
            side(&|socket| ports.contains(&socket.local_port) && is_ours(socket) && !is_within(socket));
        let clients = side(&|socket| ports.contains(&socket.remote_port) && !asks(socket));
        Ok(Self { listeners, server, clients, asked: side(&asks) })
    }

    pub(crate) fn since(&self, earlier: &Self) -> Sockets {
        let dropped = |cookie: &u64, now: &Listener| {
            let before = earlier.listeners.get(cookie).and_then(|listener| listener.dropped).unwrap_or(0);
            now.dropped.map(|dropped| dropped.saturating_sub(before))
        };
        let listeners = self.listeners.iter();
        let mut listeners: Vec<Listener> =
            listeners.map(|(cookie, now)| Listener { dropped: dropped(cookie, now), ..*now }).collect();
        listeners.sort_by_key(|listener| listener.port);
        Sockets {
            listeners,
            server: grown(&self.server, &earlier.server),
            clients: grown(&self.clients, &earlier.clients),
            asked: Some(grown(&self.asked, &earlier.asked)),
        }
    }
}

fn listener(socket: &DiagSocket) -> Listener {
    let DiagSocket { local_port, queue, backlog, dropped, .. } = *socket;
    Listener { port: local_port, queued: queue, backlog, dropped }
}

/// What the connections of now did since `earlier`, those that are new since they began.
fn grown(now: &BTreeMap<u64, SocketCounters>, earlier: &BTreeMap<u64, SocketCounters>) -> SocketCounters {
    let mut sum = SocketCounters::default();
    for (cookie, now) in now {
        let before = earlier.get(cookie).copied().unwrap_or_default();
        sum.connections += 1;
        sum.data_segments_in += now.data_segments_in.saturating_sub(before.data_segments_in);
        sum.data_segments_out += now.data_segments_out.saturating_sub(before.data_segments_out);
        sum.segments_in += now.segments_in.saturating_sub(before.segments_in);
        sum.segments_out += now.segments_out.saturating_sub(before.segments_out);
        sum.bytes_in += now.bytes_in.saturating_sub(before.bytes_in);
        sum.bytes_out += now.bytes_out.saturating_sub(before.bytes_out);
        sum.retransmits += now.retransmits.saturating_sub(before.retransmits);
        sum.busy_us += now.busy_us.saturating_sub(before.busy_us);
        sum.receive_window_limited_us +=
            now.receive_window_limited_us.saturating_sub(before.receive_window_limited_us);
        sum.send_buffer_limited_us +=
            now.send_buffer_limited_us.saturating_sub(before.send_buffer_limited_us);
    }
    sum
}

/// The inodes of all sockets that listen on `port`.
pub(crate) fn listeners_on(port: u16) -> io::Result<BTreeSet<u32>> {
    let sockets = all()?;
    Ok(sockets
        .iter()
        .filter(|socket| socket.listening && socket.local_port == port)
        .map(|s| s.inode)
        .collect())
}

/// The inodes of all sockets that take datagrams from anyone on `port`: of servers that speak QUIC alone.
pub(crate) fn takers_on(port: u16, reader: &mut Reader) -> BTreeSet<u32> {
    // A kernel without IPv6 lacks one of them.
    ["/proc/self/net/udp", "/proc/self/net/udp6"]
        .into_iter()
        .flat_map(|table| {
            let text = reader.read(table).unwrap_or_default();
            datagram_takers(text, port).collect::<Vec<_>>()
        })
        .collect()
}

/// Every listening and established TCP socket of our network namespace.
pub(crate) fn all() -> io::Result<Vec<DiagSocket>> {
    let mut sockets = Vec::new();
    for family in FAMILIES {
        dump(family, &mut sockets)?;
    }
    Ok(sockets)
}

fn dump(family: AddressFamily, sockets: &mut Vec<DiagSocket>) -> io::Result<()> {
    let link = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(SOCK_DIAG))?;
    let number = u8::try_from(family.as_raw()).expect("families of the internet are small numbers");
    send(&link, &diag_request(number), SendFlags::empty())?;
    let mut buffer = vec![0; DATAGRAM_BYTES];
    loop {
        let (length, _) = recv(&link, &mut buffer[..], RecvFlags::empty())?;
        match diag_replies(&buffer[..length], sockets) {
            Some(true) => {}
            Some(false) => return Ok(()),
            None => return Err(io::Error::from(io::ErrorKind::Unsupported)),
        }
    }
}
