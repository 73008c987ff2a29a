use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, bind, connect, recv, send,
    socket_with, sockopt,
};

use crate::Address;

/// A socket that is connecting or connected, bound to `source` if there is one.
///
/// # Errors
/// What the system says; a refusal may also come later, see [`connected`].
pub(crate) fn open(address: &Address, source: Option<IpAddr>) -> io::Result<OwnedFd> {
    let family = match address {
        Address::Tcp(SocketAddr::V4(_)) => AddressFamily::INET,
        Address::Tcp(SocketAddr::V6(_)) => AddressFamily::INET6,
        Address::Unix(_) => AddressFamily::UNIX,
    };
    let socket = bound(family, SocketType::STREAM, source)?;
    let started = match address {
        Address::Tcp(address) => {
            sockopt::set_tcp_nodelay(&socket, true)?;
            connect(&socket, address)
        }
        Address::Unix(path) => connect(&socket, &SocketAddrUnix::new(path.as_path())?),
    };
    match started {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error.into()),
    }
}

/// A socket for datagrams to and from `remote` alone, bound to `source` if there is one.
///
/// # Errors
/// What the system says.
pub(crate) fn open_udp(remote: SocketAddr, source: Option<IpAddr>) -> io::Result<OwnedFd> {
    let family = if remote.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = bound(family, SocketType::DGRAM, source)?;
    connect(&socket, &remote)?;
    Ok(socket)
}

fn bound(family: AddressFamily, kind: SocketType, source: Option<IpAddr>) -> io::Result<OwnedFd> {
    let socket = socket_with(family, kind, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None)?;
    if let Some(source) = source {
        const ANY_PORT: u16 = 0;
        // The port is chosen when the server is known: one that another connection has to another server will do.
        nix::sys::socket::setsockopt(&socket, nix::sys::socket::sockopt::IpBindAddressNoPort, &true)?;
        bind(&socket, &SocketAddr::new(source, ANY_PORT))?;
    }
    Ok(socket)
}

/// Whether a socket that became writable is connected.
///
/// # Errors
/// Why it is not.
pub(crate) fn connected(socket: &OwnedFd) -> io::Result<()> {
    Ok(sockopt::socket_error(socket)??)
}

/// What a socket did with a read or a write.
pub(crate) enum Moved {
    /// So many bytes, above 0.
    Bytes(usize),
    /// Nothing for now.
    Later,
    /// The other side has closed.
    End,
    /// The socket has ended without the farewell of TLS.
    Cut,
    /// The connection is broken.
    Broken,
}

#[inline]
pub(crate) fn read(socket: &OwnedFd, buf: &mut [u8]) -> Moved {
    match recv(socket, buf, RecvFlags::empty()) {
        Ok((0, _)) => Moved::End,
        Ok((bytes, _)) => Moved::Bytes(bytes),
        Err(Errno::AGAIN | Errno::INTR) => Moved::Later,
        Err(_) => Moved::Broken,
    }
}

#[inline]
pub(crate) fn write(socket: &OwnedFd, buf: &[u8]) -> Moved {
    match send(socket, buf, SendFlags::NOSIGNAL) {
        Ok(bytes) => Moved::Bytes(bytes),
        Err(Errno::AGAIN | Errno::INTR) => Moved::Later,
        Err(_) => Moved::Broken,
    }
}
