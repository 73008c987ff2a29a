//! Files about memory, interfaces, disks and limits.

use std::collections::BTreeMap;

use model::record::Network;

/// Bytes after `key` in `/proc/meminfo`. Source: proc_meminfo(5).
pub(crate) fn meminfo_bytes(text: &str, key: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    rest.split_ascii_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Microseconds in which some task waited, from a file of `/proc/pressure`.
/// Source: Linux, Documentation/accounting/psi.rst.
pub(crate) fn pressure_us(text: &str) -> Option<u64> {
    let some = text.lines().find(|line| line.starts_with("some "))?;
    some.split_ascii_whitespace().find_map(|word| word.strip_prefix("total="))?.parse().ok()
}

/// All interfaces of `/proc/net/dev` together. Source: Linux, net/core/net-procfs.c.
pub(crate) fn interfaces(text: &str) -> Network {
    let mut sum = Network::default();
    for (_, figures) in text.lines().filter_map(|line| line.split_once(':')) {
        let figures: Vec<u64> =
            figures.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect();
        let figure = |place: usize| figures.get(place).copied().unwrap_or(0);
        sum.in_bytes += figure(0);
        sum.out_bytes += figure(8);
        sum.errors += figure(2) + figure(10);
        sum.drops += figure(3) + figure(11);
    }
    sum
}

/// Packets dropped and budgets used up on all CPUs, from `/proc/net/softnet_stat`, which is hexadecimal.
pub(crate) fn softnet(text: &str) -> [u64; 2] {
    let mut sum = [0; 2];
    for line in text.lines() {
        let mut words =
            line.split_ascii_whitespace().skip(1).map(|word| u64::from_str_radix(word, 16).unwrap_or(0));
        sum[0] += words.next().unwrap_or(0);
        sum[1] += words.next().unwrap_or(0);
    }
    sum
}

/// For each disk the milliseconds with a request in it, and those of all requests together.
/// Source: Linux, Documentation/admin-guide/iostats.rst, fields 10 and 11.
pub(crate) fn disks(text: &str) -> BTreeMap<String, [u64; 2]> {
    let disk = |line: &str| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let figure = |place: usize| words.get(place)?.parse().ok();
        Some(((*words.get(2)?).to_owned(), [figure(12)?, figure(13)?]))
    };
    text.lines().filter_map(disk).collect()
}

/// The soft limit named `key` in `/proc/PID/limits`; nothing where it is unlimited. Source: proc_pid_limits(5).
pub(crate) fn limit(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key))?.split_ascii_whitespace().next()?.parse().ok()
}
