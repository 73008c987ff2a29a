//! What a generator is to do, as data: the [`Job`] that it is given first, the [`Command`]s that follow it, and the
//! [`Event`]s that it answers with. Each is one JSON object on a line of its own.
//!
//! ```text
//! orchestrator ── Job, Command, Command, … ──▶ standard input of the generator
//!              ◀── Event, Event, Event, … ──── its standard output
//! ```
//!
//! A generator opens its connections to every endpoint and then does nothing until it is given a turn. It is quiet
//! between turns: nothing is in flight, and it uses no CPU. It ends when its standard input does.

pub(crate) mod body;
pub mod fill;
pub mod read;
pub mod scenario;
pub(crate) mod summary;
mod turn;

pub use fill::Data;
pub use summary::{FieldSummary, RequestSummary, RequestsSummary};
pub use turn::{Command, Event, MOST_LATE, Polled, Turn, TurnPace, TurnReport, first_late};

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::plan::{Circumstances, ServicePlace, fill_services};
use crate::units::Span;

/// Everything that says what is sent, to whom, and how; not when, which each [`Turn`] says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// The servers, in the order in which turns name them.
    pub endpoints: Vec<Endpoint>,
    /// What is asked.
    pub requests: Requests,
    /// What fills the placeholders of requests, beside those that need nothing.
    #[serde(default)]
    pub data: Option<Data>,
    /// What is spoken.
    pub protocol: Protocol,
    /// How TLS is spoken to endpoints whose URL begins with `https`.
    pub tls: Tls,
    /// Connections to each endpoint.
    pub connections: u32,
    /// Threads for each endpoint; those of an endpoint that is not loaded sleep.
    pub threads: u32,
    /// How long a connection is used.
    pub reuse: Reuse,
    /// A request unanswered for longer than this after it was sent is given up.
    pub timeout: Span,
    /// Which part of the arrivals is this generator's.
    #[serde(default, skip_serializing_if = "JobPart::is_whole")]
    pub part: JobPart,
}

/// One of several generators of the same turns: arrival k is that of generator k mod `of`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobPart {
    /// Which one, from 0.
    pub index: u32,
    /// How many there are.
    pub of: u32,
}

impl Default for JobPart {
    fn default() -> Self {
        Self { index: 0, of: 1 }
    }
}

impl JobPart {
    fn is_whole(&self) -> bool {
        self.of == 1
    }
}

/// One server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    /// The arm's name.
    pub name: String,
    /// Such as `http://127.0.0.1:8080/path`; its path is asked where requests name none.
    pub url: String,
    /// The socket to connect to instead of the URL's host.
    pub unix: Option<PathBuf>,
    /// The only status that is no error; where there is none, every one below 400 is none.
    pub expected_status: Option<u16>,
}

/// What is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Requests {
    /// The same again and again.
    Same(Request),
    /// Drawn at random by weight; the same seed draws the same for every endpoint.
    Drawn(Vec<NamedRequest>),
}

/// One request as a user describes it. `Host` and `Content-Length` are added unless they are among the fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Method, in capitals.
    pub method: String,
    /// Path and query; `None` for those of the endpoint's URL.
    pub target: Option<String>,
    /// Field names and values in order.
    pub fields: Vec<(String, String)>,
    /// The body; in files it is text where it is UTF-8, else a list of bytes.
    #[serde(with = "body", default, skip_serializing_if = "Vec::is_empty")]
    pub body: Vec<u8>,
}

/// A request with a row of its own in the results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedRequest {
    /// Its name, which may be that of others: they share a row. Empty for none.
    pub name: String,
    /// How often it is asked, in proportion to the others.
    pub weight: f64,
    /// The request.
    pub request: Request,
    /// The status that is no error for it, where that differs from the endpoint's.
    pub expected_status: Option<u16>,
}

/// What is spoken over a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Protocol {
    /// HTTP/1.1.
    Http1 {
        /// Requests in flight on each connection.
        pipeline: u32,
    },
    /// HTTP/2, agreed on over TLS (ALPN) or taken for granted without (prior knowledge).
    Http2 {
        /// Requests in flight on each connection, each on a stream of its own.
        streams: u32,
    },
    /// HTTP/3, over QUIC.
    Http3 {
        /// Requests in flight on each connection, each on a stream of its own.
        streams: u32,
    },
    /// HTTP/1.1 whose answers are streams of server-sent events.
    Events {
        /// Events after which an answer is complete; all of the stream where nothing is said.
        most: Option<u64>,
    },
    /// gRPC over HTTP/2: each request is a call, its body a message, and `grpc-status` its answer.
    Grpc {
        /// Calls in flight on each connection, each on a stream of its own.
        streams: u32,
        /// Whether exactly one message answers a call that goes well: its method is known not to stream.
        #[serde(default)]
        one_message: bool,
    },
    /// WebSocket: each request is a message, its body, and what the server sends next is its answer.
    WebSocket {
        /// Messages in flight on each connection.
        in_flight: u32,
    },
}

