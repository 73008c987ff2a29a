//! Beginning and ending: shards, signals, sockets handed over.

use crate::support::{Client, MODELS, Model, PATIENCE, TestServer, echo, in_own_process, own_process, say};
use rustix::process::{Signal, getpid, kill_process};
use rustix::thread::{CpuSet, sched_getaffinity};
use std::collections::BTreeSet;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use straightline::{Done, Error, Event, Request, Response, Server, rt};

#[test]
fn who_connects_to_a_shard_that_is_held_is_served_by_another() {
    let (let_go, held) = std::sync::mpsc::channel::<()>();
    let (begun, begins) = std::sync::mpsc::channel();
    let held = std::sync::Mutex::new(held);
    let server = TestServer::with(
        |server| server.workers(2),
        move |request, response| {
            if request.path() == "/hold" {
                begun.send(()).map_err(std::io::Error::other)?;
                // It blocks the thread, and with it the shard.
                held.lock().unwrap().recv_timeout(4 * PATIENCE).map_err(std::io::Error::other)?;
            }
            response.send(b"")
        },
    );
    let mut holder = server.connect();
    holder.send(b"GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");
    begins.recv_timeout(PATIENCE).unwrap();
    // Without help about half of them would wait for the end of what holds the shard.
    for _ in 0..30 {
        server.assert_serves("another client held a shard");
    }
    let_go.send(()).unwrap();
    assert_eq!(holder.response().status, 200);
    assert_eq!((server.metric("accepted_total"), server.metric("requests_total")), (31, 31));
}

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

/// The CPUs that this thread may use.
fn my_cpus() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap();
    (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect()
}

#[test]
fn each_shard_has_a_cpu_of_its_own_where_there_are_as_many() {
    let all = my_cpus();
    let each: BTreeSet<String> = all.iter().map(|cpu| format!("{:?}", [cpu])).collect();
    let any = BTreeSet::from([format!("{all:?}")]);
    for (workers, wanted) in [(None, &each), (Some(all.len()), &each), (Some(all.len() + 1), &any)] {
        let server = TestServer::with(
            |server| workers.into_iter().fold(server, Server::workers),
            |_, response| response.send(format!("{:?}", my_cpus()).as_bytes()),
        );
        let shards = workers.unwrap_or(all.len());
        // So often that each shard is asked.
        let seen: BTreeSet<String> = (0..shards * 40)
            .map(|_| {
                let mut client = server.connect();
                client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
                client.response().text()
            })
            .collect();
        assert_eq!(seen, *wanted, "{workers:?}");
    }
    assert_eq!(my_cpus(), all, "whoever starts a server stays where it was");
}

/// A helper that had the one CPU of the shard which called for it would hold up that shard, and all helpers each other.
#[test]
fn work_on_a_helper_thread_may_use_every_cpu() {
    // Helpers outlive their server, and those of other tests may be there already.
    in_own_process("lifecycle::ask_for_the_cpus_of_helpers");
}

pub(crate) fn ask_for_the_cpus_of_helpers() {
    let all = my_cpus();
    let server = TestServer::with(
        |server| server.workers(all.len()),
        |_, response| response.send(format!("{:?}", rt::blocking(my_cpus)?).as_bytes()),
    );
    let mut client = server.connect();
    client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(client.response().text(), format!("{all:?}"));
}

