//! Limits and times, each at the value where it begins to hold.

use crate::support::{Client, MODELS, Model, PATIENCE, TestServer, echo, number_of, own_process};
use http1::HeadLimits;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant};
use straightline::{Error, Limits, Server, rt};

const SHORT: Duration = Duration::from_millis(150);

fn limited(model: Model, limits: Limits) -> TestServer {
    TestServer::with(|server| model.apply_to(server).limits(limits), echo)
}

#[test]
fn sizes_are_limited_at_their_limit() {
    for model in MODELS {
        let server = TestServer::of_model(model, echo);
        let with_target =
            |length: usize| format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "t".repeat(length - 1));
        let with_fields =
            |count: usize| format!("GET / HTTP/1.1\r\nHost: x\r\n{}\r\n", "A: b\r\n".repeat(count - 1));
        let with_head = |length: usize| {
            let rest = "GET / HTTP/1.1\r\nHost: x\r\nA: \r\n\r\n".len();
            format!("GET / HTTP/1.1\r\nHost: x\r\nA: {}\r\n\r\n", "v".repeat(length - rest))
        };
        for (name, request, status) in [
            ("the longest target", with_target(8 * 1024), 200),
            ("a longer target", with_target(8 * 1024 + 1), 414),
            ("the most fields", with_fields(100), 200),
            ("one more field", with_fields(101), 431),
            ("the longest head", with_head(32 * 1024), 200),
            ("a longer head", with_head(32 * 1024 + 1), 431),
            ("a head without end", "GET / HTTP/1.1\r\nA: ".to_owned() + &"v".repeat(100_000), 431),
        ] {
            let mut client = server.connect();
            client.send(request.as_bytes());
            assert_eq!(client.response().status, status, "{model}: {name}");
        }
    }
}

#[test]
fn too_long_a_target_is_refused_before_its_line_ends() {
    for model in MODELS {
        let server = limited(model, Limits::default());
        let mut client = server.connect();
        client.send(b"GET /");
        for _ in 0..3 {
            std::thread::sleep(Duration::from_millis(20));
            client.send(&[b'a'; 4 * 1024]);
        }
        let sent = Instant::now();
        assert_eq!(client.response().status, 414, "{model:?}");
        assert!(sent.elapsed() < Limits::default().head_time / 2, "{model:?}");
        client.assert_ends();
    }
}

