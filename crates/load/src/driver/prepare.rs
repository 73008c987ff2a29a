//! What is checked and set before anything is sent.

use std::net::TcpStream;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::schedule::{Pace, Part};
use crate::session::Spec;
use crate::{Address, Config, LoadError, MAX_CONNECTIONS, MAX_PIPELINE, MAX_THREADS};

/// Descriptors beside those of connections and workers: standard streams, libraries, the caller's files.
const OTHER_DESCRIPTORS: u64 = 64;
/// Descriptors of one worker: its epoll and its waker.
const WORKER_DESCRIPTORS: u64 = 2;
/// How long one of several addresses is tried.
const PROBE: Duration = Duration::from_secs(2);

/// What every worker is started with.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) address: Address,
    pub(crate) specs: Vec<Spec>,
}

pub(crate) fn prepare(config: &Config) -> Result<Plan, LoadError> {
    check(config)?;
    let request = config.request.render()?;
    raise_descriptor_limit(config)?;
    check_ports(config)?;
    let specs = (0..config.threads).map(|thread| spec(config, thread, request.clone())).collect();
    Ok(Plan { address: choose_address(config)?, specs })
}

fn check(config: &Config) -> Result<(), LoadError> {
    let rules = [
        ((1..=MAX_THREADS).contains(&config.threads), "threads must be from 1 to 8192"),
        ((1..=MAX_CONNECTIONS).contains(&config.connections), "connections must be from 1 to 1000000"),
        (config.threads <= config.connections, "there must be at least one connection for each thread"),
        ((1..=MAX_PIPELINE).contains(&config.pipeline), "the pipeline must be from 1 to 1024 requests deep"),
        (config.shard.index < config.shard.of, "a shard I/N needs I from 0 to N-1"),
        (config.requests != Some(0), "at least one request must be asked for"),
        (!config.window.is_zero(), "the window must be longer than nothing"),
        (config.warmup.min <= config.warmup.max, "the longest warm-up must not be below the shortest"),
    ];
    if let Some((_, sentence)) = rules.iter().find(|(kept, _)| !kept) {
        return Err(LoadError::Config(sentence));
    }
    match &config.pace {
        Pace::Open { intensity, .. } if !intensity.is_valid() => {
            Err(LoadError::Config("a rate must be finite and above 0, and last longer than nothing"))
        }
        _ => Ok(()),
    }
}

/// The share of one thread: equal parts, the first threads taking one more where it does not divide.
fn spec(config: &Config, thread: u32, request: Vec<u8>) -> Spec {
    let (threads, shard) = (u64::from(config.threads), config.shard);
    let share = |all: u64| all / threads + u64::from(u64::from(thread) < all % threads);
    Spec {
        lanes: u32::try_from(share(u64::from(config.connections))).expect("a part of a number of 32 bits"),
        depth: config.pipeline,
        request,
        head: config.request.method == "HEAD",
        pace: config.pace.clone(),
        seed: config.seed,
        part: Part { part: shard.index.into(), parts: shard.of.into() }.split(thread.into(), threads),
        requests: config.requests.map(share),
        timeout_ns: config.timeout.map(|timeout| u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX)),
    }
}

/// Raises the soft limit of open files as far as the run needs.
fn raise_descriptor_limit(config: &Config) -> Result<(), LoadError> {
    let needed =
        u64::from(config.connections) + u64::from(config.threads) * WORKER_DESCRIPTORS + OTHER_DESCRIPTORS;
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

/// Whether every connection to one address can have a local port of its own.
fn check_ports(config: &Config) -> Result<(), LoadError> {
    if config.target.addresses.iter().any(|address| matches!(address, Address::Unix(_))) {
        return Ok(());
    }
    // Where it is not to be read, the first connection without a port says so.
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut edges = range.split_whitespace().map(str::parse::<u64>);
    let (Some(Ok(low)), Some(Ok(high))) = (edges.next(), edges.next()) else { return Ok(()) };
    let available = (high + 1).saturating_sub(low) * config.sources.len().max(1) as u64;
    let needed = u64::from(config.connections);
    if needed <= available { Ok(()) } else { Err(LoadError::Ports { needed, available }) }
}

/// The first address that accepts. A single one is not tried beforehand, so that the server sees no connection more
/// than was asked for.
fn choose_address(config: &Config) -> Result<Address, LoadError> {
    let addresses = &config.target.addresses;
    let mut failure = None;
    for address in addresses {
        match address {
            Address::Tcp(tcp) if addresses.len() > 1 => match TcpStream::connect_timeout(tcp, PROBE) {
                Ok(_) => return Ok(address.clone()),
                Err(source) => failure = failure.or(Some((address, source))),
            },
            _ => return Ok(address.clone()),
        }
    }
    let (address, source) = failure.ok_or(LoadError::Config("the target has no address"))?;
    Err(LoadError::Connect { address: address.to_string(), why: source.to_string() })
}
