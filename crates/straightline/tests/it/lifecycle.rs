//! Beginning and ending: shards, drains, sockets handed over.

use crate::support::{Client, MODELS, Model, PATIENCE, TestServer, echo, own_process};
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};
use straightline::{Done, Event, Limits, Request, Response, Server, rt};

#[test]
fn every_shard_serves() {
    let server = TestServer::with(|server| server.workers(3), echo);
    for _ in 0..60 {
        server.assert_serves("nothing");
    }
    let text = server.handle().metrics();
    let busy = (0..3)
        .filter(|shard| {
            let line = format!("straightline_requests_total{{shard=\"{shard}\"}} ");
            text.lines().any(|other| other.starts_with(&line) && !other.ends_with(" 0"))
        })
        .count();
    assert!(busy >= 2, "60 connections fell to {busy} of 3 shards:\n{text}");
    assert_eq!(server.metric("requests_total"), 60);
}

#[test]
fn a_drain_finishes_what_is_begun_and_refuses_the_rest() {
    for model in MODELS {
        let configure = move |server: Server| match model {
            Model::Coroutines => server.workers(2),
            Model::Threads => server.threads(),
        };
        let server = Server::bind("127.0.0.1:0").unwrap();
        let running = configure(server)
            .spawn(|request, response| {
                if request.path() == "/slow" {
                    rt::sleep(Duration::from_millis(200))?;
                    assert!(request.deadline().is_some_and(|deadline| deadline > Instant::now()));
                }
                response.send(request.path().as_bytes())
            })
            .unwrap();
        let address = running.local_addr();
        let (mut busy, mut idle) = (Client::new(address), Client::new(address));
        // With the empty line that some clients send after a request.
        idle.send(b"GET /idle HTTP/1.1\r\nHost: x\r\n\r\n\r\n");
        idle.response();
        busy.send(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n");
        std::thread::sleep(Duration::from_millis(50));
        let start = Instant::now();
        let drained = running.drain(Duration::from_secs(5));
        assert!(start.elapsed() < Duration::from_secs(2), "{model:?}: it waited for the deadline");
        assert_eq!(drained.abandoned, 0, "{model:?}");
        let answer = busy.response();
        assert_eq!(answer.text(), "/slow", "{model:?}");
        assert!(!answer.keep_alive, "{model:?}");
        idle.assert_closed("it was idle");
        assert!(TcpStream::connect(address).is_err(), "{model:?}: nobody listens any more");
    }
}

#[test]
fn a_drain_takes_the_connections_that_wait_to_be_accepted() {
    for model in MODELS {
        // A handler that holds the only shard, or is all that may be, lets connections pile up before the listener.
        let server = Server::bind("127.0.0.1:0").unwrap();
        let server = match model {
            Model::Coroutines => server.workers(1),
            Model::Threads => server.threads().limits(Limits { connections: 1, ..Limits::default() }),
        };
        let running = server
            .spawn(|request, response| {
                if request.path() == "/hold" {
                    std::thread::sleep(Duration::from_millis(150));
                }
                response.send(request.path().as_bytes())
            })
            .unwrap();
        let address = running.local_addr();
        let mut holder = Client::new(address);
        holder.send(b"GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");
        std::thread::sleep(Duration::from_millis(30));
        let mut waiting: Vec<Client> = (0..20).map(|_| Client::new(address)).collect();
        for client in &mut waiting {
            client.send(b"GET /waiting HTTP/1.1\r\nHost: x\r\n\r\n");
        }
        running.handle().drain(Duration::from_secs(5));
        for client in &mut waiting {
            assert_eq!(client.response().text(), "/waiting", "{model:?}");
        }
        assert_eq!(running.join().abandoned, 0, "{model:?}");
    }
}

/// Each shard has a listener of its own, and a queue before it that the kernel resets when it is closed.
#[test]
fn a_drain_resets_nobody_whom_its_listeners_let_in() {
    const CLIENTS: usize = 4;
    for (model, round) in MODELS.into_iter().flat_map(|model| (0..3).map(move |round| (model, round))) {
        let server = Server::bind("127.0.0.1:0").unwrap();
        let server = match model {
            Model::Coroutines => server.workers(3),
            Model::Threads => server.threads(),
        };
        let running = server.spawn(echo).unwrap();
        let address = running.local_addr();
        let clients: [_; CLIENTS] =
            std::array::from_fn(|_| std::thread::spawn(move || connect_until_refused(address)));
        std::thread::sleep(Duration::from_millis(10));
        assert_eq!(running.drain(Duration::from_secs(5)).abandoned, 0, "{model}: round {round}");
        let let_in: usize = clients.into_iter().map(|client| client.join().unwrap()).sum();
        assert!(let_in > CLIENTS, "{model}: the drain came before the clients, {let_in} of whom were let in");
    }
}

/// How many connections were let in before the first that was not. The last of them must end in good order.
fn connect_until_refused(address: SocketAddr) -> usize {
    /// So many are kept: the server has a descriptor for each as well.
    const LAST: usize = 16;
    let (mut count, mut last) = (0, VecDeque::new());
    let refused = loop {
        match TcpStream::connect(address) {
            Ok(stream) => last.push_back(stream),
            Err(error) => break error,
        }
        count += 1;
        // Faster than they are accepted, they would fill the queue, of which the kernel drops what is too much.
        std::thread::sleep(Duration::from_micros(20));
        if last.len() > LAST {
            last.pop_front();
        }
    };
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused, "{refused}");
    for stream in &mut last {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let ended = stream.read(&mut [0; 8]);
        assert!(matches!(ended, Ok(0)), "it said nothing, and is closed without a word: {ended:?}");
    }
    count
}