/// Whom to trust and who we are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// Take any certificate.
    pub insecure: bool,
    /// PEM file of the authorities to trust instead of the machine's.
    pub authorities: Option<PathBuf>,
    /// PEM files of our own certificate and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// How long a connection is used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Reuse {
    /// Until somebody closes it.
    #[default]
    All,
    /// For so many requests; then it is closed by us, whatever the server says.
    Requests(u32),
}

impl Request {
    /// A GET of the endpoint's own path.
    #[must_use]
    pub fn get() -> Self {
        Self { method: "GET".to_owned(), target: None, fields: Vec::new(), body: Vec::new() }
    }
}

impl Request {
    /// Its method and path, where it has a path of its own.
    fn line(&self) -> Option<String> {
        Some(format!("{} {}", self.method, self.target.as_deref()?))
    }
}

impl Requests {
    /// The requests in their order, those without a name of their own by `METHOD PATH`; `path` is that of the endpoint.
    #[must_use]
    pub fn named(&self, path: &str) -> Vec<NamedRequest> {
        let whole =
            |request: &Request| format!("{} {}", request.method, request.target.as_deref().unwrap_or(path));
        match self {
            Self::Same(request) => vec![NamedRequest {
                name: whole(request),
                weight: 1.0,
                request: request.clone(),
                expected_status: None,
            }],
            Self::Drawn(requests) => requests
                .iter()
                .map(|named| match named.name.is_empty() {
                    true => NamedRequest { name: whole(&named.request), ..named.clone() },
                    false => named.clone(),
                })
                .collect(),
        }
    }
}

impl Job {
    /// A GET of the endpoints' own path over so many connections, none of which is closed.
    #[must_use]
    pub fn get(connections: u32) -> Self {
        Self {
            endpoints: Vec::new(),
            requests: Requests::Same(Request::get()),
            data: None,
            protocol: Protocol::Http1 { pipeline: 1 },
            tls: Tls::default(),
            connections,
            threads: 1,
            reuse: Reuse::All,
            timeout: Span::from_secs(60),
            part: JobPart::default(),
        }
    }

    /// Its parts for so many generators: connections and arrivals are divided, the threads are each one's own. Nothing where one
    /// would have no connection.
    #[must_use]
    pub fn split(&self, parts: u32) -> Option<Vec<Self>> {
        let part = |index| {
            let connections = self.connections / parts + u32::from(index < self.connections % parts);
            let threads = self.threads.min(connections);
            Self { connections, threads, part: JobPart { index, of: parts }, ..self.clone() }
        };
        (parts > 0 && self.connections >= parts).then(|| (0..parts).map(part).collect())
    }

    /// Whether nothing but the endpoint's own path is got.
    #[must_use]
    pub fn is_plain_get(&self) -> bool {
        let plain = |request: &Request| {
            request.method == "GET" && request.target.is_none() && request.body.is_empty()
        };
        self.has_statuses() && matches!(&self.requests, Requests::Same(request) if plain(request))
    }

    /// Whether they are plain GETs without a field of their own: what anyone gets who asks for the path.
    #[must_use]
    pub fn is_bare_get(&self) -> bool {
        let bare = |(name, _): &(String, String)| name.eq_ignore_ascii_case("connection");
        self.is_plain_get()
            && matches!(&self.requests, Requests::Same(request) if request.fields.iter().all(bare))
    }

    /// Whether answers have a status of HTTP; messages of WebSocket have none, and calls of gRPC their own.
    #[must_use]
    pub fn has_statuses(&self) -> bool {
        matches!(
            self.protocol,
            Protocol::Http1 { .. }
                | Protocol::Http2 { .. }
                | Protocol::Http3 { .. }
                | Protocol::Events { .. }
        )
    }

    /// Whether an answer need not end by itself: then only asking as it is measured brings one.
    #[must_use]
    pub fn may_go_on(&self) -> bool {
        matches!(self.protocol, Protocol::Events { .. })
    }

