//! System calls by what a server makes them for.

/// Send to a socket, or write to whatever a descriptor is.
pub(crate) const WRITES: [&str; 6] = ["send", "sendto", "sendmsg", "sendmmsg", "write", "writev"];
/// Write to files and never to sockets.
pub(crate) const FILE_WRITES: [&str; 4] = ["pwrite64", "pwritev", "pwritev2", "fallocate"];
/// Read from whatever a descriptor is.
pub(crate) const READS: [&str; 2] = ["read", "readv"];
/// Read from a socket and from nothing else.
pub(crate) const RECEIVES: [&str; 4] = ["recv", "recvfrom", "recvmsg", "recvmmsg"];
/// Read what may have to be waited for, from a socket, a pipe or a disk.
pub(crate) const ALL_READS: [&str; 9] =
    ["read", "readv", "recv", "recvfrom", "recvmsg", "recvmmsg", "pread64", "preadv", "preadv2"];
/// Ask which sockets are ready: the time inside them is that of switching, and has a suspect of its own.
pub(crate) const POLLS: [&str; 8] =
    ["epoll_wait", "epoll_pwait", "epoll_pwait2", "poll", "ppoll", "select", "pselect6", "io_uring_enter"];
/// Ask the kernel for memory or give it back.
pub(crate) const MEMORY: [&str; 6] = ["brk", "mmap", "munmap", "madvise", "mremap", "mprotect"];
/// By which threads wait for each other and wake each other.
pub(crate) const FUTEX: [&str; 1] = ["futex"];
/// Lock a file, or set it free.
pub(crate) const FILE_LOCKS: [&str; 2] = ["flock", "fcntl"];
/// Let another thread have the CPU, and look again.
pub(crate) const YIELDS: [&str; 1] = ["sched_yield"];
/// Wait for a time to pass.
pub(crate) const SLEEPS: [&str; 2] = ["nanosleep", "clock_nanosleep"];
/// Wait for a disk.
pub(crate) const SYNCS: [&str; 6] = ["fsync", "fdatasync", "sync", "syncfs", "sync_file_range", "msync"];
/// Begin a thread or a process.
pub(crate) const BEGIN_THREADS: [&str; 4] = ["clone", "clone3", "fork", "vfork"];
/// What a connection needs once, from its opening to its end.
pub(crate) const OF_CONNECTIONS: [&str; 14] = [
    "accept",
    "accept4",
    "bind",
    "close",
    "connect",
    "epoll_ctl",
    "fcntl",
    "getpeername",
    "getsockname",
    "getsockopt",
    "ioctl",
    "setsockopt",
    "shutdown",
    "socket",
];
