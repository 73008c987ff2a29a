//! Memory per idle connection, and per handler that waits.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::Context;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::super::page::{figure, table};
use super::super::target::{Cpus, Server};
use super::closing::start;
use super::{OURS, Row, Scale};

/// Handlers that wait at a time.
const WAITING: usize = 1_000;
/// How long a server may take to give back what it needs no more.
const SETTLE: Duration = Duration::from_millis(2_500);
/// Connections before the first reading, so that what all of them share is there.
const FIRST: usize = 64;

pub(super) fn section(scale: &Scale, cpus: &Cpus) -> anyhow::Result<String> {
    raise_descriptors();
    let mut idle = Vec::new();
    for arm in scale.arms.iter().filter(|arm| *arm != "epoll-limit") {
        let server = start(arm, cpus)?;
        let bytes = cpus.on_load(|| per_connection(&server, "/plaintext", scale.connections));
        idle.push(vec![arm.clone(), figure(bytes.ok(), 0)]);
    }
    let server = Server::measured(false, cpus)?;
    let blocked = cpus.on_load(|| per_connection(&server, "/wait", WAITING))?;
    Ok(format!(
        "## Memory per idle connection, {} of them\n\n{}; one round; growth of anonymous memory (`RssAnon`) from {FIRST} \
         connections on, in bytes per connection, each answered once and then idle for {} s; what the kernel keeps is \
         not in it. Bar: 1024 bytes for `{OURS}`.\n\n{}\n## Memory per handler that waits, {WAITING} of them\n\n{}; \
         likewise; bar: 12 288 bytes.\n\n{}",
        scale.connections,
        scale.method(Row::Memory),
        SETTLE.as_secs_f64(),
        table(&["server", "bytes per connection"], &idle),
        scale.method(Row::Memory),
        table(
            &["server", "bytes per handler, its connection included"],
            &[vec![OURS.to_owned(), figure(Some(blocked), 0)]]
        ),
    ))
}

/// Memory for each of `count` connections that have asked for `path`, in bytes.
pub(super) fn per_connection(server: &Server, path: &str, count: usize) -> anyhow::Result<f64> {
    let mut open = Vec::with_capacity(count + FIRST);
    connect(server, path, FIRST, &mut open)?;
    let before = server.own_bytes();
    connect(server, path, count, &mut open)?;
    let after = server.own_bytes();
    Ok((after as f64 - before as f64) / count as f64)
}

fn connect(server: &Server, path: &str, count: usize, open: &mut Vec<TcpStream>) -> anyhow::Result<()> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
    for _ in 0..count {
        let mut stream = TcpStream::connect(server.address)
            .with_context(|| format!("after {} connections", open.len()))?;
        stream.write_all(request.as_bytes())?;
        if path != "/wait" {
            stream.set_read_timeout(Some(Duration::from_secs(5)))?;
            let read = stream.read(&mut [0; 4096])?;
            anyhow::ensure!(read > 0, "a connection was closed after {}", open.len());
        }
        open.push(stream);
    }
    std::thread::sleep(SETTLE);
    Ok(())
}

/// As many descriptors as this process may have; the servers inherit them.
pub(super) fn raise_descriptors() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).ok();
}
