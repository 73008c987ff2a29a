//! The server: connections, requests, answers.

mod accept;
mod balance;
mod body;
mod buffer;
mod conn;
mod counters;
mod error;
mod error_body;
mod event;
mod exchange;
mod handle;
mod http2;
mod limits;
mod listen;
mod locals;
mod output;
mod relief;
mod request;
mod response;
mod run;
mod service;
mod streaming;
mod threads;
#[cfg(feature = "tls")]
mod tls;
mod transport;
mod turn;
mod upgrade;
mod worker;

pub use error::{Error, StatusError};
pub use error_body::{ERROR_BODY_BYTES, ErrorAnswer};
pub use event::Event;
pub use handle::{Drained, Handle, Running};
pub use limits::*;
pub use request::{ClientWatch, Request};
pub use response::{Done, Fresh, Response};
pub use streaming::Streaming;
pub use upgrade::Upgraded;

use crate::rt::watch::Name;
use crate::rt::{STACK_BYTES, STACK_BYTES_MAX, STACK_BYTES_MIN};
use error_body::ErrorBodies;
use http1::write::FieldLine;
use listen::Listening;
use service::{OnEvent, Service};
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

/// Most shards: more than any machine has CPUs.
const WORKERS_MAX: usize = 4096;

/// A server that is bound to its address and not yet running.
///
/// ```no_run
/// straightline::Server::bind("127.0.0.1:8080")?
///     .workers(2)
///     .serve(|request, response| {
///         let mut body = String::new();
///         std::io::Read::read_to_string(request, &mut body)?; // suspends this coroutine, not the thread
///         response.header("content-type", "text/plain")?.send(body.as_bytes())
///     })?;
/// # Ok::<(), straightline::Error>(())
/// ```
pub struct Server {
    listening: Listening,
    pub(crate) options: Options,
}

/// How a server runs.
pub(crate) struct Options {
    pub(crate) workers: Option<usize>,
    pub(crate) limits: Limits,
    pub(crate) stack_bytes: usize,
    pub(crate) threads: bool,
    pub(crate) name: Option<&'static str>,
    pub(crate) on_event: OnEvent,
    pub(crate) error_bodies: Option<ErrorBodies>,
    pub(crate) signals: Option<Duration>,
    pub(crate) hold_limit: Duration,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<rustls::ServerConfig>,
}

/// A coroutine that holds its shard longer is reported: every other connection of the shard waits meanwhile.
const HOLD_LIMIT: Duration = Duration::from_millis(25);

impl fmt::Debug for Server {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Server").field("listening", &self.listening).finish_non_exhaustive()
    }
}

impl Server {
    /// Listens at an address, such as `127.0.0.1:8080`; port 0 takes a free one.
    ///
    /// # Errors
    ///
    /// [`Error`] says what is wrong with the address.
    pub fn bind(address: impl ToSocketAddrs) -> Result<Self, Error> {
        Listening::at(address).map(Self::over)
    }

    /// Uses a socket that listens already. All shards share it.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if it is not usable.
    pub fn from_listener(listener: TcpListener) -> Result<Self, Error> {
        Listening::over(listener.into()).map(Self::over)
    }

    /// Uses the first socket that the service manager handed over, by `LISTEN_PID` and `LISTEN_FDS`: it stays open
    /// while one server replaces another.
    ///
    /// ```no_run
    /// use straightline::{Error, Server};
    ///
    /// let server = match Server::from_systemd() {
    ///     Err(Error::NoSocketHandedOver) => Server::bind("127.0.0.1:8080")?, // started by hand
    ///     handed_over => handed_over?,
    /// };
    /// server.on_signals(std::time::Duration::from_secs(10)).serve(|_, response| response.send(b"hello"))?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    ///
    /// Source: `sd_listen_fds(3)`.
    ///
    /// # Errors
    ///
    /// [`Error::NoSocketHandedOver`] if there is none.
    pub fn from_systemd() -> Result<Self, Error> {
        Listening::handed_over().map(Self::over)
    }

    fn over(listening: Listening) -> Self {
        let options = Options {
            workers: None,
            limits: Limits::default(),
            stack_bytes: STACK_BYTES,
            threads: false,
            name: None,
            on_event: Box::new(|_| {}),
            error_bodies: None,
            signals: None,
            hold_limit: HOLD_LIMIT,
            #[cfg(feature = "tls")]
            tls: None,
        };
        Self { listening, options }
    }

