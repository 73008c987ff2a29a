use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use model::job::{Endpoint, Job, Protocol, Requests, Reuse};
use serde::{Deserialize, Serialize};

use crate::list::JobRequests;
use crate::schedule::Pace;
use crate::{Identity, List, LoadError, Request, Roots, Scenario, Target, Tls};

/// Requests in flight on one connection at most; a session keeps a stamp for each.
pub const MAX_PIPELINE: u32 = 1024;
/// Connections of one run at most; their answers share 32 bits with a generation.
pub const MAX_CONNECTIONS: u32 = 1_000_000;
/// Threads of one run at most; Linux is built for at most 8192 CPUs, and no thread gains from sharing one.
pub const MAX_THREADS: u32 = 8192;

/// Slack of a schedule at most: what waits for longer is no schedule but a burst.
pub const MAX_SLACK: Duration = Duration::from_millis(100);

/// What a run does.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where to.
    pub target: Target,
    /// Whom to trust and who we are, where the target speaks TLS.
    pub tls: Tls,
    /// What is asked, again and again.
    pub request: Request,
    /// What is asked instead, in turn or at random; a log brings its own schedule, which is to be set as `pace`.
    pub list: Option<Arc<List>>,
    /// Users who go through steps instead; a rate is then one of users.
    pub scenario: Option<Arc<Scenario>>,
    /// Worker threads, each with an equal part of the connections and of the arrivals.
    pub threads: u32,
    /// Connections over all threads, at least one for each thread.
    pub connections: u32,
    /// Requests in flight on each connection at most.
    pub pipeline: u32,
    /// Requests in flight on each connection of HTTP/2, each on a stream of its own; `None` for HTTP/1.1. Over TLS it
    /// is agreed on (ALPN), else taken for granted (prior knowledge).
    pub http2: Option<u32>,
    /// Requests in flight on each connection of HTTP/3, each on a stream of its own; `None` for another protocol.
    pub http3: Option<u32>,
    /// Whether WebSocket is spoken: each request is a message that holds the request's body. Its method is GET.
    pub websocket: bool,
    /// Whether each request of HTTP/2 is a call of gRPC, whose answer is its `grpc-status`.
    pub grpc: bool,
    /// Whether exactly one message answers a call of gRPC that goes well; any number may where it is not said.
    pub one_message: bool,
    /// Whether answers are streams of server-sent events, and after how many of them one is complete; `Some(None)` for when
    /// the server ends it.
    pub events: Option<Option<u64>>,
    /// Requests after which a connection is closed by us and opened again; for HTTP/1.1.
    pub per_connection: Option<u32>,
    /// When requests are due.
    pub pace: Pace,
    /// Where the arrival times begin; the same seed gives the same arrivals.
    pub seed: u64,
    /// Which part of the arrivals is ours.
    pub shard: Shard,
    /// Load before the window.
    pub warmup: Warmup,
    /// Length of the window.
    pub window: Duration,
    /// Requests after which the window ends early, over all threads and shards.
    pub requests: Option<u64>,
    /// A request unanswered for longer than this after it was sent counts as a timeout and costs its connection. An attempt to
    /// connect, with its handshake, has as long, and at most 10 s.
    pub timeout: Option<Duration>,
    /// The only status that is no error; `None` where every one below 400 is none.
    pub expected_status: Option<u16>,
    /// How a worker waits.
    pub idle: Idle,
    /// How long an arrival of an open loop may wait for the next ones, so that one waking sends them all; it is part of their
    /// send lag and response.
    pub slack: Duration,
    /// Local addresses that connections come from, in turn; empty for the system's choice. Each has ports of its own.
    pub sources: Vec<IpAddr>,
    /// When the window begins, so that shards begin together: the warm-up goes on until then. A time that has passed
    /// is now. It may be set until [`Connected`](crate::Event::Connected) has been told; copies of this share it.
    pub start_at: Arc<OnceLock<SystemTime>>,
}

impl Config {
    /// wrk's defaults against `target`: closed loop, 2 threads, 10 connections, 10 s; no warm-up and no timeout.
    #[must_use]
    pub fn new(target: Target) -> Self {
        Self {
            request: Request::get(&target),
            list: None,
            scenario: None,
            target,
            tls: Tls::default(),
            threads: 2,
            connections: 10,
            pipeline: 1,
            http2: None,
            http3: None,
            websocket: false,
            grpc: false,
            one_message: false,
            events: None,
            per_connection: None,
            pace: Pace::Closed,
            seed: 1,
            shard: Shard::WHOLE,
            warmup: Warmup::NONE,
            window: Duration::from_secs(10),
            requests: None,
            timeout: None,
            expected_status: None,
            idle: Idle::Sleep,
            slack: Duration::ZERO,
            sources: Vec::new(),
            start_at: Arc::default(),
        }
    }
}

