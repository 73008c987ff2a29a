//! A small server of HTTP/2: `h2` polled by hand over a blocking stream, a thread for each connection.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::RecvStream;
use h2::server::{Builder, Connection, SendResponse};
use rustix::time::{ClockId, clock_gettime};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use testkit::{Behaviour, Entry, Log, Model, NEVER, now_ns};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How long a read waits before the server looks what else is to be done.
const PATIENCE: Duration = Duration::from_millis(1);

/// How a server answers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Conduct {
    /// Bytes of each answer's body.
    pub(crate) body: usize,
    /// Streams at a time at most.
    pub(crate) most: Option<u32>,
    pub(crate) delay: Duration,
    /// How long after its head the body of an answer comes, over HTTP/3.
    pub(crate) halt: Duration,
    /// Every so many requests one is reset.
    pub(crate) reset_every: Option<usize>,
    /// Every so many requests one is not answered.
    pub(crate) silent_every: Option<usize>,
    /// After so many requests none is answered any more.
    pub(crate) frozen_after: Option<usize>,
    /// After so many requests a connection is ended in good order.
    pub(crate) goodbye_after: Option<usize>,
    /// Whether each answer has a field with the number of its request.
    pub(crate) numbered: bool,
    /// How calls of gRPC are answered, where they are.
    pub(crate) call: Option<Call>,
    /// Where a line is added for each request that has [`TOKEN`] and, if it is a POST, is JSON.
    pub(crate) log: Option<PathBuf>,
    /// When requests are answered over HTTP/3, by a formula and with a log.
    pub(crate) clock: Option<Clock>,
}

/// A behaviour of the test kit, with the log of what came of it.
#[derive(Debug, Clone)]
pub(crate) struct Clock(Arc<Mutex<Timed>>);

#[derive(Debug)]
struct Timed {
    model: Model,
    log: Log,
    /// Requests whose answers wait for what is sent next.
    unsent: Vec<usize>,
}

#[allow(dead_code, reason = "the tests of the program use none")]
impl Clock {
    pub(crate) fn new(behaviour: Behaviour) -> Self {
        Self(Arc::new(Mutex::new(Timed {
            model: Model::new(behaviour),
            log: Log::default(),
            unsent: Vec::new(),
        })))
    }

    /// A request is there: its number, and when it is to be answered.
    pub(crate) fn received(&self) -> (usize, u64) {
        let Timed { model, log, .. } = &mut *self.0.lock().unwrap();
        let received_ns = now_ns();
        log.entries.push(Entry { connection: 0, received_ns, answered_ns: NEVER });
        (log.entries.len() - 1, model.due(received_ns))
    }

    /// The request of that number is answered now; the answer leaves with what is sent next.
    pub(crate) fn answers(&self, number: usize) {
        self.0.lock().unwrap().unsent.push(number);
    }

    /// Something is about to be sent, and all answers so far with it.
    pub(crate) fn sends(&self) {
        let Timed { log, unsent, .. } = &mut *self.0.lock().unwrap();
        let answered_ns = now_ns();
        for number in unsent.drain(..) {
            log.entries[number].answered_ns = answered_ns;
        }
    }

    pub(crate) fn log(&self) -> Log {
        self.0.lock().unwrap().log.clone()
    }
}

/// Whose requests are logged.
const TOKEN: &str = "Bearer t0ken";

/// Adds the instant at which a request was there, its method and its path.
fn note(log: &Path, request: &http::Request<RecvStream>) {
    let field = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
    let json = field("content-type") == Some("application/json");
    if field("authorization") != Some(TOKEN) || (request.method() == http::Method::POST && !json) {
        return;
    }
    let now = clock_gettime(ClockId::Monotonic);
    let method = request.method().as_str().to_ascii_lowercase();
    let line = format!("{} {method} {}\n", now.tv_sec * 1_000_000_000 + now.tv_nsec, request.uri().path());
    let mut file = OpenOptions::new().create(true).append(true).open(log).unwrap();
    file.write_all(line.as_bytes()).unwrap();
}

impl Conduct {
    /// Whether the request of this number comes too late.
    pub(crate) fn is_frozen(&self, number: usize) -> bool {
        self.frozen_after.is_some_and(|after| number > after)
    }
}

