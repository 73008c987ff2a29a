//! What goes wrong in coroutine runtimes, line by line.

use crate::support::{Client, MODELS, TestServer, echo};
use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use straightline::{Event, Server, rt};

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";

fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").into_bytes()
}

/// Runs one ignored test of this program in a process of its own.
fn in_own_process(test: &str) -> std::process::Output {
    std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--ignored", "--nocapture", "--test-threads=1", test])
        .env("RUST_BACKTRACE", "0")
        .output()
        .unwrap()
}

/// A value whose drop waits, as one that flushes a stream does.
struct WaitsInDrop(Arc<Mutex<Vec<io::Error>>>);

impl Drop for WaitsInDrop {
    fn drop(&mut self) {
        if let Err(error) = rt::sleep(Duration::from_millis(1)) {
            self.0.lock().unwrap().push(error);
        }
    }
}

#[test]
fn waiting_while_unwinding_is_an_error_and_nobody_else_seems_to_panic() {
    let errors = Arc::new(Mutex::new(Vec::new()));
    let inside = Arc::clone(&errors);
    let server = TestServer::new(move |request, response| {
        if request.path() == "/panic" {
            let _waits = WaitsInDrop(Arc::clone(&inside));
            panic!("meant to");
        }
        rt::sleep(Duration::from_millis(2))?;
        assert!(!std::thread::panicking());
        response.send(b"fine")
    });
    let mut others: Vec<Client> = (0..8).map(|_| server.connect()).collect();
    for _ in 0..10 {
        others.iter_mut().for_each(|client| client.send(GET));
        let mut panics = server.connect();
        panics.send(&get("/panic"));
        assert_eq!(panics.response().status, 500);
        others.iter_mut().for_each(|client| assert_eq!(client.response().text(), "fine"));
    }
    let errors = errors.lock().unwrap();
    assert_eq!(errors.len(), 10, "every drop was refused to wait");
    assert!(errors.iter().all(rt::is_cancelled), "{errors:?}");
}

#[test]
fn a_lock_of_the_runtime_may_be_held_over_a_wait() {
    let counter = Arc::new(rt::Mutex::new(0));
    let inside = Arc::clone(&counter);
    let server = TestServer::with(
        |server| server.workers(2),
        move |_, response| {
            let mut counter = inside.lock()?;
            let before = *counter;
            rt::sleep(Duration::from_millis(1))?;
            *counter = before + 1;
            response.send(b"")
        },
    );
    let mut clients: Vec<Client> = (0..20).map(|_| server.connect()).collect();
    for _ in 0..5 {
        clients.iter_mut().for_each(|client| client.send(GET));
        clients.iter_mut().for_each(|client| assert_eq!(client.response().status, 200));
    }
    assert_eq!(*counter.lock().unwrap(), 100);
}

#[test]
fn whoever_holds_the_shard_is_named() {
    let server = TestServer::with(
        |server| server.workers(1).name("the sleeper"),
        |request, response| {
            if request.path() == "/hold" {
                std::thread::sleep(Duration::from_millis(120));
            }
            response.send(b"")
        },
    );
    let mut client = server.connect();
    for _ in 0..100 {
        client.send(GET);
        client.response();
    }
    assert_eq!(server.metric("shard_holds_total"), 0, "quick handlers hold nothing");
    client.send(&get("/hold"));
    client.response();
    let events = server.events.lock().unwrap().clone();
    let holds: Vec<&Event> = events.iter().filter(|event| matches!(event, Event::ShardHeld { .. })).collect();
    let [Event::ShardHeld { shard: 0, handler: "the sleeper", held }] = holds[..] else {
        panic!("{events:?}");
    };
    assert!(*held >= Duration::from_millis(25) && *held < Duration::from_millis(120), "{held:?}");
    assert_eq!(server.metric("shard_holds_total"), 1);
    assert!(server.metric("shard_longest_hold_ns") > 60_000_000);
}

