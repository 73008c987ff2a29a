use std::io;
use std::net::IpAddr;
use std::path::PathBuf;

use crate::session::FeedError;

/// Why a run could not be done. Each display is one sentence that says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The URL is not one that can be driven.
    #[error("'{url}' is not a URL that can be driven: {why}")]
    Url {
        /// What was given.
        url: String,
        /// What is wrong with it and what would be right.
        why: &'static str,
    },
    /// The host has no address.
    #[error("the host '{host}' has no address ({source}): check the name")]
    Resolve {
        /// What was looked up.
        host: String,
        /// What the resolver said.
        source: io::Error,
    },
    /// A request cannot be rendered.
    #[error("the request cannot be sent: {0}")]
    Request(&'static str),
    /// A field of a request would break the message.
    #[error("the request cannot be sent: the field '{name}' is not 'Name: value' on one line")]
    Field {
        /// The first word of its name.
        name: String,
    },
    /// A setting is out of range or does not go with another.
    #[error("{0}")]
    Config(&'static str),
    /// The hard limit of open files is too low.
    #[error(
        "{needed} open files are needed and the hard limit is {hard}: ask for fewer connections or raise it (ulimit -Hn)"
    )]
    Descriptors {
        /// Descriptors that the run needs.
        needed: u64,
        /// What the limit allows.
        hard: u64,
    },
    /// The source addresses have too few ports.
    #[error(
        "{needed} connections are asked for and there are {available} local ports to one address: ask for fewer, add source addresses, or widen net.ipv4.ip_local_port_range"
    )]
    Ports {
        /// Connections asked for.
        needed: u64,
        /// Ports of all source addresses together.
        available: u64,
    },
    /// A list of requests is wrong.
    #[error("{}", of_list(*line, why))]
    List {
        /// The line, from 1; 0 for the whole, and where there is no list.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// A source address cannot be used.
    #[error("{address} is not an address of this machine ({source}): name one that is (ip address)")]
    Source {
        /// The address.
        address: IpAddr,
        /// What the system said.
        source: io::Error,
    },
    /// No connection could be opened.
    #[error("no connection to {address} could be opened ({why}): is the server listening there?")]
    Connect {
        /// Where.
        address: String,
        /// The first failure.
        why: String,
    },
    /// What was to be sent is not known: a script is wrong.
    #[error("{error}")]
    Feed {
        /// What the feed says.
        error: FeedError,
        /// Whether requests had been sent by then.
        after: bool,
    },
    /// A file of certificates or keys cannot be used.
    #[error("{} cannot be used: {why}", path.display())]
    Certificates {
        /// The file, or the machine's own store.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// No connection got through its TLS handshake.
    #[error("no TLS connection to {address} could be opened: {why}")]
    Tls {
        /// Where.
        address: String,
        /// What failed first, and what would allow it.
        why: String,
        /// Whether connections had been opened before.
        after: bool,
    },
    /// QUIC cannot be spoken from here.
    #[error("HTTP/3 cannot be spoken from here: {why}")]
    Quic {
        /// What is missing.
        why: String,
    },
    /// The server does not speak what it is asked to.
    #[error("what {address} says is not {protocol}: is this the right port, and does the server speak it?")]
    Foreign {
        /// Where.
        address: String,
        /// What it was asked to speak.
        protocol: &'static str,
    },
    /// Nothing was answered that could be read.
    #[error("{address} does not answer as it is asked: {why}")]
    Unanswered {
        /// Where.
        address: String,
        /// What was wrong with the first answer.
        why: String,
    },
    /// The operating system refused something that a worker cannot do without.
    #[error("the system refused to {what} ({source})")]
    System {
        /// What was asked of it.
        what: &'static str,
        /// What it said.
        source: io::Error,
    },
}

fn of_list(line: usize, why: &str) -> String {
    match line {
        0 => format!("what is to be sent cannot be used: {why}"),
        line => format!("line {line} of the list cannot be used: {why}"),
    }
}

impl LoadError {
    pub(crate) fn system<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::System { what, source: source.into() }
    }
}
