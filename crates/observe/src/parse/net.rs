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