#[test]
fn work_on_a_helper_thread_holds_nobody_up() {
    let server = TestServer::new(|request, response| {
        if request.path() == "/work" {
            rt::blocking(|| std::thread::sleep(Duration::from_millis(300)))?;
        }
        response.send(request.path().as_bytes())
    });
    let mut busy: Vec<Client> = (0..8).map(|_| server.connect()).collect();
    let start = Instant::now();
    busy.iter_mut().for_each(|client| client.send(&get("/work")));
    std::thread::sleep(Duration::from_millis(50));
    server.assert_serves("work on helper threads");
    assert!(start.elapsed() < Duration::from_millis(250), "it waited for the work");
    busy.iter_mut().for_each(|client| assert_eq!(client.response().text(), "/work"));
    assert!(start.elapsed() < Duration::from_millis(1_500), "the work was done one after the other");
}

#[test]
fn an_overflow_names_the_handler_and_its_stack() {
    for (test, size) in
        [("hazards::overflow_a_stack", "128 KiB"), ("hazards::overflow_a_big_stack", "512 KiB")]
    {
        let output = in_own_process(test);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.signal(), Some(11), "the signal's default action: {text}");
        let wanted = format!("the stack of {size} of handler `the deep one` overflowed");
        assert!(text.contains(&wanted), "no {wanted:?} in {text}");
    }
}

/// Calls itself, with a frame that the compiler cannot leave out.
fn descend(depth: usize) -> usize {
    let frame = std::hint::black_box([depth; 64]);
    if depth == 0 { frame[0] } else { descend(depth - 1) + std::hint::black_box(frame)[63] % 2 }
}

#[test]
#[ignore = "ends its process; run by the test above"]
fn overflow_a_stack() {
    let server = TestServer::with(
        |server| server.workers(1).name("the deep one"),
        |_, response| response.send(descend(1_000_000).to_string().as_bytes()),
    );
    server.connect().send(GET);
    std::thread::sleep(Duration::from_secs(5));
}

#[test]
#[ignore = "ends its process; run by the test above"]
fn overflow_a_big_stack() {
    let server = TestServer::with(
        |server| server.workers(1).name("the deep one"),
        |_, response| {
            let depth = rt::with_big_stack(512 * 1024, || descend(1_000_000))?;
            response.send(depth.to_string().as_bytes())
        },
    );
    server.connect().send(GET);
    std::thread::sleep(Duration::from_secs(5));
}

#[test]
fn an_overflow_elsewhere_is_not_ours() {
    let output = in_own_process("hazards::overflow_a_plain_thread");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(text.contains("has overflowed its stack") && !text.contains("straightline:"), "{text}");
}

#[test]
#[ignore = "ends its process; run by the test above"]
fn overflow_a_plain_thread() {
    let _server = TestServer::new(echo);
    std::thread::spawn(|| descend(1_000_000)).join().unwrap();
}

#[test]
fn a_deep_call_fits_a_big_stack_and_may_wait_there() {
    let server = TestServer::new(|_, response| {
        let depth = rt::with_big_stack(16 * 1024 * 1024, || {
            rt::sleep(Duration::from_millis(5))?;
            let depth = descend(4_000);
            rt::sleep(Duration::from_millis(5))?;
            Ok::<_, io::Error>(depth)
        })??;
        response.send((depth > 0).to_string().as_bytes())
    });
    let mut clients: Vec<Client> = (0..4).map(|_| server.connect()).collect();
    for _ in 0..3 {
        clients.iter_mut().for_each(|client| client.send(GET));
        clients.iter_mut().for_each(|client| assert_eq!(client.response().status, 200));
    }
}

#[test]
fn panics_leave_nothing_behind() {
    for model in MODELS {
        let server = TestServer::of_model(model, |request, response| match request.path() {
            "/panic" => std::panic::resume_unwind(Box::new("without the noise of the hook")),
            path => response.send(path.as_bytes()),
        });
        for round in 0..500 {
            let mut client = server.connect();
            client.send(&get("/fine"));
            client.send(&get("/panic"));
            client.send(&get("/never"));
            assert_eq!(client.response().text(), "/fine");
            assert_eq!(client.response().status, 500, "{model:?}: round {round}");
            client.assert_closed("a panic costs its connection");
        }
        server.until("all is given back", |server| server.metric("open_connections") == 0);
        assert_eq!(server.metric("handler_panics_total"), 500);
        assert!(server.metric("stacks_peak") <= 3, "{model:?}: stacks are given back");
        server.assert_serves("panics");
    }
}

#[test]
#[ignore = "server and client share their descriptors, and the client may run out first: it needs a process of its own"]
fn running_out_of_descriptors_pauses_accepting() {
    let output = in_own_process("hazards::run_out_of_descriptors");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("served after the pause"), "{text}");
}

