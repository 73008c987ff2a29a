//! What system calls write to.

use std::collections::BTreeMap;

use syscalls::Sysno;

use crate::file::optional;

/// What a descriptor stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A socket that is none between processes of one host.
    Network,
    /// Anything else.
    Other,
}

/// The descriptor that a system call with these arguments writes to, and whether its result is a number of bytes; nothing
/// where it does not write.
pub(super) fn target_of_write(number: u64, args: &[u64; 6]) -> Option<(u64, bool)> {
    match Sysno::new(usize::try_from(number).ok()?)? {
        Sysno::write
        | Sysno::writev
        | Sysno::pwrite64
        | Sysno::pwritev
        | Sysno::pwritev2
        | Sysno::sendto
        | Sysno::sendmsg
        | Sysno::sendfile
        | Sysno::vmsplice => Some((args[0], true)),
        Sysno::sendmmsg => Some((args[0], false)),
        Sysno::splice | Sysno::copy_file_range => Some((args[2], true)),
        _ => None,
    }
}

/// Sockets seen so far.
#[derive(Debug, Default)]
pub(super) struct Descriptors {
    /// By inode, which no two sockets have at a time.
    sockets: BTreeMap<String, Kind>,
}

impl Descriptors {
    /// What the descriptor of a thread stands for now; it is stopped, so that nobody changes it.
    pub(super) fn kind(&mut self, thread: u32, descriptor: u64) -> Kind {
        // The kernel takes a descriptor by its lower half.
        let descriptor = descriptor & u64::from(u32::MAX);
        let link = std::fs::read_link(format!("/proc/{thread}/fd/{descriptor}")).unwrap_or_default();
        let Some(inode) = link.to_str().and_then(inode) else { return Kind::Other };
        if let Some(known) = self.sockets.get(inode) {
            return *known;
        }
        let between = optional(format!("/proc/{thread}/net/unix")).unwrap_or_default();
        let kind = if between_processes(&between, inode) { Kind::Other } else { Kind::Network };
        self.sockets.insert(inode.to_owned(), kind);
        kind
    }
}

/// The inode of a socket in what a link in `/proc/PID/fd` says. Source: proc_pid_fd(5).
fn inode(link: &str) -> Option<&str> {
    link.strip_prefix("socket:[")?.strip_suffix(']')
}

/// Whether `/proc/net/unix` lists a socket. Source: proc_pid_net(5): the inode is the seventh word of its line.
fn between_processes(table: &str, inode: &str) -> bool {
    table.lines().skip(1).any(|line| line.split_whitespace().nth(6) == Some(inode))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_to_is_found_among_the_arguments() {
        let args = [1, 2, 3, 4, 5, 6];
        for (call, expected) in [
            (Sysno::write, Some((1, true))),
            (Sysno::sendmmsg, Some((1, false))),
            (Sysno::splice, Some((3, true))),
            (Sysno::read, None),
        ] {
            assert_eq!(target_of_write(call.id() as u64, &args), expected, "{call}");
        }
        assert_eq!(target_of_write(u64::MAX, &args), None);
    }

    #[test]
    fn sockets_of_the_network_are_told_from_those_between_processes() {
        let table = "Num RefCount Protocol Flags Type St Inode Path\n\
                     0000000000000000: 00000002 00000000 00010000 0001 01 4711 /run/a.sock\n\
                     0000000000000000: 00000003 00000000 00000000 0001 03 4712\n";
        assert_eq!(inode("socket:[4711]"), Some("4711"));
        assert_eq!(inode("pipe:[4711]"), None);
        assert!(between_processes(table, "4712") && !between_processes(table, "471"));
    }
}
