//! The example service, driven from outside, while it is restarted under load.

#[allow(dead_code, reason = "its main is not called")]
#[path = "../../examples/service.rs"]
mod example;

use crate::postgres::cluster::with_server;
use crate::support::{Answer, Client, PATIENCE, note, own_process, say};
use http1::HeadLimits;
use http1::response::{Framing, parse_head};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use straightline::Server;
use tungstenite::Message;
use tungstenite::client::IntoClientRequest;

/// The variable that names the database to a process of its own.
const DATABASE: &str = "SERVICE_DATABASE";
/// Clients that ask without a pause.
const CLIENTS: usize = 4;
const RESTARTS: usize = 3;
/// Answers between two restarts.
const ANSWERS: u64 = 300;

/// One generation of the service, at a socket that was handed over.
pub(crate) fn serve() {
    let server = Server::from_systemd().unwrap().workers(2).on_signals(Duration::from_secs(10));
    let config = std::env::var(DATABASE).unwrap().parse().unwrap();
    let running = example::start(server, config).unwrap();
    say("serving");
    assert_eq!(running.join().abandoned, 0, "something did not end");
}

/// Starts the next generation, and waits until it serves.
fn generation(listener: &TcpListener, database: &str) -> Child {
    let process = own_process("service::serve");
    let script = "exec 3<&0 0</dev/null; export LISTEN_FDS=1 LISTEN_PID=$$; exec \"$0\" \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(process.get_program()).args(process.get_args());
    command.envs(process.get_envs().filter_map(|(name, value)| Some((name, value?)))).env(DATABASE, database);
    let socket = OwnedFd::from(listener.try_clone().unwrap());
    let mut child = command.stdin(socket).stdout(Stdio::piped()).spawn().unwrap();
    let (out, mut text) = (child.stdout.as_mut().unwrap(), String::new());
    while !text.contains("serving\n") {
        let mut byte = [0];
        assert_eq!(out.read(&mut byte).unwrap(), 1, "it does not serve: {text}");
        text.push(char::from(byte[0]));
    }
    child
}

/// Ends a generation, which must have answered all.
fn end(mut child: Child) {
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(child.wait().unwrap().success() && text.contains("1 passed"), "{text}");
}

fn ask(client: &mut Client, method: &str, path: &str, fields: &str, body: &str) -> Answer {
    let kind = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: x\r\n{fields}{kind}Content-Length: {}\r\n\r\n",
        body.len()
    );
    client.send(format!("{head}{body}").as_bytes());
    client.response()
}

/// A client as programs have one: it keeps its connection, and asks again on another one if a kept one turns out to be
/// closed before anything of an answer came.
struct Keeping {
    address: SocketAddr,
    stream: Option<TcpStream>,
}

impl Keeping {
    fn get(&mut self, request: &[u8]) -> io::Result<(u16, Vec<u8>)> {
        let kept = self.stream.is_some();
        match self.once(request) {
            Err((_, false)) if kept => {
                self.stream = None;
                self.once(request).map_err(|(error, _)| error)
            }
            outcome => outcome.map_err(|(error, _)| error),
        }
    }

    /// The answer; or an error, and whether any of an answer had come.
    fn once(&mut self, request: &[u8]) -> Result<(u16, Vec<u8>), (io::Error, bool)> {
        let nothing = |error: io::Error| (error, false);
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => TcpStream::connect(self.address).map_err(nothing)?,
        };
        stream.set_read_timeout(Some(PATIENCE)).map_err(nothing)?;
        stream.write_all(request).map_err(nothing)?;
        let mut bytes = Vec::new();
        loop {
            let mut buffer = [0; 4096];
            match stream.read(&mut buffer) {
                Ok(0) => return Err((io::ErrorKind::UnexpectedEof.into(), !bytes.is_empty())),
                Ok(count) => bytes.extend_from_slice(&buffer[..count]),
                Err(error) => return Err((error, !bytes.is_empty())),
            }
            let Some(head) = parse_head(&bytes, false, &HeadLimits::DEFAULT).unwrap() else { continue };
            let Framing::Length(length) = head.framing else { panic!("every answer here has a length") };
            if bytes.len() >= head.head_bytes + length as usize {
                self.stream = head.keep_alive.then_some(stream);
                return Ok((head.status, bytes.split_off(head.head_bytes)));
            }
        }
    }
}

