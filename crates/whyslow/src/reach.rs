//! How `whyslow load` reaches its server: sockets, source addresses and TLS.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;
use load::{Config, Identity, LoadError, Roots, Target, Tls};

/// Ways to the server.
#[derive(Debug, Args)]
#[command(next_help_heading = "Reaching the server")]
pub(crate) struct ReachArgs {
    /// The server listens on this unix socket; the URL's host is only named in requests
    #[arg(long, value_name = "SOCKET")]
    pub(crate) unix: Option<PathBuf>,
    /// Speak HTTP/2: agreed on over TLS (ALPN), else taken for granted (prior knowledge)
    #[arg(long)]
    pub(crate) http2: bool,
    /// With --http2: requests in flight on each connection
    #[arg(long, value_name = "N", default_value_t = 1, requires = "http2")]
    pub(crate) streams: u32,
    /// Local addresses that connections come from, in turn; each has ports of its own
    #[arg(long = "source", value_name = "LIST", value_delimiter = ',', conflicts_with = "unix")]
    pub(crate) sources: Vec<IpAddr>,
    /// Trust the certificate authorities in this PEM file instead of those that the machine trusts
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    pub(crate) cacert: Option<PathBuf>,
    /// Go on without checking whose certificate the server has
    #[arg(long)]
    pub(crate) insecure: bool,
    /// Certificate for a server that asks for one, with those that lead to its authority (PEM)
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) cert: Option<PathBuf>,
    /// Private key of --cert (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(crate) key: Option<PathBuf>,
}

impl ReachArgs {
    /// The server that `url` names.
    pub(crate) fn target(&self, url: &str) -> Result<Target, LoadError> {
        match &self.unix {
            Some(socket) => Target::unix(url, socket.clone()),
            None => Target::resolve(url),
        }
    }

    /// Sets what the flags say of the way.
    pub(crate) fn apply(&self, config: &mut Config) {
        config.sources.clone_from(&self.sources);
        config.http2 = self.http2.then_some(self.streams);
        config.tls = Tls {
            roots: match &self.cacert {
                _ if self.insecure => Roots::Anyone,
                Some(file) => Roots::File(file.clone()),
                None => Roots::System,
            },
            identity: self
                .cert
                .clone()
                .zip(self.key.clone())
                .map(|(certificate, key)| Identity { certificate, key }),
        };
    }
}
