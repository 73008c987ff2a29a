//! Connections that are kept alive and were all on one of two shards, and those that come later.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread::{Builder, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use stats::descriptive;

use super::super::blocks::Blocks;
use super::super::page::{figure, table};
use super::super::target::{Cpus, Server};
use super::{Row, Scale};

const SHARDS: usize = 2;
/// Connections, half of which are there first.
const CONNECTIONS: usize = 32;
/// Requests a second on each connection, at instants of its own, whether or not those before were answered. Each holds its shard
/// for 200 µs: shards that share them evenly work for half of the time, and the clients have the rest of the CPUs.
const PER_S: u32 = 150;
/// Longest wait for an answer, and most connections made to get those of one shard.
const PATIENCE: Duration = Duration::from_secs(10);
const TRIES: usize = 50 * CONNECTIONS;
/// Stack of a client's thread in bytes.
const STACK_BYTES: usize = 128 * 1024;
/// What every answer to work ends with.
const BODY: &[u8] = b"Hello, World!";

/// How the connections come about.
struct Arm {
    name: &'static str,
    /// So many of each shard are made first.
    first: [usize; SHARDS],
    /// And these while those are at work.
    later: Wanted,
}

#[derive(Clone, Copy)]
enum Wanted {
    /// So many of each shard.
    Of([usize; SHARDS]),
    /// So many, wherever the server has them.
    Any(usize),
}

const EVEN: &str = "even";
const HALF: usize = CONNECTIONS / 2;

const ARMS: [Arm; 3] = [
    Arm { name: EVEN, first: [HALF / 2, HALF / 2], later: Wanted::Of([HALF / 2, HALF / 2]) },
    Arm { name: "uneven", first: [HALF, 0], later: Wanted::Any(HALF) },
    Arm { name: "as the kernel shares", first: [HALF + HALF / 2, HALF / 2], later: Wanted::Any(0) },
];

pub(super) fn section(scale: &Scale) -> anyhow::Result<String> {
    let cpus = Cpus::shared_by_two()?;
    let (mut p50, mut p99, mut p99_9) = (Blocks::default(), Blocks::default(), Blocks::default());
    let mut most = Blocks::default();
    for block in 0..scale.blocks {
        // Each block begins with another arm.
        for arm in (0..ARMS.len()).map(|place| &ARMS[(place + block as usize) % ARMS.len()]) {
            let mut server = Server::measured_on_shards(SHARDS, &cpus)?;
            server.let_cpus_idle();
            let measured = cpus.on_load(|| measure(server.address, arm, scale))?;
            let quantile = |q| descriptive::quantile(&measured.late_us, q).context("nothing was answered");
            p50.add(arm.name, block, quantile(0.5)?);
            p99.add(arm.name, block, quantile(0.99)?);
            p99_9.add(arm.name, block, quantile(0.999)?);
            most.add(arm.name, block, measured.at_one_shard as f64);
        }
    }
    let rows: Vec<Vec<String>> = ARMS
        .iter()
        .map(|arm| {
            vec![
                arm.name.to_owned(),
                p99_9.count(arm.name).to_string(),
                figure(most.median(arm.name), 0),
                figure(p50.median(arm.name), 0),
                figure(p99.median(arm.name), 0),
                figure(p99_9.median(arm.name), 0),
                p99_9.ratio(arm.name, EVEN),
            ]
        })
        .collect();
    let head = ["connections", "n", "at one shard", "p50 µs", "p99 µs", "p99.9 µs", "p99.9 / even"];
    Ok(format!(
        "## p99.9 where half of the connections were all on one of two shards\n\n{}; medians of n blocks of fresh servers, windows \
         of {} s. Two shards and the clients, of the benchmark's own, share two CPUs. {CONNECTIONS} connections are kept alive, and each \
         asks {PER_S} times a second, whether or not it was answered, for what holds a shard for 200 µs; latency is from the intended \
         instant. `even`: half are at each shard. `uneven`: {HALF} are at one shard and busy when the others come, and are left there. \
         `as the kernel shares`: three quarters at one shard, to which a hash would bring it. *At one shard* is how many the one \
         had that had more. Bar: `uneven` at most 1.2 of `even`.\n\n{}",
        scale.method(Row::Uneven),
        scale.window_s,
        table(&head, &rows)
    ))
}

struct Measured {
    /// From the intended instant to the end of the answer, in microseconds.
    late_us: Vec<f64>,
    /// Connections of the shard that had more of them.
    at_one_shard: usize,
}

