//! Memory while a long body comes.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use super::super::page::table;
use super::super::target::{Cpus, Server};
use super::{Row, Scale};

/// Bytes sent at a time.
const PIECE_BYTES: usize = 1024 * 1024;

pub(super) fn section(scale: &Scale, cpus: &Cpus) -> anyhow::Result<String> {
    let mut rows = Vec::new();
    for (name, threads) in [("coroutines", false), ("threads", true)] {
        let server = Server::measured(threads, cpus)?;
        // The first few MiB bring what every upload needs.
        cpus.on_load(|| upload(&server, 4))?;
        let before = server.own_bytes();
        let (most, mib_per_s) = cpus.on_load(|| upload(&server, scale.upload_mib))?;
        rows.push(vec![
            name.to_owned(),
            (before / 1024).to_string(),
            (most / 1024).to_string(),
            format!("{mib_per_s:.0}"),
        ]);
    }
    let head = ["straightline on", "KiB before", "KiB at most", "MiB/s"];
    Ok(format!(
        "## Memory while {} MiB are uploaded\n\n{}; one upload, read through `Read` by `io::copy`; anonymous memory after \
         4 MiB and the most seen after each MiB. Bar: flat.\n\n{}",
        scale.upload_mib,
        scale.method(Row::Upload),
        table(&head, &rows)
    ))
}

/// The most memory seen meanwhile in bytes, and the speed in MiB per second.
fn upload(server: &Server, mib: u64) -> anyhow::Result<(u64, f64)> {
    let mut stream = TcpStream::connect(server.address)?;
    let (length, begin) = (mib * PIECE_BYTES as u64, Instant::now());
    let head =
        format!("POST /upload HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    let piece = vec![b'x'; PIECE_BYTES];
    let mut most = 0;
    for _ in 0..mib {
        stream.write_all(&piece)?;
        most = most.max(server.own_bytes());
    }
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    anyhow::ensure!(answer.ends_with(&length.to_string()), "the server counted otherwise: {answer}");
    Ok((most, mib as f64 / begin.elapsed().as_secs_f64()))
}