    /// Whether an answer is cut off by who asks: how many bytes of it had come by then is chance.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        matches!(self.protocol, Protocol::Events { most: Some(_) })
    }

    /// The job with requests of HTTP in the place of messages, and of streams of events.
    #[must_use]
    pub fn over_http(self) -> Self {
        let protocol = match self.protocol {
            Protocol::WebSocket { .. } | Protocol::Events { .. } => Protocol::Http1 { pipeline: 1 },
            Protocol::Grpc { streams, .. } => Protocol::Http2 { streams },
            http => http,
        };
        Self { protocol, ..self }
    }

    /// Whether requests share a connection by streams, as in HTTP/2 and HTTP/3.
    #[must_use]
    pub fn has_streams(&self) -> bool {
        matches!(self.protocol, Protocol::Http2 { .. } | Protocol::Http3 { .. } | Protocol::Grpc { .. })
    }

    /// Whether it is spoken over UDP.
    #[must_use]
    pub fn is_udp(&self) -> bool {
        matches!(self.protocol, Protocol::Http3 { .. })
    }

    /// Requests in flight on each connection.
    #[must_use]
    pub fn depth(&self) -> u32 {
        match self.protocol {
            Protocol::Http1 { pipeline } => pipeline,
            Protocol::Events { .. } => 1,
            Protocol::Http2 { streams } | Protocol::Http3 { streams } | Protocol::Grpc { streams, .. } => {
                streams
            }
            Protocol::WebSocket { in_flight } => in_flight,
        }
    }

    /// The job with a depth of its own.
    #[must_use]
    pub fn with_depth(self, depth: u32) -> Self {
        let protocol = match self.protocol {
            Protocol::Http1 { .. } => Protocol::Http1 { pipeline: depth },
            streams @ Protocol::Events { .. } => streams,
            Protocol::Http2 { .. } => Protocol::Http2 { streams: depth },
            Protocol::Http3 { .. } => Protocol::Http3 { streams: depth },
            Protocol::Grpc { one_message, .. } => Protocol::Grpc { streams: depth, one_message },
            Protocol::WebSocket { .. } => Protocol::WebSocket { in_flight: depth },
        };
        Self { protocol, ..self }
    }

    /// The same connections for all requests, or one for each, of which the server is told.
    #[must_use]
    pub fn with_keep_alive(mut self, keep_alive: bool) -> Self {
        self.reuse = if keep_alive { Reuse::All } else { Reuse::Requests(1) };
        self.each_request(|request| {
            request.fields.retain(|(name, _)| !name.eq_ignore_ascii_case("connection"));
            if !keep_alive {
                request.fields.push(("Connection".to_owned(), "close".to_owned()));
            }
        });
        self
    }

    /// The job as one arm gets it under `circumstances` of its own.
    #[must_use]
    pub fn under(&self, circumstances: &Circumstances) -> Self {
        let mut job = self.clone();
        if let Some(depth) = circumstances.pipeline {
            job = job.with_depth(depth);
        }
        if let Some(keep_alive) = circumstances.keep_alive {
            job = job.with_keep_alive(keep_alive);
        }
        if circumstances.head == Some(true) {
            job.each_request(|request| {
                if request.method == "GET" {
                    "HEAD".clone_into(&mut request.method);
                }
            });
        }
        job
    }

    /// The job with the places of services in its requests, `{NAME.port}` and `{NAME.dir}`.
    #[must_use]
    pub fn beside(&self, services: &[ServicePlace]) -> Self {
        let mut job = self.clone();
        if services.is_empty() {
            return job;
        }
        let filled = |text: &str| fill_services(text, services);
        if let Requests::Drawn(requests) = &mut job.requests {
            // Its row keeps its name, wherever the services are in the next block.
            let unnamed = requests.iter_mut().filter(|named| named.name.is_empty());
            unnamed.for_each(|named| named.name = named.request.line().unwrap_or_default());
        }
        job.each_request(|request| {
            request.target = request.target.as_deref().map(filled);
            for (_, value) in &mut request.fields {
                *value = filled(value);
            }
            // Bytes that are no text hold no placeholder.
            if let Ok(text) = std::str::from_utf8(&request.body) {
                request.body = filled(text).into_bytes();
            }
        });
        job
    }

    fn each_request(&mut self, change: impl Fn(&mut Request)) {
        match &mut self.requests {
            Requests::Same(request) => change(request),
            Requests::Drawn(requests) => requests.iter_mut().for_each(|named| change(&mut named.request)),
        }
    }

    /// Requests that can be in flight to one endpoint.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        u64::from(self.connections) * u64::from(self.depth())
    }
}
