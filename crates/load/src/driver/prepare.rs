//! What is checked and set before anything is sent.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use model::job::{Endpoint, Job, Protocol, Tls};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::clock::as_ns;
use crate::schedule::{Arrival, Dispatch, Intensity, Pace, Part};
use crate::session::{Answers, Spec, Upgrade};
use crate::tls::Client;
use crate::{
    Address, Config, LoadError, MAX_CONNECTIONS, MAX_PIPELINE, MAX_SLACK, MAX_THREADS, Request, Scheme,
};

/// Descriptors beside those of connections and workers: standard streams, libraries, the caller's files.
const OTHER_DESCRIPTORS: u64 = 64;
/// Descriptors of one worker: its epoll and its waker.
const WORKER_DESCRIPTORS: u64 = 2;
/// HTTP/1.1 as ALPN names it. Source: RFC 7301, section 6.
const HTTP1: &str = "http/1.1";
/// HTTP/2 as ALPN names it. Source: RFC 9113, section 3.1.
const HTTP2: &str = "h2";
/// HTTP/3 as ALPN names it. Source: RFC 9114, section 3.1.
const HTTP3: &str = "h3";
/// How long one of several addresses is tried.
const PROBE: Duration = Duration::from_secs(2);

/// What every worker is started with.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) address: Address,
    /// Those of the address's family.
    pub(crate) sources: Vec<IpAddr>,
    /// `None` where TLS is not spoken.
    pub(crate) tls: Option<Client>,
    pub(crate) specs: Vec<Spec>,
    pub(crate) spoken: Spoken,
}

/// What is spoken.
#[derive(Debug, Clone)]
pub(crate) enum Spoken {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2 with so many streams on each connection.
    Http2(u32),
    /// HTTP/3 with as many.
    Http3(u32),
    /// HTTP/1.1 whose answers are streams of events, complete after so many where that is said.
    Events(Option<u64>),
    /// gRPC on as many.
    Grpc(u32, Answers),
    /// WebSocket, after an upgrade.
    WebSocket(Upgrade),
}

pub(crate) fn prepare(config: &Config) -> Result<Plan, LoadError> {
    check(config)?;
    let request = request(config)?;
    let spoken = spoken(config)?;
    let tls = client(config)?;
    config.sources.iter().try_for_each(check_source)?;
    allow_descriptors(std::slice::from_ref(config))?;
    let address = choose_address(config, tls.as_ref())?;
    let sources = sources_for(config, &address);
    check_ports(config, &address, sources.len())?;
    let specs = (0..config.threads).map(|thread| spec(config, thread, request.clone())).collect();
    Ok(Plan { address, sources, tls, specs, spoken })
}

fn spoken(config: &Config) -> Result<Spoken, LoadError> {
    Ok(match (config.http2, config.http3) {
        (_, Some(streams)) => Spoken::Http3(streams),
        (Some(streams), _) if config.grpc => {
            Spoken::Grpc(streams, if config.one_message { Answers::One } else { Answers::Any })
        }
        (Some(streams), _) => Spoken::Http2(streams),
        (None, None) if config.websocket => Spoken::WebSocket(config.upgrade()?),
        (None, None) => config.events.map_or(Spoken::Http1, Spoken::Events),
    })
}

/// What connections over TLS or QUIC are begun with.
fn client(config: &Config) -> Result<Option<Client>, LoadError> {
    match (config.target.scheme, config.http3) {
        (Scheme::Http, _) => Ok(None),
        (Scheme::Https, None) => config.tls.client(&config.target, protocol(config)).map(Some),
        (Scheme::Https, Some(streams)) => {
            config.tls.quic_client(&config.target, protocol(config), streams).map(Some)
        }
    }
}

/// One request as it goes over the wire, or as HTTP/1.1 would write it.
pub(super) fn request(config: &Config) -> Result<Vec<u8>, LoadError> {
    let differ = config.list.is_some() || config.scenario.is_some();
    match config.websocket {
        true => Ok(config.message()),
        // A path that is filled is checked with what fills it.
        false if differ => Request { path: "/".to_owned(), ..config.request.clone() }.render(),
        false => config.request.render(),
    }
}