#[test]
fn the_service_is_restarted_under_load_and_nobody_sees_it() {
    with_server(|server| {
        server.connect().batch("create database service").unwrap();
        let database = format!("postgres://trusted@127.0.0.1:{}/service?sslmode=disable", server.port);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut current = generation(&listener, &database);
        let cookie = users(address);
        let mut chat = talk(address, &cookie);
        let (stop, answers) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                let (stop, answers) = (Arc::clone(&stop), Arc::clone(&answers));
                let request = format!("GET /me HTTP/1.1\r\nHost: x\r\nCookie: {cookie}\r\n\r\n");
                std::thread::spawn(move || {
                    let (mut client, mut failures) = (Keeping { address, stream: None }, Vec::new());
                    while !stop.load(Ordering::Relaxed) {
                        match client.get(request.as_bytes()) {
                            Ok((200, body)) if body == b"{\"id\":1,\"name\":\"ada\"}" => {}
                            other => failures.push(format!("{other:?}")),
                        }
                        answers.fetch_add(1, Ordering::Relaxed);
                    }
                    failures
                })
            })
            .collect();
        for restart in 1..=RESTARTS as u64 {
            wait_for(&answers, restart * ANSWERS);
            let next = generation(&listener, &database);
            end(std::mem::replace(&mut current, next));
            assert_told_to_go(&mut chat);
            chat = talk(address, &cookie);
        }
        wait_for(&answers, answers.load(Ordering::Relaxed) + ANSWERS);
        stop.store(true, Ordering::Relaxed);
        let failures: Vec<String> = clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
        let total = answers.load(Ordering::Relaxed);
        note(&format!("{total} answers over {RESTARTS} restarts, {} errors", failures.len()));
        assert!(failures.is_empty(), "{} of {total}: {:?}", failures.len(), failures.first());
        drop(chat);
        end(current);
    });
}

fn wait_for(answers: &AtomicU64, count: u64) {
    let start = Instant::now();
    while answers.load(Ordering::Relaxed) < count {
        assert!(start.elapsed() < 3 * PATIENCE, "{} of {count} answers", answers.load(Ordering::Relaxed));
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Makes users, logs in and out, is refused what is to be refused; the cookie of a session.
fn users(address: SocketAddr) -> String {
    let mut client = Client::new(address);
    let ada = r#"{"name":"ada","password":"correct horse"}"#;
    let made = ask(&mut client, "POST", "/users", "", ada);
    assert_eq!((made.status, made.text().as_str()), (201, r#"{"id":1,"name":"ada"}"#));
    for (method, path, body, status) in [
        ("POST", "/users", ada, 409),
        ("POST", "/users", r#"{"name":"","password":"x"}"#, 400),
        ("POST", "/users", r#"{"name":"eve","password":"x","admin":true}"#, 400),
        ("POST", "/sessions", r#"{"name":"ada","password":"wrong"}"#, 403),
        ("POST", "/sessions", r#"{"name":"' or ''='","password":"' or ''='"}"#, 403),
        ("GET", "/me", "", 401),
        ("GET", "/chat", "", 401),
        ("GET", "/metrics", "", 200),
        ("GET", "/nothing", "", 404),
    ] {
        assert_eq!(ask(&mut client, method, path, "", body).status, status, "{method} {path} {body}");
    }
    let mut log_in = || {
        let answer = ask(&mut client, "POST", "/sessions", "", ada);
        assert_eq!(answer.status, 204);
        let set = answer.header("set-cookie").unwrap();
        assert!(set.contains("HttpOnly") && set.contains("Secure") && set.contains("SameSite=Lax"), "{set}");
        set.split(';').next().unwrap().to_owned()
    };
    let (ended, kept) = (log_in(), log_in());
    for (fields, method, path, status) in [
        (&ended, "GET", "/me", 200),
        (&ended, "DELETE", "/sessions", 204),
        (&ended, "GET", "/me", 401),
        (&"session='".to_owned(), "GET", "/me", 401),
        (&format!("session={}", "-".repeat(36)), "GET", "/me", 401),
        (&kept, "GET", "/me", 200),
    ] {
        let answer = ask(&mut client, method, path, &format!("Cookie: {fields}\r\n"), "");
        assert_eq!(answer.status, status, "{method} {path} {fields}");
    }
    let metrics = ask(&mut client, "GET", "/metrics", "", "").text();
    assert!(
        metrics.contains("straightline_requests_total")
            && metrics.contains("service_database{state=\"idle\"}")
    );
    kept
}

type Chat = tungstenite::WebSocket<TcpStream>;

/// Joins the chat, and hears what it says itself.
fn talk(address: SocketAddr, cookie: &str) -> Chat {
    let mut request = format!("ws://{address}/chat").into_client_request().unwrap();
    request.headers_mut().insert("cookie", cookie.parse().unwrap());
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let (mut socket, _) = tungstenite::client(request, stream).unwrap();
    socket.send(Message::text("hello")).unwrap();
    assert_eq!(socket.read().unwrap(), Message::text("ada: hello"));
    socket
}

/// A restart ends a chat with 1001, for the client to come again.
fn assert_told_to_go(chat: &mut Chat) {
    match chat.read().unwrap() {
        Message::Close(Some(said)) => assert_eq!(u16::from(said.code), 1001),
        other => panic!("{other:?}"),
    }
}
