//! A server to test, and a client that hides nothing.

use crate::parts::{PART, PLAYER};
use http1::HeadLimits;
use http1::response::{Framing, parse_head};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use straightline::{Done, Event, Handle, Request, Response, Running, Server};

/// Events that a server of tests keeps: a soak of a million requests has no memory for all.
const MOST_EVENTS: usize = 1_000;
/// Longest that any step of a test may take: far above what it takes, so that only a hang reaches it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Both ways to run a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Model {
    Coroutines,
    Threads,
}

pub(crate) const MODELS: [Model; 2] = [Model::Coroutines, Model::Threads];

impl Model {
    /// The variable that tells a test in a process of its own which model it is to use.
    pub(crate) const VARIABLE: &'static str = "STRAIGHTLINE_MODEL";

    /// What the variable says; coroutines if nothing.
    pub(crate) fn asked_for() -> Self {
        let asked = std::env::var(Self::VARIABLE).unwrap_or_default();
        *MODELS.iter().find(|model| model.to_string() == asked).unwrap_or(&Self::Coroutines)
    }

    /// The server on one shard, or on threads.
    pub(crate) fn apply_to(self, server: Server) -> Server {
        match self {
            Self::Coroutines => server.workers(1),
            Self::Threads => server.threads(),
        }
    }
}

impl std::fmt::Display for Model {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::Coroutines => "coroutines",
            Self::Threads => "threads",
        })
    }
}

/// A server on a free port, drained when dropped.
pub(crate) struct TestServer {
    running: Option<Running>,
    pub(crate) address: SocketAddr,
    pub(crate) events: Arc<Mutex<Vec<Event>>>,
}

impl TestServer {
    /// One shard with default limits.
    pub(crate) fn new<F>(handler: F) -> Self
    where
        F: for<'a> Fn(&mut Request<'a>, Response<'a>) -> io::Result<Done> + Send + Sync + 'static,
    {
        Self::with(|server| server.workers(1), handler)
    }

    pub(crate) fn of_model<F>(model: Model, handler: F) -> Self
    where
        F: for<'a> Fn(&mut Request<'a>, Response<'a>) -> io::Result<Done> + Send + Sync + 'static,
    {
        Self::with(|server| model.apply_to(server), handler)
    }

    pub(crate) fn with<F>(configure: impl FnOnce(Server) -> Server, handler: F) -> Self
    where
        F: for<'a> Fn(&mut Request<'a>, Response<'a>) -> io::Result<Done> + Send + Sync + 'static,
    {
        let events = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&events);
        let server = Server::bind("127.0.0.1:0").unwrap();
        let server = configure(server).on_event(move |event| {
            let mut heard = heard.lock().unwrap();
            if heard.len() < MOST_EVENTS {
                heard.push(event);
            }
        });
        let running = server.spawn(handler).unwrap();
        Self { address: running.local_addr(), running: Some(running), events }
    }

    pub(crate) fn handle(&self) -> Handle {
        self.running.as_ref().unwrap().handle()
    }

    pub(crate) fn connect(&self) -> Client {
        Client::new(self.address)
    }

    /// Waits for the end of a drain that was begun.
    pub(crate) fn assert_drained(&mut self) {
        let drained = self.running.take().unwrap().join();
        assert_eq!(drained.abandoned, 0, "something of the server did not end");
    }

    /// The value of a counter, over all shards.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let text = self.handle().metrics();
        let prefix = format!("straightline_{name}{{");
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with(&prefix)).collect();
        assert!(!lines.is_empty(), "there is no metric {name}");
        lines.iter().map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    }

    /// Waits until a condition holds of the server.
    pub(crate) fn until(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        until(what, || condition(self));
    }

    /// A plain request on a connection of its own must be answered with 200.
    pub(crate) fn assert_serves(&self, after: &str) {
        let mut client = self.connect();
        client.send(b"GET /still-there HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_eq!(client.response().status, 200, "the next connection was not served after {after}");
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            let drained = running.drain(Duration::from_secs(3));
            if !std::thread::panicking() {
                assert_eq!(drained.abandoned, 0, "something of the server did not end");
            }
        }
    }
}

/// Waits until a condition holds.
pub(crate) fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "{what} did not come about");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Has one of the [parts](crate::parts) played in a process of its own, which must end well.
pub(crate) fn in_own_process(part: &str) {
    let output = own_process(part).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("1 passed"), "nobody played {part}: {text}");
    note(&text);
}

/// Prints what was measured, for whoever asks by `--nocapture`.
#[allow(clippy::print_stdout, reason = "the harness holds it back unless asked")]
pub(crate) fn note(text: &str) {
    println!("{text}");
}

/// A process that plays one of the [parts](crate::parts).
pub(crate) fn own_process(part: &str) -> std::process::Command {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "--nocapture", "--test-threads=1", PLAYER]);
    command.env(PART, part).env("RUST_BACKTRACE", "0");
    command
}

/// Prints a line, which the harness would hold back.
pub(crate) fn say(text: &str) {
    let mut out = io::stdout();
    writeln!(out, "{text}").unwrap();
}

/// Raises the number of descriptors of this process as far as it may.
pub(crate) fn raise_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
}