/// Whether a job can be carried out, as far as that can be told without its servers: its requests, files and numbers.
///
/// # Errors
/// [`LoadError`], one sentence.
pub fn check_job(job: &Job) -> Result<(), LoadError> {
    // Where a server is decides nothing here. Only what is said of TLS is looked at: who asks without it needs no certificates.
    let secured = job.tls != Tls::default() || matches!(job.protocol, Protocol::Http3 { .. });
    let endpoint = Endpoint {
        name: String::new(),
        url: if secured { "https://127.0.0.1:1/" } else { "http://127.0.0.1:1/" }.to_owned(),
        unix: None,
        expected_status: None,
    };
    let config = Config::of_job(job, &endpoint)?;
    check(&config)?;
    client(&config).map(drop)
}

fn check(config: &Config) -> Result<(), LoadError> {
    let rules = [
        ((1..=MAX_THREADS).contains(&config.threads), "threads must be from 1 to 8192"),
        ((1..=MAX_CONNECTIONS).contains(&config.connections), "connections must be from 1 to 1000000"),
        (config.threads <= config.connections, "there must be at least one connection for each thread"),
        ((1..=MAX_PIPELINE).contains(&config.pipeline), "the pipeline must be from 1 to 1024 requests deep"),
        (
            !config.request.expects_continue() || (config.pipeline == 1 && config.list.is_none()),
            "a body that waits (Expect) goes neither with a pipeline nor with a list",
        ),
        (config.shard.index < config.shard.of, "a shard I/N needs I from 0 to N-1"),
        (
            config.per_connection.is_none_or(|requests| requests > 0 && config.http2.is_none()),
            "requests per connection must be at least 1, and HTTP/2 has no such limit",
        ),
        (
            config.scenario.is_none() || (config.pipeline == 1 && !is_per_connection(&config.pace)),
            "the users of a scenario wait for each answer, on any connection: leave --pipeline and --schedule out",
        ),
        (
            config.scenario.is_none()
                || (!config.websocket && !config.grpc && config.events.is_none() && config.list.is_none()),
            "a scenario goes over HTTP alone, and not with a list",
        ),
        (config.requests != Some(0), "at least one request must be asked for"),
        (!config.window.is_zero(), "the window must be longer than nothing"),
        (
            config.timeout.is_none_or(|timeout| !timeout.is_zero()),
            "a timeout of nothing would give every request up",
        ),
        (config.warmup.min <= config.warmup.max, "the longest warm-up must not be below the shortest"),
        (
            config.slack <= MAX_SLACK,
            "a slack must be at most 100 ms: what waits for longer is sent in bursts",
        ),
        (
            config.slack.is_zero() || config.pace != Pace::Closed,
            "a slack is of a schedule: it goes only with a rate",
        ),
    ];
    first_broken(&rules)?;
    check_protocol(config)?;
    if let Some(streams) = config.streams() {
        check_streams(config, streams)?;
    }
    match &config.pace {
        Pace::Open { intensity: Intensity::Recorded(_), arrival: Arrival::Poisson, .. } => {
            Err(LoadError::Config("a log has arrivals of its own, which cannot be Poisson"))
        }
        Pace::Open { intensity, .. } if !intensity.is_valid() => {
            Err(LoadError::Config("a rate must be finite and above 0, and last longer than nothing"))
        }
        _ => Ok(()),
    }
}

/// Whether each connection has a schedule of its own.
fn is_per_connection(pace: &Pace) -> bool {
    matches!(pace, Pace::Open { dispatch: Dispatch::Connection, .. })
}

