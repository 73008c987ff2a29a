//! What a handler is asked.

use super::body::Body;
use super::exchange::{Exchange, Way};
use super::locals::Locals;
use std::fmt;
use std::io::{self, BufRead, Read};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// A request. Reading from it reads its body, and waits for it as it comes.
///
/// It borrows from its connection. What is copied from it can be kept beyond its handler:
///
/// ```
/// # use straightline::{Done, Request, Response};
/// # use std::cell::RefCell;
/// thread_local!(static KEPT: RefCell<Option<String>> = RefCell::default());
///
/// fn keep(request: &mut Request<'_>, response: Response<'_>) -> std::io::Result<Done> {
///     KEPT.set(Some(request.path().to_owned()));
///     response.send(b"")
/// }
/// ```
///
/// and it cannot:
///
/// ```compile_fail,E0521
/// # use straightline::{Done, Request, Response};
/// # use std::cell::RefCell;
/// thread_local!(static KEPT: RefCell<Option<&'static mut Request<'static>>> = RefCell::default());
///
/// fn keep(request: &mut Request<'_>, response: Response<'_>) -> std::io::Result<Done> {
///     KEPT.set(Some(request));
///     response.send(b"")
/// }
/// ```
pub struct Request<'a> {
    exchange: &'a Exchange<'a>,
    head: http1::request::Request<'a>,
    body: Body<'a>,
    locals: Locals,
}

impl<'a> Request<'a> {
    #[inline]
    pub(crate) fn new(exchange: &'a Exchange<'a>, head: http1::request::Request<'a>, body: Body<'a>) -> Self {
        Self { exchange, head, body, locals: Locals::new() }
    }

