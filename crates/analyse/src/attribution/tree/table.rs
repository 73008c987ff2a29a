//! The tables by which stacks are told apart: parts of the names of the kernel's functions.

use model::record::{Frame, PHP, PYTHON, RUBY, evaluated_in};

/// Time in reading clocks that no handler needs: some twenty readings. Who needs more waits for a time to pass.
pub(crate) const POLLED_NS: f64 = 500.0;

/// What a system call is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum On {
    Tcp,
    UnixSocket,
    File,
    Pipe,
    Futex,
    Epoll,
    Memory,
    Process,
    Time,
}

impl On {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::UnixSocket => "unix socket",
            Self::File => "file",
            Self::Pipe => "pipe",
            Self::Futex => "futex",
            Self::Epoll => "epoll",
            Self::Memory => "memory",
            Self::Process => "process",
            Self::Time => "time",
        }
    }
}

/// What the kernel does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Does {
    Switch,
    WakeUp,
    Copy,
    Disk,
    ProtocolReceive,
    ProtocolSend,
    PageCache,
    Other,
}

impl Does {
    /// Whether it is what the network does with packets.
    pub(crate) fn is_of_packets(self) -> bool {
        matches!(self, Self::ProtocolReceive | Self::ProtocolSend)
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Switch => "switch",
            Self::WakeUp => "wake-up",
            Self::Copy => "copy",
            Self::Disk => "disk",
            Self::ProtocolReceive => "protocol receive",
            Self::ProtocolSend => "protocol send",
            Self::PageCache => "page cache",
            Self::Other => "other",
        }
    }
}

/// Rows of an answer and what names it has: `^` stands for the beginning of a name; without it the text may be anywhere. The
/// first row that fits counts.
pub(crate) type Table<T> = &'static [(T, &'static [&'static str])];

/// The first row that fits a name.
pub(crate) fn rows_fit<T: Copy>(table: Table<T>, name: &str) -> Option<T> {
    let fits = |pattern: &str| match pattern.strip_prefix('^') {
        Some(begin) => name.starts_with(begin),
        None => name.contains(pattern),
    };
    table.iter().find(|(_, patterns)| patterns.iter().any(|pattern| fits(pattern))).map(|(answer, _)| *answer)
}

/// How the kernel calls the entry of a system call, before its name. Source: Linux, `arch/*/include/asm/syscall_wrapper.h` and
/// `include/linux/syscalls.h`.
pub(crate) const ENTRIES: [&str; 6] =
    ["__x64_sys_", "__arm64_sys_", "__riscv_sys_", "__do_sys_", "__se_sys_", "ksys_"];

/// Functions that some system calls jump to, so that the call's own entry is not on the stack. Source: Linux, fs/read_write.c,
/// mm/util.c, net/socket.c, fs/open.c, fs/eventpoll.c, fs/select.c, fs/stat.c.
pub(crate) const INSTEAD: Table<&'static str> = &[
    ("writev", &["^do_writev"]),
    ("readv", &["^do_readv"]),
    ("pwritev", &["^do_pwritev"]),
    ("preadv", &["^do_preadv"]),
    ("sendfile", &["^do_sendfile"]),
    ("mmap", &["^vm_mmap_pgoff"]),
    ("munmap", &["^__vm_munmap"]),
    ("sendto", &["^__sys_sendto"]),
    ("recvfrom", &["^__sys_recvfrom"]),
    ("sendmsg", &["^__sys_sendmsg"]),
    ("recvmsg", &["^__sys_recvmsg"]),
    ("accept4", &["^__sys_accept4"]),
    ("connect", &["^__sys_connect"]),
    ("shutdown", &["^__sys_shutdown"]),
    ("openat", &["^do_sys_openat2", "^do_sys_open"]),
    ("epoll_wait", &["^do_epoll_wait"]),
    ("epoll_ctl", &["^do_epoll_ctl"]),
    ("poll", &["^do_sys_poll"]),
    ("readlink", &["^do_readlinkat"]),
];

/// A page that is touched and not there. Source: Linux, arch/x86/mm/fault.c and arch/arm64/mm/fault.c.
pub(crate) const FAULTS: Table<()> = &[((), &["exc_page_fault", "do_user_addr_fault", "do_mem_abort"])];

/// The outermost functions of an interrupt.
pub(crate) const INTERRUPTS: Table<()> = &[(
    (),
    &[
        "^asm_sysvec",
        "^sysvec_",
        "^asm_common_interrupt",
        "^common_interrupt",
        "^irq_",
        "^__irq",
        "^do_softirq",
        "^__do_softirq",
        "^handle_softirqs",
        "^net_rx_action",
        "^el0_irq",
        "^el1_irq",
        "^el0_interrupt",
        "^asm_exc_nmi",
    ],
)];