impl Config {
    /// Streams of each connection, where the protocol has any.
    #[must_use]
    pub fn streams(&self) -> Option<u32> {
        self.http2.or(self.http3)
    }

    /// What a job asks of one of its endpoints, in a closed loop.
    ///
    /// # Errors
    /// [`LoadError`] where the endpoint's URL or a request is wrong.
    pub fn of_job(job: &Job, endpoint: &Endpoint) -> Result<Self, LoadError> {
        let target = match &endpoint.unix {
            Some(socket) => Target::unix(&endpoint.url, socket.clone())?,
            None => Target::resolve(&endpoint.url)?,
        };
        let requests = match job.requests {
            // A message is sent as it is, whatever it looks like.
            Requests::Same(_) if !job.has_statuses() => JobRequests::Same,
            _ => JobRequests::new(&job.requests, job.data.clone().map(Arc::new), &target)?,
        };
        let mut config = Self::new(target);
        if let Requests::Same(pattern) = &job.requests {
            // A script and a log have it as their pattern, whatever is to be filled in it.
            config.request = Request::for_target(pattern, &config.target);
        }
        if let JobRequests::Each(list) = requests {
            config.list = Some(Arc::new(list));
        }
        config.expected_status = endpoint.expected_status;
        match job.protocol {
            Protocol::Http1 { pipeline } => config.pipeline = pipeline,
            Protocol::Http2 { streams } => config.http2 = Some(streams),
            Protocol::Http3 { streams } => config.http3 = Some(streams),
            Protocol::Events { most } => config.events = Some(most),
            Protocol::Grpc { streams, one_message } => {
                (config.grpc, config.http2, config.one_message) = (true, Some(streams), one_message);
            }
            Protocol::WebSocket { in_flight } => (config.websocket, config.pipeline) = (true, in_flight),
        }
        // Whoever writes ws:// asks for it.
        config.websocket |= config.target.names_websocket();
        config.tls = Tls {
            roots: match &job.tls.authorities {
                _ if job.tls.insecure => Roots::Anyone,
                Some(file) => Roots::File(file.clone()),
                None => Roots::System,
            },
            identity: job.tls.identity.clone().map(|(certificate, key)| Identity { certificate, key }),
        };
        // Fewer threads than connections do the same work.
        config.threads = job.threads.min(job.connections.max(1));
        config.connections = job.connections;
        config.shard = Shard { index: job.part.index, of: job.part.of };
        config.per_connection = match job.reuse {
            Reuse::Requests(requests) => Some(requests),
            // Whoever says that a connection closes closes it, whatever the server does.
            Reuse::All => (config.request.closes() && config.streams().is_none()).then_some(1),
        };
        config.timeout = Some(job.timeout.0);
        Ok(config)
    }
}

/// Load before the window, to which nothing in the report refers.
#[derive(Debug, Clone, Copy)]
pub struct Warmup {
    /// Shortest.
    pub min: Duration,
    /// Longest; the window begins then, steady or not.
    pub max: Duration,
    /// Whether the completed requests of each second so far show a steady state.
    pub steady: fn(&[u64]) -> bool,
}

impl Warmup {
    /// The window begins with the first request.
    pub const NONE: Self = Self::fixed(Duration::ZERO);

    /// A warm-up of one length.
    #[must_use]
    pub const fn fixed(length: Duration) -> Self {
        Self { min: length, max: length, steady: |_| true }
    }
}

/// How a worker waits for the next arrival or answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Idle {
    /// Sleep in the kernel with a nanosecond timer, asked for as much earlier as such timers are late here; poll for what is
    /// due sooner than that.
    #[default]
    Sleep,
    /// Sleep until shortly before the next arrival, then poll.
    Spin,
    /// Poll without end: the core is always busy. What is polled in vain is not in the CPU time of the report.
    Poll,
}

/// One of several generators that share one schedule: arrival k goes to shard k mod `of`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// Which one, from 0.
    pub index: u32,
    /// How many there are.
    pub of: u32,
}

impl Shard {
    /// The only one.
    pub const WHOLE: Self = Self { index: 0, of: 1 };
}