    #[inline]
    pub(crate) fn into_body(self) -> Body<'a> {
        self.body
    }

    pub(crate) fn body_mut(&mut self) -> &mut Body<'a> {
        &mut self.body
    }

    /// The method as it was sent, such as `GET`: upper and lower case differ.
    pub fn method(&self) -> &'a str {
        self.head.method()
    }

    /// The target as it was sent, path and query together.
    pub fn target(&self) -> &'a str {
        self.head.target()
    }

    /// The path, not decoded, without the query.
    #[inline]
    pub fn path(&self) -> &'a str {
        self.head.path()
    }

    /// What follows the first `?` of the target, not decoded.
    pub fn query(&self) -> Option<&'a str> {
        self.head.query()
    }

    /// Host and port that the request is for; empty only if HTTP/1.0 named none.
    pub fn host(&self) -> &'a str {
        self.head.host()
    }

    /// The value of the first field of this name, in any case; `None` also if it is not UTF-8.
    pub fn header(&self, name: &str) -> Option<&'a str> {
        std::str::from_utf8(self.head.header(name)?).ok()
    }

    /// All fields in order: names as they were sent, values without blank space around them.
    pub fn headers(&self) -> impl Iterator<Item = (&'a str, &'a [u8])> + use<'a> {
        self.head.headers()
    }

    /// What the client speaks: `HTTP/1.0`, `HTTP/1.1` or `HTTP/2`.
    pub fn version(&self) -> &'static str {
        match (self.exchange.way, self.exchange.minor_version) {
            (Way::Stream(_), _) => "HTTP/2",
            (_, 0) => "HTTP/1.0",
            (_, _) => "HTTP/1.1",
        }
    }

    /// The fields after a body, chunked or by HTTP/2, once it was read to its end. They are never among [`Request::headers`].
    /// Names and values are as those of [`Request::headers`].
    pub fn trailers(&self) -> impl Iterator<Item = (&str, &[u8])> {
        // A name is a token, or the body was refused.
        self.body.trailers().map(|(name, value)| (std::str::from_utf8(name).unwrap_or_default(), value))
    }

    /// Refuses a body of more than `bytes` bytes, now if its length is known, or else while it is read.
    ///
    /// # Errors
    ///
    /// One that is answered with 413 if the handler returns it.
    pub fn limit_body(&mut self, bytes: u64) -> io::Result<()> {
        let outcome = self.body.set_limit(bytes);
        self.body.tell_left(self.exchange);
        outcome
    }

    /// When the answer must be complete: set while the server drains, and where the handler has a time limit; the earlier of
    /// both.
    pub fn deadline(&self) -> Option<Instant> {
        let drained = self.exchange.conn.worker().drain_deadline();
        drained.into_iter().chain(self.exchange.time_limit()).min()
    }

    /// Gives the handler so much time from now on, or as much as it takes, in place of what
    /// [`Limits::handler_time`](crate::Limits::handler_time) allows; which says what happens when it is over. A route has a
    /// limit of its own if its handler begins with this.
    ///
    /// ```
    /// # use straightline::{Done, Request, Response, rt};
    /// use std::time::Duration;
    ///
    /// fn report(request: &mut Request<'_>, response: Response<'_>) -> std::io::Result<Done> {
    ///     request.limit_time(Duration::from_secs(120)); // this takes longer than others
    ///     rt::sleep(Duration::from_secs(90))?;
    ///     response.send(b"done")
    /// }
    ///
    /// fn endless(request: &mut Request<'_>, response: Response<'_>) -> std::io::Result<Done> {
    ///     request.limit_time(None);
    ///     response.start()?.end()
    /// }
    /// ```
    pub fn limit_time(&self, time: impl Into<Option<Duration>>) {
        self.exchange.limit_time(time.into());
    }

    /// Whether the client closed the connection, or its sending half, or broke off the stream: there may be nobody to answer.
    pub fn client_gone(&self) -> bool {
        self.exchange.is_gone()
    }

    /// What answers [`Request::client_gone`] while something else is waited for, and the request itself is at work.
    pub fn client(&self) -> ClientWatch<'a> {
        ClientWatch { exchange: self.exchange }
    }

    /// Status and length of the answer, as far as the handler gave it; `None` while nothing is on the way.
    #[cfg(feature = "access-log")]
    pub(crate) fn answered(&self) -> Option<(u16, u64)> {
        let status = self.exchange.status.get();
        (status != 0).then(|| (status, self.exchange.body_bytes.get()))
    }

    /// Calls the handler by its route, in all that is told of it.
    #[cfg(feature = "router")]
    pub(crate) fn name_route(&self, route: &'static crate::rt::watch::Name) {
        self.exchange.name_route(route);
    }

    /// Keeps a value with the request, for the handlers that are called later; gives back the one of the same type that was kept
    /// before. It is dropped after the request was answered.
    ///
    /// A type of its own says what the value is:
    ///
    /// ```
    /// # use straightline::{Done, Request, Response, StatusError};
    /// # use std::io;
    /// struct User(String);
    ///
    /// /// Lets nobody in without a name.
    /// fn with_user<H>(handler: H) -> impl for<'a> Fn(&mut Request<'a>, Response<'a>) -> io::Result<Done>
    /// where
    ///     H: for<'a> Fn(&mut Request<'a>, Response<'a>) -> io::Result<Done>,
    /// {
    ///     move |request, response| {
    ///         let name = request.header("x-user").ok_or_else(|| StatusError::new(401, "who are you?"))?;
    ///         request.set_local(User(name.to_owned()));
    ///         handler(request, response)
    ///     }
    /// }
    ///
    /// fn hello<'a>(request: &mut Request<'a>, response: Response<'a>) -> io::Result<Done> {
    ///     let name = request.local::<User>().map_or("nobody", |user| &user.0);
    ///     response.send(format!("Hello, {name}!").as_bytes())
    /// }
    /// # let _ = with_user(hello);
    /// ```
    pub fn set_local<T: 'static>(&mut self, value: T) -> Option<T> {
        self.locals.set(value)
    }

    /// The value of this type that [`Request::set_local`] kept.
    pub fn local<T: 'static>(&self) -> Option<&T> {
        self.locals.get()
    }

    /// The same, to be changed.
    pub fn local_mut<T: 'static>(&mut self) -> Option<&mut T> {
        self.locals.get_mut()
    }

    /// Takes the value of this type out of the request.
    pub fn take_local<T: 'static>(&mut self) -> Option<T> {
        self.locals.take()
    }

    /// The address of the client.
    ///
    /// # Errors
    ///
    /// If the connection is gone.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.exchange.conn.peer_addr()
    }
}

/// Whether the client of a request is still there. See [`Request::client`].
#[derive(Clone, Copy)]
pub struct ClientWatch<'a> {
    exchange: &'a Exchange<'a>,
}

impl ClientWatch<'_> {
    /// Whether the client closed the connection, or its sending half, or broke off the stream: there may be nobody to answer.
    pub fn is_gone(&self) -> bool {
        self.exchange.is_gone()
    }
}

impl fmt::Debug for ClientWatch<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ClientWatch").finish_non_exhaustive()
    }
}

impl fmt::Debug for Request<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Request")
            .field("method", &self.method())
            .field("target", &self.target())
            .finish_non_exhaustive()
    }
}

impl Read for Request<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.body.read(self.exchange, into)
    }
}

impl BufRead for Request<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.body.fill(self.exchange)
    }

    fn consume(&mut self, count: usize) {
        self.body.consume(count);
    }
}