#[test]
fn the_stack_of_what_is_suspended_for_good_can_be_read() {
    let running = Server::bind("127.0.0.1:0")
        .unwrap()
        .workers(1)
        .spawn(|_, response| {
            let deaf = rt::spawn(|| {
                loop {
                    the_function_that_waits().ok();
                }
            });
            rt::yield_now()?;
            deaf.cancel();
            response.send(b"")
        })
        .unwrap();
    let mut client = Client::new(running.local_addr());
    client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(client.response().status, 200);
    for _ in 0..2 {
        let stacks = running.handle().stacks();
        assert!(stacks.contains("the_function_that_waits"), "{stacks}");
    }
    assert_eq!(running.drain(Duration::from_millis(50)).abandoned, 1);
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

/// A process as a service manager starts it, with two sockets from descriptor 3 on, and what it says of them.
fn handed_over(part: &str, sockets: [TcpListener; 2], said: &str) -> Child {
    let process = own_process(part);
    let script = format!("exec 3<&0 4<&2 0</dev/null 2>&1; export {said}; exec \"$0\" \"$@\"");
    let [first, second] = sockets.map(|socket| Stdio::from(OwnedFd::from(socket)));
    let mut command = Command::new("sh");
    command.args(["-c", &script]).arg(process.get_program()).args(process.get_args());
    command.envs(process.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.stdin(first).stderr(second).stdout(Stdio::piped()).spawn().unwrap()
}

/// What was handed over must have been found good.
fn assert_ended_well(process: Child, said: &str) {
    let output = process.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{said}: {text}");
}

#[test]
fn the_first_socket_that_the_service_manager_hands_over_is_served() {
    for count in [1, 2] {
        let sockets = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let [first, second] = [0, 1].map(|index: usize| sockets[index].local_addr().unwrap());
        let said = format!("LISTEN_FDS={count} LISTEN_PID=$$");
        let process = handed_over("lifecycle::serve_what_was_handed_over", sockets, &said);
        let mut client = Client::new(first);
        client.send(b"GET /handed HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_eq!(client.response().text(), "GET /handed 0", "{said}");
        // Nobody would serve who connects to another, so nobody can; of what is not handed over nothing is known.
        let (start, is_ours) = (Instant::now(), count > 1);
        while is_ours && TcpStream::connect(second).is_ok() {
            assert!(start.elapsed() < PATIENCE, "{said}: a client would wait for ever");
            std::thread::sleep(PATIENCE / 100);
        }
        assert_eq!(TcpStream::connect(second).is_err(), is_ours, "{said}");
        client.send(b"GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        assert_eq!(client.response().text(), "GET /last 0", "{said}");
        assert_ended_well(process, &said);
    }
}

pub(crate) fn serve_what_was_handed_over() {
    let server = Server::from_systemd().unwrap().workers(1);
    assert!(matches!(Server::from_systemd(), Err(Error::NoSocketHandedOver)), "a socket has one owner");
    let running = server.spawn(echo).unwrap();
    let (start, handle) = (Instant::now(), running.handle());
    while !handle.metrics().contains("requests_total{shard=\"0\"} 2\n") {
        assert!(start.elapsed() < 3 * PATIENCE, "nobody asks");
        std::thread::sleep(Duration::from_millis(5));
    }
    running.drain(Duration::from_secs(1));
}

#[test]
fn what_is_handed_to_another_process_is_not_ours() {
    for said in [
        "LISTEN_FDS=1 LISTEN_PID=1",
        "LISTEN_FDS=1 LISTEN_PID=",
        "LISTEN_FDS=1",
        "LISTEN_FDS=0 LISTEN_PID=$$",
        "LISTEN_FDS=-1 LISTEN_PID=$$",
        "LISTEN_FDS=one LISTEN_PID=$$",
        "LISTEN_PID=$$",
    ] {
        let sockets = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        assert_ended_well(handed_over("lifecycle::find_nothing_handed_over", sockets, said), said);
    }
}

pub(crate) fn find_nothing_handed_over() {
    assert!(matches!(Server::from_systemd(), Err(Error::NoSocketHandedOver)));
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

/// The signals that drain a server.
const DRAINING: [Signal; 2] = [Signal::TERM, Signal::INT];
/// The variable that says which of them a process is to send itself, by its number.
const SIGNAL: &str = "STRAIGHTLINE_SIGNAL";

#[test]
fn either_signal_drains_and_another_shows_the_stacks() {
    let both = MODELS.into_iter().flat_map(|model| DRAINING.map(|signal| (model, signal)));
    std::thread::scope(|scope| {
        both.for_each(|(model, signal)| drop(scope.spawn(move || drain_by(model, signal))));
    });
}

/// Signals reach the whole process, so this needs one of its own.
fn drain_by(model: Model, signal: Signal) {
    let mut process = own_process("lifecycle::serve_until_a_signal");
    process.env(Model::VARIABLE, model.to_string()).env(SIGNAL, signal.as_raw().to_string());
    let output = process.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{model}: {signal:?}: {text}\n{errors}");
    let stacks = match model {
        Model::Coroutines => ["shard 0: 1 coroutines suspended", "the_function_that_waits"],
        Model::Threads => ["no coroutines", "every connection has a thread"],
    };
    for wanted in [stacks[0], stacks[1], "draining", "drained in order"] {
        assert!(text.contains(wanted), "{model}: {signal:?}: no {wanted:?} in {text}");
    }
}

pub(crate) fn serve_until_a_signal() {
    let signal = std::env::var(SIGNAL).unwrap();
    let signal = *DRAINING.iter().find(|known| known.as_raw().to_string() == signal).unwrap();
    // What hears of events may fail; the signals go on to be heard.
    let tell = |event: Event| {
        say(&event.to_string());
        std::panic::resume_unwind(Box::new("meant to"));
    };
    let server = Model::asked_for().apply_to(Server::bind("127.0.0.1:0").unwrap());
    let server = server.on_event(tell).on_signals(Duration::from_secs(2));
    let running = server.spawn(wait_and_answer).unwrap();
    let mut client = Client::new(running.local_addr());
    client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    // A shard is looked at between two coroutines: the one that was asked waits by then.
    while !running.handle().metrics().contains("straightline_requests_total{shard=\"0\"} 1\n") {
        std::thread::sleep(Duration::from_millis(2));
    }
    kill_process(getpid(), Signal::USR1).unwrap();
    assert_eq!(client.response().status, 200, "it went on after it was looked at");
    kill_process(getpid(), signal).unwrap();
    assert_eq!(running.join().abandoned, 0);
    say("drained in order");
}

#[test]
fn the_second_signal_waits_for_nobody() {
    for model in MODELS {
        let mut process = own_process("lifecycle::serve_until_the_second_signal");
        let output = process.env(Model::VARIABLE, model.to_string()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("ended at once"), "{model}: {text}");
    }
}

pub(crate) fn serve_until_the_second_signal() {
    let server = Model::asked_for().apply_to(Server::bind("127.0.0.1:0").unwrap());
    let (begun, begins) = std::sync::mpsc::channel();
    let running = server
        .on_signals(4 * PATIENCE)
        .spawn(move |request, response| {
            begun.send(()).map_err(std::io::Error::other)?;
            match request.path() {
                "/hold" => std::thread::sleep(4 * PATIENCE),
                _ => rt::sleep(4 * PATIENCE)?,
            }
            response.send(b"")
        })
        .unwrap();
    let mut clients = Vec::new();
    for path in ["/wait", "/hold"] {
        let mut client = Client::new(running.local_addr());
        client.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes());
        begins.recv_timeout(PATIENCE).unwrap();
        clients.push(client);
    }
    kill_process(getpid(), Signal::TERM).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let start = Instant::now();
    kill_process(getpid(), Signal::INT).unwrap();
    assert!(running.join().abandoned >= 1);
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    say("ended at once");
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
