use model::record::TcpCounters;

/// TCP counters from `/proc/net/snmp` and `/proc/net/netstat`; one that a kernel lacks is 0.
///
/// Both files hold pairs of lines, names above values. Source: Linux, net/ipv4/proc.c; RFC 4022 for the meaning.
pub(crate) fn tcp_counters(snmp: &str, netstat: &str) -> TcpCounters {
    let tcp = |name| value(snmp, "Tcp:", name);
    let extension = |name| value(netstat, "TcpExt:", name);
    TcpCounters {
        segments_in: tcp("InSegs"),
        segments_out: tcp("OutSegs"),
        retransmits: tcp("RetransSegs"),
        active_opens: tcp("ActiveOpens"),
        passive_opens: tcp("PassiveOpens"),
        listen_overflows: extension("ListenOverflows"),
        listen_drops: extension("ListenDrops"),
        delayed_acks: extension("DelayedACKs"),
    }
}

/// State of a socket in `/proc/net/udp` that takes datagrams from anyone. Source: Linux, include/net/tcp_states.h, TCP_CLOSE.
const UNCONNECTED: &str = "07";

/// Inodes of the sockets that take datagrams from anyone on `port`, from `/proc/net/udp` or `udp6`. Source: proc_pid_net(5).
pub(crate) fn datagram_takers(table: &str, port: u16) -> impl Iterator<Item = u32> {
    table.lines().skip(1).filter_map(move |line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let (_, local) = fields.get(1)?.rsplit_once(':')?;
        let own = u16::from_str_radix(local, 16).ok()? == port && *fields.get(3)? == UNCONNECTED;
        if own { fields.get(9)?.parse().ok() } else { None }
    })
}

fn value(text: &str, table: &str, name: &str) -> u64 {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(table));
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else { return 0 };
    names
        .split_ascii_whitespace()
        .zip(values.split_ascii_whitespace())
        .find(|(key, _)| *key == name)
        .and_then(|(_, value)| value.parse().ok())
        .unwrap_or(0)
}