#[test]
#[ignore = "limits its process; run by the test above"]
fn run_out_of_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let server = TestServer::new(echo);
    server.assert_serves("nothing");
    let before = getrlimit(Resource::Nofile);
    // Both ends of a connection are in this process: 30 connections take 60 descriptors.
    let in_use = std::fs::read_dir("/proc/self/fd").unwrap().count() as u64;
    let mut clients: Vec<Client> = (0..20).map(|_| server.connect()).collect();
    server.until("they are accepted", |server| server.metric("accepted_total") == 21);
    let limit = Rlimit { current: Some(in_use + 40 + 20), maximum: before.maximum };
    setrlimit(Resource::Nofile, limit).unwrap();
    let mut waiting: Vec<Client> = (0..15).map(|_| server.connect()).collect();
    waiting.iter_mut().for_each(|client| client.send(GET));
    server.until("accepting is paused", |server| server.metric("accept_pauses_total") >= 1);
    // Those who have a connection are served as before.
    for client in &mut clients {
        client.send(GET);
        assert_eq!(client.response().status, 200);
    }
    clients.clear();
    for client in &mut waiting {
        assert_eq!(client.response().status, 200);
    }
    let said = server.events.lock().unwrap().clone();
    assert!(said.iter().any(|event| matches!(event, Event::AcceptPaused { .. })), "{said:?}");
    server.until("accepting is resumed", |server| {
        server.events.lock().unwrap().iter().any(|event| matches!(event, Event::AcceptResumed { .. }))
    });
    setrlimit(Resource::Nofile, before).unwrap();
    writeln!(io::stdout(), "served after the pause").unwrap();
}

/// Slow heads hold a few bytes each, and no stack, and nobody up.
#[test]
#[ignore = "times itself, and fails beside other work on the same CPUs: to be run alone"]
fn slow_heads_delay_nobody() {
    /// Both ends are in this process, whose limit may be 1 024 descriptors.
    const SLOW: usize = 400;
    let server = TestServer::new(echo);
    let mut slow: Vec<Client> = (0..SLOW).map(|_| server.connect()).collect();
    let stop = AtomicBool::new(false);
    let worst = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                slow.iter_mut().for_each(|client| client.send(b"G"));
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let mut good = server.connect();
        let mut times: Vec<Duration> = Vec::new();
        for _ in 0..200 {
            let start = Instant::now();
            good.send(GET);
            assert_eq!(good.response().status, 200);
            times.push(start.elapsed());
            std::thread::sleep(Duration::from_micros(500));
        }
        stop.store(true, Ordering::Relaxed);
        times.sort();
        times[times.len() * 95 / 100]
    });
    assert!(worst < Duration::from_millis(10), "a good request took {worst:?} in 95 of 100 cases");
    assert_eq!(server.metric("coroutines"), 0, "a slow head holds no coroutine");
    assert!(server.metric("stacks_peak") <= 2);
}

/// More handlers than stacks: the rest wait their turn.
#[test]
fn handlers_wait_for_a_stack() {
    let limits = straightline::Limits { connections: 2, ..Default::default() };
    let peak = Arc::new(AtomicUsize::new(0));
    let now = Arc::new(AtomicUsize::new(0));
    let (inside, most) = (Arc::clone(&now), Arc::clone(&peak));
    let server = TestServer::with(
        move |server: Server| server.workers(1).limits(limits),
        move |_, response| {
            // Two connections make four stacks, two of which their handlers have.
            let children: Vec<_> = (0..6)
                .map(|_| {
                    let (inside, most) = (Arc::clone(&inside), Arc::clone(&most));
                    rt::spawn(move || {
                        most.fetch_max(inside.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                        rt::sleep(Duration::from_millis(20)).unwrap();
                        inside.fetch_sub(1, Ordering::Relaxed);
                    })
                })
                .collect();
            for child in children {
                child.join()?;
            }
            response.send(b"")
        },
    );
    let mut clients = [server.connect(), server.connect()];
    clients.iter_mut().for_each(|client| client.send(GET));
    clients.iter_mut().for_each(|client| assert_eq!(client.response().status, 200));
    assert!(peak.load(Ordering::Relaxed) <= 3, "{peak:?} children at a time");
}
