//! Listening sockets: made, shared out among shards, or handed over by a service manager.

use super::error::Error;
use crate::rt::{handed_over, net};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, ipproto, listen, socket_with, sockopt};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

/// Connections that may wait to be accepted: the kernel's own cap on common systems.
///
/// Source: `net.core.somaxconn`, 4096 since Linux 5.4.
pub(super) const BACKLOG: i32 = 4096;

/// Where a server listens.
#[derive(Debug)]
pub(crate) struct Listening {
    socket: OwnedFd,
    address: SocketAddr,
    /// Whether the socket was made by someone else, and must be shared as it is.
    inherited: bool,
}

impl Listening {
    /// Binds and listens at the first of the addresses that can be bound.
    pub(crate) fn at(addresses: impl ToSocketAddrs) -> Result<Self, Error> {
        let mut failure = None;
        for address in addresses.to_socket_addrs().map_err(Error::Address)? {
            match Self::at_one(address) {
                Ok(listening) => return Ok(listening),
                Err(error) => failure = Some(error),
            }
        }
        let nothing = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        Err(failure.unwrap_or(Error::Address(nothing)))
    }

    fn at_one(address: SocketAddr) -> Result<Self, Error> {
        let socket = made(address)?;
        // With `SO_REUSEPORT` set before, the port of another server of ours would seem to be free.
        bind(&socket, &address).map_err(|error| bind_error(address, error))?;
        sockopt::set_socket_reuseport(&socket, true).map_err(io::Error::from)?;
        listen(&socket, BACKLOG).map_err(|error| bind_error(address, error))?;
        let address = local_address(&socket)?;
        Ok(Self { socket, address, inherited: false })
    }

    /// Uses a socket that listens already.
    pub(crate) fn over(listener: OwnedFd) -> Result<Self, Error> {
        // A service manager that accepts by itself hands over one connection, at which there is nothing to accept.
        if !sockopt::socket_acceptconn(&listener).map_err(io::Error::from)? {
            return Err(Error::NotListening);
        }
        let address = local_address(&listener)?;
        // Whoever used the socket before may have shortened its queue.
        listen(&listener, BACKLOG).map_err(io::Error::from)?;
        rustix::io::ioctl_fionbio(&listener, true).map_err(io::Error::from)?;
        sockopt::set_tcp_nodelay(&listener, true).map_err(io::Error::from)?;
        Ok(Self { socket: listener, address, inherited: true })
    }

    /// The first socket that a service manager handed over.
    pub(crate) fn handed_over() -> Result<Self, Error> {
        let first = handed_over().into_iter().next().ok_or(Error::NoSocketHandedOver)?;
        Self::over(first)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether all shards use one socket.
    pub(crate) fn is_shared(&self) -> bool {
        self.inherited
    }

    /// A socket for each of `count` shards.
    pub(crate) fn split(self, count: usize) -> Result<Vec<OwnedFd>, Error> {
        let mut sockets = Vec::with_capacity(count);
        for _ in 1..count {
            sockets.push(if self.inherited { self.socket.try_clone()? } else { self.sibling()? });
        }
        sockets.push(self.socket);
        Ok(sockets)
    }

    /// Another socket at the same address, among which the kernel shares out new connections.
    fn sibling(&self) -> Result<OwnedFd, Error> {
        let socket = made(self.address)?;
        sockopt::set_socket_reuseport(&socket, true).map_err(io::Error::from)?;
        bind(&socket, &self.address).map_err(|error| bind_error(self.address, error))?;
        listen(&socket, BACKLOG).map_err(|error| bind_error(self.address, error))?;
        Ok(socket)
    }
}

/// A socket that accepted ones take their options from.
fn made(address: SocketAddr) -> Result<OwnedFd, Error> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket =
        socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP)).map_err(io::Error::from)?;
    // Connections of an earlier server in TIME_WAIT do not keep the port.
    sockopt::set_socket_reuseaddr(&socket, true).map_err(io::Error::from)?;
    sockopt::set_tcp_nodelay(&socket, true).map_err(io::Error::from)?;
    Ok(socket)
}

fn local_address(socket: impl AsFd) -> Result<SocketAddr, Error> {
    let address = rustix::net::getsockname(socket).map_err(io::Error::from)?;
    Ok(net::address(Some(address))?)
}

fn bind_error(address: SocketAddr, error: Errno) -> Error {
    match error {
        Errno::ADDRINUSE => Error::PortInUse(address),
        Errno::ADDRNOTAVAIL => Error::NotOurAddress(address),
        Errno::ACCESS | Errno::PERM => Error::NotPermitted(address),
        other => Error::Bind { address, cause: other.into() },
    }
}
