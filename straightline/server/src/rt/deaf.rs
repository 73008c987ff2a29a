//! A listening socket at which nobody can begin to connect any more.

use rustix::fd::{AsFd, AsRawFd};
use std::io;

/// Drops what would begin another handshake at `listener`: that client tries again a second later, and finds the socket
/// closed. Whoever has begun can end and be accepted; to close the socket at once would reset those.
pub(crate) fn deafen(listener: impl AsFd) -> io::Result<()> {
    /// Where a packet has its flags, and the one that begins a handshake. Source: RFC 9293, section 3.1.
    const FLAGS: u32 = 13;
    const SYN: u32 = 1 << 1;
    const ALL: u32 = u32::MAX;
    let mut steps = program((libc::BPF_B, FLAGS), (libc::BPF_JSET, SYN), 0, ALL);
    let filter = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: The kernel reads as much as is said, and copies the steps before the call returns.
    let outcome = unsafe {
        libc::setsockopt(
            listener.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const filter).cast(),
            size_of_val(&filter) as libc::socklen_t,
        )
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A program for the kernel that loads a value, and gives `yes` or `no` as a test of it comes out.
///
/// Source: `Documentation/networking/filter.rst` of Linux.
pub(super) fn program(load: (u32, u32), test: (u32, u32), yes: u32, no: u32) -> [libc::sock_filter; 4] {
    let step = |code: u32, jf, k| libc::sock_filter { code: code as u16, jt: 0, jf, k };
    [
        step(libc::BPF_LD | libc::BPF_ABS | load.0, 0, load.1),
        step(libc::BPF_JMP | libc::BPF_K | test.0, 1, test.1),
        step(libc::BPF_RET | libc::BPF_K, 0, yes),
        step(libc::BPF_RET | libc::BPF_K, 0, no),
    ]
}

#[cfg(test)]
mod tests {
    use super::deafen;
    use std::io::{ErrorKind, Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    #[test]
    fn who_has_connected_is_accepted_and_heard_and_nobody_else_connects() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut client = TcpStream::connect(address).unwrap();
        deafen(&listener).unwrap();
        let late = TcpStream::connect_timeout(&address, Duration::from_millis(50));
        assert!(late.as_ref().is_err_and(|error| error.kind() == ErrorKind::TimedOut), "{late:?}");
        let mut accepted = listener.accept().unwrap().0;
        client.write_all(b"heard").unwrap();
        drop(client);
        let mut heard = String::new();
        accepted.read_to_string(&mut heard).unwrap();
        assert_eq!(heard, "heard");
    }
}
