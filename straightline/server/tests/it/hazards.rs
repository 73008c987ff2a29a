//! What goes wrong in coroutine runtimes, line by line.

use crate::support::{
    Client, MODELS, Model, PATIENCE, TestServer, echo, ended_well, in_own_process, number_of, own_process,
};
use std::cell::RefCell;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use straightline::kit::Router;
use straightline::{Event, Server, StatusError, rt};

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";

fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").into_bytes()
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
                std::thread::sleep(Duration::from_millis(150));
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
    assert!(*held >= Duration::from_millis(25) && *held < Duration::from_millis(500), "{held:?}");
    assert_eq!(server.metric("shard_holds_total"), 1);
    assert!(server.metric("shard_longest_hold_ns") > 60_000_000);
}

#[test]
fn what_is_told_of_a_handler_names_its_route_and_why_it_failed() {
    for model in MODELS {
        let router = Router::new()
            .route("GET", "/users/{id}", |request, response, params| match params.get("id") {
                Some("panic") => std::panic::resume_unwind(Box::new("without the noise of the hook")),
                Some("hold") => {
                    std::thread::sleep(Duration::from_millis(150));
                    response.send(b"")
                }
                Some("busy") => Err(StatusError::new(503, "busy").because("no room at 10.0.0.1").into()),
                Some("absent") => Err(StatusError::new(404, "no such user").into()),
                Some("begun") => {
                    let _ = (request, response.start()?);
                    Err(StatusError::new(404, "too late").into())
                }
                _ => Err(std::io::Error::other("the disk is full")),
            })
            .unwrap();
        let log = Arc::new(Mutex::new(Vec::new()));
        let logged = Arc::clone(&log);
        let handler = straightline::kit::logged(
            move |request, response| match request.path() {
                "/" => Err(std::io::Error::other("not by a route")),
                _ => router.serve(request, response),
            },
            move |entry| logged.lock().unwrap().push(entry.error.map(ToString::to_string)),
        );
        let server = TestServer::with(|server| model.apply_to(server).name("all"), handler);
        let mut wanted = Vec::new();
        for (path, status, error) in [
            ("/users/full", 500, Some("the disk is full")),
            ("/", 500, Some("not by a route")),
            ("/users/busy", 503, Some("busy (503): no room at 10.0.0.1")),
            ("/users/absent", 404, None),
        ] {
            let mut client = server.connect();
            client.send(&get(path));
            let answer = client.response();
            assert_eq!(answer.status, status, "{model}: {path}");
            let is_told = |text: &str| text.contains("disk") || text.contains("10.0.0.1");
            assert!(!is_told(&answer.text()), "that is not the client's affair: {}", answer.text());
            let handler = if path == "/" { "all" } else { "GET /users/{id}" };
            let told = error.map(|error| Event::HandlerFailed { handler, status, error: error.to_owned() });
            wanted.extend(told);
            let logged = log.lock().unwrap().pop().flatten();
            assert_eq!(logged.as_deref(), error.or(Some("no such user (404)")), "{model}: {path}");
        }
        let mut client = server.connect();
        client.send(&get("/users/begun"));
        client.assert_ends();
        let handler = "GET /users/{id}";
        wanted.push(Event::HandlerFailed { handler, status: 200, error: "too late (404)".to_owned() });
        client = server.connect();
        client.send(&get("/users/panic"));
        assert_eq!(client.response().status, 500);
        wanted.push(Event::HandlerPanicked { handler });
        let events = server.events.lock().unwrap().clone();
        assert_eq!(events[1..], wanted, "{model}");
        if model == Model::Coroutines {
            client = server.connect();
            client.send(&get("/users/hold"));
            client.response();
            let events = server.events.lock().unwrap().clone();
            let held = |event: &Event| matches!(event, Event::ShardHeld { handler: "GET /users/{id}", .. });
            assert!(events.iter().any(held), "{events:?}");
        }
    }
}

#[test]
fn what_the_server_refuses_itself_is_told() {
    for model in MODELS {
        let server = TestServer::of_model(model, |_, response| response.send(b""));
        let long = format!("GET / HTTP/1.1\r\nHost: x\r\nA: {}\r\n\r\n", "a".repeat(40_000));
        for (request, wanted) in
            [("GET / HTTP/1.1\r\n\r\n", 400), ("GET / HTTP/3.0\r\n\r\n", 505), (&long, 431)]
        {
            let mut client = server.connect();
            let ours = client.stream.local_addr().unwrap();
            client.send(request.as_bytes());
            let answer = client.response();
            let Some(Event::RequestRefused { peer, status, reason }) =
                server.events.lock().unwrap().last().cloned()
            else {
                panic!("{model}: {wanted} was not told");
            };
            assert_eq!((peer, status, answer.status), (Some(ours), wanted, wanted), "{model}");
            assert_eq!(answer.text(), format!("{reason}\n"));
        }
    }
}

