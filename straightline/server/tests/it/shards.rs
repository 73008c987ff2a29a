//! Shards that are not equally busy: who connects goes to one that has time.

use crate::drains::connect_until_refused;
use crate::support::{Client, PATIENCE, TestServer};
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use straightline::Server;

const WORK: &[u8] = b"GET /work HTTP/1.1\r\nHost: x\r\n\r\n";
const WHERE: &[u8] = b"GET /where HTTP/1.1\r\nHost: x\r\n\r\n";
/// Clients that keep one shard at work: while it is at one's request, those of the others wait.
const BUSY: usize = 16;
/// How long a request of theirs holds the shard. It takes no CPU, which other tests and this one's clients need.
const HOLD: Duration = Duration::from_millis(1);

/// Two shards, whose answers say on which of them they were made.
fn two_shards() -> TestServer {
    TestServer::with(
        |server: Server| server.workers(2),
        |request, response| {
            if request.path() == "/work" {
                std::thread::sleep(HOLD);
            }
            response.send(std::thread::current().name().unwrap_or_default().as_bytes())
        },
    )
}

/// Clients of one shard that ask it again as soon as they are answered, until they are dropped.
struct Busy {
    shard: String,
    enough: Arc<AtomicBool>,
    clients: Vec<JoinHandle<()>>,
}

impl Busy {
    /// Keeps one shard so busy that the server knows.
    fn begin(server: &TestServer) -> Self {
        let (shard, clients) = clients_of_one_shard(server);
        let enough = Arc::new(AtomicBool::new(false));
        let clients = clients.into_iter().map(|client| ask_until(client, &enough)).collect();
        server.until("one shard is busy and the other is not", |server| {
            let metrics = server.handle().metrics();
            let busy = |shard: &str| busy_thousandths(&metrics, shard);
            busy(&shard) >= 800 && ["straightline-0", "straightline-1"].iter().any(|other| busy(other) <= 300)
        });
        Self { shard, enough, clients }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.enough.store(true, Ordering::Relaxed);
        self.clients.drain(..).for_each(|client| client.join().unwrap());
    }
}

/// As many as make a shard busy. Whoever came to the other shard is closed again.
fn clients_of_one_shard(server: &TestServer) -> (String, Vec<Client>) {
    let (mut shard, mut clients) = (None, Vec::new());
    while clients.len() < BUSY {
        let mut client = server.connect();
        client.send(WHERE);
        let here = client.response().text();
        if *shard.get_or_insert_with(|| here.clone()) == here {
            clients.push(client);
        }
    }
    let kept = clients.len() as u64;
    server.until("the others are closed", |server| server.metric("open_connections") == kept);
    (shard.unwrap(), clients)
}

fn ask_until(mut client: Client, enough: &Arc<AtomicBool>) -> JoinHandle<()> {
    let enough = Arc::clone(enough);
    let mut answer = [0; 1024];
    std::thread::spawn(move || {
        while !enough.load(Ordering::Relaxed) {
            let asked = client.stream.write_all(WORK);
            // A drain ends it, between two requests as well.
            if asked.and_then(|()| client.stream.read(&mut answer)).unwrap_or(0) == 0 {
                return;
            }
        }
    })
}

fn busy_thousandths(metrics: &str, shard: &str) -> u64 {
    let number = shard.rsplit('-').next().unwrap();
    let name = format!("straightline_busy_thousandths{{shard=\"{number}\"}} ");
    metrics.lines().find_map(|line| line.strip_prefix(&name)?.parse().ok()).unwrap()
}

#[test]
fn who_connects_goes_to_the_shard_that_is_idle() {
    const NEW: usize = 24;
    let server = two_shards();
    let busy = Busy::begin(&server);
    // They stay, so that it is not one place that is taken again and again.
    let mut new: Vec<Client> = Vec::new();
    let mut at_busy = 0;
    for _ in 0..NEW {
        let mut client = server.connect();
        client.send(WHERE);
        at_busy += usize::from(client.response().text() == busy.shard);
        new.push(client);
    }
    assert!(at_busy <= NEW / 8, "{at_busy} of {NEW} went to the shard that is busy");
    assert!(server.metric("handed_over_total") > 0);
    assert_eq!(server.metric("open_connections"), (BUSY + NEW) as u64);
    drop(busy);
    drop(new);
    server.until("all are closed", |server| server.metric("open_connections") == 0);
}

#[test]
fn a_drain_resets_nobody_who_is_handed_over() {
    const CLIENTS: usize = 2;
    /// The busy shard accepts a few thousand connections a second.
    const GAP: Duration = Duration::from_millis(1);
    let mut server = two_shards();
    let busy = Busy::begin(&server);
    let address = server.address;
    let clients: [_; CLIENTS] =
        std::array::from_fn(|_| std::thread::spawn(move || connect_until_refused(address, GAP)));
    server.until("some are handed over", |server| server.metric("handed_over_total") >= 10);
    server.handle().drain(PATIENCE);
    for client in clients {
        client.join().unwrap();
    }
    drop(busy);
    server.assert_drained();
}