fn measure(address: SocketAddr, arm: &Arm, scale: &Scale) -> anyhow::Result<Measured> {
    let warmup = Duration::from_secs(u64::from(scale.warmup_s));
    let from = Instant::now() + 2 * warmup;
    let window = Window { from, until: from + Duration::from_secs(u64::from(scale.window_s)) };
    std::thread::scope(|scope| {
        let (first, mut at) = connect(address, Wanted::Of(arm.first))?;
        let mut clients = window.drive_all(scope, first, 0)?;
        // Until the server knows how busy they make it.
        std::thread::sleep(warmup / 2);
        let (later, at_later) = connect(address, arm.later)?;
        clients.extend(window.drive_all(scope, later, clients.len())?);
        ensure!(Instant::now() < window.from, "the connections came too late for the window");
        at.iter_mut().zip(at_later).for_each(|(at, later)| *at += later);
        let mut late_us = Vec::new();
        for client in clients {
            late_us.extend(client.join().expect("a client does not panic")?);
        }
        Ok(Measured { late_us, at_one_shard: at.into_iter().max().unwrap_or(0) })
    })
}

/// Connections as they are wanted, and how many each shard has of them. Those of which there are enough are closed.
fn connect(address: SocketAddr, wanted: Wanted) -> anyhow::Result<(Vec<TcpStream>, [usize; SHARDS])> {
    let (each, count) = match wanted {
        Wanted::Of(each) => (each, each.iter().sum()),
        Wanted::Any(count) => ([count; SHARDS], count),
    };
    let (mut streams, mut at) = (Vec::new(), [0; SHARDS]);
    for _ in 0..TRIES {
        if streams.len() == count {
            return Ok((streams, at));
        }
        let mut stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let shard = shard_of(&mut stream)?;
        if at[shard] < each[shard] {
            at[shard] += 1;
            streams.push(stream);
        }
    }
    bail!("{TRIES} connections were too few to have {each:?} of each shard")
}

fn shard_of(stream: &mut TcpStream) -> anyhow::Result<usize> {
    stream.write_all(b"GET /shard HTTP/1.1\r\nHost: x\r\n\r\n")?;
    let mut buffer = [0; 1024];
    let length = stream.read(&mut buffer)?;
    let answer = String::from_utf8_lossy(&buffer[..length]);
    let number = answer.rsplit('-').next().and_then(|number| number.parse().ok());
    number.filter(|&shard| shard < SHARDS).with_context(|| format!("which shard is this: {answer}"))
}

/// When it counts how long answers take.
#[derive(Clone, Copy)]
struct Window {
    from: Instant,
    until: Instant,
}

impl Window {
    /// Starts a client on each connection, of which so many have one already.
    fn drive_all<'s>(
        self,
        scope: &'s Scope<'s, '_>,
        streams: Vec<TcpStream>,
        before: usize,
    ) -> anyhow::Result<Vec<ScopedJoinHandle<'s, anyhow::Result<Vec<f64>>>>> {
        let numbered = streams.into_iter().zip(before as u64..);
        let start = |(stream, number)| {
            let client = Builder::new().stack_size(STACK_BYTES);
            client.spawn_scoped(scope, move || self.drive(stream, number)).context("no thread for a client")
        };
        numbered.map(start).collect()
    }

    /// Asks at random instants until the window ends; how late the answers of the window were, in microseconds.
    fn drive(self, mut stream: TcpStream, number: u64) -> anyhow::Result<Vec<f64>> {
        // Without it the kernel adds 50 µs of its own.
        rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1)).ok();
        let (mut random, mut due, mut late_us) = (number, Instant::now(), Vec::new());
        loop {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // Between nothing and twice the mean.
            due += Duration::from_secs(2).mul_f64((random >> 32) as f64 / f64::from(u32::MAX)) / PER_S;
            if due >= self.until {
                return Ok(late_us);
            }
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            ask(&mut stream)?;
            if due >= self.from {
                late_us.push(due.elapsed().as_secs_f64() * 1e6);
            }
        }
    }
}

fn ask(stream: &mut TcpStream) -> anyhow::Result<()> {
    stream.write_all(b"GET /work HTTP/1.1\r\nHost: x\r\n\r\n")?;
    let (mut buffer, mut length) = ([0; 1024], 0);
    while !buffer[..length].ends_with(BODY) {
        match stream.read(&mut buffer[length..])? {
            0 => bail!("the server closed a connection"),
            count => length += count,
        }
    }
    Ok(())
}