#[test]
fn work_on_a_helper_thread_holds_nobody_up() {
    let server = TestServer::new(|request, response| {
        if request.path() == "/work" {
            rt::blocking(|| std::thread::sleep(Duration::from_secs(1)))?;
        }
        response.send(request.path().as_bytes())
    });
    let mut busy: Vec<Client> = (0..8).map(|_| server.connect()).collect();
    let start = Instant::now();
    busy.iter_mut().for_each(|client| client.send(&get("/work")));
    std::thread::sleep(Duration::from_millis(50));
    server.assert_serves("work on helper threads");
    assert!(start.elapsed() < Duration::from_millis(900), "it waited for the work");
    busy.iter_mut().for_each(|client| assert_eq!(client.response().text(), "/work"));
    assert!(start.elapsed() < Duration::from_secs(4), "the work was done one after the other");
}

#[test]
fn an_overflow_names_the_handler_and_its_stack() {
    for (test, kib, whose) in [
        ("hazards::overflow_a_stack", 64, "handler `the deep one`"),
        ("hazards::overflow_a_stack", 128, "handler `the deep one`"),
        ("hazards::overflow_a_stack", 1024, "handler `the deep one`"),
        ("hazards::overflow_a_big_stack", 512, "handler `the deep one`"),
        ("hazards::overflow_a_big_stack_of_a_thread", 512, "a plain thread"),
    ] {
        let output = own_process(test).env(STACK_KIB, kib.to_string()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.signal(), Some(11), "the signal's default action: {text}");
        let wanted = format!("the stack of {kib} KiB of {whose} overflowed");
        assert!(text.contains(&wanted), "no {wanted:?} in {text}");
    }
}

/// Calls itself, with a frame that the compiler cannot leave out.
fn descend(depth: usize) -> usize {
    let frame = std::hint::black_box([depth; 64]);
    if depth == 0 { frame[0] } else { descend(depth - 1) + std::hint::black_box(frame)[63] % 2 }
}

/// The variable that says how large the stack is that overflows, in KiB.
const STACK_KIB: &str = "STRAIGHTLINE_STACK_KIB";

pub(crate) fn overflow_a_stack() {
    let stack_bytes = number_of(STACK_KIB).unwrap() as usize * 1024;
    let server = TestServer::with(
        |server| server.workers(1).name("the deep one").stack_bytes(stack_bytes),
        |_, response| response.send(descend(1_000_000).to_string().as_bytes()),
    );
    server.connect().send(GET);
    std::thread::sleep(Duration::from_secs(5));
}

