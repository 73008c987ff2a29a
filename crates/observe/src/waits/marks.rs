//! What functions of the kernel say of a stack that they are in.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::ops::BitOr;

use crate::parse::split_chain;

/// What a stack was seen to be in, as a set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct Marks(u16);

impl Marks {
    /// Waits for a futex: a lock, or what is built on one.
    pub(super) const FUTEX: Self = Self(1);
    /// Waits for a disk or a file system.
    pub(super) const DISK: Self = Self(1 << 1);
    /// Waits for a process.
    pub(super) const CHILD: Self = Self(1 << 2);
    /// Waits for a connection.
    pub(super) const ACCEPT: Self = Self(1 << 3);
    /// Waits for a lock of the kernel's own, or of a file.
    pub(super) const KERNEL_LOCK: Self = Self(1 << 4);
    /// Takes a packet.
    pub(super) const NET_IN: Self = Self(1 << 5);
    /// Sends a packet.
    pub(super) const NET_OUT: Self = Self(1 << 6);
    /// Completes a connection.
    pub(super) const CONNECTS: Self = Self(1 << 7);
    /// A timer goes off.
    pub(super) const TIMER: Self = Self(1 << 8);
    /// A disk is done.
    pub(super) const DISK_DONE: Self = Self(1 << 9);
    /// Ends.
    pub(super) const ENDS: Self = Self(1 << 10);
    /// Writes bytes, or an event, that another may wait for.
    pub(super) const WRITES: Self = Self(1 << 11);

    /// Whether one of `others` is in it.
    pub(super) fn has(self, others: Self) -> bool {
        self.0 & others.0 != 0
    }
}

impl BitOr for Marks {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Functions by what they say, of all kernels since 5.10. Source: Linux, kernel/futex, fs/sync.c, fs/jbd2, fs/fuse/dev.c,
/// mm/filemap.c, kernel/exit.c, net/ipv4 (tcp_ipv4.c, udp.c), net/ipv6, net/unix/af_unix.c, fs/pipe.c, fs/eventfd.c, fs/timerfd.c,
/// kernel/time, kernel/locking, fs/locks.c, block/bio.c, block/blk-mq.c.
const FUNCTIONS: [(Marks, &[&str]); 12] = [
    (
        Marks::FUTEX,
        &[
            "futex_wait",
            "__futex_wait",
            "futex_wait_queue",
            "futex_wait_queue_me",
            "futex_do_wait",
            "futex_lock_pi",
        ],
    ),
    (
        Marks::DISK,
        &[
            "io_schedule",
            "vfs_fsync_range",
            "do_fsync",
            "jbd2_log_wait_commit",
            "generic_write_sync",
            "request_wait_answer",
            "submit_bio_wait",
        ],
    ),
    (Marks::CHILD, &["do_wait", "kernel_wait4", "kernel_waitid"]),
    (Marks::ACCEPT, &["inet_csk_accept"]),
    (
        Marks::KERNEL_LOCK,
        &[
            "rwsem_down_read_slowpath",
            "rwsem_down_write_slowpath",
            "__mutex_lock",
            "__lock_sock",
            "percpu_rwsem_wait",
            "locks_lock_inode_wait",
            "posix_lock_inode_wait",
            "do_lock_file_wait",
        ],
    ),
    (
        Marks::NET_IN,
        &[
            "tcp_v4_rcv",
            "tcp_v6_rcv",
            "tcp_v4_do_rcv",
            "tcp_v6_do_rcv",
            "udp_queue_rcv_skb",
            "udp_queue_rcv_one_skb",
            "__udp_enqueue_schedule_skb",
            "udpv6_queue_rcv_skb",
            "udpv6_queue_rcv_one_skb",
        ],
    ),
    (Marks::NET_OUT, &["__ip_queue_xmit", "inet6_csk_xmit", "ip_send_skb", "ip6_send_skb"]),
    (Marks::CONNECTS, &["tcp_child_process", "tcp_conn_request"]),
    (
        Marks::TIMER,
        &[
            "hrtimer_wakeup",
            "process_timeout",
            "timerfd_tmrproc",
            "timerfd_triggered",
            "it_real_fn",
            "posix_timer_fn",
        ],
    ),
    (
        Marks::DISK_DONE,
        &[
            "bio_endio",
            "blk_mq_end_request",
            "blk_update_request",
            "blk_done_softirq",
            "folio_end_writeback",
            "end_page_writeback",
            "jbd2_journal_commit_transaction",
        ],
    ),
    (Marks::ENDS, &["do_exit", "exit_notify", "mm_release"]),
    (
        Marks::WRITES,
        &[
            "unix_stream_sendmsg",
            "unix_dgram_sendmsg",
            "pipe_write",
            "anon_pipe_write",
            "eventfd_write",
            "eventfd_signal_mask",
        ],
    ),
];

/// The kernel's functions by address.
#[derive(Debug)]
pub(super) struct Functions {
    /// Where one begins, in order, and what it says.
    begins: Vec<(u64, Marks)>,
    /// What was looked up.
    known: HashMap<u64, Marks>,
}

impl Functions {
    /// Reads `/proc/kallsyms`; nothing where it hides addresses.
    pub(super) fn of_this_kernel() -> Option<Self> {
        let file = BufReader::new(File::open("/proc/kallsyms").ok()?);
        Some(Self::from_kallsyms(file.lines().map_while(Result::ok)))
            .filter(|functions| !functions.begins.is_empty())
    }

