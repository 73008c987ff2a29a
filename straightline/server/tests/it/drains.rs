//! Ending: drains, and what a deadline cuts off.

use crate::support::{Client, MODELS, Model, PATIENCE, echo};
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use straightline::{Event, Limits, Server, rt};

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
    /// Faster than they are accepted, they would fill the queue, of which the kernel drops what is too much.
    const GAP: Duration = Duration::from_micros(20);
    for (model, round) in MODELS.into_iter().flat_map(|model| (0..3).map(move |round| (model, round))) {
        let server = Server::bind("127.0.0.1:0").unwrap();
        let server = match model {
            Model::Coroutines => server.workers(3),
            Model::Threads => server.threads(),
        };
        let running = server.spawn(echo).unwrap();
        let address = running.local_addr();
        let clients: [_; CLIENTS] =
            std::array::from_fn(|_| std::thread::spawn(move || connect_until_refused(address, GAP)));
        std::thread::sleep(Duration::from_millis(10));
        assert_eq!(running.drain(Duration::from_secs(5)).abandoned, 0, "{model}: round {round}");
        let let_in: usize = clients.into_iter().map(|client| client.join().unwrap()).sum();
        assert!(let_in > CLIENTS, "{model}: the drain came before the clients, {let_in} of whom were let in");
    }
}

/// How many connections were let in before the first that was not, with a `gap` between them. The last of them must end in good
/// order.
pub(crate) fn connect_until_refused(address: SocketAddr, gap: Duration) -> usize {
    /// So many are kept: the server has a descriptor for each as well.
    const LAST: usize = 16;
    let (mut count, mut last) = (0, VecDeque::new());
    let refused = loop {
        match TcpStream::connect(address) {
            Ok(stream) => last.push_back(stream),
            Err(error) => break error,
        }
        count += 1;
        std::thread::sleep(gap);
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
            .apply_to(Server::bind("127.0.0.1:0").unwrap())
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
        let running = model.apply_to(Server::bind("127.0.0.1:0").unwrap()).spawn(echo).unwrap();
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
fn a_shard_that_is_held_at_the_deadline_is_left_behind() {
    let (let_go, held) = std::sync::mpsc::channel::<()>();
    let (begun, begins) = std::sync::mpsc::channel();
    let held = std::sync::Mutex::new(held);
    let events = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&events);
    let server = Server::bind("127.0.0.1:0").unwrap().workers(2).name("the holder");
    let running = server
        .on_event(move |event| heard.lock().unwrap().push(event))
        .spawn(move |_, response| {
            begun.send(()).map_err(std::io::Error::other)?;
            held.lock().unwrap().recv_timeout(4 * PATIENCE).map_err(std::io::Error::other)?;
            response.send(b"")
        })
        .unwrap();
    let address = running.local_addr();
    let mut client = Client::new(address);
    client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    begins.recv_timeout(PATIENCE).unwrap();
    let start = Instant::now();
    assert_eq!(running.drain(Duration::from_millis(200)).abandoned, 1, "its one connection");
    let took = start.elapsed();
    assert!((Duration::from_millis(200)..Duration::from_millis(900)).contains(&took), "{took:?}");
    let left = |event: &Event| matches!(event, Event::ShardLeft { handler: "the holder", .. });
    assert_eq!(events.lock().unwrap().iter().filter(|event| left(event)).count(), 1);
    let late = TcpStream::connect_timeout(&address, Duration::from_millis(100));
    assert!(late.is_err(), "nobody listens any more");
    // It ends by itself once it is let go, and its client has its answer.
    let_go.send(()).unwrap();
    assert_eq!(client.response().status, 200);
    client.assert_ends();
}

#[test]
fn what_begins_after_the_deadline_is_cancelled_as_well() {
    let running = Server::bind("127.0.0.1:0")
        .unwrap()
        .workers(1)
        .spawn(|_, response| {
            let outcome = rt::sleep(Duration::from_secs(60));
            rt::spawn(|| rt::sleep(Duration::from_secs(60)));
            outcome?;
            response.send(b"")
        })
        .unwrap();
    let mut client = Client::new(running.local_addr());
    client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    std::thread::sleep(Duration::from_millis(50));
    // It goes when it has its answer, which is an error, and does not keep its connection open.
    let client = std::thread::spawn(move || client.response());
    assert_eq!(running.drain(Duration::from_millis(50)).abandoned, 0);
    let answer = client.join().unwrap();
    assert_eq!((answer.status, answer.text().as_str()), (503, "the request was cancelled\n"));
    assert_eq!(answer.header("connection").as_deref(), Some("close"));
}
