use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Instant;

use model::job::fill::{Piece, pieces};
use model::record::without_secrets;

use crate::LoadError;

/// What is spoken below HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// Bytes as they are.
    Http,
    /// TLS.
    Https,
}

impl Scheme {
    /// The port of a URL without one. Source: RFC 9110, sections 4.2.1 and 4.2.2.
    #[must_use]
    pub const fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }

    /// The scheme of a URL and what follows it.
    fn split(url: &str) -> Result<(Self, &str), &'static str> {
        match url.split_once("://") {
            Some(("http" | "ws", rest)) => Ok((Self::Http, rest)),
            Some(("https" | "wss", rest)) => Ok((Self::Https, rest)),
            Some(_) => Err("only http://, https://, ws:// and wss:// are spoken"),
            None => Err("write http://host:port/path"),
        }
    }
}

/// What stands before the zone of an IPv6 address in a URL. Source: RFC 6874, section 2.
const ZONE: &str = "%25";

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

/// Whether all that is not filled may stand in a URL.
fn is_graphic(text: &str) -> bool {
    let graphic = |piece: &Piece| match piece {
        Piece::Text(text) => text.iter().all(u8::is_ascii_graphic),
        _ => true,
    };
    pieces(text.as_bytes(), None).is_ok_and(|pieces| pieces.iter().all(graphic))
}

/// A server as a URL names it, its host resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The URL as given.
    pub url: String,
    /// Whether TLS is spoken.
    pub scheme: Scheme,
    /// The `Host` field: host and, if given, port.
    pub authority: String,
    /// Path and query, beginning with `/`.
    pub path: String,
    /// Addresses of the host in the resolver's order; never empty.
    pub addresses: Vec<Address>,
    /// How long the look-up of the host took; nothing where it is an address.
    pub lookup_ns: Option<u64>,
}

impl Target {
    /// Reads `http[s]://host[:port][/path][?query]`, or the same with `ws[s]`, and resolves the host.
    ///
    /// # Errors
    /// [`LoadError::Url`] or [`LoadError::Resolve`].
    pub fn resolve(url: &str) -> Result<Self, LoadError> {
        let mut target = Self::parse(url)?;
        let (_, port) = split_port(&target.authority, url)?;
        let (host, port) = (target.host().replace(ZONE, "%"), port.unwrap_or(target.scheme.port()));
        let failed = |source| LoadError::Resolve { host: host.clone(), source };
        let named = host.parse::<IpAddr>().is_err();
        let begun = Instant::now();
        let resolved = (host.as_str(), port).to_socket_addrs().map_err(failed)?;
        let addresses: Vec<Address> = resolved.map(Address::Tcp).collect();
        target.lookup_ns = named.then(|| u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX));
        if addresses.is_empty() {
            return Err(failed(io::Error::from(io::ErrorKind::NotFound)));
        }
        target.addresses = addresses;
        // Which of our interfaces leads there is nothing to tell a server.
        target.authority = without_zone(&target.authority);
        Ok(target)
    }

    /// Reads a URL whose server listens on a unix socket; its host is only named in the request.
    ///
    /// # Errors
    /// [`LoadError::Url`].
    pub fn unix(url: &str, socket: PathBuf) -> Result<Self, LoadError> {
        let target = Self::parse(url)?;
        split_port(&target.authority, url)?;
        Ok(Self { addresses: vec![Address::Unix(socket)], ..target })
    }

    /// The host without port, and without the brackets of IPv6.
    #[must_use]
    pub fn host(&self) -> &str {
        let host = split_port(&self.authority, "").map_or(self.authority.as_str(), |(host, _)| host);
        host.trim_start_matches('[').trim_end_matches(']')
    }

    /// Whether the URL's scheme is one of WebSocket.
    #[must_use]
    pub fn names_websocket(&self) -> bool {
        matches!(self.url.split_once("://"), Some(("ws" | "wss", _)))
    }

    fn parse(url: &str) -> Result<Self, LoadError> {
        let wrong = |why| LoadError::Url { url: without_secrets(url), why };
        let (scheme, rest) = Scheme::split(url).map_err(wrong)?;
        let rest = rest.split('#').next().unwrap_or(rest);
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let authority = authority.rsplit('@').next().unwrap_or(authority);
        if authority.is_empty() || authority.starts_with(':') {
            return Err(wrong("it has no host"));
        }
        if !is_graphic(rest) {
            return Err(wrong("it has a space or a character that must be percent-encoded"));
        }
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        let authority = authority.to_owned();
        Ok(Self {
            url: without_secrets(url),
            scheme,
            authority,
            path,
            addresses: Vec::new(),
            lookup_ns: None,
        })
    }
}

/// An authority without the zone of its address. Source: RFC 6874, section 4.
fn without_zone(authority: &str) -> String {
    match (authority.find(ZONE), authority.find(']')) {
        (Some(zone), Some(bracket)) if zone < bracket => {
            format!("{}{}", &authority[..zone], &authority[bracket..])
        }
        _ => authority.to_owned(),
    }
}

/// Host, brackets of IPv6 kept, and port if there is one.
fn split_port<'a>(authority: &'a str, url: &str) -> Result<(&'a str, Option<u16>), LoadError> {
    let after_bracket = authority.rfind(']').map_or(0, |end| end + 1);
    let Some(colon) = authority[after_bracket..].rfind(':') else { return Ok((authority, None)) };
    let (host, port) = authority.split_at(after_bracket + colon);
    let port = port[1..].parse().ok().filter(|port| *port > 0);
    port.map(|port| (host, Some(port))).ok_or_else(|| LoadError::Url {
        url: url.to_owned(),
        why: "its port is not a number from 1 to 65535",
    })
}
