//! Ten requests on each connection, then a new one.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::super::blocks::Blocks;
use super::super::page::{figure, table};
use super::super::target::{Cpus, Server};
use super::{OURS, Row, Scale};

/// Requests on a connection.
const REQUESTS: u64 = 10;
/// Connections at a time, each with a thread that blocks: the clients cost what they cost, for only the server's CPU is
/// reckoned.
const CLIENTS: usize = 16;
/// What every answer ends with.
const BODY: &[u8] = b"Hello, World!";

pub(super) fn section(scale: &Scale, cpus: &Cpus) -> anyhow::Result<String> {
    let (mut total, mut rate) = (Blocks::default(), Blocks::default());
    for block in 0..scale.blocks {
        // Each block begins with another arm.
        let count = scale.arms.len();
        for arm in (0..count).map(|place| &scale.arms[(place + block as usize) % count]) {
            let server = start(arm, cpus)?;
            let (cpu_ns, per_s) = cpus.on_load(|| measure(&server, scale))?;
            total.add(arm, block, cpu_ns);
            rate.add(arm, block, per_s);
        }
    }
    let rows: Vec<Vec<String>> = scale
        .arms
        .iter()
        .map(|arm| {
            vec![
                arm.clone(),
                total.count(arm).to_string(),
                figure(total.median(arm), 0),
                total.ratio(OURS, arm),
                figure(rate.median(arm), 0),
            ]
        })
        .collect();
    let head = ["server", "n", "total ns", "straightline / it", "requests/s"];
    Ok(format!(
        "## CPU per request, {REQUESTS} requests on each connection, then close\n\n{}; medians of n blocks, windows of \
         {} s, {CLIENTS} clients of the benchmark's own that block (`whyslow load` keeps connections); ns of server CPU \
         per request, the share of a tenth of a connection included. Rates are the clients'. Bar: no more than `nginx` \
         and `hyper-futures`.\n\n{}",
        scale.method(Row::Closing),
        scale.window_s,
        table(&head, &rows)
    ))
}

/// Starts an arm; straightline as its example, whose handler is the same as that of the built-in server.
pub(super) fn start(arm: &str, cpus: &Cpus) -> anyhow::Result<Server> {
    if arm == OURS { Server::measured(false, cpus) } else { Server::of_target(arm, cpus) }
}

/// CPU of the server per request in nanoseconds, and requests per second.
fn measure(server: &Server, scale: &Scale) -> anyhow::Result<(f64, f64)> {
    let group = server.group()?;
    let (done, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    // A connection that fails counts no requests.
                    done.fetch_add(one_connection(server.address).unwrap_or(0), Ordering::Relaxed);
                }
            });
        }
        std::thread::sleep(Duration::from_secs(u64::from(scale.warmup_s)));
        let (before, done_before) = (group.snapshot()?, done.load(Ordering::Relaxed));
        std::thread::sleep(Duration::from_secs(u64::from(scale.window_s)));
        let (after, done_after) = (group.snapshot()?, done.load(Ordering::Relaxed));
        stop.store(true, Ordering::Relaxed);
        let (usage, requests) = (after.since(&before), (done_after - done_before).max(1) as f64);
        Ok((usage.cpu.total_ns as f64 / requests, requests * 1e9 / usage.wall_ns as f64))
    })
}

/// Requests that were answered on one connection.
fn one_connection(address: SocketAddr) -> std::io::Result<u64> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    let mut buffer = [0; 4096];
    for number in 1..=REQUESTS {
        let close = if number == REQUESTS { "Connection: close\r\n" } else { "" };
        stream.write_all(format!("GET /plaintext HTTP/1.1\r\nHost: x\r\n{close}\r\n").as_bytes())?;
        let mut length = 0;
        while !buffer[..length].ends_with(BODY) {
            match stream.read(&mut buffer[length..])? {
                0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
                count => length += count,
            }
        }
    }
    Ok(REQUESTS)
}