/// How calls of gRPC are answered.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) http_status: u16,
    pub(crate) content_type: &'static str,
    /// The body, as it goes over the wire.
    pub(crate) body: Vec<u8>,
    /// `grpc-status` after it.
    pub(crate) status: Option<&'static str>,
    /// `grpc-message` beside either.
    pub(crate) message: Option<&'static str>,
    /// `grpc-status` in its place.
    pub(crate) early: Option<&'static str>,
    /// Every so many calls one fails with code 14.
    pub(crate) unavailable_every: Option<usize>,
}

impl Default for Call {
    fn default() -> Self {
        Self {
            http_status: 200,
            content_type: "application/grpc",
            body: vec![0, 0, 0, 0, 3, b'a', b'b', b'c'],
            status: Some("0"),
            message: None,
            early: None,
            unavailable_every: None,
        }
    }
}

impl Call {
    /// True when nothing more is to be done.
    fn answer(&self, respond: &mut SendResponse<Bytes>, number: usize) -> bool {
        let unavailable = self.unavailable_every.is_some_and(|every| number.is_multiple_of(every));
        let early = if unavailable { Some("14") } else { self.early };
        let mut response =
            http::Response::builder().status(self.http_status).header("content-type", self.content_type);
        if let Some(status) = early {
            response = response.header("grpc-status", status);
            if let Some(message) = self.message {
                response = response.header("grpc-message", message);
            }
        }
        let Ok(mut stream) = respond.send_response(response.body(()).unwrap(), early.is_some()) else {
            return true;
        };
        if early.is_none() && (!self.body.is_empty() || self.status.is_none()) {
            let _ = stream.send_data(Bytes::from(self.body.clone()), self.status.is_none());
        }
        if let Some(status) = self.status.filter(|_| early.is_none()) {
            let mut trailers = http::HeaderMap::new();
            trailers.insert("grpc-status", http::HeaderValue::from_static(status));
            if let Some(message) = self.message {
                trailers.insert("grpc-message", http::HeaderValue::from_static(message));
            }
            let _ = stream.send_trailers(trailers);
        }
        true
    }
}

#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) connections: AtomicUsize,
    pub(crate) requests: AtomicUsize,
    pub(crate) received: AtomicUsize,
    pub(crate) most_at_once: AtomicUsize,
    pub(crate) paths: Mutex<BTreeMap<String, usize>>,
    /// Whom the requests named as their host.
    pub(crate) hosts: Mutex<BTreeSet<String>>,
}

/// What a server saw.
#[derive(Debug, Clone, Default)]
pub(crate) struct Count(pub(crate) Arc<Counts>);

impl Count {
    pub(crate) fn connections(&self) -> usize {
        self.0.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn requests(&self) -> usize {
        self.0.requests.load(Ordering::SeqCst)
    }

    pub(crate) fn received(&self) -> usize {
        self.0.received.load(Ordering::SeqCst)
    }

    pub(crate) fn most_at_once(&self) -> usize {
        self.0.most_at_once.load(Ordering::SeqCst)
    }

    #[allow(dead_code, reason = "the tests of the program use it")]
    pub(crate) fn hosts(&self) -> BTreeSet<String> {
        self.0.hosts.lock().unwrap().clone()
    }

    pub(crate) fn paths(&self) -> BTreeMap<String, usize> {
        self.0.paths.lock().unwrap().clone()
    }
}

/// Serves on a free port of 127.0.0.1 until the test ends.
pub(crate) fn serve(conduct: Conduct) -> (SocketAddr, Count) {
    accept(free_port(), conduct, Some)
}

fn free_port() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

/// The same through TLS.
pub(crate) fn serve_tls(config: ServerConfig, conduct: Conduct) -> (SocketAddr, Count) {
    serve_tls_on(free_port(), config, conduct)
}

/// The same on a port of the caller's.
pub(crate) fn serve_tls_on(
    listener: TcpListener,
    config: ServerConfig,
    conduct: Conduct,
) -> (SocketAddr, Count) {
    let config = Arc::new(config);
    accept(listener, conduct, move |mut stream: TcpStream| {
        let mut connection = ServerConnection::new(Arc::clone(&config)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        while connection.is_handshaking() {
            connection.complete_io(&mut stream).ok()?;
        }
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Some(StreamOwned::new(connection, stream))
    })
}

fn accept<S: Read + Write + Unpin + 'static>(
    listener: TcpListener,
    conduct: Conduct,
    wrap: impl Fn(TcpStream) -> Option<S> + Send + Sync + 'static,
) -> (SocketAddr, Count) {
    let (address, count, wrap) = (listener.local_addr().unwrap(), Count::default(), Arc::new(wrap));
    let kept = count.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            stream.set_nodelay(true).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let (conduct, count, wrap) = (conduct.clone(), kept.clone(), Arc::clone(&wrap));
            std::thread::spawn(move || wrap(stream).and_then(|stream| talk(stream, &conduct, &count)));
        }
    });
    (address, count)
}

