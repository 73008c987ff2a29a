//! `cargo +nightly fuzz run database`: what a server says that is no PostgreSQL. Whatever it is, a client comes to an end.
//! The first two bytes of an input say where the rest is cut in three: each part follows a message of the client.
#![no_main]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::LazyLock;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};
use straightline::kit::postgres::{Client, Config};

/// Longest time for a client to come to an end: only a hang takes so long.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a client may be silent that waits for more.
const SILENCE: Duration = Duration::from_millis(5);

static SERVER: LazyLock<(SocketAddr, SyncSender<Vec<Vec<u8>>>)> = LazyLock::new(|| {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let address = listener.local_addr().expect("it is bound");
    let (sender, receiver) = sync_channel::<Vec<Vec<u8>>>(1);
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            // A connection that nothing is to be said to is one that cancels.
            let Ok(parts) = receiver.try_recv() else { continue };
            stream.set_read_timeout(Some(SILENCE)).expect("the time is not zero");
            for part in parts {
                if stream.read(&mut [0; 4096]).unwrap_or(0) == 0 || stream.write_all(&part).is_err() {
                    break;
                }
            }
        }
    });
    (address, sender)
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let [first, second, rest @ ..] = bytes else { return };
    let (one, rest) = rest.split_at(usize::from(*first).min(rest.len()));
    let (two, three) = rest.split_at(usize::from(*second).min(rest.len()));
    let (address, sender) = &*SERVER;
    sender.send([one, two, three].map(<[u8]>::to_vec).to_vec()).expect("the server is there");
    let url = format!("postgres://me:secret@{address}/db?sslmode=disable");
    let config: Config = url.parse().expect("it is a URL");
    let start = Instant::now();
    if let Ok(mut client) = Client::connect(config.query_time(Some(PATIENCE))) {
        client.query_each("select a from b", &[], |row| row.get::<Option<&str>>(0).map(drop)).ok();
    }
    assert!(start.elapsed() < PATIENCE / 2, "it took too long");
});