/// The sentence of the first rule that is not kept.
fn first_broken(rules: &[(bool, &'static str)]) -> Result<(), LoadError> {
    match rules.iter().find(|(kept, _)| !kept) {
        Some((_, sentence)) => Err(LoadError::Config(sentence)),
        None => Ok(()),
    }
}

/// What protocols in the place of plain HTTP do not go with.
fn check_protocol(config: &Config) -> Result<(), LoadError> {
    first_broken(&[
        (
            config.http3.is_none()
                || (config.http2.is_none() && !config.websocket && config.events.is_none()),
            "HTTP/3 goes neither with HTTP/2 nor with WebSocket, gRPC or streams of events",
        ),
        (
            config.http3.is_none() || config.per_connection.is_none(),
            "HTTP/3 has no limit of requests per connection: leave --requests-per-connection out",
        ),
        (
            config.http3.is_none() || config.target.scheme == Scheme::Https,
            "HTTP/3 is never without TLS: write https://",
        ),
        (
            config.http3.is_none() || !matches!(config.target.addresses[..], [Address::Unix(_)]),
            "HTTP/3 goes over UDP, and not over a unix socket",
        ),
        (
            !config.websocket || (config.list.is_none() && config.http2.is_none()),
            "WebSocket goes neither with a list nor with HTTP/2",
        ),
        (
            !config.websocket || (config.request.method == "GET" && config.expected_status.is_none()),
            "WebSocket is asked for by GET, and its messages have no status",
        ),
        (
            !config.grpc || (config.list.is_none() && config.http2.is_some()),
            "gRPC goes over HTTP/2, and not with a list",
        ),
        (
            config.events.is_none()
                || (config.list.is_none()
                    && !config.websocket
                    && config.http2.is_none()
                    && config.pipeline == 1),
            "streams of events go over HTTP/1.1, one on each connection, and not with a list",
        ),
        (config.events != Some(Some(0)), "a stream is asked for at least one event"),
        (
            !config.grpc || config.expected_status.is_none(),
            "a call of gRPC is well answered by grpc-status 0 alone",
        ),
    ])
}

/// What is offered to a server over TLS.
fn protocol(config: &Config) -> &'static str {
    match (config.http2, config.http3) {
        (_, Some(_)) => HTTP3,
        (Some(_), None) => HTTP2,
        (None, None) => HTTP1,
    }
}

/// What streams do not go with.
fn check_streams(config: &Config, streams: u32) -> Result<(), LoadError> {
    let lanes = u64::from(config.connections) * u64::from(streams);
    let framed =
        config.request.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("transfer-encoding"));
    let rules = [
        ((1..=MAX_PIPELINE).contains(&streams), "there must be from 1 to 1024 streams on each connection"),
        (lanes <= u64::from(MAX_CONNECTIONS), "there must be at most 1000000 streams over all connections"),
        (config.pipeline == 1, "HTTP/2 and HTTP/3 have streams in the place of a pipeline: use --streams"),
        (!framed, "HTTP/2 and HTTP/3 frame bodies by themselves: leave Transfer-Encoding out"),
        (!config.request.expects_continue(), "Expect: 100-continue goes only with HTTP/1.1"),
    ];
    first_broken(&rules)
}

/// The share of one thread: equal parts, the first threads taking one more where it does not divide.
fn spec(config: &Config, thread: u32, request: Vec<u8>) -> Spec {
    let threads = u64::from(config.threads);
    let share = |all: u64| all / threads + u64::from(u64::from(thread) < all % threads);
    let part = part(config, thread);
    Spec {
        lanes: u32::try_from(share(u64::from(config.connections))).expect("a part of a number of 32 bits")
            * config.streams().unwrap_or(1),
        depth: config.pipeline,
        per_connection: config.per_connection,
        hold: config.request.expects_continue().then(|| head_bytes(&request)),
        request,
        head: config.request.method == "HEAD",
        pace: config.pace.clone(),
        seed: config.seed,
        part,
        requests: requests(config).map(|all| part.share(all)),
        expected_status: config.expected_status,
        timeout_ns: config.timeout.map(as_ns),
        slack_ns: as_ns(config.slack),
    }
}

/// The arrivals of one thread.
pub(crate) fn part(config: &Config, thread: u32) -> Part {
    let shard = Part { part: config.shard.index.into(), parts: config.shard.of.into() };
    shard.split(thread.into(), config.threads.into())
}

/// Requests after which the window ends: those asked for, or all of a log that is over before it. Of a longer log the
/// window has what is due in it, and lasts: what came at once and then nothing for long is no high rate.
fn requests(config: &Config) -> Option<u64> {
    let logged = config.list.as_ref().and_then(|list| list.whole_within(config.window.as_secs_f64()));
    match (config.requests, logged) {
        (Some(requested), Some(logged)) => Some(requested.min(logged)),
        (requested, logged) => requested.or(logged),
    }
}

