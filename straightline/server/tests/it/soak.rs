//! Random faults for long: what is counted, held and open is in the end what it was in the beginning.

pub(crate) mod http2;
pub(crate) mod websocket;

use crate::support::{
    Client, MODELS, Model, PATIENCE, Random, TestServer, in_own_process, number_of, resident_kib, say,
};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use straightline::{Done, Request, Response, rt};

/// Requests made unless `STRAIGHTLINE_SOAK` says another number; a million takes some minutes.
const REQUESTS: u64 = 12_000;
const CLIENTS: u64 = 8;
/// Growth of memory that is no leak: caches of allocator, pools and stacks that were not as full before, in KiB.
const SLACK_KIB: u64 = 4 * 1024;

/// Waits, panics, errs and streams as its path says; buffers on its stack are checked after each wait.
fn handle(request: &mut Request<'_>, response: Response<'_>) -> io::Result<Done> {
    let canary = std::hint::black_box([0x5a_u8; 64]);
    let mut buffer = [0; 4096];
    let mut sum = 0u64;
    loop {
        let count = request.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        sum += buffer[..count].iter().map(|&byte| u64::from(byte)).sum::<u64>();
    }
    let outcome = match request.path() {
        "/panic" => std::panic::resume_unwind(Box::new("meant to")),
        "/error" => Err(io::Error::other("meant to")),
        "/sleep" => {
            rt::sleep(Duration::from_micros(sum % 2_000))?;
            response.send(b"slept")
        }
        "/child" => {
            let sum = rt::spawn(move || sum + 1).join()?;
            response.send(sum.to_string().as_bytes())
        }
        "/stream" => {
            let mut response = response.start()?;
            for _ in 0..20 {
                response.write_all(&[b'x'; 5_000])?;
            }
            response.end()
        }
        "/panic-in-stream" => {
            let mut response = response.start()?;
            response.write_all(&[b'x'; 100])?;
            response.flush()?;
            std::panic::resume_unwind(Box::new("meant to"))
        }
        _ => response.send(sum.to_string().as_bytes()),
    };
    assert!(
        std::hint::black_box(canary).iter().all(|&byte| byte == 0x5a),
        "the stack was written by another"
    );
    outcome
}

const PATHS: [&str; 8] = ["/", "/", "/panic", "/error", "/sleep", "/child", "/stream", "/panic-in-stream"];

fn request(random: &mut Random) -> Vec<u8> {
    let path = PATHS[random.below(PATHS.len() as u64) as usize];
    let length = random.below(3) * random.below(3_000);
    let mut bytes = match random.below(3) {
        0 => format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").into_bytes(),
        1 => {
            let mut bytes =
                format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n").into_bytes();
            bytes.extend((0..length).map(|index| index as u8));
            bytes
        }
        _ => {
            let mut bytes =
                format!("POST {path} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n").into_bytes();
            http1::write::chunk(&mut bytes, &vec![7; length as usize]);
            http1::write::last_chunk(&mut bytes);
            bytes
        }
    };
    if random.below(20) == 0 {
        // A byte that was flipped on the way.
        let at = random.below(bytes.len() as u64) as usize;
        bytes[at] ^= 1 << random.below(8);
    }
    bytes
}

/// One connection that asks as it should, beside all others; every answer is the right one. How many requests it sent.
fn behave(address: SocketAddr, random: &mut Random) -> u64 {
    let mut client = Client::new(address);
    let count = 1 + random.below(6);
    for _ in 0..count {
        let length = random.below(3_000);
        let sum = 7 * length;
        let (path, wanted) = match random.below(4) {
            0 => ("/", sum.to_string()),
            1 => ("/child", (sum + 1).to_string()),
            2 => ("/sleep", "slept".to_owned()),
            _ => ("/stream", "x".repeat(100_000)),
        };
        let head = format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n");
        client.send(&[head.as_bytes(), &vec![7; length as usize]].concat());
        let answer = client.response();
        assert_eq!((answer.status, answer.text()), (200, wanted), "{path}");
    }
    count
}