    fn from_kallsyms(lines: impl Iterator<Item = String>) -> Self {
        let marks_of: HashMap<&str, Marks> =
            FUNCTIONS.iter().flat_map(|(marks, names)| names.iter().map(|name| (*name, *marks))).collect();
        let function = |line: String| {
            let mut words = line.split_whitespace();
            let (address, kind, name) = (words.next()?, words.next()?, words.next()?);
            let address = u64::from_str_radix(address, 16).ok().filter(|address| *address != 0)?;
            // Compilers make variants of a function, which are called NAME.KIND.NUMBER.
            let name = name.split('.').next()?;
            let is_code = matches!(kind, "t" | "T" | "w" | "W");
            is_code.then(|| (address, marks_of.get(name).copied().unwrap_or_default()))
        };
        let mut begins: Vec<(u64, Marks)> = lines.filter_map(function).collect();
        begins.sort_by_key(|(address, _)| *address);
        Self { begins, known: HashMap::new() }
    }

    /// What the kernel's functions in a chain say.
    pub(super) fn marks(&mut self, chain: &[u64]) -> Marks {
        let (kernel, _) = split_chain(chain);
        // But for the innermost, an address is the one to return to, one past the call.
        let sites =
            kernel.iter().enumerate().map(|(depth, address)| address.saturating_sub(u64::from(depth > 0)));
        sites.fold(Marks::default(), |all, address| all | self.mark(address))
    }

    fn mark(&mut self, address: u64) -> Marks {
        let begins = &self.begins;
        *self.known.entry(address).or_insert_with(|| {
            let after = begins.partition_point(|(begin, _)| *begin <= address);
            begins[..after].last().map(|(_, marks)| *marks).unwrap_or_default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_of_the_function_that_begins_before_it() {
        let text = "1000 T futex_wait_queue.isra.0\n2000 t something\n3000 D hrtimer_wakeup\n4000 t hrtimer_wakeup\n";
        let mut functions = Functions::from_kallsyms(text.lines().map(str::to_owned));
        let kernel = -128_i64 as u64;
        let user = -512_i64 as u64;
        for (chain, marks) in [
            (&[kernel, 0x1000][..], Marks::FUTEX),
            // Where a function ends with a call, the address to return to is the next one's.
            (&[kernel, 0x2000, 0x2000], Marks::FUTEX),
            (&[kernel, 0x2500, 0x3500], Marks::default()),
            (&[kernel, 0x4100, 0x1100], Marks::FUTEX | Marks::TIMER),
            (&[user, 0x1000], Marks::default()),
            (&[kernel, 0x10], Marks::default()),
        ] {
            assert_eq!(functions.marks(chain), marks, "{chain:x?}");
        }
    }
}