/// Length of the head of a rendered request.
fn head_bytes(request: &[u8]) -> usize {
    const BLANK_LINE: &[u8] = b"\r\n\r\n";
    let end = request.windows(BLANK_LINE.len()).position(|bytes| bytes == BLANK_LINE);
    end.map_or(request.len(), |end| end + BLANK_LINE.len())
}

/// Raises the soft limit of open files as far as all of these need together.
pub(crate) fn allow_descriptors(configs: &[Config]) -> Result<(), LoadError> {
    let of_one =
        |config: &Config| u64::from(config.connections) + u64::from(config.threads) * WORKER_DESCRIPTORS;
    let needed = configs.iter().map(of_one).sum::<u64>() + OTHER_DESCRIPTORS;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|soft| soft >= needed) {
        return Ok(());
    }
    if let Some(hard) = limit.maximum.filter(|hard| *hard < needed) {
        return Err(LoadError::Descriptors { needed, hard });
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(needed), ..limit })
        .map_err(LoadError::system("raise the limit of open files"))
}

/// Whether a connection can come from `source`.
fn check_source(source: &IpAddr) -> Result<(), LoadError> {
    const ANY_PORT: u16 = 0;
    UdpSocket::bind((*source, ANY_PORT))
        .map(drop)
        .map_err(|error| LoadError::Source { address: *source, source: error })
}

/// The source addresses from which `address` can be reached: those of its family.
fn sources_for(config: &Config, address: &Address) -> Vec<IpAddr> {
    let of_family =
        |source: &&IpAddr| matches!(address, Address::Tcp(tcp) if tcp.is_ipv4() == source.is_ipv4());
    config.sources.iter().filter(of_family).copied().collect()
}

/// Whether every connection to `address` can have a local port of its own.
fn check_ports(config: &Config, address: &Address, sources: usize) -> Result<(), LoadError> {
    if matches!(address, Address::Unix(_)) {
        return Ok(());
    }
    // Where it is not to be read, the first connection without a port says so.
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut edges = range.split_whitespace().map(str::parse::<u64>);
    let (Some(Ok(low)), Some(Ok(high))) = (edges.next(), edges.next()) else { return Ok(()) };
    let available = (high + 1).saturating_sub(low) * sources.max(1) as u64;
    let needed = u64::from(config.connections);
    if needed <= available { Ok(()) } else { Err(LoadError::Ports { needed, available }) }
}

/// The first address that accepts, of those that the sources can reach. A single one is not tried beforehand, so that
/// the server sees no connection more than was asked for.
fn choose_address(config: &Config, tls: Option<&Client>) -> Result<Address, LoadError> {
    let reachable =
        |address: &&Address| config.sources.is_empty() || !sources_for(config, address).is_empty();
    let addresses: Vec<&Address> = config.target.addresses.iter().filter(reachable).collect();
    let mut failure = None;
    for address in &addresses {
        match address {
            Address::Tcp(tcp) if addresses.len() > 1 => match probe(*tcp, tls) {
                Ok(()) => return Ok((*address).clone()),
                Err(source) => failure = failure.or(Some((address, source))),
            },
            _ => return Ok((*address).clone()),
        }
    }
    let (address, source) = failure.ok_or(LoadError::Config(
        "no source address is of the same family as the server's address: name one that is",
    ))?;
    Err(LoadError::Connect { address: address.to_string(), why: source.to_string() })
}

/// Whether anyone is there.
fn probe(address: SocketAddr, tls: Option<&Client>) -> io::Result<()> {
    match tls.and_then(|client| client.quic.as_ref()) {
        None => TcpStream::connect_timeout(&address, PROBE).map(drop),
        Some(client) => match super::quic::probe(address, client, PROBE) {
            Err(super::link::Refusal::System(error)) => Err(error),
            // Whoever refuses us is there.
            Ok(()) | Err(super::link::Refusal::Tls(_)) => Ok(()),
        },
    }
}