/// One connection, treated badly mostly; how many requests it sent.
fn torment(address: SocketAddr, random: &mut Random) -> u64 {
    if random.below(8) == 0 {
        return behave(address, random);
    }
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    let count = 1 + random.below(6);
    for _ in 0..count {
        let bytes = request(random);
        let cut = bytes.len() - random.below(4) as usize * random.below(bytes.len() as u64) as usize / 3;
        let piece = if random.below(10) == 0 { 1 } else { bytes.len() };
        for part in bytes[..cut.min(600)].chunks(piece).chain([&bytes[cut.min(600)..cut]]) {
            if stream.write_all(part).is_err() {
                return count;
            }
        }
        if random.below(2) == 0 {
            let mut buffer = vec![0; 1 + random.below(4_000) as usize];
            stream.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
            // How much comes before the client goes away is left to chance.
            let _ = stream.read(&mut buffer);
        }
    }
    leave(stream, random);
    count
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// One connection, treated well or badly; how many requests it sent.
type Torment = fn(SocketAddr, &mut Random) -> u64;

/// Sends so many requests, and a few more; on how many connections.
fn round(server: &TestServer, torment: Torment, requests: u64, seed: u64) -> u64 {
    let (sent, connections) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (sent, connections) = (&sent, &connections);
            scope.spawn(move || {
                let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (client + 1));
                while sent.load(Ordering::Relaxed) < requests {
                    let count = torment(server.address, &mut random);
                    sent.fetch_add(count, Ordering::Relaxed);
                    connections.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    server.until("every connection ends", |server| server.metric("open_connections") == 0);
    // A shard closes the socket of a connection a moment after it no longer counts it.
    std::thread::sleep(Duration::from_millis(100));
    connections.into_inner()
}

/// Torments a server, and sees to it that descriptors and memory are in the end what they were; on how many connections.
fn outlast(server: &TestServer, torment: Torment, what: &str) -> u64 {
    let requests = number_of("STRAIGHTLINE_SOAK").unwrap_or(REQUESTS);
    let seed = number_of("STRAIGHTLINE_SEED").unwrap_or(20_261_120);
    say(&format!("{what}: {requests} requests, seed {seed}"));
    let warming = round(server, torment, requests / 4, seed);
    let (fds, kib) = (descriptors(), resident_kib());
    let connections = warming + round(server, torment, requests, seed + 1);
    let (fds_after, kib_after) = (descriptors(), resident_kib());
    say(&format!("{what}: {fds} to {fds_after} descriptors, {kib} to {kib_after} KiB"));
    assert_eq!(fds_after, fds, "{what}: descriptors leaked");
    assert!(kib_after < kib + SLACK_KIB, "{what}: memory grew from {kib} to {kib_after} KiB");
    connections
}

/// How a connection that was treated badly ends.
fn leave(mut stream: TcpStream, random: &mut Random) {
    match random.below(4) {
        0 => {}
        1 => {
            stream.shutdown(Shutdown::Write).ok();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            io::copy(&mut stream, &mut io::sink()).ok();
        }
        2 => drop(rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO))),
        _ => std::thread::sleep(Duration::from_millis(random.below(3))),
    }
}

/// What each counter may have come to, after so many connections.
fn check_counters(server: &TestServer, model: Model, connections: u64) {
    let metric = |name: &str| server.metric(name);
    let (on_coroutines, some) = (u64::from(model == Model::Coroutines), 1..=u64::MAX);
    let answered = metric("requests_total") + metric("refused_total");
    // A handler for each client, and one that it spawned, all on one of the two shards; and one more of each shard.
    let most_stacks = on_coroutines * 2 * (2 * CLIENTS + 1);
    let bounds = [
        ("requests_total", connections / 2..=6 * connections),
        ("refused_total", some.clone()),
        ("accepted_total", connections..=connections),
        ("open_connections", 0..=0),
        ("timeouts_total", 0..=connections),
        ("handler_errors_total", 1..=answered),
        ("handler_panics_total", 1..=answered),
        ("received_bytes_total", some.clone()),
        ("sent_bytes_total", some.clone()),
        ("accept_pauses_total", 0..=0),
        ("handed_over_total", 0..=on_coroutines * connections),
        // Of two shards.
        ("busy_thousandths", 0..=on_coroutines * 2 * 1_000),
        ("coroutines", 0..=0),
        ("suspensions_total", on_coroutines..=on_coroutines * u64::MAX),
        ("stacks_peak", on_coroutines..=most_stacks),
        ("stack_high_water_bytes", on_coroutines..=on_coroutines * 2 * 128 * 1024),
        // Whatever else the machine does may hold a shard.
        ("shard_holds_total", 0..=on_coroutines * u64::MAX),
        ("shard_longest_hold_ns", 0..=on_coroutines * u64::MAX),
        // One for each request; a connection that timed out may have got one as well.
        ("responses_total", answered..=answered + metric("timeouts_total")),
    ];
    for (name, bounds) in &bounds {
        let value = metric(name);
        assert!(bounds.contains(&value), "{model}: {name} is {value}, not in {bounds:?}");
    }
    let text = server.handle().metrics();
    assert_eq!(text.matches("# TYPE ").count(), bounds.len(), "a counter is not looked at: {text}");
}

/// Runs in a process of its own, where nothing else opens descriptors.
#[test]
fn random_faults_leave_nothing_behind() {
    in_own_process("soak::torment_a_server");
}

pub(crate) fn torment_a_server() {
    let limits = straightline::Limits {
        head_time: Duration::from_millis(300),
        body_grace: Duration::from_millis(300),
        linger_time: Duration::from_millis(300),
        ..Default::default()
    };
    for model in MODELS {
        let server = TestServer::with(|server| on_two_shards(model, server).limits(limits), handle);
        let connections = outlast(&server, torment, &model.to_string());
        check_counters(&server, model, connections);
        server.assert_serves("the soak");
    }
}

fn on_two_shards(model: Model, server: straightline::Server) -> straightline::Server {
    match model {
        Model::Coroutines => server.workers(2),
        Model::Threads => server.threads(),
    }
}