pub(crate) fn overflow_a_big_stack() {
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

pub(crate) fn overflow_a_big_stack_of_a_thread() {
    rt::with_big_stack(512 * 1024, || descend(1_000_000)).unwrap();
}

#[test]
fn an_overflow_elsewhere_is_not_ours() {
    let output = own_process("hazards::overflow_a_plain_thread").output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(text.contains("has overflowed its stack") && !text.contains("straightline:"), "{text}");
}

pub(crate) fn overflow_a_plain_thread() {
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

/// Whatever hears of events panics each time, on whichever thread that is; and everything goes on.
#[test]
fn a_panic_of_what_hears_of_events_ends_there() {
    const HOLD: Duration = Duration::from_millis(200);
    for model in MODELS {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let hears = Arc::clone(&heard);
        let limits = straightline::Limits { connections: 1, ..Default::default() };
        let server =
            model.apply_to(Server::bind("127.0.0.1:0").unwrap()).limits(limits).on_event(move |event| {
                hears.lock().unwrap().push(event.to_string());
                std::panic::resume_unwind(Box::new(PanicsInDrop));
            });
        let running = server
            .spawn(|_, response| {
                std::thread::sleep(HOLD);
                response.send(b"")
            })
            .unwrap();
        let clients: Vec<Client> = (0..3).map(|_| Client::new(running.local_addr())).collect();
        // Each waits, while accepting is paused, until the one before it is gone.
        for mut client in clients {
            client.send(GET);
            assert_eq!(client.response().status, 200, "{model}");
        }
        let deadline = Instant::now() + PATIENCE;
        while !heard.lock().unwrap().iter().any(|event| event.contains("accepts again")) {
            assert!(Instant::now() < deadline, "{model}: accepting stays paused");
            std::thread::sleep(Duration::from_millis(2));
        }
        assert_eq!(running.drain(Duration::from_secs(5)).abandoned, 0, "{model}");
        let heard = heard.lock().unwrap().clone();
        let held = if model == Model::Coroutines { 3 } else { 0 };
        for (what, least) in [
            ("listening", 1),
            ("stops accepting", 1),
            ("accepts again", 1),
            ("draining", 1),
            ("is held by", held),
        ] {
            let count = heard.iter().filter(|event| event.contains(what)).count();
            assert!(count >= least, "{model}: {what}: {count} times in {heard:?}");
        }
    }
}

/// Of a lock of the standard library that is held over a wait, the next who wants it stops the shard; and is named.
#[test]
fn a_std_lock_held_over_a_wait_is_told_of() {
    in_own_process("hazards::hold_a_std_lock_over_a_wait");
}

pub(crate) fn hold_a_std_lock_over_a_wait() {
    let lock = Mutex::new(());
    let server = TestServer::with(
        |server| server.workers(1).name("the locker"),
        move |_, response| {
            let held = lock.lock().unwrap();
            rt::sleep(Duration::from_secs(1))?;
            drop(held);
            response.send(b"")
        },
    );
    let mut clients = [server.connect(), server.connect()];
    clients.iter_mut().for_each(|client| client.send(GET));
    server.until("the watchdog names it", |server| {
        let events = server.events.lock().unwrap();
        events.iter().any(|event| matches!(event, Event::ShardHeld { handler: "the locker", .. }))
    });
    std::process::exit(ended_well());
}

/// Of a `RefCell` that is borrowed over a wait, the next who wants it panics; which costs no more than any panic does.
#[test]
fn a_borrow_held_over_a_wait_costs_the_next_who_borrows() {
    thread_local!(static SHARED: RefCell<u32> = const { RefCell::new(0) });
    for model in MODELS {
        let (open, gate) = rt::channel(1);
        let server = TestServer::of_model(model, move |request, response| {
            SHARED.with(|shared| {
                let mut shared = shared.borrow_mut();
                if request.path() == "/hold" {
                    gate.recv()?;
                }
                *shared += 1;
                response.send(shared.to_string().as_bytes())
            })
        });
        let mut holder = server.connect();
        holder.send(&get("/hold"));
        server.until("it is held", |server| server.metric("requests_total") == 1);
        let mut next = server.connect();
        next.send(GET);
        // Threads have one each.
        let (status, panics) = if model == Model::Coroutines { (500, 1) } else { (200, 0) };
        assert_eq!(next.response().status, status, "{model}");
        open.send(()).unwrap();
        assert_eq!(holder.response().text(), "1", "{model}");
        holder.send(GET);
        assert_eq!(holder.response().text(), "2", "{model}: it is borrowed no longer");
        assert_eq!(server.metric("handler_panics_total"), panics, "{model}");
    }
}

/// A value that a handler panics with, and whose drop panics again.
struct PanicsInDrop;

impl Drop for PanicsInDrop {
    fn drop(&mut self) {
        std::panic::resume_unwind(Box::new("without the noise of the hook"));
    }
}

#[test]
fn a_panic_beside_the_handler_costs_no_more_than_its_connection() {
    for model in MODELS {
        let server = model.apply_to(Server::bind("127.0.0.1:0").unwrap());
        let server = server.on_event(|event| {
            if matches!(event, Event::HandlerPanicked { .. }) {
                std::panic::resume_unwind(Box::new("meant to"));
            }
        });
        let running = server
            .spawn(|request, response| match request.path() {
                "/in-drop" => std::panic::resume_unwind(Box::new(PanicsInDrop)),
                "/in-event" => std::panic::resume_unwind(Box::new("meant to")),
                _ => response.send(b""),
            })
            .unwrap();
        for path in ["/in-drop", "/in-event", "/in-event"] {
            let mut client = Client::new(running.local_addr());
            client.send(&get(path));
            client.assert_ends();
        }
        let mut client = Client::new(running.local_addr());
        client.send(GET);
        assert_eq!(client.response().status, 200, "{model:?}");
        drop(client);
        assert_eq!(running.drain(Duration::from_secs(2)).abandoned, 0, "{model:?}");
    }
}