#[test]
fn at_the_deadline_waits_end_with_an_error() {
    let server = Server::bind("127.0.0.1:0").unwrap().workers(1);
    let running = server
        .spawn(|_, response| {
            let outcome = rt::sleep(Duration::from_secs(60));
            assert!(outcome.as_ref().is_err_and(rt::is_cancelled), "{outcome:?}");
            // Once cancelled, always cancelled; and what need not wait still works.
            assert!(rt::sleep(Duration::from_millis(1)).is_err());
            response.status(503).send(b"ending")
        })
        .unwrap();
    let mut client = Client::new(running.local_addr());
    client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    std::thread::sleep(Duration::from_millis(50));
    let start = Instant::now();
    assert_eq!(running.drain(Duration::from_millis(100)).abandoned, 0);
    assert!(start.elapsed() < Duration::from_secs(1));
    assert_eq!(client.response().text(), "ending");
}

#[test]
fn of_several_deadlines_the_earliest_counts() {
    const FAR: Duration = Duration::from_secs(60);
    for model in MODELS {
        let (tell, told) = std::sync::mpsc::channel();
        let running = model
            .of(Server::bind("127.0.0.1:0").unwrap())
            .spawn(move |request, response| {
                rt::sleep(FAR).ok();
                tell.send(request.deadline()).ok();
                response.send(b"")
            })
            .unwrap();
        let mut client = Client::new(running.local_addr());
        client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
        std::thread::sleep(Duration::from_millis(50));
        let (start, handle) = (Instant::now(), running.handle());
        handle.drain(FAR);
        // Whoever waits for the end has begun to.
        std::thread::sleep(Duration::from_millis(100));
        handle.drain(Duration::from_millis(100));
        handle.drain(FAR);
        // A thread cannot be cancelled, and is left behind.
        let left = usize::from(model == Model::Threads);
        assert_eq!(running.join().abandoned, left, "{model}");
        assert!(start.elapsed() < FAR / 2, "{model}: {:?}", start.elapsed());
        if model == Model::Coroutines {
            assert!(told.recv().unwrap().unwrap() < start + FAR / 2);
        }
    }
}

#[test]
fn a_deadline_may_be_as_far_as_can_be_said() {
    for model in MODELS {
        let running = model.of(Server::bind("127.0.0.1:0").unwrap()).spawn(echo).unwrap();
        assert_eq!(running.drain(Duration::MAX).abandoned, 0, "{model}");
    }
}