/// An interpreter whose functions are sampled by themselves.
pub(crate) struct Interpreter {
    /// Module of those functions.
    pub(crate) module: &'static str,
    /// Beginnings of its own file names.
    files: &'static [&'static str],
    /// Whether it may compile functions while they run and write down no names: its stacks tell them all the same.
    compiles: bool,
    /// What is said in their place where the ones that they work on are not known.
    pub(crate) not_read: &'static str,
}

const INTERPRETERS: [Interpreter; 3] = [
    Interpreter {
        module: PYTHON,
        files: &["python", "libpython"],
        compiles: false,
        not_read: "Python frames that were not read (3.9 to 3.13 are)",
    },
    Interpreter {
        module: RUBY,
        files: &["ruby", "libruby"],
        compiles: true,
        not_read: "Ruby frames that were not read (2.7 to 3.4 are)",
    },
    Interpreter {
        module: PHP,
        files: &["php", "libphp"],
        compiles: false,
        not_read: "PHP frames that were not read (8 is, not thread-safe builds)",
    },
];

/// The interpreter that a function is of, or may have been compiled by.
pub(crate) fn interpreter(frame: &Frame) -> Option<&'static Interpreter> {
    let is_compiled = frame.module == "[jit]" && !frame.resolved;
    let is_of = |row: &&Interpreter| {
        row.files.iter().any(|begin| frame.module.starts_with(begin)) || row.compiles && is_compiled
    };
    INTERPRETERS.iter().find(is_of).filter(|_| !frame.kernel)
}

/// The interpreter in one of whose functions it works on those of the program, in whatever file that is.
pub(crate) fn evaluating(name: &str) -> Option<&'static Interpreter> {
    let module = evaluated_in(name)?;
    INTERPRETERS.iter().find(|row| row.module == module)
}

/// What a call is on, by its outermost function that one of these fits. Source: Linux, net/, fs/, kernel/futex, mm/.
pub(crate) const ON: Table<On> = &[
    (On::UnixSocket, &["^unix_"]),
    (On::Tcp, &["^tcp_", "^inet_", "^__inet_", "^inet6_", "^ip_", "^udp_"]),
    (On::Pipe, &["^pipe_", "^eventfd_", "^fifo_", "^anon_pipe_"]),
    (On::Futex, &["^futex_", "^do_futex"]),
    (On::Epoll, &["^ep_", "^do_epoll", "^do_sys_poll", "^do_select", "^core_sys_select", "^do_poll"]),
    (
        On::File,
        &[
            "^ext4_",
            "^xfs_",
            "^btrfs_",
            "^ovl_",
            "^generic_file",
            "^generic_perform",
            "^shmem_",
            "^filemap_",
            "^jbd2_",
            "^null_",
            "^path_openat",
            "^do_filp_open",
            "^iomap_",
            "^tty_",
            "^proc_",
            "^seq_read",
            "^vfs_fsync",
        ],
    ),
    (
        On::Memory,
        &["^do_mmap", "^vm_mmap", "^do_munmap", "^__vm_munmap", "^do_madvise", "^do_brk", "^unmap_region"],
    ),
    (
        On::Process,
        &[
            "^kernel_clone",
            "^copy_process",
            "^do_exit",
            "^do_group_exit",
            "^do_wait",
            "^kernel_wait",
            "^do_execve",
            "^exit_mm",
            "^bprm_",
        ],
    ),
    (On::Time, &["^hrtimer_nanosleep", "^do_nanosleep", "^do_clock_"]),
];

/// Calls that do the same for a request by other names: two servers that differ in the name alone do not differ. Of reading and
/// writing it is so on sockets.
const ALIKE: Table<&'static str> = &[
    (WAITING, &["epoll_wait", "epoll_pwait", "epoll_pwait2", "poll", "ppoll", "select", "pselect6"]),
    (RECEIVING, &["recv", "recvfrom", "recvmsg", "recvmmsg", "read", "readv"]),
    (SENDING, &["send", "sendto", "sendmsg", "sendmmsg", "write", "writev", "sendfile"]),
];
const WAITING: &str = "waiting for events";
const RECEIVING: &str = "receiving";
const SENDING: &str = "sending";

/// Names of nodes that stand for several system calls, which do the same.
pub const DONE_ALIKE: [&str; 3] = [WAITING, RECEIVING, SENDING];