#[test]
fn bodies_are_as_long_as_the_handler_says() {
    for model in MODELS {
        let server = TestServer::of_model(model, |request, response| {
            request.limit_body(10)?;
            echo(request, response)
        });
        for (name, request, status) in [
            ("at the limit", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n0123456789", 200),
            ("over it, and said so", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\n\r\n", 413),
            (
                "over it in chunks",
                "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n6\r\n012345\r\n6\r\n012345\r\n0\r\n\r\n",
                413,
            ),
        ] {
            let mut client = server.connect();
            client.send(request.as_bytes());
            assert_eq!(client.response().status, status, "{model:?}: {name}");
        }
        let server = limited(model, Limits { body_bytes: 4, ..Limits::default() });
        let mut client = server.connect();
        client.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n01234");
        assert_eq!(client.response().status, 413, "{model:?}: over the limit of the server");
    }
}

#[test]
fn a_slow_head_is_refused_in_time() {
    for model in MODELS {
        let server = limited(model, Limits { head_time: SHORT, ..Limits::default() });
        let start = Instant::now();
        let mut client = server.connect();
        client.send(b"GET / HTTP/1.1\r\nHost: x\r\n");
        // More bytes do not buy more time: they come until it is over.
        while server.metric("timeouts_total") == 0 && start.elapsed() < SHORT * 20 {
            client.send(b"A: b\r\n");
            std::thread::sleep(SHORT / 4);
        }
        let answer = client.response();
        assert_eq!((answer.status, answer.keep_alive), (408, false), "{model:?}");
        let took = start.elapsed();
        assert!(took >= SHORT && took < SHORT * 20, "{model:?}: {took:?}");
        client.assert_closed("too slow");
    }
}

#[test]
fn a_silent_connection_is_closed_without_a_word() {
    for model in MODELS {
        let server = limited(model, Limits { head_time: SHORT, idle_time: SHORT * 2, ..Limits::default() });
        let start = Instant::now();
        let mut client = server.connect();
        client.assert_closed("it said nothing");
        assert!(start.elapsed() >= SHORT, "{model:?}");

        // An empty line after a request begins no other.
        for request in ["GET / HTTP/1.1\r\nHost: x\r\n\r\n", "GET / HTTP/1.1\r\nHost: x\r\n\r\n\r\n"] {
            let mut client = server.connect();
            client.send(request.as_bytes());
            client.response();
            let start = Instant::now();
            client.assert_closed("it was idle");
            let took = start.elapsed();
            assert!(took >= SHORT && took < SHORT * 8, "{model:?}: {took:?}");
        }
    }
}

#[test]
fn a_slow_body_is_refused_once_its_grace_is_used_up() {
    for model in MODELS {
        let limits = Limits { body_grace: SHORT, body_bytes_per_s: 1_000, ..Limits::default() };
        let server = limited(model, limits);
        let start = Instant::now();
        let mut client = server.connect();
        client.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n");
        // A hundred bytes buy a tenth of a second.
        client.send(&[b'x'; 100]);
        let answer = client.response();
        assert_eq!((answer.status, answer.keep_alive), (408, false), "{model:?}");
        let took = start.elapsed();
        assert!(took >= SHORT && took < SHORT * 8, "{model:?}: {took:?}");
        assert_eq!(server.metric("timeouts_total"), 1, "{model:?}");

        let mut client = server.connect();
        client.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n");
        for _ in 0..20 {
            std::thread::sleep(Duration::from_millis(20));
            client.send(&[b'x'; 50]);
        }
        assert_eq!(client.response().status, 200, "{model:?}: it was fast enough");
    }
}

#[test]
fn a_refused_client_is_not_listened_to_for_ever() {
    for model in MODELS {
        let server = limited(model, Limits { linger_time: SHORT, ..Limits::default() });
        let start = Instant::now();
        let mut client = server.connect();
        client.send(b"no request\r\n\r\n");
        assert_eq!(client.response().status, 400, "{model}");
        client.assert_closed("it was refused");
        while server.metric("open_connections") > 0 {
            assert!(start.elapsed() < SHORT * 40, "{model}: it is listened to as long as it sends");
            client.send(b"more");
            std::thread::sleep(SHORT / 8);
        }
        assert!(start.elapsed() >= SHORT, "{model}: it could not have sent the rest");
    }
}

#[test]
fn an_upgraded_client_that_says_nothing_is_given_up() {
    for model in MODELS {
        let limits = Limits { idle_time: SHORT, ..Limits::default() };
        let server = TestServer::with(
            move |server| model.apply_to(server).limits(limits),
            |request, response| {
                let mut stream = response.upgrade(request, "echo")?;
                stream.read_exact(&mut [0])?;
                Ok(stream.finish())
            },
        );
        let start = Instant::now();
        let mut client = server.connect();
        client.send(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n");
        assert_eq!(client.response_to(true).status, 101, "{model}");
        client.assert_ends();
        assert!(start.elapsed() >= SHORT && start.elapsed() < SHORT * 20, "{model}: {:?}", start.elapsed());
    }
}

#[test]
fn a_client_that_takes_nothing_is_given_up() {
    for model in MODELS {
        let limits = Limits { write_stall: SHORT, ..Limits::default() };
        let configure = move |server: Server| match model {
            Model::Coroutines => server.workers(1).limits(limits),
            Model::Threads => server.threads().limits(limits),
        };
        let large = vec![b'x'; 16 * 1024 * 1024];
        let server = TestServer::with(configure, move |_, response| response.send(&large));
        let mut client = server.connect();
        client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
        server.until("the connection is given up", |server| {
            server.metric("accepted_total") == 1 && server.metric("open_connections") == 0
        });
        assert_eq!(server.metric("timeouts_total"), 1, "{model:?}");
        let mut got = Vec::new();
        client.stream.read_to_end(&mut got).ok();
        assert!(got.len() < 16 * 1024 * 1024, "{model:?}");
    }
}

#[test]
fn what_a_client_sends_buys_it_no_time_to_take_its_answers() {
    const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    let limits = Limits { write_stall: SHORT, ..Limits::default() };
    let server = TestServer::with(
        move |server| server.workers(1).limits(limits),
        |_, response| {
            // So little that no handler waits for room, but the connection after it.
            let mut response = response.start()?;
            (0..4).try_for_each(|_| response.write_all(&[b'x'; 15_000]))?;
            response.end()
        },
    );
    let mut client = server.connect();
    let answered = |asked: u64| {
        let start = Instant::now();
        while server.metric("requests_total") < asked && start.elapsed() < SHORT / 2 {
            std::thread::sleep(Duration::from_millis(1));
        }
        server.metric("requests_total") >= asked
    };
    let mut asked = 0;
    while asked == 0 || answered(asked) {
        client.send(GET);
        asked += 1;
    }
    let start = Instant::now();
    while server.metric("open_connections") > 0 {
        assert!(start.elapsed() < SHORT * 10, "it was kept for what it sent");
        client.send(b"G");
        std::thread::sleep(SHORT / 8);
    }
    assert_eq!(server.metric("timeouts_total"), 1);
}

#[test]
fn a_body_that_came_fast_buys_no_silence() {
    for model in MODELS {
        let server = limited(model, Limits { idle_time: SHORT * 2, ..Limits::default() });
        let mut client = server.connect();
        client.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n");
        client.send(&[b'x'; 500_000]);
        let start = Instant::now();
        assert_eq!(client.response().status, 408, "{model:?}");
        let took = start.elapsed();
        assert!(took >= SHORT && took < SHORT * 12, "{model:?}: {took:?}");
    }
}

#[test]
fn what_a_handler_does_between_its_reads_is_not_the_time_of_the_client() {
    const GRACE: Duration = Duration::from_millis(500);
    for model in MODELS {
        let limits =
            Limits { body_grace: GRACE, body_bytes_per_s: 1_000, idle_time: SHORT, ..Limits::default() };
        let configure = move |server: Server| match model {
            Model::Coroutines => server.workers(1).limits(limits),
            Model::Threads => server.threads().limits(limits),
        };
        let server = TestServer::with(configure, |request, response| {
            let mut first = [0; 5];
            request.read_exact(&mut first)?;
            rt::sleep(GRACE + SHORT)?;
            echo(request, response)
        });
        let mut client = server.connect();
        client.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n");
        std::thread::sleep(SHORT / 10);
        client.send(b"first");
        std::thread::sleep(GRACE + SHORT + SHORT / 5);
        client.send(b"later");
        assert_eq!(client.response().text(), "POST / 5", "{model:?}");
        assert_eq!(server.metric("timeouts_total"), 0, "{model:?}: a handler may take its time");
    }
}

#[test]
fn connections_over_the_limit_wait_for_others_to_end() {
    for model in MODELS {
        let server = limited(model, Limits { connections: 2, ..Limits::default() });
        let request = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";
        let mut clients: Vec<_> = (0..3).map(|_| server.connect()).collect();
        for client in &mut clients[..2] {
            client.send(request);
            client.response();
        }
        clients[2].send(request);
        std::thread::sleep(Duration::from_millis(60));
        assert_eq!(server.metric("requests_total"), 2, "{model:?}");
        drop(clients.remove(0));
        assert_eq!(clients[1].response().status, 200, "{model:?}");
    }
}

#[test]
fn connections_that_wait_too_long_are_told_and_the_next_is_served() {
    std::thread::scope(|scope| MODELS.map(|model| drop(scope.spawn(move || turn_one_away(model)))));
}

fn turn_one_away(model: Model) {
    let server = limited(model, Limits { connections: 1, ..Limits::default() });
    let mut holder = server.connect();
    holder.send(&get("/held"));
    assert_eq!(holder.response().status, 200, "{model}");
    let (start, mut waits) = (Instant::now(), server.connect());
    waits.send(&get("/waits"));
    let answer = waits.response();
    assert_eq!((answer.status, answer.header("retry-after").as_deref()), (503, Some("5")), "{model}");
    assert!(start.elapsed() > Duration::from_secs(4), "{model}: {:?}", start.elapsed());
    waits.assert_closed("there is no room for it");
    holder.send(&get("/still-held"));
    assert_eq!(holder.response().status, 200, "{model}: who has a connection keeps it");
    drop(holder);
    server.until("there is room", |server| server.metric("open_connections") == 0);
    server.assert_serves("one that was turned away");
    assert_eq!((server.metric("refused_total"), server.metric("requests_total")), (1, 3), "{model}");
}

fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").into_bytes()
}

/// The order in which requests reach their handler says it, not the time that it takes.
#[test]
fn others_have_their_turn_after_so_many_pipelined_requests() {
    for pipelined in [3, Limits::default().pipelined] {
        let limits = Limits { pipelined, ..Limits::default() };
        let (open, gate) = mpsc::channel();
        let (gate, (tell, order)) = (Mutex::new(gate), mpsc::channel());
        let server = TestServer::with(
            |server| server.workers(1).limits(limits),
            move |request, response| {
                tell.send(request.path().to_owned()).unwrap();
                if request.path() == "/hold" {
                    // It holds the shard, which then finds all the others at once.
                    gate.lock().unwrap().recv_timeout(PATIENCE).unwrap();
                }
                response.send(b"")
            },
        );
        let mut clients: Vec<Client> = (0..3).map(|_| server.connect()).collect();
        for client in &mut clients {
            client.send(&get("/begin"));
            assert_eq!(client.response().status, 200);
            assert_eq!(order.recv().unwrap(), "/begin");
        }
        let [holder, many, one] = &mut clients[..] else { unreachable!() };
        holder.send(&get("/hold"));
        assert_eq!(order.recv().unwrap(), "/hold");
        many.send(&get("/many").repeat(3 * usize::from(pipelined) + 1));
        one.send(&get("/one"));
        open.send(()).unwrap();
        assert_eq!(one.response().status, 200);
        let before = order.iter().take_while(|path| path == "/many").count();
        assert_eq!(before, usize::from(pipelined), "requests before the other connection was served");
        (0..=3 * pipelined).for_each(|_| assert_eq!(many.response().status, 200));
    }
}

/// A handler that holds the shard waits for the client to have what was answered before it.
#[test]
fn answers_of_64_kib_go_out_before_the_next_request_is_served() {
    /// Four of them are less than 64 KiB, and copied: what is larger goes out by itself.
    const BODY: &[u8] = &[b'x'; 15_000];
    for model in MODELS {
        let (open, gate) = mpsc::channel();
        let gate = Mutex::new(gate);
        let server = TestServer::of_model(model, move |request, response| {
            if request.path() == "/hold" {
                gate.lock().unwrap().recv_timeout(PATIENCE / 2).unwrap();
            }
            response.send(BODY)
        });
        let mut client = server.connect();
        client.send(&[get("/").repeat(5), get("/hold")].concat());
        (0..5).for_each(|_| assert_eq!(client.response().body, BODY, "{model}"));
        open.send(()).unwrap();
        assert_eq!(client.response().status, 200, "{model}: it waited for what had gone out");
    }
}

#[test]
fn the_limits_are_on_by_default() {
    let promised = Limits {
        head: HeadLimits { head_bytes: 32 * 1024, headers: 100, target_bytes: 8 * 1024 },
        head_time: Duration::from_secs(15),
        idle_time: Duration::from_secs(60),
        write_stall: Duration::from_secs(30),
        body_grace: Duration::from_secs(5),
        body_bytes_per_s: 240,
        pipelined: 64,
        connections: 16 * 1024,
        ..Limits::default()
    };
    assert_eq!(Limits::default(), promised);
}

/// The variable that says which of the allowed sizes a stack has, in bytes.
const STACK_BYTES: &str = "STRAIGHTLINE_STACK_BYTES";

/// One that overflows ends its process.
#[test]
fn the_smallest_and_the_largest_stack_hold_what_they_say() {
    for bytes in [rt::STACK_BYTES_MIN, rt::STACK_BYTES_MAX] {
        let mut process = own_process("limits::use_most_of_a_stack");
        let output = process.env(STACK_BYTES, bytes.to_string()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{bytes}: {text}");
    }
}

pub(crate) fn use_most_of_a_stack() {
    /// What the server has above the handler, and a wait below it, in bytes.
    const REST: usize = 16 * 1024;
    const CLIENTS: usize = 4;
    let bytes = number_of(STACK_BYTES).unwrap() as usize;
    let (open, gate) = rt::channel(CLIENTS);
    let server = TestServer::with(
        |server| server.workers(1).stack_bytes(bytes),
        move |request, response| {
            let mark = request.path().as_bytes()[1];
            let whole = fill_stack(None, bytes - REST, mark, &|| gate.recv().map(drop))?;
            response.send(whole.to_string().as_bytes())
        },
    );
    for _ in 0..2 {
        let mut clients: Vec<Client> = (0..CLIENTS).map(|_| server.connect()).collect();
        clients.iter_mut().zip(["/a", "/b", "/c", "/d"]).for_each(|(client, path)| client.send(&get(path)));
        server.until("all of them wait", |server| server.metric("coroutines") == CLIENTS as u64);
        let deepest = server.metric("stack_high_water_bytes") as usize;
        assert!((bytes - REST..=bytes).contains(&deepest), "{deepest} of {bytes}");
        (0..CLIENTS).for_each(|_| open.send(()).unwrap());
        clients.iter_mut().for_each(|client| assert_eq!(client.response().text(), "true"));
    }
}

/// Fills the stack with `mark` from `top` on, so many bytes down, waits there, and says whether all is as it was.
#[inline(never)]
fn fill_stack(
    top: Option<usize>,
    bytes: usize,
    mark: u8,
    wait: &dyn Fn() -> io::Result<()>,
) -> io::Result<bool> {
    let mut frame = [mark; 1024];
    let here = std::ptr::from_mut(std::hint::black_box(&mut frame)) as usize;
    let top = top.unwrap_or(here);
    let whole =
        if top - here < bytes { fill_stack(Some(top), bytes, mark, wait)? } else { wait().map(|()| true)? };
    Ok(whole && *std::hint::black_box(&frame) == [mark; 1024])
}

/// The smallest is as large as what prints a panic needs, also with all that led to it.
#[test]
fn a_panic_fits_the_smallest_stack() {
    for backtrace in ["0", "1", "full"] {
        let mut process = own_process("limits::panic_on_the_smallest_stack");
        let output = process.env("RUST_BACKTRACE", backtrace).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{backtrace}: {text}");
        let told = text.contains("meant to, by 7") && text.contains("stack backtrace") == (backtrace != "0");
        assert!(told, "{backtrace}: {text}");
    }
}

pub(crate) fn panic_on_the_smallest_stack() {
    let server = TestServer::with(
        |server| server.workers(1).stack_bytes(rt::STACK_BYTES_MIN),
        |request, _| panic!("meant to, by {}", request.path().len()),
    );
    let mut client = server.connect();
    client.send(&get("/panics"));
    assert_eq!(client.response().status, 500);
}

#[test]
fn what_cannot_be_is_refused_at_the_start() {
    let start = |configure: fn(Server) -> Server| {
        let server = configure(Server::bind("127.0.0.1:0").unwrap());
        server.spawn(echo).map(|_| ()).unwrap_err()
    };
    let limit = |limits: Limits| {
        let server = Server::bind("127.0.0.1:0").unwrap().limits(limits);
        server.spawn(echo).map(|_| ()).unwrap_err()
    };
    let head = |head| limit(Limits { head, ..Limits::default() });
    for (error, wanted) in [
        (start(|server| server.workers(0)), "workers"),
        (start(|server| server.workers(5_000)), "workers"),
        (start(|server| server.stack_bytes(32 * 1024)), "stack_bytes"),
        (start(|server| server.stack_bytes(64 * 1024 - 4096)), "stack_bytes"),
        (start(|server| server.stack_bytes(1024 * 1024 + 4096)), "stack_bytes"),
        (start(|server| server.stack_bytes(2 * 1024 * 1024)), "stack_bytes"),
        (start(|server| server.stack_bytes(100_000)), "stack_bytes"),
        (start(|server| server.hold_limit(Duration::ZERO)), "hold_limit"),
        (limit(Limits { connections: 0, ..Limits::default() }), "connections"),
        (limit(Limits { pipelined: 0, ..Limits::default() }), "pipelined"),
        (limit(Limits { body_bytes_per_s: 0, ..Limits::default() }), "body_bytes_per_s"),
        (limit(Limits { idle_time: Duration::ZERO, ..Limits::default() }), "idle_time"),
        (limit(Limits { head_time: Duration::MAX, ..Limits::default() }), "head_time"),
        (limit(Limits { write_stall: Duration::ZERO, ..Limits::default() }), "write_stall"),
        (limit(Limits { linger_time: Duration::ZERO, ..Limits::default() }), "linger_time"),
        (limit(Limits { body_grace: Duration::MAX, ..Limits::default() }), "body_grace"),
        (limit(Limits { connections: (1 << 20) + 1, ..Limits::default() }), "connections"),
        (head(HeadLimits { head_bytes: 40_000, ..HeadLimits::DEFAULT }), "head.head_bytes"),
        (head(HeadLimits { head_bytes: 17, ..HeadLimits::DEFAULT }), "head.head_bytes"),
        (head(HeadLimits { headers: 0, ..HeadLimits::DEFAULT }), "head.headers"),
        (head(HeadLimits { headers: 101, ..HeadLimits::DEFAULT }), "head.headers"),
        (head(HeadLimits { target_bytes: 0, ..HeadLimits::DEFAULT }), "head.target_bytes"),
    ] {
        assert!(matches!(error, Error::Limit { name, .. } if name == wanted), "{wanted}: {error}");
        assert!(error.to_string().contains(wanted), "{error}");
    }
}

#[test]
fn an_address_that_cannot_be_bound_is_a_clear_error() {
    let taken = Server::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr();
    assert!(matches!(Server::bind(address), Err(Error::PortInUse(other)) if other == address));
    assert!(matches!(Server::bind("192.0.2.1:0"), Err(Error::NotOurAddress(_))));
    assert!(matches!(Server::bind("no address"), Err(Error::Address(_))));
    assert!(matches!(Server::from_systemd(), Err(Error::NoSocketHandedOver)));
    // What a service manager that accepts by itself hands over is a connection.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let connection = TcpListener::from(std::os::fd::OwnedFd::from(stream));
    assert!(matches!(Server::from_listener(connection), Err(Error::NotListening)));
}