/// The kernel would end the connection in good order, and that is how such an answer ends.
#[test]
fn an_answer_that_is_given_up_does_not_seem_whole() {
    let running = Server::bind("127.0.0.1:0")
        .unwrap()
        .workers(1)
        .spawn(|_, response| {
            let mut response = response.start()?;
            response.write_all(b"a part of it")?;
            response.flush()?;
            loop {
                rt::sleep(Duration::from_secs(60)).ok();
            }
        })
        .unwrap();
    let mut client = Client::new(running.local_addr());
    client.send(b"GET / HTTP/1.0\r\n\r\n");
    let mut first = [0; 9];
    client.stream.read_exact(&mut first).unwrap();
    assert_eq!(running.drain(Duration::from_millis(50)).abandoned, 2);
    let ended = client.stream.read_to_end(&mut Vec::new());
    assert!(ended.as_ref().is_err_and(|error| error.kind() == ErrorKind::ConnectionReset), "{ended:?}");
}

#[test]
fn a_handler_that_does_not_listen_is_given_up() {
    let server = Server::bind("127.0.0.1:0").unwrap().workers(1);
    let running = server
        .spawn(|_, _| {
            loop {
                rt::sleep(Duration::from_secs(60)).ok();
            }
        })
        .unwrap();
    let mut client = Client::new(running.local_addr());
    client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    std::thread::sleep(Duration::from_millis(50));
    let start = Instant::now();
    // The coroutine and its connection.
    assert_eq!(running.drain(Duration::from_millis(50)).abandoned, 2);
    assert!(start.elapsed() < Duration::from_secs(3));
    client.assert_ends();
}

