use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use crate::LoadError;

/// Port of `http` without one. Source: RFC 9110, section 4.2.1.
const HTTP_PORT: u16 = 80;

/// Where a socket is connected to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// IPv4 or IPv6 with a port.
    Tcp(SocketAddr),
    /// A socket in the file system.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

/// A server as a URL names it, its host resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The URL as given.
    pub url: String,
    /// The `Host` field: host and, if given, port.
    pub authority: String,
    /// Path and query, beginning with `/`.
    pub path: String,
    /// Addresses of the host in the resolver's order; never empty.
    pub addresses: Vec<Address>,
}

impl Target {
    /// Reads `http://host[:port][/path][?query]` and resolves the host.
    ///
    /// # Errors
    /// [`LoadError::Url`] or [`LoadError::Resolve`].
    pub fn resolve(url: &str) -> Result<Self, LoadError> {
        let mut target = Self::parse(url)?;
        let (host, port) = split_port(&target.authority, url)?;
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let failed = |source| LoadError::Resolve { host: bare.to_owned(), source };
        target.addresses = (bare, port).to_socket_addrs().map_err(failed)?.map(Address::Tcp).collect();
        if target.addresses.is_empty() {
            return Err(failed(io::Error::from(io::ErrorKind::NotFound)));
        }
        Ok(target)
    }

    /// Reads a URL whose server listens on a unix socket; its host is only named in the request.
    ///
    /// # Errors
    /// [`LoadError::Url`].
    pub fn unix(url: &str, socket: PathBuf) -> Result<Self, LoadError> {
        Ok(Self { addresses: vec![Address::Unix(socket)], ..Self::parse(url)? })
    }

    fn parse(url: &str) -> Result<Self, LoadError> {
        let wrong = |why| LoadError::Url { url: url.to_owned(), why };
        let rest = url.strip_prefix("http://").ok_or_else(|| {
            wrong(match url.split_once("://") {
                Some(("https", _)) => "https is not spoken yet, write http://",
                Some(_) => "only http:// is spoken",
                None => "write http://host:port/path",
            })
        })?;
        let rest = rest.split('#').next().unwrap_or(rest);
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let authority = authority.rsplit('@').next().unwrap_or(authority);
        if authority.is_empty() || authority.starts_with(':') {
            return Err(wrong("it has no host"));
        }
        if !rest.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(wrong("it has a space or a character that must be percent-encoded"));
        }
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Ok(Self { url: url.to_owned(), authority: authority.to_owned(), path, addresses: Vec::new() })
    }
}

/// Host, brackets of IPv6 kept, and port.
fn split_port<'a>(authority: &'a str, url: &str) -> Result<(&'a str, u16), LoadError> {
    let after_bracket = authority.rfind(']').map_or(0, |end| end + 1);
    let Some(colon) = authority[after_bracket..].rfind(':') else { return Ok((authority, HTTP_PORT)) };
    let (host, port) = authority.split_at(after_bracket + colon);
    port[1..].parse().ok().filter(|port| *port > 0).map(|port| (host, port)).ok_or_else(|| LoadError::Url {
        url: url.to_owned(),
        why: "its port is not a number from 1 to 65535",
    })
}