/// A blocking stream as h2 wants it; a read that has waited long enough is pending.
struct Blocking<S>(S);

fn later<T>(result: io::Result<T>) -> Poll<io::Result<T>> {
    match result {
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
            Poll::Pending
        }
        other => Poll::Ready(other),
    }
}

impl<S: Read + Unpin> AsyncRead for Blocking<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut bytes = [0; 16 * 1024];
        let room = buf.remaining().min(bytes.len());
        later(self.0.read(&mut bytes[..room])).map_ok(|read| buf.put_slice(&bytes[..read]))
    }
}

impl<S: Write + Unpin> AsyncWrite for Blocking<S> {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        later(self.0.write(buf))
    }

    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        later(self.0.flush())
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// A request that is not answered yet.
struct Open {
    body: RecvStream,
    respond: SendResponse<Bytes>,
    number: usize,
    due: Instant,
    whole: bool,
}

fn talk<S: Read + Write + Unpin>(stream: S, conduct: &Conduct, count: &Count) -> Option<()> {
    count.0.connections.fetch_add(1, Ordering::SeqCst);
    let mut builder = Builder::new();
    builder.initial_window_size(1 << 20).initial_connection_window_size(1 << 20);
    if let Some(most) = conduct.most {
        builder.max_concurrent_streams(most);
    }
    let mut cx = Context::from_waker(Waker::noop());
    let mut handshake = Box::pin(builder.handshake::<_, Bytes>(Blocking(stream)));
    let mut connection: Connection<_, Bytes> = loop {
        match handshake.as_mut().poll(&mut cx) {
            Poll::Ready(connection) => break connection.ok()?,
            Poll::Pending => {}
        }
    };
    let (mut open, mut seen) = (Vec::<Open>::new(), 0);
    loop {
        match connection.poll_accept(&mut cx) {
            Poll::Ready(None | Some(Err(_))) => return None,
            Poll::Ready(Some(Ok((request, respond)))) => {
                seen += 1;
                if let Some(log) = &conduct.log {
                    note(log, &request);
                }
                *count.0.paths.lock().unwrap().entry(request.uri().path().to_owned()).or_default() += 1;
                count.0.hosts.lock().unwrap().extend(request.uri().authority().map(ToString::to_string));
                let number = count.0.requests.fetch_add(1, Ordering::SeqCst) + 1;
                let due = Instant::now() + conduct.delay;
                open.push(Open { body: request.into_body(), respond, number, due, whole: false });
                count.0.most_at_once.fetch_max(open.len(), Ordering::SeqCst);
                if conduct.goodbye_after == Some(seen) {
                    connection.graceful_shutdown();
                }
            }
            Poll::Pending => {}
        }
        open.retain_mut(|open| !open.answer(conduct, count, &mut cx));
    }
}

impl Open {
    /// True when nothing more is to be done.
    fn answer(&mut self, conduct: &Conduct, count: &Count, cx: &mut Context<'_>) -> bool {
        while !self.whole {
            match self.body.poll_data(cx) {
                Poll::Pending => return false,
                Poll::Ready(Some(Ok(bytes))) => {
                    count.0.received.fetch_add(bytes.len(), Ordering::SeqCst);
                    self.body.flow_control().release_capacity(bytes.len()).unwrap();
                }
                Poll::Ready(None | Some(Err(_))) => self.whole = true,
            }
        }
        if Instant::now() < self.due {
            return false;
        }
        let every = |every: Option<usize>| every.is_some_and(|every| self.number.is_multiple_of(every));
        if every(conduct.silent_every) || conduct.is_frozen(self.number) {
            // It is kept open until the client gives it up.
            return self.respond.poll_reset(cx).is_ready();
        }
        if every(conduct.reset_every) {
            self.respond.send_reset(h2::Reason::INTERNAL_ERROR);
            return true;
        }
        if let Some(call) = &conduct.call {
            return call.answer(&mut self.respond, self.number);
        }
        let mut response = http::Response::new(());
        if conduct.numbered {
            response.headers_mut().insert("x-number", self.number.into());
        }
        if let Ok(mut stream) = self.respond.send_response(response, conduct.body == 0) {
            let _ = stream.send_data(Bytes::from(vec![b'x'; conduct.body]), true);
        }
        true
    }
}