    /// Where the server listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.listening.address()
    }

    /// How many shards, and so threads, serve. One for each CPU the process may use, unless said; then each has its
    /// own CPU.
    pub fn workers(mut self, count: usize) -> Self {
        self.options.workers = Some(count);
        self
    }

    /// Changes limits.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.options.limits = limits;
        self
    }

    /// Size of the stack of each handler in bytes, 64 KiB to 1 MiB.
    pub fn stack_bytes(mut self, bytes: usize) -> Self {
        self.options.stack_bytes = bytes;
        self
    }

    /// Runs the same handlers on a thread for each connection, instead of coroutines.
    pub fn threads(mut self) -> Self {
        self.options.threads = true;
        self
    }

    /// Name of the handler in reports; that of its type unless said.
    pub fn name(mut self, name: &'static str) -> Self {
        self.options.name = Some(name);
        self
    }

    /// Calls `tell` with what happens, from the thread where it happens. A panic of `tell` ends there.
    pub fn on_event(mut self, tell: impl Fn(Event) + Send + Sync + 'static) -> Self {
        self.options.on_event = Box::new(tell);
        self
    }

    /// Lets `write` make the bodies of the answers to errors, which are a line of text otherwise; `kind` is the field
    /// `Content-Type` that goes with them.
    ///
    /// It is asked for what the server answers by itself: requests that it refuses (400, 408, 413, 431 …), handlers that fail or
    /// panic (a [`StatusError`], 500, 503), and, in the kit, what `Router` and `Files` do not find or allow (404, 405). What a
    /// handler sends stays as it is, and who is turned away for want of room (503) is told so without a body.
    ///
    /// ```no_run
    /// use straightline::{FieldLine, Server, StatusError};
    ///
    /// const JSON: FieldLine = FieldLine::new("Content-Type: application/json");
    ///
    /// Server::bind("127.0.0.1:8080")?
    ///     .error_bodies(JSON, |error, body| {
    ///         let said = serde_json::json!({ "status": error.status, "error": error.message });
    ///         Ok(serde_json::to_writer(body, &said)?)
    ///     })
    ///     .serve(|_, _| Err(StatusError::new(404, "there is no such book").into()))?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    ///
    /// A body has at most [`ERROR_BODY_BYTES`]: beyond, writing fails. Where `write` fails or panics, the line of text is sent in
    /// its place. It must not wait, for it may be called where no coroutine runs.
    pub fn error_bodies(
        mut self,
        kind: FieldLine,
        write: impl Fn(&ErrorAnswer<'_>, &mut dyn io::Write) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.options.error_bodies = Some(ErrorBodies { kind, write: Box::new(write) });
        self
    }

    /// Drains within `deadline` on SIGTERM and SIGINT, at once on the second of them, and tells the stacks of all coroutines on SIGUSR1.
    pub fn on_signals(mut self, deadline: Duration) -> Self {
        self.options.signals = Some(deadline);
        self
    }

    /// Reports a coroutine that holds its shard longer than this, 25 ms unless said: it looks twice in that time, so that one and
    /// a half times as long is found for certain.
    pub fn hold_limit(mut self, limit: Duration) -> Self {
        self.options.hold_limit = limit;
        self
    }

    /// Speaks TLS as `config` says. Where it names no protocols for ALPN, `h2` and `http/1.1` are offered, and with
    /// [`Server::threads`] `http/1.1` alone. One that names `h2` itself does not start with [`Server::threads`].
    ///
    /// Handlers stay as they are. The handshake has the time of a head, [`Limits::head_time`].
    #[cfg(feature = "tls")]
    pub fn tls(mut self, config: rustls::ServerConfig) -> Self {
        self.options.tls = Some(config);
        self
    }

    /// Serves until the server is drained, by a signal or a [`Handle`].
    ///
    /// A closure that is written here needs no types; a function, and a closure that is kept in a variable, say them:
    ///
    /// ```no_run
    /// use straightline::{Done, Request, Response, Server};
    ///
    /// fn hello<'a>(request: &mut Request<'a>, response: Response<'a>) -> std::io::Result<Done> {
    ///     response.send(request.path().as_bytes())
    /// }
    ///
    /// Server::bind("127.0.0.1:8080")?.serve(hello)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Server::spawn`].
    pub fn serve<F>(self, handler: F) -> Result<Drained, Error>
    where
        F: for<'a> Fn(&mut Request<'a>, Response<'a>) -> io::Result<Done> + Send + Sync + 'static,
    {
        Ok(self.spawn(handler)?.join())
    }

    /// Begins to serve on threads of its own.
    ///
    /// # Errors
    ///
    /// [`Error::Limit`] if a limit is out of range; [`Error::Http2OnThreads`] if TLS is to offer what threads do not speak;
    /// [`Error::Io`] if the kernel gives no threads, descriptors or
    /// memory.
    pub fn spawn<F>(self, handler: F) -> Result<Running, Error>
    where
        F: for<'a> Fn(&mut Request<'a>, Response<'a>) -> io::Result<Done> + Send + Sync + 'static,
    {
        self.validate()?;
        let options = self.options;
        let service = Service {
            handler: Box::new(handler),
            name: Name::intern(options.name.unwrap_or(std::any::type_name::<F>())),
            limits: options.limits,
            on_event: options.on_event,
            error_bodies: options.error_bodies,
            #[cfg(feature = "tls")]
            tls: options.tls.map(|config| tls::offering(config, options.threads)),
        };
        let plan = run::Plan {
            workers: options.workers,
            stack_bytes: options.stack_bytes,
            signals: options.signals,
            hold_limit: options.hold_limit,
        };
        match options.threads {
            false => run::shards(self.listening, plan, Arc::new(service)),
            true => threads::start(self.listening, plan, Arc::new(service)),
        }
    }

    fn validate(&self) -> Result<(), Error> {
        let options = &self.options;
        options.limits.validate()?;
        if !(1..=WORKERS_MAX).contains(&options.workers.unwrap_or(1)) {
            return Err(Error::Limit { name: "workers", range: "1 to 4096" });
        }
        let pages = options.stack_bytes.is_multiple_of(4096);
        if !(STACK_BYTES_MIN..=STACK_BYTES_MAX).contains(&options.stack_bytes) || !pages {
            return Err(Error::Limit { name: "stack_bytes", range: "65536 to 1048576, a multiple of 4096" });
        }
        if options.hold_limit < Duration::from_millis(1) {
            return Err(Error::Limit { name: "hold_limit", range: "1 ms or more" });
        }
        #[cfg(feature = "tls")]
        if options.threads && options.tls.as_ref().is_some_and(tls::names_http2) {
            return Err(Error::Http2OnThreads);
        }
        Ok(())
    }
}
