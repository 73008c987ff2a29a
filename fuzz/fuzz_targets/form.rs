//! `cargo +nightly fuzz run form`: bodies of `multipart/form-data` with the boundary `B`, to a handler in this process.
//! Whatever they are, they are taken apart or refused, and nothing of one is longer than all of it.
#![no_main]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::LazyLock;
use std::time::Duration;
use straightline::kit::forms::Multipart;

/// Longest wait for an answer: only a hang takes so long.
const PATIENCE: Duration = Duration::from_secs(10);

static SERVER: LazyLock<SocketAddr> = LazyLock::new(|| {
    let server = straightline::Server::bind("127.0.0.1:0").expect("there is a free port").workers(1);
    let running = server.spawn(|request, response| {
        let (mut form, mut taken) = (Multipart::new(request, 1 << 20)?, 0);
        while let Some(mut part) = form.next()? {
            taken += part.name().len() as u64 + std::io::copy(&mut part, &mut std::io::sink())?;
        }
        response.send(taken.to_string().as_bytes())
    });
    // Dropping what runs lets it run on.
    running.expect("the server starts").local_addr()
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut stream = TcpStream::connect(*SERVER).expect("the server is there");
    stream.set_read_timeout(Some(PATIENCE)).expect("the time is not zero");
    let head = "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: multipart/form-data; boundary=B\r\n";
    let head = format!("{head}Content-Length: {}\r\n\r\n", bytes.len());
    stream.write_all(&[head.as_bytes(), bytes].concat()).expect("the server reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("the server answers");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a whole answer comes");
    match &head[..12] {
        "HTTP/1.1 200" => assert!(body.parse::<usize>().expect("it is a number") <= bytes.len()),
        refused => assert!(matches!(refused, "HTTP/1.1 400" | "HTTP/1.1 413"), "{answer}"),
    }
});