/// A number from the environment.
pub(crate) fn number_of(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// Memory of this process that is in use, in KiB.
pub(crate) fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// An answer, whole.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    pub(crate) keep_alive: bool,
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn header(&self, name: &str) -> Option<String> {
        http1::response::headers(self.head.as_bytes())
            .find(|(other, _)| other.eq_ignore_ascii_case(name.as_bytes()))
            .map(|(_, value)| String::from_utf8_lossy(value).into_owned())
    }
}

/// A connection on which bytes are sent as they are.
pub(crate) struct Client<S = TcpStream> {
    pub(crate) stream: S,
    pending: Vec<u8>,
}

impl Client {
    pub(crate) fn new(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self::over(stream)
    }
}

impl<S: Read + Write> Client<S> {
    /// One whose bytes go by `stream`.
    pub(crate) fn over(stream: S) -> Self {
        Self { stream, pending: Vec::new() }
    }

    /// Sends bytes; a server that closed already is for the reader to notice.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        match self.stream.write_all(bytes) {
            Err(error) if !matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
                panic!("cannot send: {error}")
            }
            _ => {}
        }
    }

    /// Sends bytes one at a time.
    pub(crate) fn send_slowly(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.send(&[*byte]);
        }
    }

    /// Receives more; `false` at the end of the stream.
    fn receive(&mut self) -> bool {
        let mut buffer = [0; 16 * 1024];
        match self.stream.read(&mut buffer) {
            Ok(count) => {
                self.pending.extend_from_slice(&buffer[..count]);
                count > 0
            }
            Err(error) => {
                panic!("cannot receive: {error}; so far {:?}", String::from_utf8_lossy(&self.pending))
            }
        }
    }

    /// The head of an answer after which the connection may speak another protocol.
    pub(crate) fn switching(&mut self) -> String {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            self.stream.read_exact(&mut byte).expect("a whole head comes");
            head.push(byte[0]);
        }
        String::from_utf8(head).unwrap()
    }

    /// The next answer to a request that was not HEAD.
    pub(crate) fn response(&mut self) -> Answer {
        self.response_to(false)
    }

    pub(crate) fn response_to(&mut self, was_head: bool) -> Answer {
        let head = loop {
            let parsed = parse_head(&self.pending, was_head, &HeadLimits::DEFAULT)
                .unwrap_or_else(|error| panic!("{error}: {:?}", String::from_utf8_lossy(&self.pending)));
            match parsed {
                Some(head) => break head,
                None => {
                    assert!(self.receive(), "ended in a head: {:?}", String::from_utf8_lossy(&self.pending))
                }
            }
        };
        let text = String::from_utf8(self.pending.drain(..head.head_bytes).collect()).unwrap();
        let body = match head.framing {
            Framing::None => Vec::new(),
            Framing::Length(length) => self.take(length as usize),
            Framing::Chunked => self.take_chunked(),
            Framing::UntilClose => {
                while self.receive() {}
                std::mem::take(&mut self.pending)
            }
        };
        Answer { status: head.status, head: text, body, keep_alive: head.keep_alive }
    }

    fn take(&mut self, length: usize) -> Vec<u8> {
        while self.pending.len() < length {
            assert!(self.receive(), "ended in a body, {} of {length} bytes", self.pending.len());
        }
        self.pending.drain(..length).collect()
    }

    fn take_chunked(&mut self) -> Vec<u8> {
        let mut decoder = http1::chunked::ChunkedDecoder::new();
        let mut body = Vec::new();
        loop {
            let step = decoder.decode(&self.pending).unwrap();
            if let http1::chunked::Event::Data(range) = step.event.clone() {
                body.extend_from_slice(&self.pending[range]);
            }
            self.pending.drain(..step.consumed);
            match step.event {
                http1::chunked::Event::Done => return body,
                http1::chunked::Event::Partial => assert!(self.receive(), "ended in a chunked body"),
                _ => {}
            }
        }
    }

    /// Everything until the server closes.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        while self.receive() {}
        std::mem::take(&mut self.pending)
    }

    /// Nothing more comes, and the server closed in good order.
    pub(crate) fn assert_closed(&mut self, why: &str) {
        let rest = self.rest();
        assert!(rest.is_empty(), "{why}: more came: {:?}", String::from_utf8_lossy(&rest));
    }

    /// The connection ends, in good order or by a reset.
    pub(crate) fn assert_ends(&mut self) {
        let mut buffer = [0; 1024];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return,
                Err(error) => panic!("it did not end: {error}"),
            }
        }
    }
}

/// Says what it was asked: method, path, and how long the body was.
pub(crate) fn echo(request: &mut Request<'_>, response: Response<'_>) -> io::Result<Done> {
    let mut body = Vec::new();
    request.read_to_end(&mut body)?;
    let text = format!("{} {} {}", request.method(), request.target(), body.len());
    response.header("content-type", "text/plain")?.send(text.as_bytes())
}

/// A small generator, so that a failure can be repeated from its seed.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// Says what the test harness would.
pub(crate) fn ended_well() -> i32 {
    say("test result: ok. 1 passed");
    0
}