#[test]
fn a_listener_of_someone_elses_is_used_as_it_is() {
    for model in MODELS {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let kept = listener.try_clone().unwrap();
        let server = Server::from_listener(listener).unwrap();
        let server = match model {
            Model::Coroutines => server.workers(2),
            Model::Threads => server.threads(),
        };
        let running = server.spawn(echo).unwrap();
        let mut client = Client::new(running.local_addr());
        client.send(b"GET /shared HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_eq!(client.response().text(), "GET /shared 0", "{model:?}");
        drop(client);
        running.drain(Duration::from_secs(2));
        // The socket is still open in other hands: clients can connect, and the next server would serve them.
        let address = kept.local_addr().unwrap();
        let waiting: Vec<_> =
            (0..8).map(|_| TcpStream::connect_timeout(&address, Duration::from_millis(800))).collect();
        assert!(waiting.iter().all(Result::is_ok), "{model:?}: {waiting:?}");
    }
}

/// The service manager's protocol needs a process of its own, whose third descriptor is the socket.
#[test]
fn a_socket_is_handed_over_by_the_service_manager() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = own_process("lifecycle::serve_what_was_handed_over");
    let script = "exec 3<&0; export LISTEN_FDS=1 LISTEN_PID=$$; exec \"$0\" \"$@\"";
    let mut child = std::process::Command::new("sh")
        .args(["-c", script])
        .arg(server.get_program())
        .args(server.get_args())
        .envs(server.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .stdin(std::process::Stdio::from(std::os::fd::OwnedFd::from(listener)))
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut client = Client::new(address);
    client.send(b"GET /handed HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert_eq!(client.response().text(), "GET /handed 0");
    assert!(child.wait().unwrap().success());
}

pub(crate) fn serve_what_was_handed_over() {
    let server = Server::from_systemd().unwrap().workers(1);
    let running = server.spawn(echo).unwrap();
    let handle = running.handle();
    while !handle.metrics().contains("requests_total{shard=\"0\"} 1") {
        std::thread::sleep(Duration::from_millis(5));
    }
    running.drain(Duration::from_secs(1));
}

#[test]
fn the_client_being_gone_is_seen() {
    for model in MODELS {
        let (tell, told) = std::sync::mpsc::channel();
        let server = TestServer::of_model(model, move |request, response| {
            assert!(!request.client_gone());
            for _ in 0..200 {
                if request.client_gone() {
                    tell.send(()).unwrap();
                    break;
                }
                rt::sleep(Duration::from_millis(5))?;
            }
            response.send(b"")
        });
        let mut client = server.connect();
        client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
        std::thread::sleep(Duration::from_millis(30));
        drop(client);
        told.recv_timeout(Duration::from_secs(2)).unwrap_or_else(|_| panic!("{model:?}: not seen"));
        server.until("the connection is gone", |server| server.metric("open_connections") == 0);
    }
}

#[test]
fn the_stacks_of_waiting_handlers_can_be_seen() {
    let server = TestServer::new(wait_and_answer);
    let mut client = server.connect();
    client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    server.until("the handler waits", |server| server.metric("coroutines") == 1);
    for _ in 0..2 {
        let stacks = server.handle().stacks();
        assert!(stacks.contains("shard 0: 1 coroutines suspended"), "{stacks}");
        assert!(stacks.contains("the_function_that_waits"), "{stacks}");
        assert!(stacks.contains("wait_and_answer"), "{stacks}");
    }
    assert_eq!(client.response().status, 200, "it went on after it was looked at");
}

fn wait_and_answer(_: &mut Request<'_>, response: Response<'_>) -> std::io::Result<Done> {
    the_function_that_waits()?;
    response.send(b"")
}

#[inline(never)]
fn the_function_that_waits() -> std::io::Result<()> {
    rt::sleep(Duration::from_millis(600))?;
    std::hint::black_box(());
    Ok(())
}

#[test]
fn metrics_can_be_served_by_the_server_itself() {
    let cell: std::sync::Arc<std::sync::OnceLock<straightline::Handle>> = std::sync::Arc::default();
    // The server owns its handler: a handler that owned the server's handle would keep both for ever.
    let inside = std::sync::Arc::downgrade(&cell);
    let server = TestServer::with(
        |server| server.workers(2),
        move |_, response| response.send(inside.upgrade().unwrap().get().unwrap().metrics().as_bytes()),
    );
    cell.set(server.handle()).unwrap();
    let mut client = server.connect();
    client.send(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    let text = client.response().text();
    assert!(text.contains("straightline_open_connections"), "{text}");
}

#[test]
fn a_signal_drains_and_another_shows_the_stacks() {
    // Signals reach the whole process, so this needs one of its own.
    let output = own_process("lifecycle::serve_until_a_signal").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    let suspended = "shard 0: 1 coroutines suspended";
    for wanted in [suspended, "the_function_that_waits", "draining", "drained in order"] {
        assert!(text.contains(wanted), "no {wanted:?} in {text}");
    }
}

pub(crate) fn serve_until_a_signal() {
    // What hears of events may fail; the signals go on to be heard.
    let tell = |event: Event| {
        writeln!(std::io::stdout(), "{event}").unwrap();
        std::panic::resume_unwind(Box::new("meant to"));
    };
    let server = Server::bind("127.0.0.1:0").unwrap().workers(1);
    let server = server.on_event(tell).on_signals(Duration::from_secs(2));
    let running = server.spawn(wait_and_answer).unwrap();
    let mut client = Client::new(running.local_addr());
    client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    while !running.handle().metrics().contains("straightline_coroutines{shard=\"0\"} 1") {
        std::thread::sleep(Duration::from_millis(2));
    }
    let me = rustix::process::getpid();
    rustix::process::kill_process(me, rustix::process::Signal::USR1).unwrap();
    assert_eq!(client.response().status, 200, "it went on after it was looked at");
    rustix::process::kill_process(me, rustix::process::Signal::TERM).unwrap();
    assert_eq!(running.join().abandoned, 0);
    writeln!(std::io::stdout(), "drained in order").unwrap();
}

#[test]
fn the_same_handler_runs_on_both_models() {
    let mut seen = Vec::new();
    for model in MODELS {
        let server = TestServer::of_model(model, |request, response| {
            let mut body = String::new();
            request.read_to_string(&mut body)?;
            rt::sleep(Duration::from_millis(1))?;
            let upper = rt::blocking(move || body.to_uppercase())?;
            let joined = rt::spawn(move || upper.len()).join()?;
            response.send(joined.to_string().as_bytes())
        });
        let mut client = server.connect();
        client.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello");
        seen.push(client.response().text());
    }
    assert_eq!(seen, ["5", "5"]);
}