/// What `call` on `on` does, where other calls do the same.
pub(crate) fn does_the_same(call: &str, on: &str) -> Option<&'static str> {
    let (what, _) = ALIKE.iter().find(|(_, calls)| calls.contains(&call))?;
    let socket = [On::Tcp, On::UnixSocket].iter().any(|socket| socket.word() == on);
    (*what == WAITING || socket).then_some(*what)
}

/// What a call is on where neither its stack nor others of the same call tell.
pub(crate) const CALLS_ON: Table<On> = &[
    (
        On::Tcp,
        &[
            "accept", "accept4", "connect", "recv", "recvfrom", "recvmsg", "send", "sendto", "sendmsg",
            "shutdown",
        ],
    ),
    (
        On::File,
        &[
            "open",
            "openat",
            "openat2",
            "stat",
            "lstat",
            "fstat",
            "newfstatat",
            "statx",
            "pread64",
            "pwrite64",
            "fsync",
            "fdatasync",
            "getdents64",
            "sendfile",
        ],
    ),
    (On::Futex, &["futex"]),
    (
        On::Epoll,
        &["epoll_wait", "epoll_pwait", "epoll_pwait2", "epoll_ctl", "poll", "ppoll", "select", "pselect6"],
    ),
    (On::Memory, &["brk", "mmap", "munmap", "madvise", "mremap", "mprotect"]),
    (On::Process, &["clone", "clone3", "fork", "vfork", "execve", "exit", "exit_group", "wait4", "waitid"]),
    (On::Time, &["nanosleep", "clock_nanosleep", "timerfd_settime"]),
];

/// What is done, by the innermost function that one of these fits. Source: Linux, kernel/sched, lib/iov_iter.c, net/, mm/.
pub(crate) const DOES: Table<Does> = &[
    (
        Does::WakeUp,
        &[
            "^try_to_wake_up",
            "^ttwu_",
            "^wake_up_",
            "^__wake_up",
            "^enqueue_",
            "^select_task_rq",
            "^resched_curr",
            "^sock_def_readable",
            "^ep_poll_callback",
            "^futex_wake",
            "^wake_q_",
        ],
    ),
    (
        Does::Switch,
        &[
            "^schedule",
            "^__schedule",
            "^io_schedule",
            "^finish_task_switch",
            "^pick_next",
            "^dequeue_",
            "^__switch_to",
            "^switch_mm",
            "^put_prev",
            "^set_next",
            "^prepare_task_switch",
        ],
    ),
    (
        Does::Copy,
        &[
            "copy_user",
            "^_copy_",
            "^copy_to_",
            "^copy_from_",
            "^__copy_",
            "^copyin",
            "^copyout",
            "^copy_page_",
            "^skb_copy_datagram",
            "^rep_movs",
            "^simple_copy",
        ],
    ),
    (Does::Disk, &["^submit_bio", "^blk_", "^nvme_", "^virtio_queue_rq", "^virtblk_", "^jbd2_", "^scsi_"]),
    (
        Does::ProtocolReceive,
        &[
            "^tcp_v4_rcv",
            "^tcp_v6_rcv",
            "^tcp_v4_do_rcv",
            "^tcp_v6_do_rcv",
            "^tcp_rcv_",
            "^tcp_recvmsg",
            "^ip_rcv",
            "^ip_local_deliver",
            "^ip_protocol_deliver",
            "^ipv6_rcv",
            "^net_rx_action",
            "^process_backlog",
            "^__napi_poll",
            "^__netif_receive",
            "^netif_receive",
            "^sock_recvmsg",
            "^inet_recvmsg",
            "^tcp_data_queue",
            "^tcp_ack",
            "^tcp_cleanup_rbuf",
            "^__do_softirq",
            "^handle_softirqs",
            "^do_softirq",
            "^unix_stream_read",
            "^unix_stream_recvmsg",
            "^unix_dgram_recvmsg",
            "^inet_csk_accept",
        ],
    ),
    (
        Does::ProtocolSend,
        &[
            "^tcp_",
            "^ip_queue_xmit",
            "^__ip_queue_xmit",
            "^ip_output",
            "^ip_finish_output",
            "^ip_local_out",
            "^ip6_",
            "^inet6_csk_xmit",
            "^__dev_queue_xmit",
            "^dev_hard_start_xmit",
            "^loopback_xmit",
            "^sock_sendmsg",
            "^__sock_sendmsg",
            "^inet_sendmsg",
            "^sock_write_iter",
            "^unix_stream_sendmsg",
            "^unix_dgram_sendmsg",
        ],
    ),
    (
        Does::PageCache,
        &[
            "^filemap_",
            "^generic_perform_write",
            "^folio_",
            "^__filemap",
            "^pagecache_",
            "^iomap_",
            "^ext4_da_write",
            "^block_write",
        ],
    ),
];
